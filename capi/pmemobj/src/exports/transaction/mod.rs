//! Transactions.
//!
//! Each call is an exported function in assembly and an inner function of Rust with one argument more: how the call leaves.

pub mod allocations;
pub mod ranges;
pub mod settings;
pub mod stages;

use super::leaving::{Exit, leaving, release_locks, stepped};
use super::{files, locks, pool_to_change};
use crate::oid::Oid;
use crate::pool::OpenPool;
use crate::session::{self, Session};
use lode_capi_entry::{Failure, forget_refusal, set_errno, set_message, take_refusal};
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// POBJ_FLAG_ZERO.
const ZERO: u64 = 1 << 0;
/// POBJ_FLAG_NO_FLUSH.
const NO_FLUSH: u64 = 1 << 1;
/// POBJ_FLAG_NO_SNAPSHOT.
const NO_SNAPSHOT: u64 = 1 << 2;
/// POBJ_FLAG_ASSUME_INITIALIZED.
const ASSUME_INITIALIZED: u64 = 1 << 3;
/// POBJ_FLAG_TX_NO_ABORT.
const NO_ABORT: u64 = 1 << 4;
/// POBJ_XADD_VALID_FLAGS.
const ADD_FLAGS: u64 = NO_FLUSH | NO_SNAPSHOT | ASSUME_INITIALIZED | NO_ABORT;
/// POBJ_TX_XALLOC_VALID_FLAGS: with the numbers of an arena and of a class.
const ALLOCATE_FLAGS: u64 = ZERO | NO_FLUSH | NO_ABORT | 0xffff_ffff << 32;
/// PMEMOBJ_MAX_ALLOC_SIZE.
const ALLOCATION_MAX: usize = 0x3_ffdf_ffc0;

/// Runs a call of the stage WORK, which may fail. A failure sets errno and the thread's message, and aborts the transaction unless the
/// flags or the transaction say not to. The call gets the flags, with what the transaction says.
///
/// # Safety
/// `exit` is the Exit of the exported function.
#[inline]
unsafe fn worked<T>(
    exit: *mut Exit,
    name: &str,
    flags: u64,
    failed: impl FnOnce(c_int) -> T,
    call: impl FnOnce(&mut Session, u64) -> Result<T, Failure>,
) -> T {
    let flags = Cell::new(flags);
    let call = |session: &mut Session| {
        session.assert_work(name);
        if session.returns_failures() {
            flags.set(flags.get() | NO_ABORT);
        }
        call(session, flags.get())
    };
    // SAFETY: - the caller's promise.
    unsafe { tried(exit, &flags, failed, call) }
}

/// Runs a call that may fail. A failure sets errno and the thread's message, and aborts the transaction unless the flags say not to. A call to
/// which the program refused memory fails if the abort undoes it; the C library's memory has served, so otherwise it has taken effect.
///
/// # Safety
/// `exit` is the Exit of the exported function.
#[inline]
unsafe fn tried<T>(
    exit: *mut Exit,
    flags: &Cell<u64>,
    failed: impl FnOnce(c_int) -> T,
    call: impl FnOnce(&mut Session) -> Result<T, Failure>,
) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(|| session::with(call)));
    match outcome {
        Ok(Ok(result)) if !take_refusal() || flags.get() & NO_ABORT != 0 => result,
        Ok(Ok(_)) => {
            // SAFETY: - the caller's promise.
            failed(unsafe { fail(exit, flags.get(), &Failure::no_memory()) })
        }
        Ok(Err(failure)) => {
            // SAFETY: - the caller's promise.
            failed(unsafe { fail(exit, flags.get(), &failure) })
        }
        Err(_) => {
            // SAFETY: - as above.
            failed(unsafe { fail(exit, 0, &Failure::broken()) })
        }
    }
}

/// Fails a call of a transaction. Returns the error number.
///
/// # Safety
/// `exit` is the Exit of the exported function.
#[cold]
unsafe fn fail(exit: *mut Exit, flags: u64, failure: &Failure) -> c_int {
    forget_refusal();
    set_message(failure);
    if flags & NO_ABORT == 0 {
        // SAFETY: - the caller's promise.
        stepped(unsafe { &mut *exit }, |session| session.abort(failure.errno));
    }
    set_errno(failure.errno);
    failure.errno
}

fn check_flags(flags: u64, known: u64) -> Result<(), Failure> {
    let unknown = flags & !known;
    if unknown == 0 {
        Ok(())
    } else {
        Err(Failure::invalid(format!("unknown flags {unknown:#x}; this call does not take them")))
    }
}

fn out_of_memory() -> Failure {
    Failure::new(libc::ENOMEM, "out of memory; free objects, or use a larger pool")
}

fn check_number(pool: &OpenPool, oid: Oid) -> Result<(), Failure> {
    if oid.pool_uuid_lo == pool.uuid_lo {
        Ok(())
    } else {
        Err(Failure::invalid("invalid pool uuid; the object is one of another pool"))
    }
}
