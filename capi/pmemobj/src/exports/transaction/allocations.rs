//! Objects that come and go with the transaction.

use super::{
    ALLOCATE_FLAGS, ALLOCATION_MAX, Exit, NO_ABORT, ZERO, check_flags, check_number, files, leaving,
    out_of_memory, tried, worked,
};
use crate::action::ProgramAction;
use crate::failure::failure;
use crate::oid::Oid;
use crate::session::Session;
use lode_capi_entry::Failure;
use lode_obj::Request;
use lode_pmem::CopyPath;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::slice;

/// The first bytes of a new object.
#[derive(Clone, Copy)]
enum Content {
    Any,
    /// Bytes of the program, from an address on.
    Copy(*const u8, usize),
}

/// Allocates an object.
///
/// # Safety
/// The content's bytes are valid for loads, and are not more than `size`.
unsafe fn allocate(
    session: &mut Session,
    size: usize,
    type_number: u64,
    flags: u64,
    content: Content,
) -> Result<Oid, Failure> {
    if size == 0 {
        return Err(Failure::invalid("allocation with size 0; ask for one byte or more"));
    }
    check_flags(flags, ALLOCATE_FLAGS)?;
    if size > ALLOCATION_MAX {
        return Err(Failure::new(libc::ENOMEM, "requested size too large; no object has so many bytes"));
    }
    session.logs.add_actions(1).map_err(|_| out_of_memory())?;
    let (pool, transaction) = session.transaction()?;
    let (class, arena) = ((flags >> 48) as u16, (flags >> 32) as u16);
    let request = Request {
        size: size as u64,
        type_number,
        is_zeroed: flags & ZERO != 0,
        class: (class != 0).then_some(class as u8),
        arena: (arena != 0).then_some(u32::from(arena)),
        is_internal: false,
    };
    let reservation = pool.engine.allocate(transaction, &request).map_err(|error| {
        let cause = failure(&error, "");
        // PMDK does not tell an unfit class from a full pool here.
        Failure::new(libc::ENOMEM, "out of memory").and(&cause.text)
    })?;
    let at = reservation.at.get();
    if !request.is_zeroed {
        pool.fill_pattern(&reservation);
    }
    session.logs.add_object(at..at + reservation.usable_size);
    if let Content::Copy(from, len) = content {
        let into = pool.address_of(reservation.at).cast();
        // SAFETY: - the object has `size` bytes, and the caller promises the source.
        unsafe { files().instructions.copy(into, from, len, CopyPath::Unflushed) };
    }
    Ok(pool.oid(reservation.at))
}

unsafe extern "C" fn xalloc(size: usize, type_number: u64, flags: u64, exit: *mut Exit) -> Oid {
    let call = |session: &mut Session, flags: u64| {
        // SAFETY: - there is no content.
        unsafe { allocate(session, size, type_number, flags, Content::Any) }
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_xalloc", flags, |_| Oid::NULL, call) }
}

unsafe extern "C" fn alloc(size: usize, type_number: u64, exit: *mut Exit) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { xalloc(size, type_number, 0, exit) }
}

unsafe extern "C" fn zalloc(size: usize, type_number: u64, exit: *mut Exit) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { xalloc(size, type_number, ZERO, exit) }
}

/// Replaces an object by one of another size, which begins with the same bytes. A failure aborts whatever the transaction says of
/// failures, as with PMDK.
unsafe fn reallocate(oid: Oid, size: usize, type_number: u64, flags: u64, exit: *mut Exit) -> Oid {
    let call = |session: &mut Session| {
        session.assert_work("pmemobj_tx_realloc");
        if size > ALLOCATION_MAX {
            return Err(Failure::new(libc::ENOMEM, "requested size too large; no object has so many bytes"));
        }
        if oid.is_null() {
            // SAFETY: - there is no content.
            return unsafe { allocate(session, size, type_number, flags, Content::Any) };
        }
        if size == 0 {
            release(session, oid)?;
            return Ok(Oid::NULL);
        }
        let pool = session.own_pool()?;
        check_number(pool, oid)?;
        let old = pool.engine.object(oid.offset()).map_err(|error| failure(&error, ""))?;
        let content = Content::Copy(pool.address_of(oid.offset()).cast(), size.min(old.usable_size as usize));
        // SAFETY: - the object is in the pool, and the copy is not longer than either of them.
        let new = unsafe { allocate(session, size, type_number, flags, content) }?;
        release(session, oid)?;
        Ok(new)
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { tried(exit, &Cell::new(flags), |_| Oid::NULL, call) }
}

unsafe extern "C" fn realloc(oid: Oid, size: usize, type_number: u64, exit: *mut Exit) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { reallocate(oid, size, type_number, 0, exit) }
}

unsafe extern "C" fn zrealloc(oid: Oid, size: usize, type_number: u64, exit: *mut Exit) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { reallocate(oid, size, type_number, ZERO, exit) }
}

/// Allocates an object with these bytes of the program, which end with a zero character of `character` bytes.
///
/// # Safety
/// `start` is null, or valid for loads of what `len` returns.
unsafe fn duplicate(
    start: *const u8,
    len: impl FnOnce() -> usize,
    type_number: u64,
    flags: u64,
    exit: *mut Exit,
) -> Oid {
    let call = |session: &mut Session, flags: u64| {
        if start.is_null() {
            // PMDK looks at the flags first.
            check_flags(flags, ALLOCATE_FLAGS)?;
            return Err(Failure::invalid(
                "cannot duplicate NULL string; pass the address of its first character",
            ));
        }
        let len = len();
        // SAFETY: - the caller's promise.
        unsafe { allocate(session, len, type_number, flags, Content::Copy(start, len)) }
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_strdup", flags, |_| Oid::NULL, call) }
}

unsafe extern "C" fn xstrdup(text: *const c_char, type_number: u64, flags: u64, exit: *mut Exit) -> Oid {
    // SAFETY: - the program passes null, or a text that ends with a zero.
    let len = || unsafe { CStr::from_ptr(text) }.to_bytes_with_nul().len();
    // SAFETY: - as above.
    unsafe { duplicate(text.cast(), len, type_number, flags, exit) }
}

unsafe extern "C" fn strdup(text: *const c_char, type_number: u64, exit: *mut Exit) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { xstrdup(text, type_number, 0, exit) }
}

unsafe extern "C" fn xwcsdup(
    text: *const libc::wchar_t,
    type_number: u64,
    flags: u64,
    exit: *mut Exit,
) -> Oid {
    let len = || {
        // SAFETY: - the program passes null, or a text that ends with a zero.
        let characters = unsafe { libc::wcslen(text) } + 1;
        characters * size_of::<libc::wchar_t>()
    };
    // SAFETY: - as above.
    unsafe { duplicate(text.cast(), len, type_number, flags, exit) }
}

unsafe extern "C" fn wcsdup(text: *const libc::wchar_t, type_number: u64, exit: *mut Exit) -> Oid {
    // SAFETY: - the caller's promise.
    unsafe { xwcsdup(text, type_number, 0, exit) }
}

/// Frees an object when the transaction commits.
fn release(session: &mut Session, oid: Oid) -> Result<c_int, Failure> {
    session.logs.add_actions(1).map_err(|_| out_of_memory())?;
    let freed = session.transaction().and_then(|(pool, transaction)| {
        check_number(pool, oid)?;
        pool.engine.free(transaction, oid.offset()).map_err(|error| failure(&error, ""))
    });
    // An object of this transaction goes without an action, and so does its allocation.
    let without = match freed {
        Ok(false) => 0,
        Ok(true) => 2,
        Err(_) => 1,
    };
    session.logs.remove_actions(without);
    freed.map(|_| 0)
}

unsafe extern "C" fn xfree(oid: Oid, flags: u64, exit: *mut Exit) -> c_int {
    let call = |session: &mut Session, flags: u64| {
        check_flags(flags, NO_ABORT)?;
        if oid.is_null() { Ok(0) } else { release(session, oid) }
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_xfree", flags, |errno| errno, call) }
}

unsafe extern "C" fn free(oid: Oid, exit: *mut Exit) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { xfree(oid, 0, exit) }
}

unsafe extern "C" fn xpublish(
    actv: *const ProgramAction,
    count: usize,
    flags: u64,
    exit: *mut Exit,
) -> c_int {
    let call = |session: &mut Session, flags: u64| {
        check_flags(flags, NO_ABORT)?;
        if count == 0 {
            return Ok(0);
        }
        session.logs.add_actions(count as u64).map_err(|_| out_of_memory())?;
        // SAFETY: - the program passes this many actions.
        let actions = unsafe { slice::from_raw_parts(actv, count) };
        let actions = actions.iter().map(ProgramAction::decode).collect::<Result<Vec<_>, _>>()?;
        let (pool, transaction) = session.transaction()?;
        pool.engine.publish_in(transaction, &actions).map_err(|error| failure(&error, ""))?;
        Ok(0)
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_xpublish", flags, |errno| errno, call) }
}

unsafe extern "C" fn publish(actv: *const ProgramAction, count: usize, exit: *mut Exit) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { xpublish(actv, count, 0, exit) }
}

leaving! {
    /// See pmemobj_tx_alloc(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_alloc(size: usize, type_num: u64) -> Oid = alloc, "rdx", "x2";

    /// See pmemobj_tx_xalloc(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_xalloc(size: usize, type_num: u64, flags: u64) -> Oid = xalloc, "rcx", "x3";

    /// See pmemobj_tx_zalloc(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_zalloc(size: usize, type_num: u64) -> Oid = zalloc, "rdx", "x2";

    /// See pmemobj_tx_realloc(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_realloc(oid: Oid, size: usize, type_num: u64) -> Oid = realloc, "r8", "x4";

    /// See pmemobj_tx_zrealloc(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_zrealloc(oid: Oid, size: usize, type_num: u64) -> Oid = zrealloc, "r8", "x4";

    /// See pmemobj_tx_strdup(3).
    ///
    /// # Safety
    /// `s` is null or ends with a zero; and as [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_strdup(s: *const c_char, type_num: u64) -> Oid = strdup, "rdx", "x2";

    /// See pmemobj_tx_xstrdup(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_strdup`].
    fn pmemobj_tx_xstrdup(s: *const c_char, type_num: u64, flags: u64) -> Oid = xstrdup, "rcx", "x3";

    /// See pmemobj_tx_wcsdup(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_strdup`].
    fn pmemobj_tx_wcsdup(s: *const libc::wchar_t, type_num: u64) -> Oid = wcsdup, "rdx", "x2";

    /// See pmemobj_tx_xwcsdup(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_strdup`].
    fn pmemobj_tx_xwcsdup(s: *const libc::wchar_t, type_num: u64, flags: u64) -> Oid = xwcsdup, "rcx", "x3";

    /// See pmemobj_tx_free(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_free(oid: Oid) -> c_int = free, "rdx", "x2";

    /// See pmemobj_tx_xfree(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_xfree(oid: Oid, flags: u64) -> c_int = xfree, "rcx", "x3";

    /// See pmemobj_tx_publish(3).
    ///
    /// # Safety
    /// `actv` is valid for loads of this many actions; and as [`pmemobj_tx_abort`](super::stages::pmemobj_tx_abort).
    fn pmemobj_tx_publish(actv: *const ProgramAction, actvcnt: usize) -> c_int = publish, "rdx", "x2";

    /// See pmemobj_tx_xpublish(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_publish`].
    fn pmemobj_tx_xpublish(actv: *const ProgramAction, actvcnt: usize, flags: u64) -> c_int = xpublish, "rcx", "x3";
}
