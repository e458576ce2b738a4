//! Programs of Debian that run on our library, not compiled anew.

use lode_capi_compare::{Library, in_memory, on_library};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs one of Debian's programs on our library, which the loader must have taken. `None`, and a line of a skipped test, if
/// it is not installed.
fn run(program: &str, arguments: &[&str], variables: &[(&str, &str)], folder: &Path) -> Option<Output> {
    let ours = Library::PMEM.ours();
    let notes = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    on_library(&mut command, Some(&ours));
    // The loader notes the files that it loads, also plugins, in a file for each process.
    command.env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", notes.path().join("loader"));
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            lode_testing::skip(&format!("{program}_on_ours"), format!("{program} does not start: {error}"));
            return None;
        }
    };
    let notes = fs::read_dir(notes.path()).unwrap();
    let notes = notes.map(|file| fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>().concat();
    let notes = String::from_utf8_lossy(&notes).into_owned();
    let loaded = |path: &Path| notes.contains(&format!("calling init: {}\n", path.display()));
    assert!(loaded(&ours.join("libpmem.so.1")), "{program} does not run on our library:\n{notes}");
    assert!(Library::PMEM.debians().is_none_or(|theirs| !loaded(&theirs)), "{program}:\n{notes}");
    Some(output)
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Random writes of fio's engine `libpmem` are read back with their checksums.
#[test]
fn fio_on_ours() {
    let folder = in_memory();
    let job = "--name=job --ioengine=libpmem --filename=file --size=4M --bs=4k --rw=randwrite --iodepth=1 --direct=1 \
               --thread --verify=crc32c --do_verify=1 --verify_fatal=1 --output-format=terse";
    let words: Vec<&str> = job.split_whitespace().collect();
    // The engine takes files of persistent memory only.
    let Some(output) = run("fio", &words, &[("PMEM_IS_PMEM_FORCE", "1")], folder.path()) else { return };
    assert!(output.status.success(), "{}", text(&output));
    // Terse format 3: field 5 is the error, field 6 KiB read, field 47 KiB written.
    let terse = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = terse.lines().find(|line| line.starts_with("3;")).unwrap_or_else(|| panic!("{terse}"));
    let fields: Vec<&str> = line.split(';').collect();
    assert_eq!((fields[4], fields[5], fields[46]), ("0", "4096", "4096"), "{line}");
}

/// `pmempool` makes a pool on our library, and on Debian's finds it sound.
#[test]
fn pmempool_on_ours() {
    let folder = in_memory();
    let arguments = ["create", "obj", "--layout=x", "--size=16M", "pool"];
    let Some(output) = run("pmempool", &arguments, &[], folder.path()) else { return };
    assert!(output.status.success(), "{}", text(&output));
    let info = run("pmempool", &["info", "pool"], &[], folder.path()).unwrap();
    assert!(info.status.success() && text(&info).contains("PMEMOBJ"), "{}", text(&info));
    let mut judge = Command::new("pmempool");
    on_library(&mut judge, None);
    let check = judge.args(["check", "pool"]).current_dir(folder.path()).output().unwrap();
    assert!(check.status.success(), "{}", text(&check));
}

/// `daxio` starts, and finds that the file is no device.
#[test]
fn daxio_on_ours() {
    let folder = in_memory();
    fs::write(folder.path().join("file"), [1; 4096]).unwrap();
    let arguments = ["--zero", "--output", "file", "--len", "4096"];
    let Some(output) = run("daxio", &arguments, &[], folder.path()) else { return };
    assert!(text(&output).contains("neither input nor output is device dax"), "{}", text(&output));
}
