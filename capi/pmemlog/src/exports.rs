//! The exported functions: C arguments become checked ones.

use crate::pool::Pool;
use crate::walks;
use lode_capi_entry::{
    Failure, Free, Malloc, PoolFiles, argument, check_version, ctl_exec, ctl_get, ctl_set,
    flushing_instructions, forced_is_pmem, fork_gate, guarded, guarded_briefly, message, on_load, path,
    set_functions, variable,
};
use lode_layout::PmdkKind;
use lode_pmem::Sysfs;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::IoSlice;
use std::sync::OnceLock;
use std::{ptr, slice};

/// The function that a walk calls: bytes, their number, the program's argument.
type Visit = unsafe extern "C-unwind" fn(*const c_void, usize, *mut c_void) -> c_int;

/// The kind of the pools, and the answers of the environment when the library was loaded.
static FILES: OnceLock<PoolFiles> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = load;

/// Reads the environment, as libpmemlog(7) and libpmem(7) say, when the library is loaded.
extern "C" fn load() {
    on_load("PMEMLOG", || {
        // The library has a copy of Rust's library to itself, so no program loses its messages. The tests keep theirs.
        #[cfg(not(test))]
        std::panic::set_hook(Box::new(|_| {}));
        files();
        fork_gate::register(in_child);
    });
}

/// Lets a child of a fork forget the calls of its parent's other threads.
extern "C" fn in_child() {
    fork_gate::forget_other_threads();
    walks::forget_other_threads(thread());
}

/// Runs a call on a pool as [`guarded_briefly`] does. A fork of another thread waits for its end: it may hold the pool's locks.
#[inline]
fn on_pool<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    fork_gate::under_way(|| guarded_briefly(failed, call))
}

/// Runs an open, a create, a close or a check as [`guarded`] does. A fork of another thread waits for its end, as for that of a call on a pool.
fn on_file<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    fork_gate::under_way(|| guarded(failed, call))
}

/// Returns what the library found in its environment. A call that comes before `load`, from the start of a static program,
/// finds it itself.
fn files() -> &'static PoolFiles {
    FILES.get_or_init(|| PoolFiles {
        kind: PmdkKind::Log,
        instructions: flushing_instructions(&variable, &Sysfs::default()),
        forced: forced_is_pmem(&variable),
    })
}

/// Returns the number of the calling thread.
fn thread() -> u64 {
    // SAFETY: - the C library's function has no requirement.
    unsafe { libc::pthread_self() }
}

/// Gives the program a new pool.
fn give(outcome: Result<Pool, Failure>) -> Result<*mut c_void, Failure> {
    Ok(Box::into_raw(Box::new(outcome?)).cast())
}

/// See pmemlog_create(3).
///
/// # Durability
/// The pool and its name are durable on return.
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_create(
    path_of_pool: *const c_char,
    poolsize: usize,
    mode: libc::mode_t,
) -> *mut c_void {
    on_file(ptr::null_mut(), || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        give(Pool::create(files(), path, poolsize as u64, mode))
    })
}

/// See pmemlog_open(3).
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_open(path_of_pool: *const c_char) -> *mut c_void {
    on_file(ptr::null_mut(), || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        give(Pool::open(files(), path))
    })
}

/// See pmemlog_close(3).
///
/// # Safety
/// `plp` is null, or a pool that nothing uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_close(plp: *mut c_void) {
    on_file((), || {
        if !plp.is_null() {
            // SAFETY: - `give` made the box, and the caller promises that nothing else uses it.
            unsafe { Box::from_raw(plp.cast::<Pool>()) }.close();
        }
        Ok(())
    });
}

/// See pmemlog_check(3).
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_check(path_of_pool: *const c_char) -> c_int {
    on_file(-1, || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        Pool::check(files(), path).map(|()| 1)
    })
}

/// See pmemlog_nbyte(3).
///
/// # Safety
/// `plp` is null or an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_nbyte(plp: *mut c_void) -> usize {
    // SAFETY: - the caller's promise.
    guarded_briefly(usize::MAX, || Ok(unsafe { argument(plp.cast::<Pool>()) }?.capacity() as usize))
}

/// See pmemlog_tell(3).
///
/// # Safety
/// `plp` is null or an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_tell(plp: *mut c_void) -> i64 {
    // SAFETY: - the caller's promise.
    on_pool(-1, || Ok(unsafe { argument(plp.cast::<Pool>()) }?.len()? as i64))
}

/// See pmemlog_append(3).
///
/// # Durability
/// On return. A power cut leaves the append whole, or nothing of it.
///
/// # Safety
/// `plp` is null or an open pool; `buf` is valid for loads of `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_append(plp: *mut c_void, buf: *const c_void, count: usize) -> c_int {
    const CALL: &str = "pmemlog_append";
    on_pool(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { argument(plp.cast::<Pool>()) }?;
        pool.check_room(count as u64, CALL)?;
        if buf.is_null() && count > 0 {
            return Err(no_buffer());
        }
        // SAFETY: - the caller's promise; not more bytes than the log has, so than any object.
        pool.append(&[unsafe { bytes(buf, count) }], CALL)?;
        Ok(0)
    })
}

/// See pmemlog_appendv(3).
///
/// # Durability
/// On return. A power cut leaves all parts, or nothing of them.
///
/// # Safety
/// `plp` is null or an open pool; `iov` is valid for loads of `iovcnt` parts, and each part for loads of its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_appendv(plp: *mut c_void, iov: *const libc::iovec, iovcnt: c_int) -> c_int {
    const CALL: &str = "pmemlog_appendv";
    on_pool(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { argument(plp.cast::<Pool>()) }?;
        let count = usize::try_from(iovcnt).map_err(|_| {
            Failure::invalid(format!("iovcnt is less than zero: {iovcnt}; pass the number of parts"))
        })?;
        let parts = if count == 0 {
            &[]
        } else if iov.is_null() {
            return Err(no_buffer());
        } else {
            // SAFETY: - the caller's promise.
            unsafe { slice::from_raw_parts(iov, count) }
        };
        let need = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.iov_len as u64));
        pool.check_room(need, CALL)?;
        if parts.iter().any(|part| part.iov_base.is_null() && part.iov_len > 0) {
            return Err(no_buffer());
        }
        // Slices of Rust have an address also if they are empty.
        if parts.is_empty() || parts.iter().any(|part| part.iov_base.is_null()) {
            // SAFETY: - the caller's promise; not more bytes than the log has, so than any object.
            let parts: Vec<&[u8]> =
                parts.iter().map(|part| unsafe { bytes(part.iov_base, part.iov_len) }).collect();
            pool.append(&parts, CALL)?;
            return Ok(0);
        }
        // SAFETY: - IoSlice has the representation of iovec.
        //         - each part is valid for loads, as the caller promises, and is not longer than any object.
        let parts = unsafe { slice::from_raw_parts(iov.cast::<IoSlice<'_>>(), count) };
        pool.append(parts, CALL)?;
        Ok(0)
    })
}

fn no_buffer() -> Failure {
    Failure::new(
        libc::EFAULT,
        "the address of the bytes is null; pass that of as many bytes as the call names",
    )
}

/// Returns the bytes that a program passed.
///
/// # Safety
/// `start` is valid for loads of `len` bytes, at most as many as an object can have.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: - the caller's promise.
    unsafe { slice::from_raw_parts(start.cast(), len) }
}

/// See pmemlog_rewind(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// `plp` is null or an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_rewind(plp: *mut c_void) {
    fork_gate::under_way(|| {
        // SAFETY: - the caller's promise.
        guarded((), || unsafe { argument(plp.cast::<Pool>()) }?.rewind(thread()));
    });
}

/// See pmemlog_walk(3). The function may append to the log, and throw an exception of C++.
///
/// # Safety
/// `plp` is null or an open pool; `process_chunk` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pmemlog_walk(
    plp: *mut c_void,
    chunksize: usize,
    process_chunk: Option<Visit>,
    arg: *mut c_void,
) {
    let begin = || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { argument(plp.cast::<Pool>()) }?;
        let visit =
            process_chunk.ok_or_else(|| Failure::invalid("the function of the walk is null; pass one"))?;
        Ok(Some((pool.walk(thread())?, visit)))
    };
    // The calls of the function are outside: it may do what it wants.
    let begun = fork_gate::under_way(|| guarded(None, begin));
    let Some((shown, visit)) = begun else { return };
    let start = shown.start.as_ptr().cast_const();
    if chunksize == 0 {
        // SAFETY: - the caller's promise: the function takes these bytes, which stay until the walk ends.
        unsafe { visit(start.cast(), shown.len, arg) };
        return;
    }
    let mut at = 0;
    while at < shown.len {
        let len = chunksize.min(shown.len - at);
        // SAFETY: - as above.
        if unsafe { visit(start.wrapping_add(at).cast(), len, arg) } == 0 {
            break;
        }
        at += len;
    }
}

/// See libpmemlog(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmemlog_check_version(major_required: c_uint, minor_required: c_uint) -> *const c_char {
    check_version("libpmemlog", major_required, minor_required)
}

/// See libpmemlog(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmemlog_errormsg() -> *const c_char {
    message::get()
}

/// See libpmemlog(7). The library needs two of the functions: it reallocates and copies by them.
///
/// # Safety
/// Any thread may call the functions while the library is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_set_funcs(
    malloc_func: Option<Malloc>,
    free_func: Option<Free>,
    _realloc_func: Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>,
    _strdup_func: Option<unsafe extern "C" fn(*const c_char) -> *mut c_char>,
) {
    // SAFETY: - the caller's promise.
    unsafe { set_functions(malloc_func, free_func) };
}

/// See pmemlog_ctl_get(3).
///
/// # Safety
/// `name` is null or ends with a zero; `arg` is null or valid for a store of the setting's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_ctl_get(_plp: *mut c_void, name: *const c_char, arg: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || unsafe { ctl_get(name, arg) })
}

/// See pmemlog_ctl_set(3).
///
/// # Safety
/// `name` is null or ends with a zero; `arg` is null or valid for a load of the setting's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_ctl_set(_plp: *mut c_void, name: *const c_char, arg: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || unsafe { ctl_set(name, arg) })
}

/// See pmemlog_ctl_exec(3).
///
/// # Safety
/// `name` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemlog_ctl_exec(
    _plp: *mut c_void,
    name: *const c_char,
    _arg: *mut c_void,
) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || unsafe { ctl_exec(name) })
}
