//! Transactions, locks and persists: what the calls answer in each stage, and what they leave in the pool, on both libraries.

use lode_capi_compare::{Library, Program};
use std::process::Output;

const LIBRARY: Library = Library::PMEMOBJ;
const VARIABLES: [(&str, &str); 1] = [("PMEM_IS_PMEM_FORCE", "1")];
/// Output of `pmemobj_shared`.
const SHARED: &str = "mutex 1200 rwlock 1200 transactions 1050 1050 lock 1200 turns 60\n";

/// Returns what a program prints on our library, or on Debian's.
pub(crate) fn printed(program: &Program, is_ours: bool, arguments: &[&str]) -> String {
    let output = program.run(is_ours, arguments, &VARIABLES);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Compares what a program prints on both libraries, by cases.
pub(crate) fn assert_same_cases(name: &str) {
    let Some(program) = Program::compile(name, LIBRARY) else { return };
    let [theirs, ours] = [false, true].map(|is_ours| printed(&program, is_ours, &[]));
    let (mut theirs, mut ours) = (theirs.split("== "), ours.split("== "));
    loop {
        match (theirs.next(), ours.next()) {
            (None, None) => return,
            (theirs, ours) => assert_eq!(ours, theirs, "{name}"),
        }
    }
}

#[test]
fn stages_are_pmdks() {
    assert_same_cases("pmemobj_stages");
}

/// Classes that resemble each other, settings out of range, objects that are freed twice, patterns, defragmentation.
#[test]
fn corners_are_pmdks() {
    assert_same_cases("pmemobj_corners");
}

/// The number of arenas of new pools, those that threads get, one for all threads, and memory that is appended to two logs.
#[test]
fn arenas_and_appended_memory_are_pmdks() {
    assert_same_cases("pmemobj_arenas");
}

#[test]
fn transactions_leave_what_pmdks_do() {
    assert_same_cases("pmemobj_transactions");
}

/// Signal handlers jump out of transactions, which the program aborts after that, or goes on with.
#[test]
fn jumps_of_handlers_leave_what_pmdks_do() {
    assert_same_cases("pmemobj_jumps");
}

/// Roots with constructors, that fail or not; wide strings; sizes of the logs' buffers.
#[test]
fn roots_and_sizes_of_logs_are_pmdks() {
    assert_same_cases("pmemobj_roots");
    let Some(program) = Program::compile("pmemobj_roots", LIBRARY) else { return };
    let wanted = "== roots grow with their bytes\n\
                  \x20 constructor 1: pool 1 size 0 stage 0 zeros 1000 kept 0\n\
                  made root size 1000 calls 1 sevens 1000 usable 1008 type 0\n\
                  \x20 constructor 2: pool 1 size 1000 stage 0 zeros 4000 kept 1000\n\
                  grown root size 5000 calls 2 sevens 5000 usable 5168 type 0\n\
                  opened root size 5000 calls 2 sevens 5000 usable 5168 type 0\n\
                  == empty strings have their class\n\
                  14000000000000 copy errno 0 tx_errno 0 stage 1 equal 1 usable 7472 type 3 end 0\n\
                  fa000000000010 null errno 12 tx_errno 0 stage 1 end 0\n";
    assert_eq!(printed(&program, true, &["own"]), wanted);
}

/// Reservations that another thread publishes or cancels, and hundreds of actions at once.
#[test]
fn actions_are_handed_on_as_with_pmdk() {
    assert_same_cases("pmemobj_actions");
}

/// Each of 1,100 threads begins a transaction at the same time, more than a pool has lanes.
#[test]
fn threads_past_the_lanes_commit() {
    let Some(program) = Program::compile("pmemobj_crowd", LIBRARY) else { return };
    let wanted = "sum 3300 objects 3300 missing 0\n".repeat(2) + "check 1\n";
    for is_ours in [false, true] {
        assert_eq!(printed(&program, is_ours, &["1100"]), wanted, "ours: {is_ours}");
    }
}

/// A log covers the bytes, so a persist that went past the pool's log would be lost: those of libpmem as well.
#[test]
fn persists_survive_a_kill() {
    let Some(program) = Program::compile("pmemobj_kills", LIBRARY) else { return };
    for is_ours in [false, true] {
        let wanted = " 2 2 3 4 3 5 6 3 7 8 9 10 1\n 1 1 0\n";
        assert_eq!(printed(&program, is_ours, &["kills"]), wanted, "ours: {is_ours}");
    }
}

/// A child of a fork shares stores and persists. Its parent's transaction is not its own.
#[test]
fn pool_belongs_to_the_process_that_opened_it() {
    let Some(program) = Program::compile("pmemobj_kills", LIBRARY) else { return };
    let wanted =
        "begin 22 stage 3\nclose 22\nof the child 3\nadd 22\ncommit 22 stage 3\ncommit 0\nafter all 5 3\n";
    assert_eq!(printed(&program, true, &["forks"]), wanted);
}

/// Threads open and close pools beside each other, and find each its own.
#[test]
fn pools_come_and_go_in_threads() {
    let Some(program) = Program::compile("pmemobj_threads", LIBRARY) else { return };
    assert_eq!(printed(&program, true, &[]), "done\n");
}

/// PMDK's library runs for ever in the first of these calls.
#[test]
fn calls_that_are_refused_memory_tell_the_truth() {
    let Some(program) = Program::compile("pmemobj_refusals", LIBRARY) else { return };
    let wanted = "== calls\nmade 20, of those told 20\nrange 0 error 0\nerror 0, made 300, of those told 300\n\
                  error 0, freed 300, of those told 300\n\
                  == aborts\nstage 3 error is ENOMEM 1 1 objects 0\nrange 0 error 0\n";
    assert_eq!(printed(&program, true, &[]), wanted);
}

/// Locks of the pool guard what threads add to it.
#[test]
fn threads_share_a_pool() {
    let Some(program) = Program::compile("pmemobj_shared", LIBRARY) else { return };
    for is_ours in [false, true] {
        assert_eq!(printed(&program, is_ours, &[]), SHARED, "ours: {is_ours}");
    }
}

/// The sanitizer sees the order that the locks make, and finds the word that no lock guards.
#[test]
fn thread_sanitizer_finds_no_race_under_locks() {
    let Some(program) = Program::compile_sanitized("pmemobj_shared", LIBRARY) else { return };
    let variables = [VARIABLES[0], ("TSAN_OPTIONS", "")];
    let [locked, racing] = [&[][..], &["race"]].map(|arguments| program.run(true, arguments, &variables));
    let is_lost =
        |output: &Output| String::from_utf8_lossy(&output.stderr).contains("unexpected memory mapping");
    if is_lost(&locked) || is_lost(&racing) {
        let reason = "the sanitizer needs vm.mmap_rnd_bits of 28 or less";
        return lode_testing::skip("thread_sanitizer_finds_no_race_under_locks", reason);
    }
    assert!(locked.status.success() && locked.stdout == SHARED.as_bytes(), "{locked:?}");
    let report = String::from_utf8_lossy(&racing.stderr);
    assert!(!racing.status.success() && report.contains("data race"), "{racing:?}");
}
