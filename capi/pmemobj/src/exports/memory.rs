//! Stores that become durable: persist, flush, drain and the copies.
//!
//! A flush makes its bytes durable at once, so a drain is a fence: the pool's log may have to know of each of them.

use super::{files, pool_for};
use crate::calls::guarded_briefly;
use crate::fatal::fatal;
use crate::inherited::Purpose;
use crate::pool::OpenPool;
use lode_capi_entry::{Failure, path_of};
use std::ffi::{c_int, c_uint, c_void};

/// PMEMOBJ_F_MEM_NOFLUSH.
const NOFLUSH: c_uint = 1 << 5;
/// PMEMOBJ_F_RELAXED: the caller needs no order among the lines, which is a hint.
const RELAXED: c_uint = 1 << 31;

/// The way in which bytes get to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// They are in the cache.
    Stored,
    /// They are flushed, or were stored past the cache.
    Flushed,
}

/// Makes `len` bytes at `start` durable. Ends the process if that fails: the calls have no result that could say so.
pub(super) fn persist(pool: &OpenPool, start: *const c_void, len: usize, bytes: Bytes) {
    match pool.offset_of(start) {
        Some(at) if len != 0 => {
            // A range that goes on after the pool is the program's error.
            let inside = (len as u64).min(pool.len() - at.get());
            let persisted = match bytes {
                _ if !pool.is_own() => pool.persist_of_child(at, inside),
                Bytes::Flushed if !pool.has_replicas() => pool.engine.persist_flushed(at, inside),
                // The engine's flush copies to the replicas.
                Bytes::Flushed | Bytes::Stored => pool.engine.persist(at, inside),
            };
            if let Err(error) = persisted {
                fatal(&format!(
                    "a persist of {len} bytes at {at} of a pool failed: {error}; open the pool again"
                ));
            }
        }
        _ => flush_in_place(start, len),
    }
}

/// Flushes bytes that are not in the pool.
fn flush_in_place(start: *const c_void, len: usize) {
    let instructions = files().instructions;
    // SAFETY: - the program promises that the range is mapped.
    unsafe { instructions.flush(start.cast(), len) };
    // ORDER: the bytes are durable on return.
    instructions.drain();
}

/// Makes bytes durable for a call that reports no error.
///
/// # Safety
/// `pop` is an open pool, and the range is mapped.
#[inline]
unsafe fn persist_briefly(pop: *mut c_void, addr: *const c_void, len: usize, bytes: Bytes) {
    guarded_briefly((), || {
        // SAFETY: - the caller's promise.
        persist(unsafe { pool_for(pop, Purpose::Stores) }?, addr, len, bytes);
        Ok(())
    });
}

fn check_flags(flags: c_uint) -> Result<(), Failure> {
    if flags & !RELAXED == 0 {
        Ok(())
    } else {
        Err(Failure::invalid(format!(
            "invalid flags 0x{flags:x}; pass PMEMOBJ_F_MEM_* and PMEMOBJ_F_RELAXED"
        )))
    }
}

/// See pmemobj_persist(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// `pop` is an open pool, and the range lies in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_persist(pop: *mut c_void, addr: *const c_void, len: usize) {
    // SAFETY: - the caller's promise.
    unsafe { persist_briefly(pop, addr, len, Bytes::Stored) };
}

/// See pmemobj_xpersist(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// As [`pmemobj_persist`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_xpersist(
    pop: *mut c_void,
    addr: *const c_void,
    len: usize,
    flags: c_uint,
) -> c_int {
    guarded_briefly(-1, || {
        check_flags(flags)?;
        // SAFETY: - the caller's promise.
        persist(unsafe { pool_for(pop, Purpose::Stores) }?, addr, len, Bytes::Stored);
        Ok(0)
    })
}

/// See pmemobj_flush(3).
///
/// # Durability
/// On return, earlier than the manual page asks for.
///
/// # Safety
/// As [`pmemobj_persist`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_flush(pop: *mut c_void, addr: *const c_void, len: usize) {
    // SAFETY: - the caller's promise.
    unsafe { persist_briefly(pop, addr, len, Bytes::Stored) };
}

/// See pmemobj_xflush(3).
///
/// # Durability
/// As [`pmemobj_flush`].
///
/// # Safety
/// As [`pmemobj_persist`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_xflush(
    pop: *mut c_void,
    addr: *const c_void,
    len: usize,
    flags: c_uint,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { pmemobj_xpersist(pop, addr, len, flags) }
}

/// See pmemobj_drain(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_drain(_pop: *mut c_void) {
    // ORDER: what this thread flushed and copied elsewhere is durable before the call returns.
    files().instructions.drain();
}

/// Copies, and makes the copy durable unless the flags say not to flush.
///
/// # Safety
/// `dest` is valid for stores of `len` bytes, and `src` for loads. They may overlap.
#[inline]
unsafe fn copy(
    pop: *mut c_void,
    dest: *mut c_void,
    src: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { files().instructions.copy(dest.cast(), src.cast(), len, path_of(flags)) };
    if flags & NOFLUSH == 0 {
        // SAFETY: - as above.
        unsafe { persist_briefly(pop, dest, len, Bytes::Flushed) };
    }
    dest
}

/// See pmemobj_memcpy(3).
///
/// # Durability
/// On return, unless the flags hold PMEMOBJ_F_MEM_NOFLUSH.
///
/// # Safety
/// `pop` is an open pool; `dest` is valid for stores of `len` bytes, and `src` for loads. They may overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_memcpy(
    pop: *mut c_void,
    dest: *mut c_void,
    src: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { copy(pop, dest, src, len, flags) }
}

/// See pmemobj_memmove(3).
///
/// # Durability
/// As [`pmemobj_memcpy`].
///
/// # Safety
/// As [`pmemobj_memcpy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_memmove(
    pop: *mut c_void,
    dest: *mut c_void,
    src: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { copy(pop, dest, src, len, flags) }
}

/// See pmemobj_memcpy_persist(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// As [`pmemobj_memcpy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_memcpy_persist(
    pop: *mut c_void,
    dest: *mut c_void,
    src: *const c_void,
    len: usize,
) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { copy(pop, dest, src, len, 0) }
}

/// See pmemobj_memset(3).
///
/// # Durability
/// On return, unless the flags hold PMEMOBJ_F_MEM_NOFLUSH.
///
/// # Safety
/// `pop` is an open pool; `dest` is valid for stores of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_memset(
    pop: *mut c_void,
    dest: *mut c_void,
    c: c_int,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { files().instructions.fill(dest.cast(), c as u8, len, path_of(flags)) };
    if flags & NOFLUSH == 0 {
        // SAFETY: - as above.
        unsafe { persist_briefly(pop, dest, len, Bytes::Flushed) };
    }
    dest
}

/// See pmemobj_memset_persist(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// As [`pmemobj_memset`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_memset_persist(
    pop: *mut c_void,
    dest: *mut c_void,
    c: c_int,
    len: usize,
) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { pmemobj_memset(pop, dest, c, len, 0) }
}
