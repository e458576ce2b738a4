//! Pools whose process forks and ends: a child takes them over, as a program does after daemon(3).

use super::transactions::{assert_same_cases, printed};
use lode_capi_compare::{Library, Program};

/// Daemons, children of children, killed parents, open transactions, persists beside the parent: the pools have the same content on both
/// libraries.
#[test]
fn pools_go_to_children_as_with_pmdk() {
    assert_same_cases("pmemobj_forks");
}

/// Of several children one has the pool at a time, and each gets it when the one before is gone. A pool that the parent has closed goes to
/// a child that uses it. One of _Fork(3), which
/// calls no handlers of forks, has no pool either.
#[test]
fn pool_has_one_owner() {
    let Some(program) = Program::compile("pmemobj_forks", Library::PMEMOBJ) else { return };
    let wanted = "== without handlers\nits allocation is refused\n5 count 200 objects 1 check 1\n\
                  == closed\n7 1 count 1010 objects 1 check 1\n\
                  == owners\nowner 1\nowner 2\nowner 3\n3 count 30 objects 1 check 1\n";
    assert_eq!(printed(&program, true, &["owners"]), wanted);
}

/// Threads of the parent are in the middle of anything at the fork, and when it is killed.
#[test]
fn child_recovers_beside_threads_of_its_parent() {
    let Some(program) = Program::compile("pmemobj_forks", Library::PMEMOBJ) else { return };
    let wanted = "== threads\ncount 1000 objects as named check 1\n".repeat(5);
    assert_eq!(printed(&program, true, &["threads"]), wanted);
}

/// A signal handler forks in the middle of any call: no call waits for itself.
#[test]
fn handlers_fork_in_any_call() {
    let Some(program) = Program::compile("pmemobj_forks", Library::PMEMOBJ) else { return };
    assert_eq!(printed(&program, true, &["signals"]), "== signals\ncount 1000 objects 1 check 1\n");
}
