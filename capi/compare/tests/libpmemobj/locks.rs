//! The lock of a pool: no process opens, checks or makes a pool that another one has open, whichever library each has.

use lode_capi_compare::{Library, Program, in_memory, on_library};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const COPY: (&str, &str) = ("PMEMOBJ_CONF", "copy_on_write.at_open=1");
const PLAIN: (&str, &str) = ("PMEMOBJ_CONF", "");

fn answers(program: &Program, folder: &Path, is_ours: bool, conf: (&str, &str), words: &[&str]) -> String {
    let output = program.run_in(folder, is_ours, words, &[("PMEM_IS_PMEM_FORCE", "1"), conf]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `use_` while a process has the pool open.
fn hold(
    program: &Program,
    folder: &Path,
    is_ours: bool,
    conf: (&str, &str),
    call: &str,
    use_: impl FnOnce(),
) {
    let mut command = Command::new(program.path());
    on_library(&mut command, is_ours.then(|| program.library().ours()).as_deref());
    command
        .args([call, "pool", "wait"])
        .current_dir(folder)
        .env("PMEM_IS_PMEM_FORCE", "1")
        .env(conf.0, conf.1);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("{call} 0\n"), "ours: {is_ours}");
    use_();
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

/// Each call beside each holder, of both libraries.
#[test]
fn pools_in_use_are_refused_by_both_libraries() {
    let Some(program) = Program::compile("pmemobj_locks", Library::PMEMOBJ) else { return };
    let in_use = "errno 11 flock \"pool\": Resource temporarily unavailable";
    let words = ["open", "pool", "check", "pool", "create", "pool", "create-of-file", "pool"];
    for is_holder_ours in [false, true] {
        for (conf, call) in [(PLAIN, "create"), (PLAIN, "open"), (COPY, "open"), (PLAIN, "create-of-file")] {
            let folder = in_memory();
            match call {
                "create" => {}
                "open" => drop(answers(&program, folder.path(), is_holder_ours, PLAIN, &["create", "pool"])),
                _ => File::create(folder.path().join("pool")).unwrap().set_len(8 << 20).unwrap(),
            }
            hold(&program, folder.path(), is_holder_ours, conf, call, || {
                for (is_ours, other) in [(false, PLAIN), (false, COPY), (true, PLAIN), (true, COPY)] {
                    let found = answers(&program, folder.path(), is_ours, other, &words);
                    let lines: Vec<&str> = found.lines().collect();
                    let wanted = [
                        format!("open -1 {in_use}"),
                        format!("check -1 {in_use}"),
                        "create -1 errno 17 file pool already exists".to_owned(),
                        format!("create-of-file -1 {in_use}"),
                    ];
                    let is_same = lines.len() == wanted.len()
                        && lines.iter().zip(&wanted).all(|(line, wanted)| line.starts_with(wanted.as_str()));
                    assert!(
                        is_same,
                        "{call} by ours: {is_holder_ours}, {conf:?}; ours: {is_ours}, {other:?}:\n{found}"
                    );
                }
            });
            for is_ours in [is_holder_ours, !is_holder_ours] {
                assert_eq!(answers(&program, folder.path(), is_ours, PLAIN, &["open", "pool"]), "open 0\n");
            }
        }
    }
}

/// A process does not open its own pool twice, and does once it has closed it.
#[test]
fn pool_is_opened_once_in_a_process() {
    let Some(program) = Program::compile("pmemobj_locks", Library::PMEMOBJ) else { return };
    let words = [
        "create", "pool", "open", "pool", "check", "pool", "close", "check", "pool", "open", "pool", "check",
        "pool",
    ];
    for conf in [PLAIN, COPY] {
        let [theirs, ours] =
            [false, true].map(|is_ours| answers(&program, in_memory().path(), is_ours, conf, &words));
        assert_eq!(theirs.lines().count(), ours.lines().count());
        for (theirs, ours) in theirs.lines().zip(ours.lines()) {
            assert!(ours.starts_with(theirs), "{theirs}\n{ours}");
        }
        assert_eq!(theirs.matches(" errno 11 ").count(), 3, "{theirs}");
    }
}
