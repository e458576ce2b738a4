//! A table of the process, and its lock, which forks and signal handlers can't hang.
//!
//! The lock is a word with the name of its owner. One instruction takes the lock and names the owner, so that a signal
//! handler knows at each moment whether it has interrupted the owner. There the handler's own call finds the table busy, and
//! its fork leaves the lock to the interrupted call, which goes on in the parent and in the child. Elsewhere the handler takes
//! the lock. A thread that waits sleeps, and a child of a fork releases the lock that its parent took.

use crate::process::{errno, set_errno, thread_name};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// In the lock's word: a thread may sleep. Names have no such bit: they are addresses of the C library's structures.
const SLEEPERS: usize = 1;

/// A value that any thread may use.
#[derive(Debug)]
pub struct Table<T> {
    /// The name of the thread that holds the lock, with [`SLEEPERS`]; 0 for none.
    owner: AtomicUsize,
    /// Forks that the owner's signal handlers have begun, and not ended.
    forks: AtomicUsize,
    content: UnsafeCell<T>,
}

// SAFETY: - the content is used by the holder of the lock alone.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T: 'static> Table<T> {
    /// Returns a table with this content.
    pub const fn new(content: T) -> Table<T> {
        Table { owner: AtomicUsize::new(0), forks: AtomicUsize::new(0), content: UnsafeCell::new(content) }
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
        self.owner.load(Ordering::Relaxed) & !SLEEPERS == thread_name()
    }

    fn lock(&self) {
        // The thread that has slept does not know whether others sleep.
        let mut wanted = thread_name();
        loop {
            // ORDER: pairs with `unlock`: what the last owner stored is visible.
            match self.owner.compare_exchange(0, wanted, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => {
                    self.sleep(found);
                    wanted |= SLEEPERS;
                }
            }
        }
    }

    /// Sleeps until the owner that was found has released the lock, or for no reason.
    fn sleep(&self, found: usize) {
        let marked = found | SLEEPERS;
        // ORDER: a mark for the owner, which the kernel compares again.
        let outcome = self.owner.compare_exchange(found, marked, Ordering::Relaxed, Ordering::Relaxed);
        if outcome.is_ok() {
            // The lower half of the word is enough: while it has the mark, an owner is there, and wakes the sleepers.
            futex(&self.owner, libc::FUTEX_WAIT, marked as u32);
        }
    }

    fn unlock(&self) {
        // ORDER: pairs with `lock`: what this owner stored is visible to the next one.
        if self.owner.swap(0, Ordering::Release) & SLEEPERS != 0 {
            futex(&self.owner, libc::FUTEX_WAKE, 1);
        }
    }
}

/// Calls futex(2) on the lower half of a word.
fn futex(word: &AtomicUsize, operation: i32, value: u32) {
    const { assert!(cfg!(target_endian = "little"), "the lower half comes first") };
    let no_limit = ptr::null::<libc::timespec>();
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let before = errno();
    // SAFETY: - the word is valid for loads; the kernel stores nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr().cast::<u32>(), operation, value, no_limit) };
    // A caller that finds the word changed, or a signal, looks at the word again.
    set_errno(before);
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
    fn threads_take_turns() {
        let table: &'static Table<(u64, u64)> = Box::leak(Box::new(Table::new((0, 0))));
        let add = move || {
            for _ in 0..20_000 {
                let equal = table.with(|(first, second)| {
                    *first += 1;
                    // Others run, and find the lock taken.
                    if *first % 1_000 == 0 {
                        thread::yield_now();
                    }
                    *second += 1;
                    first == second
                });
                assert_eq!(equal, Some(true));
            }
        };
        let threads: Vec<_> = (0..6).map(|_| thread::spawn(add)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(table.with(|content| *content), Some((120_000, 120_000)));
        assert_eq!(table.owner.load(Ordering::Relaxed), 0);
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
