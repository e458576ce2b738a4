//! Lists whose heads and links lie in the pool.

use super::objects::cancelled;
use super::{Constructor, locks, pool_to_change};
use crate::allocation::request;
use crate::calls::guarded;
use crate::list::{Beside, Change, HEAD_LEN, List};
use crate::oid::Oid;
use crate::pool::OpenPool;
use lode_capi_entry::{Failure, words_of};
use lode_layout::WORD;
use lode_obj::{Action, Reservation};
use std::ffi::{c_int, c_void};
use std::ptr;

/// Bytes of a lock of the headers.
const LOCK_LEN: u64 = 64;

/// The locks of one or two heads, until drop.
struct Locked {
    locks: [*mut c_void; 2],
}

impl Locked {
    /// Locks the heads in the order of their addresses.
    ///
    /// # Safety
    /// [`list_of`] has checked the heads.
    unsafe fn take(pool: &OpenPool, heads: [*mut c_void; 2]) -> Result<Locked, Failure> {
        let mut locked = Locked { locks: [ptr::null_mut(); 2] };
        let [first, second] = if heads[0] <= heads[1] { heads } else { [heads[1], heads[0]] };
        for (index, head) in [first, second].into_iter().enumerate() {
            if index == 1 && head == first {
                break;
            }
            let lock = head.wrapping_byte_add(HEAD_LEN as usize);
            // SAFETY: - the caller's promise: a lock follows the head.
            let errno = unsafe { locks::lock_mutex(pool, lock) };
            if errno != 0 {
                return Err(Failure::new(
                    errno,
                    format!("the lock of a list: {}; the list is as before", words_of(errno)),
                ));
            }
            locked.locks[index] = lock;
        }
        Ok(locked)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        for lock in self.locks.into_iter().filter(|lock| !lock.is_null()) {
            // SAFETY: - `take` has locked it.
            unsafe { locks::unlock_mutex(lock) };
        }
    }
}

/// Returns the list with this head.
///
/// # Errors
/// EINVAL if the head is not in the pool, or the offset of the links is no place of any object.
fn list_of(pool: &OpenPool, head: *const c_void, pe_offset: usize) -> Result<List, Failure> {
    if pe_offset as u64 >= pool.len() {
        return Err(Failure::invalid(format!("pe_offset ({pe_offset}) too big; it lies in the element")));
    }
    let heap = pool.heap();
    let inside = pool.offset_of(head).filter(|at| {
        at.get().is_multiple_of(WORD)
            && heap.contains(&at.get())
            && heap.end - at.get() >= HEAD_LEN + LOCK_LEN
    });
    let head = inside
        .ok_or_else(|| Failure::invalid("the head of a list is in no object of the pool; place it in one"))?;
    Ok(List { head, link: pe_offset as u64 })
}

/// Fails unless the object is one of this pool.
fn check_element(pool: &OpenPool, oid: Oid, call: &str) -> Result<(), Failure> {
    if oid.pool_uuid_lo != pool.uuid_lo {
        return Err(Failure::invalid(format!("{call}: the element is no object of this pool; pass one")));
    }
    pool.object(oid.offset(), call).map(drop)
}

/// See pmemobj_list_insert(3).
///
/// # Durability
/// On return. A power cut leaves the list as it was, or with the element.
///
/// # Safety
/// `pop` is an open pool, and `head` the head of a list in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_list_insert(
    pop: *mut c_void,
    pe_offset: usize,
    head: *mut c_void,
    dest: Oid,
    before: c_int,
    oid: Oid,
) -> c_int {
    const CALL: &str = "pmemobj_list_insert";
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        let list = list_of(pool, head, pe_offset)?;
        check_element(pool, oid, CALL)?;
        // SAFETY: - `list_of` has checked the head.
        let _locked = unsafe { Locked::take(pool, [head; 2]) }?;
        let mut change = Change::new(pool);
        change.insert(list, Beside { dest, is_before: before != 0 }, oid.off)?;
        pool.publish(&change.actions().collect::<Vec<_>>(), CALL)?;
        Ok(0)
    })
}

/// A new element that its constructor has to make whole.
struct NewElement<'p> {
    pool: &'p OpenPool,
    list: List,
    reservation: Reservation,
}

impl NewElement<'_> {
    /// Makes the element an object of the list.
    ///
    /// # Safety
    /// [`list_of`] has checked the head.
    unsafe fn publish(&self, head: *mut c_void, beside: Beside, call: &str) -> Result<Oid, Failure> {
        let NewElement { pool, list, reservation } = self;
        let insert = || {
            // SAFETY: - the caller's promise.
            let locked = unsafe { Locked::take(pool, [head; 2]) }?;
            let mut change = Change::new(pool);
            change.insert(*list, beside, reservation.at.get())?;
            Ok((locked, change))
        };
        let (_locked, change) = insert().inspect_err(|_| pool.engine.cancel(reservation))?;
        let allocate = Action::Allocate(*reservation);
        let actions: Vec<Action> = [allocate].into_iter().chain(change.actions()).collect();
        pool.publish(&actions, call)?;
        Ok(pool.oid(reservation.at))
    }
}

/// Says for a failure what PMDK says.
fn reserving(mut failure: Failure) -> Failure {
    if !failure.text.starts_with("requested size too large") {
        failure.text = format!("palloc_reserve: {}; {}", words_of(failure.errno), failure.text).into();
    }
    failure
}

/// See pmemobj_list_insert(3). The constructor runs before the list is locked, and may throw an exception of C++.
///
/// # Durability
/// On return. A power cut leaves the list as it was, or with the new object.
///
/// # Safety
/// `pop` is an open pool, `head` the head of a list in it, and `constructor` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pmemobj_list_insert_new(
    pop: *mut c_void,
    pe_offset: usize,
    head: *mut c_void,
    dest: Oid,
    before: c_int,
    size: usize,
    type_num: u64,
    constructor: Option<Constructor>,
    arg: *mut c_void,
) -> Oid {
    const CALL: &str = "pmemobj_list_insert_new";
    let reserve = || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        let list = list_of(pool, head, pe_offset)?;
        let reservation = pool.reserve(&request(size, type_num, 0, 0)?, CALL).map_err(reserving)?;
        Ok(Some(NewElement { pool, list, reservation }))
    };
    let Some(new) = guarded(None, reserve) else { return Oid::NULL };
    if let Some(constructor) = constructor {
        let start = new.pool.address_of(new.reservation.at);
        // SAFETY: - the caller's promise; the object is the program's alone.
        if unsafe { constructor(pop, start, arg) } != 0 {
            return guarded(Oid::NULL, || {
                new.pool.engine.cancel(&new.reservation);
                Err(reserving(cancelled(CALL)))
            });
        }
    }
    let beside = Beside { dest, is_before: before != 0 };
    // SAFETY: - `list_of` has checked the head.
    guarded(Oid::NULL, || unsafe { new.publish(head, beside, CALL) })
}

/// See pmemobj_list_insert(3).
///
/// # Durability
/// On return. A power cut leaves the list as it was, or without the element, which is freed then if the call frees it.
///
/// # Safety
/// `pop` is an open pool, and `head` the head of a list in it that has the element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_list_remove(
    pop: *mut c_void,
    pe_offset: usize,
    head: *mut c_void,
    oid: Oid,
    free: c_int,
) -> c_int {
    const CALL: &str = "pmemobj_list_remove";
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        let list = list_of(pool, head, pe_offset)?;
        check_element(pool, oid, CALL)?;
        // SAFETY: - `list_of` has checked the head.
        let _locked = unsafe { Locked::take(pool, [head; 2]) }?;
        let mut change = Change::new(pool);
        change.remove(list, oid.off)?;
        let freed = (free != 0).then(|| Action::Free(oid.offset()));
        pool.publish(&change.actions().chain(freed).collect::<Vec<_>>(), CALL)?;
        Ok(0)
    })
}

/// See pmemobj_list_insert(3).
///
/// # Durability
/// On return. A power cut leaves the element in the old list or in the new one.
///
/// # Safety
/// `pop` is an open pool, and the heads are those of lists in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_list_move(
    pop: *mut c_void,
    pe_old_offset: usize,
    head_old: *mut c_void,
    pe_new_offset: usize,
    head_new: *mut c_void,
    dest: Oid,
    before: c_int,
    oid: Oid,
) -> c_int {
    const CALL: &str = "pmemobj_list_move";
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let pool = unsafe { pool_to_change(pop) }?;
        let (old, new) = (list_of(pool, head_old, pe_old_offset)?, list_of(pool, head_new, pe_new_offset)?);
        check_element(pool, oid, CALL)?;
        if dest == oid && old == new {
            return Ok(0);
        }
        // SAFETY: - `list_of` has checked the heads.
        let _locked = unsafe { Locked::take(pool, [head_old, head_new]) }?;
        let mut change = Change::new(pool);
        change.detach(old, oid.off)?;
        change.insert(new, Beside { dest, is_before: before != 0 }, oid.off)?;
        pool.publish(&change.actions().collect::<Vec<_>>(), CALL)?;
        Ok(0)
    })
}
