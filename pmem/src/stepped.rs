//! Atomic words and locks of which each operation is a switching point for the simulator's logical threads. They
//! exist in builds with `--cfg lode_bugs` alone: the ordinary build uses those of the standard library.
//!
//! A logical thread [installs](install) the scheduler that it obeys. In all other threads an operation here is the
//! standard library's and one look at a thread-local word.

use std::cell::RefCell;
use std::sync::atomic::{self, Ordering};
use std::sync::{Arc, LockResult, MutexGuard, TryLockError};

/// A scheduler of logical threads.
pub trait Turns: Send + Sync {
    /// Lets another logical thread run first, if the scheduler says so.
    fn step(&self);

    /// Lets another logical thread run, since the calling one waits for it. False when the threads take no turns any
    /// more: then they run side by side, and the caller may block.
    fn wait(&self) -> bool;
}

thread_local! {
    static TURNS: RefCell<Option<Arc<dyn Turns>>> = const { RefCell::new(None) };
}

/// Makes the calling thread a logical thread of `turns`; `None` makes it an ordinary one again.
pub fn install(turns: Option<Arc<dyn Turns>>) {
    TURNS.with(|place| place.replace(turns));
}

/// A switching point.
#[inline]
pub fn step() {
    with(|turns| turns.step());
}

/// Waits a turn. False in a thread that takes none.
fn wait() -> bool {
    with(|turns| turns.wait()).unwrap_or(false)
}

#[inline]
fn with<T>(call: impl FnOnce(&dyn Turns) -> T) -> Option<T> {
    // A thread whose thread-local storage is gone is no logical thread any more.
    TURNS.try_with(|place| place.borrow().as_deref().map(call)).ok().flatten()
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

/// A [`Mutex`](std::sync::Mutex) for which a logical thread waits in the scheduler's sight.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock of `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// As the standard library's: a holder panicked.
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

    /// Takes the lock if it is open and was not poisoned.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        step();
        self.0.try_lock().ok()
    }
}
