//! Settings and statistics by name, defragmentation, and volatile variables.

use super::{locks, pool_of, pool_to_change};
use crate::calls::guarded;
use crate::ctl::{Access, ClassValue, Kind, Name, Value, get, run, set};
use crate::defrag::{DefragResult, Names};
use crate::oid::Oid;
use crate::pool::OpenPool;
use lode_capi_entry::{Failure, message};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::{ptr, slice};

/// The function that makes a volatile variable: its address, the program's argument. Any result but 0 fails.
type VolatileConstructor = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int;

/// Returns the pool of a call, which may be none, and the setting that it names.
///
/// # Safety
/// `pop` is null or an open pool, and `name` is null or ends with a zero.
unsafe fn query<'a>(
    pop: *mut c_void,
    name: *const c_char,
    access: Access,
) -> Result<(Option<&'a OpenPool>, Name), Failure> {
    // SAFETY: - the caller's promise.
    let pool = if pop.is_null() { None } else { Some(unsafe { pool_of(pop) }?) };
    if name.is_null() {
        return Err(Failure::invalid("invalid query; pass the name of a setting"));
    }
    // SAFETY: - the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    Ok((pool, Name::find(name, access, pool.is_some())?))
}

/// Loads the value that a program passed for this setting.
///
/// # Safety
/// `arg` is valid for a load of the setting's type.
unsafe fn load(name: Name, arg: *const c_void) -> Value {
    match name.kind() {
        // SAFETY: - the caller's promise.
        Kind::Int => Value::Int(unsafe { arg.cast::<c_int>().read_unaligned() }),
        // SAFETY: - as above.
        Kind::Unsigned => Value::Unsigned(unsafe { arg.cast::<u32>().read_unaligned() }),
        // SAFETY: - as above.
        Kind::Long => Value::Long(unsafe { arg.cast::<i64>().read_unaligned() }),
        // SAFETY: - as above.
        Kind::Word => Value::Word(unsafe { arg.cast::<u64>().read_unaligned() }),
        Kind::Pointer => Value::Nothing,
        // SAFETY: - as above.
        Kind::Class => Value::Class(unsafe { arg.cast::<ClassValue>().read_unaligned() }),
    }
}

/// Stores a value for a program.
///
/// # Safety
/// `arg` is valid for a store of the value.
unsafe fn store(value: Value, arg: *mut c_void) {
    match value {
        // SAFETY: - the caller's promise.
        Value::Int(value) => unsafe { arg.cast::<c_int>().write_unaligned(value) },
        // SAFETY: - as above.
        Value::Unsigned(value) => unsafe { arg.cast::<u32>().write_unaligned(value) },
        // SAFETY: - as above.
        Value::Long(value) => unsafe { arg.cast::<i64>().write_unaligned(value) },
        // SAFETY: - as above.
        Value::Word(value) => unsafe { arg.cast::<u64>().write_unaligned(value) },
        Value::Nothing => {}
        Value::Class(value) => {
            // The bytes after the last field are the program's.
            let len = offset_of!(ClassValue, class_id) + size_of::<u32>();
            // SAFETY: - as above; the value has these bytes.
            unsafe { ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), arg.cast(), len) };
        }
    }
}

/// See pmemobj_ctl_get(3).
///
/// # Safety
/// `pop` is null or an open pool; `name` is null or ends with a zero; `arg` is null or valid for a store of the setting's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_ctl_get(pop: *mut c_void, name: *const c_char, arg: *mut c_void) -> c_int {
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let (pool, name) = unsafe { query(pop, name, Access::Get) }?;
        if arg.is_null() {
            return Err(Failure::invalid(
                "read queries require non-NULL argument; pass the address of a value",
            ));
        }
        let value = get(pool, name)?;
        // SAFETY: - the caller's promise.
        unsafe { store(value, arg) };
        Ok(0)
    })
}

/// See pmemobj_ctl_get(3).
///
/// # Safety
/// As [`pmemobj_ctl_get`], for a load; for a class, for a store, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_ctl_set(pop: *mut c_void, name: *const c_char, arg: *mut c_void) -> c_int {
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let (pool, name) = unsafe { query(pop, name, Access::Set) }?;
        if arg.is_null() {
            return Err(Failure::invalid(
                "write queries require non-NULL argument; pass the address of a value",
            ));
        }
        // SAFETY: - the caller's promise.
        let value = set(pool, name, unsafe { load(name, arg) })?;
        if let Value::Class(_) = value {
            // SAFETY: - the caller's promise.
            unsafe { store(value, arg) };
        }
        Ok(0)
    })
}

/// See pmemobj_ctl_get(3).
///
/// # Safety
/// As [`pmemobj_ctl_get`], for a load and a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_ctl_exec(pop: *mut c_void, name: *const c_char, arg: *mut c_void) -> c_int {
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let (pool, name) = unsafe { query(pop, name, Access::Run) }?;
        if arg.is_null() {
            return Err(Failure::invalid(
                "this query requires non-NULL argument; pass the address of a value",
            ));
        }
        // SAFETY: - the caller's promise.
        let value = run(pool, name, unsafe { load(name, arg) })?;
        // SAFETY: - the caller's promise.
        unsafe { store(value, arg) };
        Ok(0)
    })
}

/// See pmemobj_defrag(3).
///
/// # Durability
/// Each object and its names in the pool move together. A power cut leaves any of them moved.
///
/// # Safety
/// `pop` is an open pool, `oidv` is valid for loads of `oidcnt` addresses of OIDs, each of them valid for a load and a store, and `result`
/// is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_defrag(
    pop: *mut c_void,
    oidv: *mut *mut Oid,
    oidcnt: usize,
    result: *mut DefragResult,
) -> c_int {
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let tell = |counts| (!result.is_null()).then(|| unsafe { result.write(counts) });
        tell(DefragResult::default());
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        pool.check_owner("pmemobj_defrag")?;
        // SAFETY: - the caller's promise.
        let places = if oidcnt == 0 { &[] } else { unsafe { slice::from_raw_parts(oidv, oidcnt) } };
        // SAFETY: - the caller's promise.
        let read = |place: *mut Oid| (!place.is_null()).then(|| (place, unsafe { place.read() }));
        let names: Vec<_> =
            places.iter().filter_map(|place| read(*place)).filter(|(_, oid)| !oid.is_null()).collect();
        let mut counts = DefragResult::default();
        // SAFETY: - the caller's promise.
        let rename = |place: *mut Oid, oid| unsafe { place.write(oid) };
        let moved = Names::new(pool, &names)?.move_down(rename, &mut counts);
        tell(counts);
        moved.map(|()| 0)
    })
}

/// See pmemobj_volatile(3).
///
/// # Safety
/// `pop` is an open pool, `vlt` is valid for atomic accesses of its word, and `constr` may be called with `ptr` and `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pmemobj_volatile(
    pop: *mut c_void,
    vlt: *mut u64,
    ptr: *mut c_void,
    _size: usize,
    constr: Option<VolatileConstructor>,
    arg: *mut c_void,
) -> *mut c_void {
    // SAFETY: - the caller's promise.
    let run_id = guarded(None, || Ok(Some(unsafe { pool_of(pop) }?.engine.run_id())));
    let Some(run_id) = run_id else { return ptr::null_mut() };
    // SAFETY: - the caller's promise.
    let init = || constr.is_none_or(|constr| unsafe { constr(ptr, arg) } == 0);
    // SAFETY: - the caller's promise.
    if unsafe { locks::is_of_run(run_id, vlt, init) } {
        return ptr;
    }
    // The errno is that of the program's function.
    guarded((), || {
        message::set("error initializing lock; the program's constructor has failed");
        Ok(())
    });
    ptr::null_mut()
}
