//! Ranges that the program may store to.

use super::{
    ADD_FLAGS, ALLOCATION_MAX, Exit, NO_SNAPSHOT, check_flags, check_number, leaving, out_of_memory, worked,
};
use crate::failure::failure;
use crate::oid::Oid;
use crate::session::Session;
use lode_capi_entry::Failure;
use lode_layout::PoolOffset;
use std::ffi::{c_int, c_void};

/// Adds a range to the transaction.
fn add(session: &mut Session, at: u64, size: usize, flags: u64) -> Result<c_int, Failure> {
    if size > ALLOCATION_MAX {
        return Err(Failure::invalid("snapshot size too large; add parts of it"));
    }
    let (pool, transaction) = session.transaction()?;
    let (len, end) = (size as u64, at.wrapping_add(size as u64));
    let heap = pool.heap();
    if at < heap.start || end > heap.end || end < at {
        return Err(Failure::invalid("object outside of heap; pass a range of an object"));
    }
    if len == 0 {
        return Ok(0);
    }
    let offset = PoolOffset::new(at);
    if flags & NO_SNAPSHOT != 0 {
        pool.engine.add_without_snapshot(transaction, offset, len).map_err(|error| failure(&error, ""))?;
        session.logs.add_object(at..end);
        return Ok(0);
    }
    pool.engine.add_range(transaction, offset, len).map_err(|error| failure(&error, ""))?;
    session.logs.add_range(at..end).map_err(|_| out_of_memory())?;
    Ok(0)
}

unsafe extern "C" fn xadd_range(oid: Oid, off: u64, size: usize, flags: u64, exit: *mut Exit) -> c_int {
    let call = |session: &mut Session, flags: u64| {
        check_flags(flags, ADD_FLAGS)?;
        let pool = session.own_pool()?;
        check_number(pool, oid)?;
        add(session, oid.off.wrapping_add(off), size, flags)
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_xadd_range", flags, |errno| errno, call) }
}

unsafe extern "C" fn add_range(oid: Oid, off: u64, size: usize, exit: *mut Exit) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { xadd_range(oid, off, size, 0, exit) }
}

unsafe extern "C" fn xadd_range_direct(
    start: *const c_void,
    size: usize,
    flags: u64,
    exit: *mut Exit,
) -> c_int {
    let call = |session: &mut Session, flags: u64| {
        check_flags(flags, ADD_FLAGS)?;
        let pool = session.own_pool()?;
        let at = pool.offset_of(start).ok_or_else(|| {
            Failure::invalid("object outside of pool; pass an address in the pool of the transaction")
        })?;
        add(session, at.get(), size, flags)
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_xadd_range_direct", flags, |errno| errno, call) }
}

unsafe extern "C" fn add_range_direct(start: *const c_void, size: usize, exit: *mut Exit) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { xadd_range_direct(start, size, 0, exit) }
}

leaving! {
    /// See pmemobj_tx_add_range(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_add_range(oid: Oid, off: u64, size: usize) -> c_int = add_range, "r8", "x4";

    /// See pmemobj_tx_xadd_range(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_xadd_range(oid: Oid, off: u64, size: usize, flags: u64) -> c_int = xadd_range, "r9", "x5";

    /// See pmemobj_tx_add_range_direct(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_add_range_direct(ptr: *const c_void, size: usize) -> c_int = add_range_direct, "rdx", "x2";

    /// See pmemobj_tx_xadd_range_direct(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_xadd_range_direct(ptr: *const c_void, size: usize, flags: u64) -> c_int = xadd_range_direct, "rcx", "x3";
}
