//! Atomic words and locks for the simulator's logical threads: each operation is a switching point. They exist only in
//! builds with `--cfg lode_bugs`; the ordinary build uses those of the standard library.
//!
//! A logical thread [installs](install) its scheduler. In any other thread an operation here costs the standard
//! library's operation and one load of a thread-local word.

use std::cell::RefCell;
use std::sync::atomic::{self, Ordering};
use std::sync::{Arc, LockResult, MutexGuard, TryLockError};

/// A scheduler of logical threads.
pub trait Scheduler: Send + Sync {
    /// Lets another logical thread run first, if the scheduler says so.
    fn step(&self);

    /// Lets another logical thread run, since the calling thread waits for it. Returns false when the threads no longer
    /// take turns. They then run side by side, and the caller may block.
    fn wait(&self) -> bool;
}

thread_local! {
    static SCHEDULER: RefCell<Option<Arc<dyn Scheduler>>> = const { RefCell::new(None) };
}

/// Makes the calling thread a logical thread of `scheduler`. With `None`, makes it an ordinary thread again.
pub fn install(scheduler: Option<Arc<dyn Scheduler>>) {
    SCHEDULER.with(|place| place.replace(scheduler));
}

/// Offers the scheduler a switching point.
#[inline]
pub fn step() {
    with(|scheduler| scheduler.step());
}

/// Waits a turn. Returns false in a thread without a scheduler.
fn wait() -> bool {
    with(|scheduler| scheduler.wait()).unwrap_or(false)
}

#[inline]
fn with<T>(call: impl FnOnce(&dyn Scheduler) -> T) -> Option<T> {
    // A thread whose thread-local storage is gone is no longer a logical thread.
    SCHEDULER.try_with(|place| place.borrow().as_deref().map(call)).ok().flatten()
}

macro_rules! words {
    ($($word:ident: $value:ty;)+) => {$(
        #[doc = concat!("A [`", stringify!($word), "`](atomic::", stringify!($word), ") that is a switching point.")]
        #[derive(Debug, Default)]
        pub struct $word(atomic::$word);

        #[allow(missing_docs, reason = "as in the standard library")]
        impl $word {
            pub const fn new(value: $value) -> $word {
                $word(atomic::$word::new(value))
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                step();
                self.0.load(order)
            }

            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                step();
                self.0.store(value, order);
            }

            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.swap(value, order)
            }

            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    )+};
}

words! {
    AtomicBool: bool;
    AtomicU64: u64;
    AtomicUsize: usize;
}

macro_rules! counters {
    ($($word:ident: $value:ty;)+) => {$(
        #[allow(missing_docs, reason = "as in the standard library")]
        impl $word {
            #[inline]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_add(value, order)
            }

            #[inline]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_sub(value, order)
            }

            #[inline]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_max(value, order)
            }
        }
    )+};
}

counters! {
    AtomicU64: u64;
    AtomicUsize: usize;
}

/// A [`Mutex`](std::sync::Mutex) whose waits are visible to the scheduler of logical threads.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an open lock of `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// Fails like the standard library's lock if a holder panicked.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        step();
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if wait() => {}
                Err(TryLockError::WouldBlock) => return self.0.lock(),
            }
        }
    }

    /// Takes the lock. Returns `None` if it is held or poisoned.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        step();
        self.0.try_lock().ok()
    }
}
