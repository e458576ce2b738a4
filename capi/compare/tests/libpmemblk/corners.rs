//! Calls in unusual places have the same answers on both libraries.

use lode_capi_compare::{Library, Program, assert_same_runs};

/// A call that the program's malloc(3) refused memory does not make a later open or create fail.
#[test]
fn refused_memory_concerns_one_call() {
    let Some(program) = Program::compile("pmemblk_corners", Library::PMEMBLK) else { return };
    let text = assert_same_runs(&program, |_| (), &[&["refusals"]], &[]);
    assert_eq!(text.matches(": open 1 errno 0\n").count(), 4, "{text}");
}
