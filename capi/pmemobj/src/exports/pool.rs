//! Opening, closing and checking of pools, and the questions about addresses.

use super::{files, pool_of};
use crate::calls::{guarded, guarded_briefly, under_way};
use crate::ctl::load_for_pool;
use crate::inherited::{Purpose, pool_at};
use crate::oid::Oid;
use crate::pool::OpenPool;
use crate::{pools, session};
use lode_capi_entry::{
    Failure, Free, Malloc, check_version_against, errno, message, path, set_errno, set_functions, variable,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// Bytes of the name of a layout, with its final zero.
const LAYOUT_LEN_MAX: usize = 1024;

// The pool that `pmemobj_direct` of the headers looked up last, for each thread, as `struct _pobj_pcache` declares it: handle, number and
// the count below. Only the inline code uses it. Rust has no stable way to declare a symbol of a thread's memory.
std::arch::global_asm!(
    ".pushsection .tbss._pobj_cached_pool,\"awT\",%nobits",
    ".globl _pobj_cached_pool",
    ".type _pobj_cached_pool, %object",
    ".size _pobj_cached_pool, 24",
    ".balign 8",
    "_pobj_cached_pool:",
    ".zero 24",
    ".popsection",
);

/// Number of pools that were closed: `pmemobj_direct` of the headers forgets the pool that it looked up last.
#[unsafe(no_mangle)]
pub static _pobj_cache_invalidate: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" {
    /// See libpmem's `lode_pmem_register`.
    fn lode_pmem_register(
        start: *const c_void,
        len: usize,
        persist: unsafe extern "C" fn(*mut c_void, *const c_void, usize),
        context: *mut c_void,
    ) -> c_int;

    /// See libpmem's `lode_pmem_unregister`.
    fn lode_pmem_unregister(start: *const c_void);
}

/// Makes bytes durable that the program stored, and flushed by libpmem's functions.
unsafe extern "C" fn persist_of_libpmem(handle: *mut c_void, start: *const c_void, len: usize) {
    under_way(|| {
        // SAFETY: - libpmem calls for a pool that is registered, and the program promised that it stays open.
        if let Some(pool) = unsafe { pool_at(handle.addr(), Purpose::Stores) } {
            super::memory::persist(pool, start, len, super::memory::Bytes::Stored);
        }
    });
}

/// Keeps the errno of a call that succeeds: programs print it later, for failures that set none.
fn keeping_errno<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let before = errno();
    call().inspect(|_| set_errno(before))
}

/// Gives the program an open pool.
fn give(pool: OpenPool) -> Result<*mut c_void, Failure> {
    if let Err(failure) = load_for_pool(&pool, &variable) {
        pool.close()?;
        return Err(failure);
    }
    // With the addresses in which it may grow: no other range gets them.
    let len = pool.reserved() as usize;
    let handle = match pools::insert(Box::new(pool)) {
        Ok(handle) => ptr::with_exposed_provenance_mut(handle),
        Err((pool, failure)) => {
            pool.close()?;
            return Err(failure);
        }
    };
    // SAFETY: - the function takes calls of any thread, and the pool shares no byte with another one.
    let errno = unsafe { lode_pmem_register(handle, len, persist_of_libpmem, handle) };
    if errno == 0 {
        return Ok(handle);
    }
    // SAFETY: - the program has not got the handle.
    drop(unsafe { pools::remove(handle.addr()) }.map(|pool| pool.close()));
    Err(Failure::new(
        errno,
        "a signal handler can't open a pool in the middle of another opening; open it later",
    ))
}

/// Returns the name of a layout that a program passed; `None` for null.
///
/// # Errors
/// EINVAL if it is too long.
///
/// # Safety
/// `layout` is null or ends with a zero.
unsafe fn layout_name<'a>(layout: *const c_char) -> Result<Option<&'a [u8]>, Failure> {
    if layout.is_null() {
        return Ok(None);
    }
    // SAFETY: - the caller's promise.
    Ok(Some(unsafe { CStr::from_ptr(layout) }.to_bytes()))
}

/// See pmemobj_create(3).
///
/// # Durability
/// The pool and its name are durable on return.
///
/// # Safety
/// `path` is null or ends with a zero, and so is `layout`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_create(
    path_of_pool: *const c_char,
    layout: *const c_char,
    poolsize: usize,
    mode: libc::mode_t,
) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        // SAFETY: - the caller's promise.
        let layout = unsafe { layout_name(layout) }?.unwrap_or_default();
        if layout.len() >= LAYOUT_LEN_MAX {
            return Err(Failure::invalid("Layout too long; use at most 1023 bytes"));
        }
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        keeping_errno(|| give(OpenPool::create(files(), path, layout, poolsize as u64, mode)?))
    })
}

/// See pmemobj_open(3).
///
/// # Safety
/// `path` is null or ends with a zero, and so is `layout`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_open(path_of_pool: *const c_char, layout: *const c_char) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        // SAFETY: - as above.
        let layout = unsafe { layout_name(layout) }?;
        keeping_errno(|| give(OpenPool::open(files(), path, layout)?))
    })
}

/// See pmemobj_close(3). A transaction of this thread in the pool is rolled back.
///
/// # Safety
/// `pop` is null, or a pool that nothing uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_close(pop: *mut c_void) {
    guarded((), || {
        // SAFETY: - the caller's promise.
        let Ok(pool) = (unsafe { pool_of(pop) }) else { return Ok(()) };
        pool.check_owner("pmemobj_close")?;
        session::forget_pool(pool.base);
        // ORDER: the inline code of the thread that closes reads it, and other threads do not use the pool.
        _pobj_cache_invalidate.fetch_add(1, Ordering::Relaxed);
        // SAFETY: - it takes any address.
        unsafe { lode_pmem_unregister(pop) };
        // SAFETY: - the caller's promise; the reference above is not used any more.
        unsafe { pools::remove(pop.addr()) }.map_or(Ok(()), |pool| pool.close())
    });
}

/// See pmemobj_check(3).
///
/// # Safety
/// `path` is null or ends with a zero, and so is `layout`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_check(path_of_pool: *const c_char, layout: *const c_char) -> c_int {
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        // SAFETY: - as above.
        let layout = unsafe { layout_name(layout) }?;
        OpenPool::check(files(), path, layout).map(c_int::from)
    })
}

/// See libpmemobj(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_check_version(major_required: c_uint, minor_required: c_uint) -> *const c_char {
    check_version_against("libpmemobj", (2, 4), major_required, minor_required)
}

/// See libpmemobj(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_errormsg() -> *const c_char {
    message::get()
}

/// See libpmemobj(7). The library needs two of the functions: it reallocates and copies by them.
///
/// # Safety
/// Any thread may call the functions while the library is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_set_funcs(
    malloc_func: Option<Malloc>,
    free_func: Option<Free>,
    _realloc_func: Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>,
    _strdup_func: Option<unsafe extern "C" fn(*const c_char) -> *mut c_char>,
) {
    // SAFETY: - the caller's promise.
    unsafe { set_functions(malloc_func, free_func) };
}

/// See pmemobj_set_user_data(3).
///
/// # Safety
/// `pop` is an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_set_user_data(pop: *mut c_void, data: *mut c_void) {
    guarded_briefly((), || {
        // SAFETY: - the caller's promise.
        unsafe { pool_of(pop) }?.set_user_data(data);
        Ok(())
    });
}

/// See pmemobj_get_user_data(3).
///
/// # Safety
/// `pop` is an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_get_user_data(pop: *mut c_void) -> *mut c_void {
    // SAFETY: - the caller's promise.
    guarded_briefly(ptr::null_mut(), || Ok(unsafe { pool_of(pop) }?.user_data()))
}

/// Notices nothing: PMDK's debug builds log the call.
#[unsafe(no_mangle)]
pub extern "C" fn _pobj_debug_notice(_func_name: *const c_char, _file: *const c_char, _line: c_int) {}

/// See pmemobj_direct(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_direct(oid: Oid) -> *mut c_void {
    if oid.off == 0 || oid.pool_uuid_lo == 0 {
        return ptr::null_mut();
    }
    let address = |handle: usize| handle.wrapping_add(oid.off as usize);
    pools::numbered(oid.pool_uuid_lo)
        .map_or(ptr::null_mut(), |handle| ptr::with_exposed_provenance_mut(address(handle)))
}

/// See pmemobj_oid(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_oid(addr: *const c_void) -> Oid {
    pools::holding(addr.addr())
        .map_or(Oid::NULL, |(handle, pool_uuid_lo)| Oid { pool_uuid_lo, off: (addr.addr() - handle) as u64 })
}

/// See pmemobj_pool_by_ptr(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_pool_by_ptr(addr: *const c_void) -> *mut c_void {
    pools::holding(addr.addr())
        .map_or(ptr::null_mut(), |(handle, _)| ptr::with_exposed_provenance_mut(handle))
}

/// See pmemobj_pool_by_oid(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmemobj_pool_by_oid(oid: Oid) -> *mut c_void {
    pools::numbered(oid.pool_uuid_lo).map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}
