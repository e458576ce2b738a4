//! The exported functions: C arguments become checked ones.

pub mod actions;
pub mod control;
mod leaving;
pub mod lists;
pub mod locks;
pub mod memory;
pub mod objects;
pub mod pool;
pub mod transaction;

use crate::ctl::load_globals;
use crate::inherited::{Purpose, pool_at};
use crate::oid::Oid;
use crate::pool::OpenPool;
use crate::{fork, pools};
use lode_capi_entry::{
    Failure, PoolFiles, flushing_instructions, forced_is_pmem, message, on_load, variable,
};
use lode_layout::PmdkKind;
use lode_pmem::Sysfs;
use std::ffi::c_void;
use std::sync::OnceLock;

/// The function that makes a new object whole: pool, address of the object, the program's argument. Any result but 0 gives the object up.
type Constructor = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_void) -> std::ffi::c_int;

/// The kind of the pools, and the answers of the environment when the library was loaded.
static FILES: OnceLock<PoolFiles> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = load;

/// Reads the environment, as libpmemobj(7) and libpmem(7) say, when the library is loaded.
extern "C" fn load() {
    on_load("PMEMOBJ", || {
        // The library has a copy of Rust's library to itself, so no program loses its messages. The tests keep theirs.
        #[cfg(not(test))]
        std::panic::set_hook(Box::new(|_| {}));
        files();
        lode_obj::prepare();
        if let Err(failure) = load_globals(&variable) {
            message::set(&failure.text);
        }
        fork::register();
    });
}

/// Returns what the library found in its environment. A call that comes before `load`, from the start of a static program,
/// finds it itself.
fn files() -> &'static PoolFiles {
    FILES.get_or_init(|| PoolFiles {
        kind: PmdkKind::Objects,
        instructions: flushing_instructions(&variable, &Sysfs::default()),
        forced: forced_is_pmem(&variable),
    })
}

/// Returns the pool of a handle.
///
/// # Errors
/// EINVAL for null, and for an address that is no open pool's.
///
/// # Safety
/// Nothing closes the pool while the reference is in use.
#[inline]
unsafe fn pool_of<'a>(handle: *const c_void) -> Result<&'a OpenPool, Failure> {
    // SAFETY: - the caller's promise.
    unsafe { pool_for(handle, Purpose::Engine) }
}

/// Returns the pool of a handle, for a call that changes it.
///
/// # Errors
/// As [`pool_of`].
///
/// # Safety
/// As [`pool_of`].
#[inline]
unsafe fn pool_to_change<'a>(handle: *const c_void) -> Result<&'a OpenPool, Failure> {
    // SAFETY: - the caller's promise.
    unsafe { pool_for(handle, Purpose::Change) }
}

/// Returns the pool of a handle, for a call with this purpose.
///
/// # Errors
/// As [`pool_of`].
///
/// # Safety
/// As [`pool_of`].
#[inline]
unsafe fn pool_for<'a>(handle: *const c_void, purpose: Purpose) -> Result<&'a OpenPool, Failure> {
    // SAFETY: - the caller's promise.
    unsafe { pool_at(handle.addr(), purpose) }.ok_or_else(|| {
        Failure::invalid("the pool is not open; pass the address that open or create returned")
    })
}

/// Returns the pool of an object, for a call with this purpose.
///
/// # Errors
/// EINVAL if no open pool has the number of the OID.
///
/// # Safety
/// Nothing closes the pool while the reference is in use.
#[inline]
unsafe fn pool_of_object<'a>(oid: Oid, purpose: Purpose) -> Result<&'a OpenPool, Failure> {
    let unknown = || {
        let number = oid.pool_uuid_lo;
        Failure::invalid(format!("no open pool has the object's number {number:#x}; open its pool first"))
    };
    let base = pools::numbered(oid.pool_uuid_lo).ok_or_else(unknown)?;
    // SAFETY: - the caller's promise.
    unsafe { pool_at(base, purpose) }.ok_or_else(unknown)
}
