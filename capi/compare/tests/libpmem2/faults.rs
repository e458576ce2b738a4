//! Failed system calls, mappings that touch each other, and signal handlers: what the program sees.

use lode_capi_compare::{Library, Program};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// The signal of abort(3).
const SIGABRT: i32 = 6;

/// Runs a case on our library and on Debian's, in this order. `None` if Debian's is not installed.
fn run(case: &str) -> Option<[Output; 2]> {
    let program = Program::compile("pmem2_faults", Library::PMEM2)?;
    Some([true, false].map(|is_ours| program.run(is_ours, &[case], &[])))
}

/// Checks that both libraries print the same, and end the same way.
fn compare(case: &str) -> Option<String> {
    let [ours, theirs] = run(case)?;
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((text(&ours), ours.status), (text(&theirs), theirs.status), "{ours:?}");
    Some(text(&ours))
}

/// A mapping of no bytes at the start of another one hides no byte of it: persist syncs, and its place is taken.
#[test]
fn touching_mappings_are_seen() {
    let Some(text) = compare("touching mappings") else { return };
    assert_eq!(text.matches("calls of msync 1\n").count(), 3, "{text}");
}

/// A signal that interrupts the file system is no failure of the medium: msync is called again.
#[test]
fn interrupted_syncs_are_repeated() {
    let Some(text) = compare("EINTR") else { return };
    assert_eq!(text, "returned after 2\n");
}

/// A process whose medium fails ends, also if the file system has no memory or the program has unmapped a page.
#[test]
fn failed_syncs_end_the_process() {
    for (case, words) in
        [("EIO", "Input/output error"), ("ENOMEM", "Cannot allocate"), ("unmapped", "Cannot allocate")]
    {
        let Some([ours, theirs]) = run(case) else { return };
        assert_eq!([ours.status.signal(), theirs.status.signal()], [Some(SIGABRT); 2], "{case}");
        let message = String::from_utf8_lossy(&ours.stderr);
        assert!(message.contains(words) && message.ends_with("; stores are lost\n"), "{message}");
    }
}

/// A signal handler that interrupts persist may call persist.
#[test]
fn handlers_may_persist() {
    let Some(text) = compare("interrupted persist") else { return };
    assert_eq!(text, "each call returned\n");
}

/// Persist allocates nothing, so a signal handler that interrupts an allocation may call it.
#[test]
fn persist_allocates_nothing() {
    let Some(text) = compare("allocations") else { return };
    assert_eq!(text, "allocations 0\n");
}

/// A mapping does not take the place of one that the program has made in the reservation. PMDK's does, and then fails.
#[test]
fn bytes_of_the_program_are_left() {
    let Some(outputs) = run("taken place") else { return };
    let [ours, theirs] = outputs.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(ours.contains("pmem2_map_new(&other, config, source) = -17 errno 17\n"), "{ours}");
    assert!(ours.ends_with("bytes left 13\n") && theirs.ends_with("bytes left -1\n"), "{ours}{theirs}");
    assert_eq!(ours.replace("left 13", "left -1"), theirs);
}

/// A reservation whose end the kernel does not release has shrunk all the same.
#[test]
fn reservation_shrinks_as_a_whole() {
    let Some(text) = compare("shrink") else { return };
    assert!(text.ends_with("size 2097152 at 2097152\n"), "{text}");
}

/// A call that gets no memory for its object fails.
#[test]
fn objects_without_memory_are_refused() {
    let Some(text) = compare("no memory") else { return };
    assert_eq!(text, "-12 12: malloc\n");
}
