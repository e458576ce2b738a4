//! A gate: where threads wait for a condition that another thread brings about.

use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A place to wait. The condition itself lives elsewhere, in atomics; the gate only wakes, all at once and
/// without a lock that they would then take in turn.
///
/// Wait through [`Medium::wait_while`](crate::Medium::wait_while), so that the simulator can run its logical
/// threads through the same code.
#[derive(Debug, Default)]
pub struct Gate {
    /// Counts how often the gate was opened.
    opened: AtomicU32,
}

impl Gate {
    /// A gate that nobody waits at.
    pub const fn new() -> Gate {
        Gate { opened: AtomicU32::new(0) }
    }

    /// Wakes all who wait. Call it after the condition has changed.
    ///
    /// # Cost
    /// One system call.
    pub fn open(&self) {
        // ORDER: releases the changed condition to those who see the new count.
        self.opened.fetch_add(1, Ordering::Release);
        // The call fails only for addresses that are not mapped.
        let _ = futex::wake(&self.opened, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// Blocks the calling thread while `blocked` says so; it is asked again after each [`open`](Gate::open).
    pub fn wait_while(&self, blocked: &mut dyn FnMut() -> bool) {
        loop {
            // ORDER: acquires; the count is read before the condition, so a change after that changes the count
            // and the kernel does not put this thread to sleep.
            let opened = self.opened.load(Ordering::Acquire);
            if !blocked() {
                return;
            }
            // It returns early when the count has changed or a signal came; then the condition is asked again.
            let _ = futex::wait(&self.opened, futex::Flags::PRIVATE, opened, None);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn all_who_wait_are_woken_for_every_change() {
        const ROUNDS: u64 = 2000;
        let (gate, turn) = (Gate::new(), AtomicU64::new(0));
        thread::scope(|scope| {
            for me in 0..3 {
                let (gate, turn) = (&gate, &turn);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let mine = round * 3 + me;
                        gate.wait_while(&mut || turn.load(Ordering::Acquire) != mine);
                        turn.store(mine + 1, Ordering::Release);
                        gate.open();
                    }
                });
            }
        });
        assert_eq!(turn.load(Ordering::Acquire), 3 * ROUNDS);
    }
}
