//! The exported functions: C arguments become checked ones.

use crate::pool::Pool;
use lode_capi_entry::{
    Failure, Free, Malloc, PoolFiles, argument, check_version, ctl_exec, ctl_get, ctl_set,
    flushing_instructions, forced_is_pmem, fork_gate, guarded, guarded_briefly, message, on_load, path,
    set_functions, variable,
};
use lode_layout::PmdkKind;
use lode_pmem::Sysfs;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::{ptr, slice};

/// The kind of the pools, and the answers of the environment when the library was loaded.
static FILES: OnceLock<PoolFiles> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = load;

/// Reads the environment, as libpmemblk(7) and libpmem(7) say, when the library is loaded.
extern "C" fn load() {
    on_load("PMEMBLK", || {
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
}

/// Runs a call on a pool as [`guarded_briefly`] does. A fork of another thread waits for its end: it may hold locks of the table, or have a
/// block under its eyes.
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
        kind: PmdkKind::Blocks,
        instructions: flushing_instructions(&variable, &Sysfs::default()),
        forced: forced_is_pmem(&variable),
    })
}

/// Gives the program a new pool.
fn give(outcome: Result<Pool, Failure>) -> Result<*mut c_void, Failure> {
    Ok(Box::into_raw(Box::new(outcome?)).cast())
}

/// See pmemblk_create(3).
///
/// # Durability
/// The pool and its name are durable on return.
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_create(
    path_of_pool: *const c_char,
    bsize: usize,
    poolsize: usize,
    mode: libc::mode_t,
) -> *mut c_void {
    on_file(ptr::null_mut(), || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        give(Pool::create(files(), path, bsize, poolsize as u64, mode))
    })
}

/// See pmemblk_open(3).
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_open(path_of_pool: *const c_char, bsize: usize) -> *mut c_void {
    on_file(ptr::null_mut(), || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        give(Pool::open(files(), path, bsize))
    })
}

/// See pmemblk_close(3).
///
/// # Safety
/// `pbp` is null, or a pool that nothing uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_close(pbp: *mut c_void) {
    on_file((), || {
        if !pbp.is_null() {
            // SAFETY: - `give` made the box, and the caller promises that nothing else uses it.
            drop(unsafe { Box::from_raw(pbp.cast::<Pool>()) });
        }
        Ok(())
    });
}

/// See pmemblk_check(3).
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_check(path_of_pool: *const c_char, bsize: usize) -> c_int {
    on_file(-1, || {
        // SAFETY: - the caller's promise.
        let path = unsafe { path(path_of_pool) }?;
        Pool::check(files(), path, bsize).map(c_int::from)
    })
}

/// See pmemblk_bsize(3).
///
/// # Safety
/// `pbp` is null or an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_bsize(pbp: *mut c_void) -> usize {
    // SAFETY: - the caller's promise.
    guarded_briefly(0, || Ok(unsafe { argument(pbp.cast::<Pool>()) }?.block_size()))
}

/// See pmemblk_nblock(3).
///
/// # Safety
/// `pbp` is null or an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_nblock(pbp: *mut c_void) -> usize {
    // SAFETY: - the caller's promise.
    guarded_briefly(0, || Ok(unsafe { argument(pbp.cast::<Pool>()) }?.block_count() as usize))
}

/// See pmemblk_read(3).
///
/// # Safety
/// `pbp` is null or an open pool; `buf` is valid for stores of a block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_read(pbp: *mut c_void, buf: *mut c_void, blockno: i64) -> c_int {
    on_pool(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { argument(pbp.cast::<Pool>()) }?;
        if buf.is_null() {
            return Err(no_buffer());
        }
        // SAFETY: - the caller's promise. A block is not longer than any object.
        pool.read(blockno, unsafe { slice::from_raw_parts_mut(buf.cast(), pool.block_size()) })?;
        Ok(0)
    })
}

/// See pmemblk_write(3).
///
/// # Durability
/// On return. A power cut leaves the old block or the new one.
///
/// # Safety
/// `pbp` is null or an open pool; `buf` is valid for loads of a block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_write(pbp: *mut c_void, buf: *const c_void, blockno: i64) -> c_int {
    on_pool(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { argument(pbp.cast::<Pool>()) }?;
        if buf.is_null() {
            return Err(no_buffer());
        }
        // SAFETY: - the caller's promise. A block is not longer than any object.
        pool.write(blockno, unsafe { slice::from_raw_parts(buf.cast(), pool.block_size()) })?;
        Ok(0)
    })
}

fn no_buffer() -> Failure {
    Failure::new(libc::EFAULT, "the buffer is null; pass one of a block's size")
}

/// See pmemblk_set_zero(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// `pbp` is null or an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_set_zero(pbp: *mut c_void, blockno: i64) -> c_int {
    // SAFETY: - the caller's promise.
    let zero = || unsafe { argument(pbp.cast::<Pool>()) }?.zero(blockno).map(|()| 0);
    fork_gate::under_way(|| guarded(-1, zero))
}

/// See pmemblk_set_error(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// `pbp` is null or an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_set_error(pbp: *mut c_void, blockno: i64) -> c_int {
    // SAFETY: - the caller's promise.
    let mark = || unsafe { argument(pbp.cast::<Pool>()) }?.mark_lost(blockno).map(|()| 0);
    fork_gate::under_way(|| guarded(-1, mark))
}

/// See libpmemblk(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmemblk_check_version(major_required: c_uint, minor_required: c_uint) -> *const c_char {
    check_version("libpmemblk", major_required, minor_required)
}

/// See libpmemblk(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmemblk_errormsg() -> *const c_char {
    message::get()
}

/// See libpmemblk(7). The library needs two of the functions: it reallocates and copies by them.
///
/// # Safety
/// Any thread may call the functions while the library is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_set_funcs(
    malloc_func: Option<Malloc>,
    free_func: Option<Free>,
    _realloc_func: Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>,
    _strdup_func: Option<unsafe extern "C" fn(*const c_char) -> *mut c_char>,
) {
    // SAFETY: - the caller's promise.
    unsafe { set_functions(malloc_func, free_func) };
}

/// See pmemblk_ctl_get(3).
///
/// # Safety
/// `name` is null or ends with a zero; `arg` is null or valid for a store of the setting's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_ctl_get(_pbp: *mut c_void, name: *const c_char, arg: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || unsafe { ctl_get(name, arg) })
}

/// See pmemblk_ctl_set(3).
///
/// # Safety
/// `name` is null or ends with a zero; `arg` is null or valid for a load of the setting's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_ctl_set(_pbp: *mut c_void, name: *const c_char, arg: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || unsafe { ctl_set(name, arg) })
}

/// See pmemblk_ctl_exec(3).
///
/// # Safety
/// `name` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemblk_ctl_exec(
    _pbp: *mut c_void,
    name: *const c_char,
    _arg: *mut c_void,
) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || unsafe { ctl_exec(name) })
}
