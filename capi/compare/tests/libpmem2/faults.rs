//! Failed system calls, mappings that touch each other, and signal handlers: what the program sees.

use lode_capi_compare::{Library, Program};
use std::process::Output;

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
