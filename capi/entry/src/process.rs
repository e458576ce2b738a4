//! The process around a call: cancellation, errno, and environment variables.

use std::ffi::{OsString, c_int};
use std::{io, ptr};

/// PTHREAD_CANCEL_DISABLE of Linux's C libraries.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    /// See pthread_setcancelstate(3).
    fn pthread_setcancelstate(state: c_int, oldstate: *mut c_int) -> c_int;
}

/// Puts off pthread_cancel(3) of this thread until `call` has returned: it unwinds the stack, which Rust code does not
/// survive.
pub fn uncancelled<T>(call: impl FnOnce() -> T) -> T {
    let mut state = 0;
    // SAFETY: - `state` is valid for a store.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state) };
    let result = call();
    // SAFETY: - the C library gave this state; it takes a null pointer for the old one.
    unsafe { pthread_setcancelstate(state, ptr::null_mut()) };
    result
}

/// Runs functions before each fork of the process, and after it in the parent and in the child, until the library is unloaded.
pub(crate) fn on_fork(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) {
    // SAFETY: - functions of this library, without arguments, which the C library forgets when it unloads that.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Returns a number that names the thread, also in a child of its fork.
pub(crate) fn thread_name() -> usize {
    // SAFETY: - the C library's function has no requirement.
    unsafe { libc::pthread_self() as usize }
}

/// Sets the thread's errno.
pub fn set_errno(errno: c_int) {
    // SAFETY: - the C library's function has no requirement.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: - the place is the thread's own.
    unsafe { place.write(errno) };
}

/// Returns the thread's errno.
pub fn errno() -> c_int {
    // SAFETY: - the C library's function has no requirement.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: - the place is the thread's own.
    unsafe { place.read() }
}

/// Returns a variable of the environment. A program with more rights than its user gets none.
pub fn variable(name: &str) -> Option<OsString> {
    // SAFETY: - getauxval(3) has no requirement.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if is_secure { None } else { std::env::var_os(name) }
}

/// Returns the C library's words for an errno.
pub fn words_of(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn errno_is_the_threads_own() {
        set_errno(libc::ENOSPC);
        assert_eq!((errno(), io::Error::last_os_error().raw_os_error()), (libc::ENOSPC, Some(libc::ENOSPC)));
        let other = std::thread::spawn(|| {
            set_errno(libc::EPERM);
            io::Error::last_os_error().raw_os_error()
        });
        assert_eq!(other.join().ok().flatten(), Some(libc::EPERM));
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(words_of(libc::ENOSPC), "No space left on device");
    }

    #[test]
    fn cancellation_is_restored() {
        let mut state = -1;
        // SAFETY: - `state` is valid for a store.
        let inner = uncancelled(|| unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state) });
        assert_eq!((inner, state), (0, PTHREAD_CANCEL_DISABLE));
        // SAFETY: - as above.
        unsafe { pthread_setcancelstate(0, &raw mut state) };
        assert_eq!(state, 0);
    }
}
