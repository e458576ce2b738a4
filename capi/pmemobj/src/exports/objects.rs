//! Atomic allocations, the root and iterations.

use super::{Constructor, pool_of, pool_of_object, pool_to_change};
use crate::allocation::{ALLOC_SIZE_MAX, OID_LEN, request, too_large};
use crate::calls::guarded_briefly;
use crate::inherited::Purpose;
use crate::oid::Oid;
use crate::pool::OpenPool;
use lode_capi_entry::Failure;
use lode_layout::{PoolOffset, WORD};
use lode_obj::{ObjError, Request, Reservation};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// A pool, the request of a new object, and the place of its name.
struct New<'p> {
    pool: &'p OpenPool,
    reservation: Reservation,
}

/// Returns the place of a name in the pool; `None` if it lies outside of it.
///
/// # Errors
/// EINVAL if it lies at no multiple of 8, or partly in the pool.
fn place_in(pool: &OpenPool, oidp: *const Oid) -> Result<Option<PoolOffset>, Failure> {
    let Some(at) = pool.offset_of(oidp.cast()) else { return Ok(None) };
    if at.get().is_multiple_of(WORD) && pool.len() - at.get() >= OID_LEN {
        return Ok(Some(at));
    }
    Err(Failure::invalid(format!("an OID in the pool lies at a multiple of 8, and not at {at}; align it")))
}

/// Makes reserved space an object, and stores its name.
///
/// # Safety
/// `oidp` is null or valid for a store.
unsafe fn publish(new: &New<'_>, oidp: *mut Oid, call: &str) -> Result<(), Failure> {
    let New { pool, reservation } = new;
    let place = place_in(pool, oidp).inspect_err(|_| pool.engine.cancel(reservation))?;
    pool.publish_object(reservation, place, call)?;
    if place.is_none() && !oidp.is_null() {
        // SAFETY: - the caller's promise.
        unsafe { oidp.write_unaligned(pool.oid(reservation.at)) };
    }
    Ok(())
}

/// Allocates an object, which the program's constructor makes whole. No frame of this library needs an end while that runs, so it may
/// throw an exception of C++: the space is given back when the pool is closed.
///
/// # Safety
/// `pop` is an open pool, `oidp` is null or valid for a store, and `constructor` may be called with `arg`.
unsafe fn allocate(
    pop: *mut c_void,
    oidp: *mut Oid,
    request: Result<Request, Failure>,
    constructor: Option<Constructor>,
    arg: *mut c_void,
    call: &'static str,
) -> c_int {
    let reserve = || {
        // SAFETY: - the caller's promise.
        let (pool, request) = (unsafe { pool_to_change(pop) }?, request?);
        Ok(Some(New { pool, reservation: pool.reserve(&request, call)? }))
    };
    let Some(new) = guarded_briefly(None, reserve) else { return -1 };
    if let Some(constructor) = constructor {
        let start = new.pool.address_of(new.reservation.at);
        // SAFETY: - the caller's promise; the object is the program's alone.
        if unsafe { constructor(pop, start, arg) } != 0 {
            return guarded_briefly(-1, || {
                new.pool.engine.cancel(&new.reservation);
                Err(cancelled(call))
            });
        }
    }
    guarded_briefly(-1, || {
        // SAFETY: - the caller's promise.
        unsafe { publish(&new, oidp, call) }?;
        Ok(0)
    })
}

/// Returns the failure of a constructor that has given up.
pub(super) fn cancelled(call: &str) -> Failure {
    Failure::new(
        libc::ECANCELED,
        format!("{call}: the constructor has not returned 0; the object is given up"),
    )
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// The object and its name are durable on return. A power cut leaves both or none.
///
/// # Safety
/// `pop` is an open pool, `oidp` is null or valid for a store, and `constructor` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pmemobj_alloc(
    pop: *mut c_void,
    oidp: *mut Oid,
    size: usize,
    type_num: u64,
    constructor: Option<Constructor>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { allocate(pop, oidp, request(size, type_num, 0, 0), constructor, arg, "pmemobj_alloc") }
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// As [`pmemobj_alloc`].
///
/// # Safety
/// As [`pmemobj_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pmemobj_xalloc(
    pop: *mut c_void,
    oidp: *mut Oid,
    size: usize,
    type_num: u64,
    flags: u64,
    constructor: Option<Constructor>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { allocate(pop, oidp, request(size, type_num, flags, 0), constructor, arg, "pmemobj_xalloc") }
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// As [`pmemobj_alloc`], the zeros included.
///
/// # Safety
/// `pop` is an open pool, and `oidp` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_zalloc(
    pop: *mut c_void,
    oidp: *mut Oid,
    size: usize,
    type_num: u64,
) -> c_int {
    let request = request(size, type_num, 1, 0);
    // SAFETY: - the caller's promise.
    unsafe { allocate(pop, oidp, request, None, ptr::null_mut(), "pmemobj_zalloc") }
}

/// Allocates an object for a copy of these bytes.
///
/// # Safety
/// `pop` is an open pool, `oidp` is null or valid for a store, and `text` is valid for loads of `len` bytes.
unsafe fn duplicate(
    pop: *mut c_void,
    oidp: *mut Oid,
    text: *const c_void,
    len: usize,
    type_num: u64,
    call: &'static str,
) -> c_int {
    guarded_briefly(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        let reservation = pool.reserve(&request(len, type_num, 0, 0)?, call)?;
        let start = pool.address_of(reservation.at);
        // SAFETY: - the caller's promise; the reservation has room for the bytes, and is this call's alone.
        unsafe { ptr::copy_nonoverlapping(text.cast::<u8>(), start.cast(), len) };
        let persisted = pool.persist_object(reservation.at, len as u64, call);
        persisted.inspect_err(|_| pool.engine.cancel(&reservation))?;
        // SAFETY: - the caller's promise.
        unsafe { publish(&New { pool, reservation }, oidp, call) }?;
        Ok(0)
    })
}

/// Refuses a text that is null.
fn no_text() -> Failure {
    Failure::invalid("the text is null; pass the address of its first character")
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// As [`pmemobj_alloc`], the text included.
///
/// # Safety
/// `pop` is an open pool, `oidp` is null or valid for a store, and `s` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_strdup(
    pop: *mut c_void,
    oidp: *mut Oid,
    s: *const c_char,
    type_num: u64,
) -> c_int {
    if s.is_null() {
        return guarded_briefly(-1, || Err(no_text()));
    }
    // SAFETY: - the caller's promise.
    let len = unsafe { CStr::from_ptr(s) }.count_bytes() + 1;
    // SAFETY: - the caller's promise, and the text has these bytes.
    unsafe { duplicate(pop, oidp, s.cast(), len, type_num, "pmemobj_strdup") }
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// As [`pmemobj_alloc`], the text included.
///
/// # Safety
/// As [`pmemobj_strdup`], with a wide zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_wcsdup(
    pop: *mut c_void,
    oidp: *mut Oid,
    s: *const libc::wchar_t,
    type_num: u64,
) -> c_int {
    if s.is_null() {
        return guarded_briefly(-1, || Err(no_text()));
    }
    let mut len = 1;
    // SAFETY: - the caller's promise: there is a zero at or after the first character.
    while unsafe { s.wrapping_add(len - 1).read_unaligned() } != 0 {
        len += 1;
    }
    // SAFETY: - the caller's promise, and the text has these bytes.
    unsafe { duplicate(pop, oidp, s.cast(), len * size_of::<libc::wchar_t>(), type_num, "pmemobj_wcsdup") }
}

/// Gives an object another size.
///
/// # Safety
/// `pop` is an open pool, and `oidp` is valid for a load and a store.
unsafe fn reallocate(
    pop: *mut c_void,
    oidp: *mut Oid,
    size: usize,
    (type_num, flags): (u64, u64),
    call: &'static str,
) -> c_int {
    guarded_briefly(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        // SAFETY: - as above.
        let oid = unsafe { oidp.read_unaligned() };
        if oid.is_null() && size == 0 {
            return Ok(0);
        }
        if size as u64 > ALLOC_SIZE_MAX {
            return Err(too_large(size as u64));
        }
        let place = place_in(pool, oidp)?;
        let new = if oid.is_null() {
            let reservation = pool.reserve(&request(size, type_num, flags, 0)?, call)?;
            pool.publish_object(&reservation, place, call)?;
            pool.oid(reservation.at)
        } else if size == 0 {
            pool.free_object(oid.offset(), place, call)?;
            Oid::NULL
        } else {
            pool.oid(pool.resize_object(oid.offset(), &request(size, type_num, flags, 0)?, place, call)?)
        };
        if place.is_none() {
            // SAFETY: - the caller's promise.
            unsafe { oidp.write_unaligned(new) };
        }
        Ok(0)
    })
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// As [`pmemobj_alloc`], the old content included.
///
/// # Safety
/// `pop` is an open pool, and `oidp` is valid for a load and a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_realloc(
    pop: *mut c_void,
    oidp: *mut Oid,
    size: usize,
    type_num: u64,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { reallocate(pop, oidp, size, (type_num, 0), "pmemobj_realloc") }
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// As [`pmemobj_realloc`], the zeros included.
///
/// # Safety
/// As [`pmemobj_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_zrealloc(
    pop: *mut c_void,
    oidp: *mut Oid,
    size: usize,
    type_num: u64,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { reallocate(pop, oidp, size, (type_num, 1), "pmemobj_zrealloc") }
}

/// See pmemobj_alloc(3).
///
/// # Durability
/// On return. A power cut leaves the object and its name, or none of them.
///
/// # Safety
/// `oidp` is null, or valid for a load and a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_free(oidp: *mut Oid) {
    const CALL: &str = "pmemobj_free";
    guarded_briefly((), || {
        if oidp.is_null() {
            return Ok(());
        }
        // SAFETY: - the caller's promise.
        let oid = unsafe { oidp.read_unaligned() };
        if oid.is_null() {
            return Ok(());
        }
        // SAFETY: - the caller promises an object of a pool that stays open.
        let pool = unsafe { pool_of_object(oid, Purpose::Change) }?;
        let place = place_in(pool, oidp)?;
        pool.free_object(oid.offset(), place, CALL)?;
        if place.is_none() {
            // SAFETY: - the caller's promise.
            unsafe { oidp.write_unaligned(Oid::NULL) };
        }
        Ok(())
    });
}

/// See pmemobj_alloc(3). Returns 0 for what is no object.
///
/// # Safety
/// The object's pool stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_alloc_usable_size(oid: Oid) -> usize {
    guarded_briefly(0, || {
        if oid.is_null() {
            return Ok(0);
        }
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_of_object(oid, Purpose::Engine) }?;
        Ok(pool.object(oid.offset(), "pmemobj_alloc_usable_size")?.usable_size as usize)
    })
}

/// See pmemobj_alloc(3). Returns 0 for what is no object.
///
/// # Safety
/// The object's pool stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_type_num(oid: Oid) -> u64 {
    guarded_briefly(0, || {
        if oid.is_null() {
            return Ok(0);
        }
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_of_object(oid, Purpose::Engine) }?;
        Ok(pool.object(oid.offset(), "pmemobj_type_num")?.type_number)
    })
}

/// The reason why a root was not made.
enum RootError {
    Engine(ObjError),
    Cancelled,
}

impl From<ObjError> for RootError {
    fn from(error: ObjError) -> RootError {
        RootError::Engine(error)
    }
}

/// Ends the process if the program's constructor throws: the root is locked, and another thread could never get it.
extern "C" fn construct_root(
    constructor: Constructor,
    pop: *mut c_void,
    start: *mut c_void,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: - the caller of pmemobj_root_construct promises that the function may be called so.
    unsafe { constructor(pop, start, arg) }
}

/// See pmemobj_root(3).
///
/// # Durability
/// The root is durable on return. A power cut leaves the old one or the new one.
///
/// # Safety
/// `pop` is an open pool, and `constructor` may be called with `arg`. It throws no exception.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_root_construct(
    pop: *mut c_void,
    size: usize,
    constructor: Option<Constructor>,
    arg: *mut c_void,
) -> Oid {
    const CALL: &str = "pmemobj_root";
    guarded_briefly(Oid::NULL, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_of(pop) }?;
        if size as u64 > ALLOC_SIZE_MAX {
            return Err(too_large(size as u64));
        }
        let root = pool.engine.root().map_err(|error| crate::failure::failure(&error, CALL))?;
        match root {
            Some((at, len)) if len >= size as u64 => return Ok(pool.oid(at)),
            None if size == 0 => {
                return Err(Failure::invalid(
                    "requested size cannot equals zero: the pool has no root, so name its size",
                ));
            }
            _ => {}
        }
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        pool.check_owner(CALL)?;
        let construct = |at: PoolOffset| match constructor {
            Some(constructor) if construct_root(constructor, pop, pool.address_of(at), arg) != 0 => {
                Err(RootError::Cancelled)
            }
            _ => Ok(()),
        };
        match pool.engine.root_of(size as u64, construct) {
            Ok(at) => Ok(pool.oid(at)),
            Err(RootError::Engine(error)) => Err(crate::failure::failure(&error, CALL)),
            Err(RootError::Cancelled) => Err(cancelled(CALL)),
        }
    })
}

/// See pmemobj_root(3).
///
/// # Durability
/// As [`pmemobj_root_construct`].
///
/// # Safety
/// `pop` is an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_root(pop: *mut c_void, size: usize) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { pmemobj_root_construct(pop, size, None, ptr::null_mut()) }
}

/// See pmemobj_root(3).
///
/// # Safety
/// `pop` is an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_root_size(pop: *mut c_void) -> usize {
    guarded_briefly(0, || {
        // SAFETY: - the caller's promise.
        let root = unsafe { pool_of(pop) }?.engine.root();
        let root = root.map_err(|error| crate::failure::failure(&error, "pmemobj_root_size"))?;
        Ok(root.map_or(0, |(_, len)| len as usize))
    })
}

/// Returns the object after the one at `at`, or the first one.
fn object_after(pool: &OpenPool, at: Option<PoolOffset>, call: &str) -> Result<Oid, Failure> {
    let next = pool.engine.object_after(at).map_err(|error| crate::failure::failure(&error, call))?;
    Ok(next.map_or(Oid::NULL, |at| pool.oid(at)))
}

/// See pmemobj_first(3).
///
/// # Safety
/// `pop` is an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_first(pop: *mut c_void) -> Oid {
    // SAFETY: - the caller's promise.
    guarded_briefly(Oid::NULL, || object_after(unsafe { pool_of(pop) }?, None, "pmemobj_first"))
}

/// See pmemobj_first(3).
///
/// # Safety
/// The object's pool stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_next(oid: Oid) -> Oid {
    guarded_briefly(Oid::NULL, || {
        if oid.is_null() {
            return Ok(Oid::NULL);
        }
        // SAFETY: - the caller's promise.
        object_after(unsafe { pool_of_object(oid, Purpose::Engine) }?, Some(oid.offset()), "pmemobj_next")
    })
}
