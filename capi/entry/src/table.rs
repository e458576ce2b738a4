//! A table of the process, and its lock, which forks and signal handlers can't hang.
//!
//! The lock is the C library's: a thread that waits sleeps, and a child of a fork releases the lock that its parent took. A
//! signal handler may interrupt the thread that holds it. There the handler's own call finds the table busy, and its fork
//! leaves the lock to the interrupted call, which goes on in the parent and in the child.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// A byte whose address names the thread, also in a child of its fork.
    static NAME: Cell<u8> = const { Cell::new(0) };
}

/// A value that any thread may use.
#[derive(Debug)]
pub struct Table<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// The name of the thread that holds the lock; 0 for none.
    owner: AtomicUsize,
    /// Forks that the owner's signal handlers have begun, and not ended.
    forks: AtomicUsize,
    content: UnsafeCell<T>,
}

// SAFETY: - the content is used by the holder of the lock alone, and the C library's lock takes calls of any thread.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T: 'static> Table<T> {
    /// Returns a table with this content.
    pub const fn new(content: T) -> Table<T> {
        Table {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            owner: AtomicUsize::new(0),
            forks: AtomicUsize::new(0),
            content: UnsafeCell::new(content),
        }
    }

    /// Uses the content. `None` in a signal handler that interrupted a use in the same thread.
    pub fn with<R>(&'static self, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_own() {
            return None;
        }
        self.lock();
        /// Releases the lock, also if the call panics.
        struct Held<T: 'static>(&'static Table<T>);
        impl<T> Drop for Held<T> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        let _held = Held(self);
        // SAFETY: - this thread holds the lock, and has no other reference: a nested call has returned `None`.
        Some(call(unsafe { &mut *self.content.get() }))
    }

    /// Takes the lock before a fork, so that the child finds the table whole.
    pub fn before_fork(&'static self) {
        if self.is_own() {
            // ORDER: a number of the owner's alone.
            self.forks.fetch_add(1, Ordering::Relaxed);
        } else {
            self.lock();
        }
    }

    /// Releases the lock after a fork, in the parent and in the child.
    pub fn after_fork(&'static self) {
        // ORDER: a number of the owner's alone.
        if self.forks.load(Ordering::Relaxed) == 0 {
            self.unlock();
        } else {
            // ORDER: as above.
            self.forks.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns true if this thread holds the lock.
    fn is_own(&self) -> bool {
        // ORDER: only this thread stores its own name.
        self.owner.load(Ordering::Relaxed) == name()
    }

    fn lock(&'static self) {
        // SAFETY: - the lock is never moved nor destroyed: the table is a static.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        // ORDER: read by this thread alone, as its own name.
        self.owner.store(name(), Ordering::Relaxed);
    }

    fn unlock(&'static self) {
        // ORDER: as in `lock`.
        self.owner.store(0, Ordering::Relaxed);
        // SAFETY: - this thread, or in a child of a fork its only one, took the lock.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

/// Returns a number that names the thread.
fn name() -> usize {
    NAME.with(|byte| ptr::from_ref(byte).addr())
}

#[cfg(test)]
mod test {
    use super::*;
    use std::thread;

    /// A fork as a signal handler makes it while its thread uses the table.
    #[test]
    fn fork_of_the_owner_leaves_the_lock_to_it() {
        let table: &'static Table<()> = Box::leak(Box::new(Table::new(())));
        let mut is_busy = false;
        let child = table.with(|()| {
            is_busy = table.with(|()| ()).is_none();
            table.before_fork();
            // SAFETY: - the child calls nothing but the table and `_exit`.
            let child = unsafe { libc::fork() };
            table.after_fork();
            is_busy &= table.with(|()| ()).is_none();
            child
        });
        let is_free = table.with(|()| ()).is_some();
        if child == Some(0) {
            // SAFETY: - ends the child at once.
            unsafe { libc::_exit(i32::from(!is_busy || !is_free)) };
        }
        let mut status = -1;
        // SAFETY: - `status` is valid for a store.
        assert_eq!(unsafe { libc::waitpid(child.unwrap(), &raw mut status, 0) }, child.unwrap());
        assert_eq!((status, is_busy, is_free), (0, true, true));
    }

    #[test]
    fn fork_waits_for_other_threads() {
        let table: &'static Table<()> = Box::leak(Box::new(Table::new(())));
        table.before_fork();
        let other = thread::spawn(|| table.with(|()| ()));
        assert!(table.with(|()| ()).is_none());
        table.after_fork();
        assert_eq!(other.join().unwrap(), Some(()));
    }
}
