//! Reservations and other actions, which programs keep and publish together.

use super::pool_to_change;
use crate::action::ProgramAction;
use crate::allocation::request;
use crate::calls::guarded_briefly;
use crate::oid::Oid;
use lode_capi_entry::Failure;
use lode_layout::WORD;
use lode_obj::{Action, Request};
use std::ffi::{c_int, c_void};
use std::slice;

/// Reserves an object, and gives the program its action.
///
/// # Safety
/// `pop` is an open pool, and `act` is valid for a store.
unsafe fn reserve(
    pop: *mut c_void,
    act: *mut ProgramAction,
    request: Result<Request, Failure>,
    call: &'static str,
) -> Oid {
    guarded_briefly(Oid::NULL, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        let reservation = pool.reserve(&request?, call)?;
        // SAFETY: - the caller's promise.
        unsafe { act.write(ProgramAction::encode(&Action::Allocate(reservation))) };
        Ok(pool.oid(reservation.at))
    })
}

/// See pmemobj_action(3).
///
/// # Safety
/// `pop` is an open pool, and `act` is valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_reserve(
    pop: *mut c_void,
    act: *mut ProgramAction,
    size: usize,
    type_num: u64,
) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { reserve(pop, act, request(size, type_num, 0, 0), "pmemobj_reserve") }
}

/// See pmemobj_action(3).
///
/// # Safety
/// As [`pmemobj_reserve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_xreserve(
    pop: *mut c_void,
    act: *mut ProgramAction,
    size: usize,
    type_num: u64,
    flags: u64,
) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { reserve(pop, act, request(size, type_num, flags, 0), "pmemobj_xreserve") }
}

/// See pmemobj_action(3).
///
/// # Safety
/// `act` is valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_defer_free(_pop: *mut c_void, oid: Oid, act: *mut ProgramAction) {
    if oid.is_null() {
        // SAFETY: - the caller's promise.
        return unsafe { store_none(act) };
    }
    // SAFETY: - the caller's promise.
    unsafe { act.write(ProgramAction::encode(&Action::Free(oid.offset()))) };
}

/// Stores an action that can't be published.
///
/// # Safety
/// `act` is valid for a store.
unsafe fn store_none(act: *mut ProgramAction) {
    // SAFETY: - the caller's promise; zeros are no action.
    unsafe { act.write_bytes(0, 1) };
}

/// See pmemobj_action(3).
///
/// # Safety
/// `pop` is an open pool, and `act` is valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_set_value(
    pop: *mut c_void,
    act: *mut ProgramAction,
    ptr: *mut u64,
    value: u64,
) {
    guarded_briefly((), || {
        // SAFETY: - the caller's promise.
        unsafe { store_none(act) };
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        let at = pool.offset_of(ptr.cast()).filter(|at| at.get().is_multiple_of(WORD));
        let at = at.ok_or_else(|| {
            Failure::invalid(
                "a value can be set at a multiple of 8 in the pool alone; the action can't be published",
            )
        })?;
        // SAFETY: - the caller's promise.
        unsafe { act.write(ProgramAction::encode(&Action::Store { at, value })) };
        Ok(())
    });
}

/// Returns the actions that a program passed.
///
/// # Errors
/// EINVAL if one of them is none.
///
/// # Safety
/// `actv` is valid for loads of `actvcnt` actions.
unsafe fn actions_of(actv: *const ProgramAction, actvcnt: usize) -> Result<Vec<Action>, Failure> {
    if actvcnt == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: - the caller's promise.
    let actions = unsafe { slice::from_raw_parts(actv, actvcnt) };
    actions.iter().map(ProgramAction::decode).collect()
}

/// See pmemobj_action(3).
///
/// # Durability
/// On return. A power cut leaves all of the actions or none.
///
/// # Safety
/// `pop` is an open pool, and `actv` is valid for loads of `actvcnt` actions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_publish(
    pop: *mut c_void,
    actv: *mut ProgramAction,
    actvcnt: usize,
) -> c_int {
    guarded_briefly(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        // SAFETY: - as above.
        let actions = unsafe { actions_of(actv, actvcnt) }?;
        if !actions.is_empty() {
            pool.publish_program(&actions, "pmemobj_publish")?;
        }
        Ok(0)
    })
}

/// See pmemobj_action(3).
///
/// # Safety
/// As [`pmemobj_publish`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_cancel(pop: *mut c_void, actv: *mut ProgramAction, actvcnt: usize) {
    guarded_briefly((), || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        // SAFETY: - as above.
        let actions = unsafe { actions_of(actv, actvcnt) }?;
        pool.check_owner("pmemobj_cancel")?;
        pool.cancel(&actions);
        Ok(())
    });
}
