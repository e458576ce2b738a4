//! Locks that lie in the pool.
//!
//! A lock has 64 bytes: the number of the run that made it, and a lock of the C library. Pools have another number at each open, so a
//! lock that a crash left locked is made anew by the first thread that uses it.

use super::{memory, pool_of};
use crate::pool::OpenPool;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Offset of the C library's lock in a lock.
const OBJECT: usize = 8;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= 64 - OBJECT);
const _: () = assert!(size_of::<libc::pthread_rwlock_t>() <= 64 - OBJECT);
const _: () = assert!(size_of::<libc::pthread_cond_t>() <= 64 - OBJECT);

unsafe extern "C-unwind" {
    /// See pthread_cond_wait(3). pthread_cancel(3) unwinds out of it.
    fn pthread_cond_wait(cond: *mut libc::pthread_cond_t, lock: *mut libc::pthread_mutex_t) -> c_int;

    /// See pthread_cond_timedwait(3). pthread_cancel(3) unwinds out of it.
    fn pthread_cond_timedwait(
        cond: *mut libc::pthread_cond_t,
        lock: *mut libc::pthread_mutex_t,
        abstime: *const libc::timespec,
    ) -> c_int;
}

/// Makes what `word` guards anew if it is of another run: `init` does so, once. Returns false if `init` does.
///
/// # Safety
/// `word` is valid for atomic accesses.
#[inline]
pub(super) unsafe fn is_of_run(run_id: u64, word: *mut u64, init: impl FnMut() -> bool) -> bool {
    // SAFETY: - the caller's promise.
    let word = unsafe { AtomicU64::from_ptr(word) };
    // ORDER: pairs with the last store of `make`: what the word guards is there.
    word.load(Ordering::Acquire) == run_id || make(run_id, word, init)
}

/// Makes what `word` guards anew, or waits for the thread that does: the word is less than the run's number by one meanwhile.
#[cold]
fn make(run_id: u64, word: &AtomicU64, mut init: impl FnMut() -> bool) -> bool {
    loop {
        // ORDER: as in `is_of_run`.
        let found = word.load(Ordering::Acquire);
        if found == run_id {
            return true;
        }
        if found == run_id - 1 {
            thread::yield_now();
            continue;
        }
        // ORDER: the thread that takes the word makes all anew.
        if word.compare_exchange(found, run_id - 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        let is_made = init();
        // ORDER: what was made is visible with the number.
        word.store(if is_made { run_id } else { 0 }, Ordering::Release);
        return is_made;
    }
}

/// Returns the C library's lock in a lock; null if it could not be made.
///
/// # Safety
/// `lock` is a lock of the pool, and `init` makes a `T`.
#[inline]
unsafe fn object<T>(
    pool: &OpenPool,
    lock: *mut c_void,
    init: unsafe extern "C" fn(*mut T, *const c_void) -> c_int,
) -> *mut T {
    let object = lock.wrapping_byte_add(OBJECT).cast::<T>();
    // SAFETY: - `object` lies in the lock.
    let mut init = || unsafe { init(object, ptr::null()) } == 0;
    // SAFETY: - the lock begins with the word.
    if unsafe { is_of_run(pool.engine.run_id(), lock.cast(), &mut init) } { object } else { ptr::null_mut() }
}

unsafe extern "C" fn init_mutex(lock: *mut libc::pthread_mutex_t, _: *const c_void) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { libc::pthread_mutex_init(lock, ptr::null()) }
}

unsafe extern "C" fn init_rwlock(lock: *mut libc::pthread_rwlock_t, _: *const c_void) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { libc::pthread_rwlock_init(lock, ptr::null()) }
}

unsafe extern "C" fn init_cond(cond: *mut libc::pthread_cond_t, _: *const c_void) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { libc::pthread_cond_init(cond, ptr::null()) }
}

/// Locks a mutex for a transaction. Returns an error number.
///
/// # Safety
/// `mutex` is a PMEMmutex in the pool.
pub(super) unsafe fn lock_mutex(pool: &OpenPool, mutex: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    let mutex = unsafe { object(pool, mutex, init_mutex) };
    if mutex.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: - it was made above, or before.
    unsafe { libc::pthread_mutex_lock(mutex) }
}

/// Locks a lock for a transaction, for writing. Returns an error number.
///
/// # Safety
/// `lock` is a PMEMrwlock in the pool.
pub(super) unsafe fn lock_for_writing(pool: &OpenPool, lock: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    let lock = unsafe { object(pool, lock, init_rwlock) };
    if lock.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: - it was made above, or before.
    unsafe { libc::pthread_rwlock_wrlock(lock) }
}

/// Unlocks a mutex that the thread has locked in this run.
///
/// # Safety
/// `mutex` is such a PMEMmutex.
pub(super) unsafe fn unlock_mutex(mutex: *mut c_void) {
    // SAFETY: - the caller's promise.
    unsafe { libc::pthread_mutex_unlock(mutex.wrapping_byte_add(OBJECT).cast()) };
}

/// Unlocks a lock that the thread has locked in this run.
///
/// # Safety
/// `lock` is such a PMEMrwlock.
pub(super) unsafe fn unlock_rwlock(lock: *mut c_void) {
    // SAFETY: - the caller's promise.
    unsafe { libc::pthread_rwlock_unlock(lock.wrapping_byte_add(OBJECT).cast()) };
}

/// Makes the lock that of no run.
///
/// # Safety
/// `lock` is a lock of the pool, which no thread uses.
unsafe fn zero(pop: *mut c_void, lock: *mut c_void) {
    // SAFETY: - the caller's promise.
    unsafe { lock.cast::<u64>().write(0) };
    // SAFETY: - as above.
    unsafe { memory::pmemobj_persist(pop, lock, size_of::<u64>()) };
}

macro_rules! zeros {
    ($($name:ident),+) => {$(
        #[doc = concat!("See ", stringify!($name), "(3).")]
        ///
        /// # Durability
        /// On return.
        ///
        /// # Safety
        /// `pop` is an open pool; the lock lies in it, and no thread uses it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(pop: *mut c_void, lock: *mut c_void) {
            // SAFETY: - the caller's promise.
            unsafe { zero(pop, lock) };
        }
    )+};
}

zeros! { pmemobj_mutex_zero, pmemobj_rwlock_zero, pmemobj_cond_zero }

macro_rules! calls {
    ($($name:ident, $init:ident => $call:path $(, $time:ident)?;)+) => {$(
        #[doc = concat!("See ", stringify!($name), "(3).")]
        ///
        /// # Safety
        /// `pop` is an open pool, and the lock lies in it; a time is valid for loads.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pop: *mut c_void,
            lock: *mut c_void
            $(, $time: *const libc::timespec)?
        ) -> c_int {
            // SAFETY: - the caller's promise.
            let Ok(pool) = (unsafe { pool_of(pop) }) else { return libc::EINVAL };
            // SAFETY: - as above.
            let object = unsafe { object(pool, lock, $init) };
            if object.is_null() {
                return libc::EINVAL;
            }
            // SAFETY: - it was made above, or before.
            unsafe { $call(object $(, $time)?) }
        }
    )+};
}

calls! {
    pmemobj_mutex_lock, init_mutex => libc::pthread_mutex_lock;
    pmemobj_mutex_trylock, init_mutex => libc::pthread_mutex_trylock;
    pmemobj_mutex_timedlock, init_mutex => libc::pthread_mutex_timedlock, abs_timeout;
    pmemobj_mutex_unlock, init_mutex => libc::pthread_mutex_unlock;
    pmemobj_rwlock_rdlock, init_rwlock => libc::pthread_rwlock_rdlock;
    pmemobj_rwlock_wrlock, init_rwlock => libc::pthread_rwlock_wrlock;
    pmemobj_rwlock_timedrdlock, init_rwlock => pthread_rwlock_timedrdlock, abs_timeout;
    pmemobj_rwlock_timedwrlock, init_rwlock => pthread_rwlock_timedwrlock, abs_timeout;
    pmemobj_rwlock_tryrdlock, init_rwlock => libc::pthread_rwlock_tryrdlock;
    pmemobj_rwlock_trywrlock, init_rwlock => libc::pthread_rwlock_trywrlock;
    pmemobj_rwlock_unlock, init_rwlock => libc::pthread_rwlock_unlock;
    pmemobj_cond_broadcast, init_cond => libc::pthread_cond_broadcast;
    pmemobj_cond_signal, init_cond => libc::pthread_cond_signal;
}

unsafe extern "C" {
    /// See pthread_rwlock_timedrdlock(3).
    fn pthread_rwlock_timedrdlock(lock: *mut libc::pthread_rwlock_t, abstime: *const libc::timespec)
    -> c_int;

    /// See pthread_rwlock_timedwrlock(3).
    fn pthread_rwlock_timedwrlock(lock: *mut libc::pthread_rwlock_t, abstime: *const libc::timespec)
    -> c_int;
}

/// Returns the C library's condition and mutex; `None` if one of them could not be made.
///
/// # Safety
/// `pop` is an open pool; `condp` and `mutexp` lie in it.
unsafe fn pair(
    pop: *mut c_void,
    condp: *mut c_void,
    mutexp: *mut c_void,
) -> Option<(*mut libc::pthread_cond_t, *mut libc::pthread_mutex_t)> {
    // SAFETY: - the caller's promise.
    let pool = unsafe { pool_of(pop) }.ok()?;
    // SAFETY: - as above.
    let cond = unsafe { object(pool, condp, init_cond) };
    // SAFETY: - as above.
    let mutex = unsafe { object(pool, mutexp, init_mutex) };
    (!cond.is_null() && !mutex.is_null()).then_some((cond, mutex))
}

/// See pmemobj_cond_wait(3). A thread that is cancelled unwinds out of it.
///
/// # Safety
/// `pop` is an open pool; `condp` and `mutexp` lie in it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pmemobj_cond_wait(
    pop: *mut c_void,
    condp: *mut c_void,
    mutexp: *mut c_void,
) -> c_int {
    // SAFETY: - the caller's promise.
    let Some((cond, mutex)) = (unsafe { pair(pop, condp, mutexp) }) else { return libc::EINVAL };
    // SAFETY: - both were made above, or before.
    unsafe { pthread_cond_wait(cond, mutex) }
}

/// See pmemobj_cond_timedwait(3). A thread that is cancelled unwinds out of it.
///
/// # Safety
/// `pop` is an open pool; `condp` and `mutexp` lie in it; `abs_timeout` is valid for loads.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pmemobj_cond_timedwait(
    pop: *mut c_void,
    condp: *mut c_void,
    mutexp: *mut c_void,
    abs_timeout: *const libc::timespec,
) -> c_int {
    // SAFETY: - the caller's promise.
    let Some((cond, mutex)) = (unsafe { pair(pop, condp, mutexp) }) else { return libc::EINVAL };
    // SAFETY: - both were made above, or before.
    unsafe { pthread_cond_timedwait(cond, mutex, abs_timeout) }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn one_thread_makes_what_a_word_guards() {
        let mut word = 41_u64;
        let (word, made) = (ptr::from_mut(&mut word).expose_provenance(), AtomicU64::new(0));
        let init = || {
            thread::sleep(std::time::Duration::from_millis(20));
            made.fetch_add(1, Ordering::Relaxed);
            true
        };
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    // SAFETY: - the word lives as long as the threads, which access it atomically.
                    assert!(unsafe { is_of_run(10, ptr::with_exposed_provenance_mut(word), init) });
                    assert_eq!(made.load(Ordering::Relaxed), 1);
                });
            }
        });
        // SAFETY: - as above.
        let failed = unsafe { is_of_run(12, ptr::with_exposed_provenance_mut(word), || false) };
        // SAFETY: - the threads have ended.
        assert_eq!((failed, unsafe { ptr::with_exposed_provenance::<u64>(word).read() }), (false, 0));
    }
}
