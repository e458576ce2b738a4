//! The calls that libraries of pools have alike: versions, settings, and the frame of a call that may fail.

use crate::ctl::{Setting, load_variables};
use crate::failure::Failure;
use crate::message;
use crate::process::{set_errno, uncancelled, variable};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;

/// Runs a call that may fail. A failure sets errno and the thread's message, and so does a panic.
pub fn guarded<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    uncancelled(|| {
        let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Failure::broken()));
        outcome.unwrap_or_else(|failure| {
            set_message(&failure);
            failed
        })
    })
}

/// Runs a call as [`guarded`] does, and does not put off pthread_cancel(3): for a call without a cancellation point, and whose cost
/// that would be.
#[inline]
pub fn guarded_briefly<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => {
            uncancelled(|| set_message(&failure));
            failed
        }
        Err(_) => {
            uncancelled(|| set_message(&Failure::broken()));
            failed
        }
    }
}

/// Sets errno and the thread's message.
#[cold]
pub fn set_message(failure: &Failure) {
    message::set(&failure.text);
    set_errno(failure.errno);
}

/// Runs `load` when a library is loaded, and reads the settings that the variables with this prefix give.
pub fn on_load(prefix: &str, load: impl FnOnce()) {
    let run = || {
        load();
        if let Err(failure) = load_variables(prefix, &variable) {
            message::set(&failure.text);
        }
    };
    // A library can't refuse to load.
    let _ = uncancelled(|| catch_unwind(AssertUnwindSafe(run)));
}

/// Compares the version that a program asks for with 1.1, that of most libraries. Returns null, or the message.
pub fn check_version(library: &str, major_required: c_uint, minor_required: c_uint) -> *const c_char {
    check_version_against(library, (1, 1), major_required, minor_required)
}

/// Compares the version that a program asks for with the library's. Returns null, or the message.
pub fn check_version_against(
    library: &str,
    (major, minor): (c_uint, c_uint),
    major_required: c_uint,
    minor_required: c_uint,
) -> *const c_char {
    let mismatch = if major_required != major {
        format!("{library} major version mismatch (need {major_required}, found {major})")
    } else if minor_required > minor {
        format!("{library} minor version mismatch (need {minor_required}, found {minor})")
    } else {
        return ptr::null();
    };
    message::set(&mismatch);
    message::get()
}

/// Returns the path that a program passed.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// `path` is null or ends with a zero.
pub unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: - the caller's promise.
    let bytes = unsafe { text(path) }.ok_or_else(|| Failure::invalid("invalid (NULL) path; name a file"))?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Returns the object at an address that a program passed.
///
/// # Errors
/// EINVAL for null.
///
/// # Safety
/// `object` is null, or the address of a living object of this type.
#[inline]
pub unsafe fn argument<'a, T>(object: *const T) -> Result<&'a T, Failure> {
    // SAFETY: - the caller's promise.
    unsafe { object.as_ref() }
        .ok_or_else(|| Failure::invalid("the pool is null; pass the address that open or create returned"))
}

/// Stores the value of the setting with this name.
///
/// # Errors
/// EINVAL if there is no such setting, or if `value` is null.
///
/// # Safety
/// `name` is null or ends with a zero; `value` is null or valid for a store of an int.
pub unsafe fn ctl_get(name: *const c_char, value: *mut c_void) -> Result<c_int, Failure> {
    // SAFETY: - the caller's promise.
    let setting = unsafe { setting(name) }?;
    if value.is_null() {
        return Err(Failure::invalid("read queries require non-NULL argument; pass the address of an int"));
    }
    // SAFETY: - the caller's promise.
    unsafe { value.cast::<c_int>().write_unaligned(setting.value()) };
    Ok(0)
}

/// Sets the setting with this name.
///
/// # Errors
/// As [`ctl_get`].
///
/// # Safety
/// As [`ctl_get`], for a load.
pub unsafe fn ctl_set(name: *const c_char, value: *const c_void) -> Result<c_int, Failure> {
    // SAFETY: - the caller's promise.
    let setting = unsafe { setting(name) }?;
    if value.is_null() {
        return Err(Failure::invalid("write queries require non-NULL argument; pass the address of an int"));
    }
    // SAFETY: - the caller's promise.
    setting.set(unsafe { value.cast::<c_int>().read_unaligned() });
    Ok(0)
}

/// Refuses to run the setting with this name: none of them can be run.
///
/// # Errors
/// EINVAL.
///
/// # Safety
/// `name` is null or ends with a zero.
pub unsafe fn ctl_exec(name: *const c_char) -> Result<c_int, Failure> {
    // SAFETY: - the caller's promise.
    let name = unsafe { text(name) }.ok_or_else(no_name)?;
    Err(Setting::unknown(name))
}

/// Finds the setting of a name that a program passed.
///
/// # Safety
/// `name` is null or ends with a zero.
unsafe fn setting(name: *const c_char) -> Result<Setting, Failure> {
    // SAFETY: - the caller's promise.
    Setting::named(unsafe { text(name) }.ok_or_else(no_name)?)
}

fn no_name() -> Failure {
    Failure::invalid("invalid query; pass the name of a setting")
}

/// Returns the bytes of a C string without the zero at its end; `None` for null.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: - the caller's promise.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::process::errno;

    fn message() -> String {
        // SAFETY: - the message ends with a zero.
        unsafe { CStr::from_ptr(message::get()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn failures_and_panics_set_errno_and_the_message() {
        assert_eq!(guarded(-1, || Ok(7)), 7);
        assert_eq!(guarded(-1, || Err(Failure::new(libc::EROFS, "no"))), -1);
        assert_eq!((errno(), message()), (libc::EROFS, "no".into()));
        assert_eq!(guarded(-1, || -> Result<i32, Failure> { panic!("broken") }), -1);
        assert_eq!(errno(), libc::EIO);
    }

    #[test]
    fn versions_are_compared() {
        assert!(check_version("libx", 1, 0).is_null() && check_version("libx", 1, 1).is_null());
        for (major, minor, words) in [
            (2, 0, "libx major version mismatch (need 2, found 1)"),
            (0, 9, "libx major version mismatch (need 0, found 1)"),
            (1, 2, "libx minor version mismatch (need 2, found 1)"),
        ] {
            assert!(!check_version("libx", major, minor).is_null());
            assert_eq!(message(), words);
        }
        assert!(check_version_against("libx", (1, 3), 1, 3).is_null());
        assert!(!check_version_against("libx", (1, 3), 1, 4).is_null());
        assert_eq!(message(), "libx minor version mismatch (need 4, found 3)");
    }

    #[test]
    fn settings_take_ints() {
        let _alone = crate::ctl::ALONE.lock();
        let name = c"prefault.at_create".as_ptr();
        let set = |name: *const c_char, value: Option<&c_int>| {
            let value = value.map_or(ptr::null(), |value| ptr::from_ref(value).cast());
            // SAFETY: - the name ends with a zero or is null, and the value is null or an int.
            unsafe { ctl_set(name, value) }
        };
        let get = |name: *const c_char, value: Option<&mut c_int>| {
            let value = value.map_or(ptr::null_mut(), |value| ptr::from_mut(value).cast());
            // SAFETY: - as above.
            unsafe { ctl_get(name, value) }
        };
        let mut value = 0;
        assert_eq!(set(name, Some(&5)), Ok(0));
        assert_eq!(get(name, Some(&mut value)), Ok(0));
        assert_eq!(value, 5);
        assert_eq!(set(name, Some(&0)), Ok(0));
        // SAFETY: - the name ends with a zero.
        let run = unsafe { ctl_exec(name) };
        for (outcome, words) in [
            (get(name, None), "read queries require non-NULL argument"),
            (set(name, None), "write queries require non-NULL argument"),
            (run, "invalid query entry point prefault.at_create"),
            (get(ptr::null(), Some(&mut value)), "invalid query"),
        ] {
            let text = outcome.unwrap_err().text;
            assert!(text.starts_with(words), "{text}");
        }
    }
}
