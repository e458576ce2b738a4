//! Processes and threads that end in a transaction: the next open finds what was committed, by the same library and by the other one.

use lode_capi_compare::{Library, Program, in_memory};
use std::fs;
use std::path::Path;

/// The cases in which Lodestone's library leaves a pool that is in use, which Debian's refuses until ours has opened it.
const UNCLEAN: &[&str] = &["exit", "_exit", "abort", "kill", "exec-and-kill", "threads-and-kill"];
/// The cases in which it closes the pool.
const CLEAN: &[&str] = &["close", "close-beside", "exit-and-close", "exec", "thread", "threads", "cancel"];

/// Returns the end of a call of the program, and what it prints.
fn run(program: &Program, folder: &Path, is_ours: bool, word: &str) -> String {
    let output = program.run_in(folder, is_ours, &[word], &[("PMEM_IS_PMEM_FORCE", "1")]);
    let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let text = format!("{}\n{out}{errors}", output.status);
    // Our message goes on with the process that has the pool.
    text.lines()
        .map(|line| line.split(": it is open in").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Ends a process on one library, and returns its answer and what each library finds after that.
fn end(program: &Program, is_ours: bool, case: &str, is_clean: bool) -> [String; 3] {
    let folder = in_memory();
    let [pool, copy] = ["pool", "copy"].map(|name| folder.path().join(name));
    let answer = run(program, folder.path(), is_ours, case);
    if is_ours && !is_clean {
        let refused = run(program, folder.path(), false, "show");
        assert!(refused.contains("errno 22 ") && refused.contains("incompat"), "{case}: {refused}");
        let shown = run(program, folder.path(), true, "show");
        assert!(shown.starts_with("exit status: 0\nobjects "), "{case}: {shown}");
    }
    fs::copy(&pool, &copy).unwrap();
    let theirs = run(program, folder.path(), false, "look");
    fs::copy(&copy, &pool).unwrap();
    [answer, theirs, run(program, folder.path(), true, "look")]
}

#[test]
fn ends_in_transactions_leave_what_was_committed() {
    let Some(program) = Program::compile("pmemobj_ends", Library::PMEMOBJ) else { return };
    let cases = UNCLEAN.iter().map(|case| (case, false)).chain(CLEAN.iter().map(|case| (case, true)));
    for (case, is_clean) in cases {
        let [theirs, ours] = [false, true].map(|is_ours| end(&program, is_ours, case, is_clean));
        assert_eq!(ours, theirs, "{case}");
        assert_eq!(ours[1], ours[2], "{case}");
        assert!(ours[1].starts_with("exit status: 0\n") && ours[1].ends_with("check 1"), "{case}: {ours:?}");
    }
}

/// A call of a transaction whose pool is closed ends the process with a message, and both libraries open the pool after that.
#[test]
fn transactions_of_closed_pools_end_the_process() {
    let Some(program) = Program::compile("pmemobj_ends", Library::PMEMOBJ) else { return };
    for (case, message) in [
        ("close-and-commit", "pmemobj_tx_commit called in a transaction whose pool is closed"),
        ("close-and-alloc", "pmemobj_tx_xalloc called in a transaction whose pool is closed"),
        ("close-and-abort", "pmemobj_tx_abort called in a transaction whose pool is closed"),
        ("close-and-end", "pmemobj_tx_end called without pmemobj_tx_commit"),
    ] {
        let [answer, theirs, ours] = end(&program, true, case, true);
        assert!(answer.starts_with("signal: 6 ") && answer.contains(message), "{case}: {answer}");
        assert!(ours.ends_with("bytes 256 0 0 count 0 then 1 check 1"), "{case}: {ours}");
        assert_eq!(ours, theirs, "{case}");
    }
}
