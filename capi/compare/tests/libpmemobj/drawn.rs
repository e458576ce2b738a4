//! Pools that drawn programs leave: after a close, after an exit without one, and after SIGKILL, by both libraries. Each library opens
//! the other's pool and finds the same objects; `pmempool` finds it sound.

use crate::object_graph::object_lines;
use lode_capi_compare::{Library, Program, in_memory, on_library};
use std::path::Path;
use std::process::Command;

/// Processes, and sequences of each.
const PROCESSES: u64 = 12;
const SEQUENCES: u64 = 12;

/// The way in which a process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Close,
    /// Without a close, at this place of the program.
    Exit(u64),
    /// By SIGKILL, at this place.
    Kill(u64),
}

impl End {
    fn variable(&self) -> String {
        match self {
            End::Close => "left".into(),
            End::Exit(place) => format!("exit {place}"),
            End::Kill(place) => format!("kill {place}"),
        }
    }
}

/// Runs the program in the folder. Returns its output and its end.
fn run(program: &Program, folder: &Path, is_ours: bool, arguments: &[String], end: &End) -> String {
    let variables = [("PMEM_IS_PMEM_FORCE", "1"), ("DRAWN_END", &*end.variable())];
    let output = program.run_in(folder, is_ours, arguments, &variables);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Messages may go on after Debian's words.
    let lines = text.lines().map(|line| line.split(" message ").next().unwrap_or_default());
    format!("{}\n{}", lines.collect::<Vec<_>>().join("\n"), output.status)
}

/// Opens and closes the pool, and lists its objects.
fn list(program: &Program, folder: &Path, is_ours: bool) -> String {
    run(program, folder, is_ours, &[], &End::Close)
}

fn assert_sound(folder: &Path, context: &str) {
    for words in [&["check", "-v"][..], &["info", "-A", "-l", "-o", "-H", "-Z", "-C", "-O"]] {
        let mut command = Command::new("pmempool");
        on_library(&mut command, None);
        let output = command.args(words).arg("pool").current_dir(folder).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{context}: pmempool {words:?}: {text}");
    }
}

/// Takes the sequences on one library, and the list on this and on the other one. Returns the answers, the lists, and the lines of the
/// objects. `is_closed` is true if the pool needs no recovery, so that PMDK opens ours.
fn take(program: &Program, is_ours: bool, arguments: &[String], end: &End) -> (String, String, Vec<String>) {
    let folder = in_memory();
    let path = folder.path();
    let context = format!("{arguments:?} {end:?} ours {is_ours}");
    let answers = run(program, path, is_ours, arguments, end);
    // Ours opens what PMDK left in any state; PMDK opens what ours has closed.
    let is_first_ours = is_ours || *end != End::Close;
    let first = list(program, path, is_first_ours);
    assert_sound(path, &context);
    let mut lines = object_lines(&path.join("pool"));
    // The bytes of locks are the library's, and the list has the rest of the root.
    let root = lines.first_mut().unwrap();
    root.truncate(root.find(" content ").unwrap());
    for is_next_ours in [false, true, false] {
        assert_eq!(list(program, path, is_next_ours), first, "{context}, then ours {is_next_ours}");
    }
    assert_sound(path, &context);
    (answers, first, lines)
}

#[test]
fn pools_are_alike_after_any_end() {
    let Some(program) = Program::compile("drawn_obj", Library::PMEMOBJ) else { return };
    let mut rng = fastrand::Rng::with_seed(lode_testing::seed(1));
    for _ in 0..lode_testing::scaled(PROCESSES) {
        let arguments = [rng.u64(..1 << 40), 0, SEQUENCES].map(|number| number.to_string());
        let place = rng.u64(..SEQUENCES * 30);
        let end = match rng.u64(..4) {
            0 => End::Close,
            1 => End::Exit(place),
            _ => End::Kill(place),
        };
        let [theirs, ours] = [false, true].map(|is_ours| take(&program, is_ours, &arguments, &end));
        let context = format!("{arguments:?} {end:?}");
        for (their_line, our_line) in theirs.0.lines().zip(ours.0.lines()) {
            assert_eq!(their_line, our_line, "{context}");
        }
        assert_eq!(theirs.1, ours.1, "{context}");
        assert_eq!(theirs.2, ours.2, "{context}");
    }
}
