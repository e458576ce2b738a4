//! Forks: what the library does in the process that forks, and in its child.
//!
//! A fork of the owner makes a checkpoint of each pool first. The log covers nothing then but the units of open transactions, so the
//! child's stores, and persists, lie where a flush in place is enough, until the parent's log covers their units again.
//! `docs/decisions/obj-forks.md` argues it.

use crate::{buffers, calls, generation, inherited, pools, session};
use std::mem::MaybeUninit;
use std::ptr;

/// The signals of faults, which few programs block but their handlers.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE];

/// Lets forks of this process call the functions below.
pub(crate) fn register() {
    // SAFETY: - the callbacks take and release locks, in the thread that forks, and in the child's only one.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

/// Takes the locks, so that a child finds the tables whole, and makes the checkpoints. A signal handler that has interrupted a call of
/// this thread, or such a checkpoint, makes none: that may hold what a checkpoint waits for. One of a fault makes none either: the program may have been
/// in malloc(3), which a checkpoint calls.
extern "C" fn before_fork() {
    inherited::before_fork();
    pools::before_fork();
    buffers::before_fork();
    if !calls::is_under_way() && !session::is_in_call() && !is_in_handler_of_fault() {
        // A fork in a signal handler that interrupts this one finds it under way.
        calls::under_way(|| pools::for_each_own(|pool| pool.checkpoint_for_children()));
    }
}

/// Returns true if the thread is on the stack of a handler, or blocks the signal of a fault as its handler does.
fn is_in_handler_of_fault() -> bool {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: - null changes nothing, and `stack` is valid for a store.
    unsafe { libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) };
    // SAFETY: - zeros are a valid one.
    let is_on_stack = unsafe { stack.assume_init() }.ss_flags & libc::SS_ONSTACK != 0;
    let mut blocked = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: - as for the stack.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr()) };
    // SAFETY: - zeros are a valid one.
    let blocked = unsafe { blocked.assume_init() };
    // SAFETY: - the set and the numbers are valid.
    is_on_stack || FAULTS.iter().any(|signal| unsafe { libc::sigismember(&raw const blocked, *signal) } == 1)
}

/// Releases the locks in the parent.
extern "C" fn after_fork() {
    buffers::after_fork();
    pools::after_fork();
    inherited::after_fork();
}

/// Releases the locks in the child, and tells it that it is one.
extern "C" fn in_child() {
    after_fork();
    generation::begin();
    inherited::begin_child();
    buffers::begin_child();
}
