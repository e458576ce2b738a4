//! Calls in unusual places have the same answers on both libraries.

use lode_capi_compare::{Library, Program, assert_same_runs, assert_same_under_limits};

/// A call that the program's malloc(3) refused memory does not make a later open or create fail.
#[test]
fn refused_memory_concerns_one_call() {
    let Some(program) = Program::compile("pmemblk_corners", Library::PMEMBLK) else { return };
    let text = assert_same_runs(&program, |_| (), &[&["refusals"]], &[]);
    assert_eq!(text.matches(": open 1 errno 0\n").count(), 4, "{text}");
}

/// Null pointers are errors of the call. On Debian's library those to a pool, and to a block, are the program's own signal.
#[test]
fn null_pointers_are_refused() {
    const PATH: &str = "errno 22 invalid (NULL) path;";
    const POOL: &str = "errno 22 the pool is null; pa";
    const BLOCK: &str = "errno 14 the buffer is null; ";
    let Some(program) = Program::compile("pmemblk_corners", Library::PMEMBLK) else { return };
    let output = program.run(true, &["null"], &[]);
    let printed = [
        ("create 0", PATH),
        ("open 0", PATH),
        ("check -1", PATH),
        ("bsize 0", POOL),
        ("nblock 0", POOL),
        ("read -1", POOL),
        ("write -1", POOL),
        ("set_zero -1", POOL),
        ("set_error -1", POOL),
        ("close 0", "errno 0 "),
        ("read null -1", BLOCK),
        ("write null -1", BLOCK),
        ("read 0", "errno 0 "),
    ];
    let printed: String = printed.iter().map(|(call, error)| format!("{call} {error}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{output:?}");
}

/// A process with little of everything gets errno, and loses nothing. A set takes one descriptor for each part.
#[test]
fn limits_are_kept() {
    assert_same_under_limits("pmemblk_limits", Library::PMEMBLK);
}
