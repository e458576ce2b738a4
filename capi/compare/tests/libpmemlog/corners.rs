//! Calls in unusual places have the same answers on both libraries.

use lode_capi_compare::{Library, Program, assert_same_runs, assert_same_under_limits};

/// A call that the program's malloc(3) refused memory does not make a later open or create fail.
#[test]
fn refused_memory_concerns_one_call() {
    let Some(program) = Program::compile("pmemlog_corners", Library::PMEMLOG) else { return };
    let text = assert_same_runs(&program, |_| (), &[&["refusals"]], &[]);
    assert_eq!(text.matches(": open 1 errno 0\n").count(), 4, "{text}");
}

/// The function of a walk, and one for memory, call the library, throw an exception of C++, and end their thread, as on Debian's library.
#[test]
fn functions_of_the_program_do_what_they_want() {
    let Some(program) = Program::compile_cpp("pmemlog_callbacks", Library::PMEMLOG) else { return };
    let runs: &[&[&str]] =
        &[&["throw"], &["exit"], &["tell", "after"], &["nested", "after"], &["malloc", "after"]];
    for force in ["0", "1"] {
        let text = assert_same_runs(&program, |_| (), runs, &[("PMEM_IS_PMEM_FORCE", force)]);
        assert_eq!(text.matches("exit status: 0").count(), runs.len(), "{text}");
        for words in ["thrown in call 2", "ended 1 in call 1", "nested 10", "appendv 0 -1 open 0"] {
            assert!(text.contains(words), "{text}");
        }
    }
}

/// A walk whose function throws, or ends its thread, has ended, and one whose function appends or rewinds does not wait for itself: on Debian's
/// library each of these waits for ever.
#[test]
fn walks_end_however_they_are_left() {
    let Some(program) = Program::compile_cpp("pmemlog_callbacks", Library::PMEMLOG) else { return };
    let deadlock = "errno 35 the callback of a walk can't rewind the \n".repeat(2);
    for (word, printed) in [
        ("throw", "thrown in call 2\nappend 0\ntell 13 walk 13\ntell 0\n"),
        ("exit", "ended 1 in call 1\nappend 0\ntell 13 walk 13\ntell 0\n"),
        ("append", "append 0\nappend 0\nappend 0\ntell 21 walk 21\ntell 0\n"),
        ("rewind", &format!("{deadlock}append 0\ntell 13 walk 13\ntell 0\n")),
    ] {
        let output = program.run(true, &[word, "after"], &[]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{word}: {output:?}");
    }
}

/// An append or a rewind whose sync fails is not counted by pmemlog_tell(3), and no walk shows it.
#[test]
fn failed_changes_are_not_counted() {
    let Some(program) = Program::compile("pmemlog_corners", Library::PMEMLOG) else { return };
    let unchanged = "errno 5 tell 5 walk 5\n";
    for (word, calls) in
        [("append", &["append -1", "append -1", "rewind 0"][..]), ("rewind", &["rewind 0", "append -1"])]
    {
        let output = program.run(true, &[word], &[("PMEM_IS_PMEM_FORCE", "0")]);
        let calls: String = calls.iter().map(|call| format!("{call} {unchanged}")).collect();
        let printed = format!("before 0 errno 0 tell 5 walk 5\n{calls}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{word}: {output:?}");
    }
}

/// Null pointers are errors of the call. On Debian's library those to a pool, and to bytes, are the program's own signal.
#[test]
fn null_pointers_are_refused() {
    const PATH: &str = "errno 22 invalid (NULL) path;";
    const POOL: &str = "errno 22 the pool is null; pa";
    const BYTES: &str = "errno 14 the address of the b";
    const NONE: &str = "errno 0 ";
    let Some(program) = Program::compile("pmemlog_corners", Library::PMEMLOG) else { return };
    let output = program.run(true, &["null"], &[]);
    let printed = [
        ("create 0", PATH),
        ("open 0", PATH),
        ("check -1", PATH),
        ("nbyte -1", POOL),
        ("tell -1", POOL),
        ("append -1", POOL),
        ("appendv -1", POOL),
        ("rewind 0", POOL),
        ("walk 0", POOL),
        ("close 0", NONE),
        ("append null -1", BYTES),
        ("append none 0", NONE),
        ("appendv null -1", BYTES),
        ("appendv none 0", NONE),
        ("appendv null part -1", BYTES),
        ("appendv empty part 0", NONE),
        ("walk null 0", "errno 22 the function of the "),
        ("tell 3", NONE),
    ];
    let printed: String = printed.iter().map(|(call, error)| format!("{call} {error}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{output:?}");
}

/// A process with little of everything gets errno, and loses nothing. A set takes one descriptor for each part.
#[test]
fn limits_are_kept() {
    assert_same_under_limits("pmemlog_limits", Library::PMEMLOG);
}
