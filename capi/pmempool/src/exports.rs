//! The exported functions: C arguments become checked ones.

use crate::check::{Answer, Arguments, Check, Flags, PoolType, Status, Verdict};
use crate::feature::{self, Feature};
use crate::removal;
use crate::replicas;
use lode_capi_entry::{
    Failure, check_version_against, errno, guarded, message, path, set_errno, uncancelled,
};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::{mem, ptr};

/// PMEMPOOL_MINOR_VERSION.
const MINOR: c_uint = 3;

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = load;

/// Prepares the library when it is loaded.
extern "C" fn load() {
    // The library has a copy of Rust's library to itself, so no program loses its messages. The tests keep theirs.
    #[cfg(not(test))]
    uncancelled(|| std::panic::set_hook(Box::new(|_| {})));
    #[cfg(test)]
    uncancelled(|| ());
}

/// `struct pmempool_check_args`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CheckArguments {
    path: *const c_char,
    backup_path: *const c_char,
    pool_type: c_uint,
    flags: c_uint,
}

/// `struct pmempool_check_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CheckStatus {
    kind: c_int,
    text: StatusText,
}

/// The texts of a status: its message, and the answer that the program sets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct StatusText {
    msg: *const c_char,
    answer: *const c_char,
}

/// `PMEMpoolcheck`.
#[derive(Debug)]
pub struct CheckContext {
    check: Check,
    /// The message of the status.
    text: CString,
    status: CheckStatus,
}

/// See pmempool_check_init(3).
///
/// # Safety
/// `args` is null, or valid for loads of `args_size` bytes, with paths that are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_check_init(
    args: *mut CheckArguments,
    args_size: usize,
) -> *mut CheckContext {
    guarded(ptr::null_mut(), || {
        if args_size < size_of::<CheckArguments>() {
            return Err(Failure::invalid(
                "provided args_size is not supported; pass the size of struct pmempool_check_args",
            ));
        }
        if args.is_null() {
            return Err(Failure::invalid("the arguments are null; pass their address"));
        }
        // SAFETY: - the caller's promise: so many bytes. Their address may have any alignment.
        let args = unsafe { args.read_unaligned() };
        // SAFETY: - the caller's promise.
        let pool = unsafe { path(args.path) }?.to_owned();
        let backup = if args.backup_path.is_null() {
            None
        } else {
            // SAFETY: - the caller's promise.
            Some(unsafe { path(args.backup_path) }?.to_owned())
        };
        let pool_type = PoolType::of_number(args.pool_type).ok_or_else(|| {
            Failure::invalid(format!(
                "declared pool type does not match: there is no type {}",
                args.pool_type
            ))
        })?;
        let flags = Flags(args.flags);
        let check = Check::begin(Arguments { path: pool, backup, pool_type, flags, time_text })?;
        let none = StatusText { msg: ptr::null(), answer: ptr::null() };
        let status = CheckStatus { kind: 0, text: none };
        Ok(Box::into_raw(Box::new(CheckContext { check, text: CString::default(), status })))
    })
}

/// See pmempool_check(3).
///
/// # Safety
/// `ppc` is null, or a check that no other thread uses. The answer of its last status is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_check(ppc: *mut CheckContext) -> *mut CheckStatus {
    guarded(ptr::null_mut(), || {
        // SAFETY: - the caller's promise.
        let context = unsafe { ppc.as_mut() };
        let context = context
            .ok_or_else(|| Failure::invalid("the check is null; pass what pmempool_check_init returned"))?;
        let answer = mem::replace(&mut context.status.text.answer, ptr::null());
        // SAFETY: - the caller's promise.
        let answer = (!answer.is_null()).then(|| unsafe { CStr::from_ptr(answer) }.to_bytes());
        // Programs print errno after a check: that of our own calls is no reason.
        let before = errno();
        let next = context.check.next(Answer::of(answer));
        set_errno(context.check.take_errno().unwrap_or(before));
        let (kind, text) = match next {
            None => return Ok(ptr::null_mut()),
            Some(Status::Info(text)) => (0, text),
            Some(Status::Error(text)) => (1, text),
            Some(Status::Question(text)) => (2, text),
        };
        // A path can't have a zero.
        context.text = CString::new(text).unwrap_or_default();
        let text = StatusText { msg: context.text.as_ptr(), answer: ptr::null() };
        context.status = CheckStatus { kind, text };
        Ok(&raw mut context.status)
    })
}

/// See pmempool_check_end(3).
///
/// # Safety
/// `ppc` is null, or a check that nothing uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_check_end(ppc: *mut CheckContext) -> c_int {
    guarded(Verdict::Error as c_int, || {
        if ppc.is_null() {
            return Err(Failure::invalid("the check is null; pass what pmempool_check_init returned"));
        }
        // SAFETY: - pmempool_check_init made the box, and the caller promises that nothing else uses it.
        let context = unsafe { Box::from_raw(ppc) };
        Ok(context.check.end() as c_int)
    })
}

/// See pmempool_rm(3).
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_rm(path_of_pool: *const c_char, flags: c_uint) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || removal::remove(unsafe { path(path_of_pool) }?, flags).map(|()| 0))
}

/// Turns a feature on or off.
///
/// # Safety
/// `path_of_pool` is null or ends with a zero.
unsafe fn turn(path_of_pool: *const c_char, feature: c_uint, flags: c_uint, is_on: bool) -> c_int {
    guarded(-1, || {
        let feature = Feature::of_number(feature, flags)?;
        // SAFETY: - the caller's promise.
        feature::turn(unsafe { path(path_of_pool) }?, feature, is_on).map(|()| 0)
    })
}

/// See pmempool_feature_enable(3).
///
/// # Durability
/// On return. A crash before that leaves the feature on or off, as the next call of this library finds it.
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_feature_enable(
    path_of_pool: *const c_char,
    feature: c_uint,
    flags: c_uint,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { turn(path_of_pool, feature, flags, true) }
}

/// See pmempool_feature_disable(3).
///
/// # Durability
/// As pmempool_feature_enable.
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_feature_disable(
    path_of_pool: *const c_char,
    feature: c_uint,
    flags: c_uint,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { turn(path_of_pool, feature, flags, false) }
}

/// See pmempool_feature_query(3).
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_feature_query(
    path_of_pool: *const c_char,
    feature: c_uint,
    flags: c_uint,
) -> c_int {
    guarded(-1, || {
        let feature = Feature::of_number(feature, flags)?;
        // SAFETY: - the caller's promise.
        feature::query(unsafe { path(path_of_pool) }?, feature).map(c_int::from)
    })
}

/// See pmempool_sync(3).
///
/// # Durability
/// On return. A crash before that leaves the set as damaged as it was, or such that the same call makes the rest.
///
/// # Safety
/// `poolset_file` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_sync(poolset_file: *const c_char, flags: c_uint) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(-1, || replicas::repair(unsafe { path(poolset_file) }?, flags).map(|()| 0))
}

/// See pmempool_transform(3).
///
/// # Durability
/// On return. A crash before that leaves the old set, the new one, or such that the same call makes the rest.
///
/// # Safety
/// Both paths are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmempool_transform(
    poolset_file_src: *const c_char,
    poolset_file_dst: *const c_char,
    flags: c_uint,
) -> c_int {
    guarded(-1, || {
        // SAFETY: - the caller's promise.
        let source = unsafe { path(poolset_file_src) }?;
        // SAFETY: - the caller's promise.
        let target = unsafe { path(poolset_file_dst) }?;
        replicas::change(source, target, flags).map(|()| 0)
    })
}

/// See libpmempool(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmempool_check_version(major_required: c_uint, minor_required: c_uint) -> *const c_char {
    check_version_against("libpmempool", (1, MINOR), major_required, minor_required)
}

/// See libpmempool(7).
#[unsafe(no_mangle)]
pub extern "C" fn pmempool_errormsg() -> *const c_char {
    message::get()
}

/// Returns a time as pmempool-check(1) prints it, in the user's time zone.
fn time_text(seconds: i64) -> String {
    let mut parts = mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: - both are valid, the one for a load, the other for a store.
    let found = unsafe { libc::localtime_r(&raw const seconds, parts.as_mut_ptr()) };
    if found.is_null() {
        return "unknown".to_owned();
    }
    let mut text = [0_u8; 256];
    let format = c"%a %b %d %Y %H:%M:%S".as_ptr();
    // SAFETY: - `text` is valid for stores of its bytes, the format ends with a zero, and the C library filled the parts.
    let len = unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format, parts.as_ptr()) };
    String::from_utf8_lossy(&text[..len]).into_owned()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn structures_have_the_layout_of_the_header() {
        assert_eq!(size_of::<CheckArguments>(), 24);
        assert_eq!(mem::offset_of!(CheckArguments, flags), 20);
        assert_eq!(size_of::<CheckStatus>(), 24);
        assert_eq!(mem::offset_of!(CheckStatus, text), 8);
    }

    #[test]
    fn times_are_texts() {
        // Midday, so that the day is the same in nearly all time zones.
        let text = time_text(1_000_000_000 + 43_200 - 6_400);
        assert!(text.starts_with("Sun Sep 09 2001 "), "{text}");
        assert_eq!(time_text(i64::MAX), "unknown");
    }

    #[test]
    fn null_arguments_are_refused() {
        // SAFETY: - null is allowed in each of them.
        let init = unsafe { pmempool_check_init(ptr::null_mut(), 24) };
        assert!(init.is_null());
        // SAFETY: - as above.
        let next = unsafe { pmempool_check(ptr::null_mut()) };
        assert!(next.is_null());
        // SAFETY: - as above.
        assert_eq!(unsafe { pmempool_check_end(ptr::null_mut()) }, Verdict::Error as c_int);
        // SAFETY: - as above.
        assert_eq!(unsafe { pmempool_rm(ptr::null(), 0) }, -1);
    }
}
