//! Atomics and locks through which threads share words and wait for one another. They are the standard library's. In
//! a build with `cfg(loom)` they are loom's, which tries every interleaving. In a build with `cfg(lode_bugs)` each
//! operation is a switching point for the crash explorer.

#[cfg(all(lode_bugs, not(loom)))]
mod real {
    pub use crate::asymmetric;
    pub use crate::scheduled::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Mutex as SpinMutex};
    pub use std::sync::atomic::{Ordering, fence};
    pub use std::sync::{MutexGuard, MutexGuard as SpinMutexGuard};
    pub use std::thread_local;
}

#[cfg(not(any(loom, lode_bugs)))]
mod real {
    pub use crate::asymmetric;
    pub use spin::mutex::{SpinMutex, SpinMutexGuard};
    pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::sync::{Mutex, MutexGuard};
    pub use std::thread_local;
}

#[cfg(loom)]
mod real {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard, MutexGuard as SpinMutexGuard};

    /// A lock that is only ever tried.
    #[derive(Debug)]
    pub struct SpinMutex<T>(Mutex<T>);

    impl<T> SpinMutex<T> {
        /// Returns an unlocked lock around `value`.
        pub fn new(value: T) -> SpinMutex<T> {
            SpinMutex(Mutex::new(value))
        }

        /// Takes the lock. Returns `None` if it is held.
        pub fn try_lock(&self) -> Option<SpinMutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// Both sides of the kernel's asymmetric fence, as full fences.
    pub mod asymmetric {
        use super::{Ordering, fence};

        /// Returns true: loom has full fences.
        pub fn is_available() -> bool {
            true
        }

        /// The side of the frequent thread.
        pub fn light() {
            // ORDER: together with `heavy`: one of two threads that store and then load sees the other's store.
            fence(Ordering::SeqCst);
        }

        /// The side of the rare thread.
        pub fn heavy() {
            // ORDER: see `light`.
            fence(Ordering::SeqCst);
        }
    }

    pub use crate::thread_local_of_loom as thread_local;
}

pub use real::*;

/// Orders a locked exchange of this thread before its later loads, for all threads.
#[inline]
pub fn fence_after_exchange() {
    if cfg!(all(target_arch = "x86_64", not(loom), not(miri))) {
        // ORDER: a locked instruction is a full fence on this CPU; only the compiler has to be told.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        // ORDER: elsewhere an exchange may be a pair of instructions that later loads can overtake.
        fence(Ordering::SeqCst);
    }
}

/// Lets another thread run. For loops that wait for that thread where no medium is at hand.
pub fn pause(_round: u32) {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Declares a thread-local of loom in the standard library's form, which loom itself does not know.
#[cfg(loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! thread_local_of_loom {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const $value:block $(;)?) => {
        loom::thread_local! {
            $(#[$attribute])* static $name: $type = $value;
        }
    };
}
