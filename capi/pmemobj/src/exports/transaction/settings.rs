//! The settings of a transaction, and the questions about it.

use super::{Exit, NO_ABORT, check_flags, leaving, worked};
use crate::logs::{LogType, intents_size_max, snapshots_size_max};
use crate::session::{self, FailureBehavior, Session};
use lode_capi_entry::{Failure, set_errno};
use std::ffi::{c_int, c_void};
use std::slice;

/// Returns the log of a TX_LOG_TYPE_* of the headers.
fn log_of(kind: c_int) -> Result<LogType, Failure> {
    match kind {
        0 => Ok(LogType::Snapshot),
        1 => Ok(LogType::Intent),
        _ => Err(Failure::invalid(format!(
            "unknown log type {kind}; use TX_LOG_TYPE_SNAPSHOT or TX_LOG_TYPE_INTENT"
        ))),
    }
}

unsafe extern "C" fn xlog_append_buffer(
    kind: c_int,
    start: *mut c_void,
    size: usize,
    flags: u64,
    exit: *mut Exit,
) -> c_int {
    let call = |session: &mut Session, flags: u64| {
        check_flags(flags, NO_ABORT)?;
        let log = log_of(kind)?;
        let pool = session.own_pool()?;
        let at = pool.offset_of(start).ok_or_else(|| {
            Failure::invalid("Buffer from a different pool; pass one of the transaction's pool")
        })?;
        let memory = start.addr()..start.addr().saturating_add(size);
        session.append(log, at, memory, pool.settings.verifies_buffers())?;
        Ok(0)
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_xlog_append_buffer", flags, |errno| errno, call) }
}

unsafe extern "C" fn log_append_buffer(
    kind: c_int,
    start: *mut c_void,
    size: usize,
    exit: *mut Exit,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { xlog_append_buffer(kind, start, size, 0, exit) }
}

leaving! {
    /// See pmemobj_tx_log_append_buffer(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_log_append_buffer(r#type: c_int, addr: *mut c_void, size: usize) -> c_int = log_append_buffer, "rcx", "x3";

    /// See pmemobj_tx_xlog_append_buffer(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_xlog_append_buffer(r#type: c_int, addr: *mut c_void, size: usize, flags: u64) -> c_int = xlog_append_buffer, "r8", "x4";
}

/// See pmemobj_tx_stage(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_stage() -> c_int {
    session::stage() as c_int
}

/// See pmemobj_tx_errno(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_errno() -> c_int {
    session::with(|session| session.errno())
}

/// See pmemobj_tx_log_auto_alloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_log_auto_alloc(r#type: c_int, on_off: c_int) -> c_int {
    session::with(|session| {
        session.assert_work("pmemobj_tx_log_auto_alloc");
        // PMDK takes any other number for the log of snapshots.
        let log = log_of(r#type).unwrap_or(LogType::Snapshot);
        session.logs.set_growth(log, on_off != 0);
    });
    0
}

/// See pmemobj_tx_log_snapshots_max_size(3).
///
/// # Safety
/// `sizes` is valid for loads of this many sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_tx_log_snapshots_max_size(sizes: *mut usize, nsizes: usize) -> usize {
    // SAFETY: - the caller's promise.
    let sizes = if nsizes == 0 { &[] } else { unsafe { slice::from_raw_parts(sizes, nsizes) } };
    size_or_range_error(snapshots_size_max(sizes))
}

/// See pmemobj_tx_log_intents_max_size(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_log_intents_max_size(nintents: usize) -> usize {
    size_or_range_error(intents_size_max(nintents))
}

fn size_or_range_error(size: Option<u64>) -> usize {
    size.map_or_else(
        || {
            set_errno(libc::ERANGE);
            usize::MAX
        },
        |size| size as usize,
    )
}

/// See pmemobj_tx_set_user_data(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_set_user_data(data: *mut c_void) {
    session::with(|session| {
        session.assert_in_transaction("pmemobj_tx_set_user_data");
        session.set_user_data(data);
    });
}

/// See pmemobj_tx_get_user_data(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_get_user_data() -> *mut c_void {
    session::with(|session| {
        session.assert_in_transaction("pmemobj_tx_get_user_data");
        session.user_data()
    })
}

/// See pmemobj_tx_set_failure_behavior(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_set_failure_behavior(behavior: c_int) {
    session::with(|session| {
        session.assert_work("pmemobj_tx_set_failure_behavior");
        let returns = behavior == FailureBehavior::Return as c_int;
        session.set_behavior(if returns { FailureBehavior::Return } else { FailureBehavior::Abort });
    });
}

/// See pmemobj_tx_get_failure_behavior(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_tx_get_failure_behavior() -> c_int {
    session::with(|session| {
        session.assert_work("pmemobj_tx_get_failure_behavior");
        session.behavior() as c_int
    })
}
