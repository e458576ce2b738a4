//! An event, on which threads wait for a condition that another thread establishes.

use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

/// An event count. The condition itself is elsewhere, in atomics. The event only wakes threads: all at once and
/// without a lock that they would have to take in turn, or one of them.
///
/// Wait through [`Medium::wait_while`](crate::Medium::wait_while), so that the simulator can run its logical
/// threads through the same code.
#[derive(Debug, Default)]
pub struct Event {
    /// Number of notifications.
    notified: AtomicU32,
}

impl Event {
    /// Creates an event without waiters.
    pub const fn new() -> Event {
        Event { notified: AtomicU32::new(0) }
    }

    /// Wakes all waiting threads. Call it after the condition has changed.
    ///
    /// # Cost
    /// One system call.
    pub fn notify_all(&self) {
        self.notify(i32::MAX as u32);
    }

    /// Wakes one of the waiting threads, if there are any. Call it after the condition has changed.
    ///
    /// # Cost
    /// One system call.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    fn notify(&self, threads: u32) {
        // ORDER: releases the changed condition to the threads that see the new count.
        self.notified.fetch_add(1, Ordering::Release);
        // The call fails only for unmapped addresses.
        let _ = futex::wake(&self.notified, futex::Flags::PRIVATE, threads);
    }

    /// Blocks the calling thread as long as `blocked` returns true. It is called again after each notification that wakes
    /// the thread.
    pub fn wait_while(&self, blocked: &mut dyn FnMut() -> bool) {
        loop {
            // ORDER: acquires. The count is read before the condition. A later change of the condition also changes the
            // count, so the kernel does not put this thread to sleep.
            let notified = self.notified.load(Ordering::Acquire);
            if !blocked() {
                return;
            }
            // The call returns early if the count has changed or a signal arrived; then the condition is checked again.
            let _ = futex::wait(&self.notified, futex::Flags::PRIVATE, notified, None);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn notify_wakes_all_waiters() {
        const ROUNDS: u64 = 2000;
        let (event, turn) = (Event::new(), AtomicU64::new(0));
        thread::scope(|scope| {
            for me in 0..3 {
                let (event, turn) = (&event, &turn);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let mine = round * 3 + me;
                        event.wait_while(&mut || turn.load(Ordering::Acquire) != mine);
                        turn.store(mine + 1, Ordering::Release);
                        event.notify_all();
                    }
                });
            }
        });
        assert_eq!(turn.load(Ordering::Acquire), 3 * ROUNDS);
    }

    /// Each thread that is woken passes the turn on to one other.
    #[test]
    fn notify_wakes_one_waiter_at_least() {
        const THREADS: u64 = 4;
        let (event, passed) = (Event::new(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    event.wait_while(&mut || passed.load(Ordering::Acquire) == 0);
                    passed.fetch_add(1, Ordering::AcqRel);
                    event.notify_one();
                });
            }
            passed.store(1, Ordering::Release);
            event.notify_one();
        });
        assert_eq!(passed.load(Ordering::Acquire), 1 + THREADS);
    }
}
