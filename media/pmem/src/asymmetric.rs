//! A fence between two threads in which only one side pays.
//!
//! Thread A stores x and loads y; thread B stores y and loads x. At least one of them must see the other's store, so
//! each needs a fence between its two accesses. If A runs a million times as often as B, A calls [`light`], which costs
//! nothing. B calls [`heavy`], which makes every CPU that runs a thread of this process execute a full fence.
//!
//! Source: membarrier(2), `MEMBARRIER_CMD_PRIVATE_EXPEDITED`.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Returns true if the kernel offers the system call, as it has since Linux 4.14. Without it neither fence may be used.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        cfg!(miri)
            || membarrier_query().contains_command(MembarrierCommand::PrivateExpedited)
                && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    })
}

/// Runs the free side of the fence: keeps the compiler from moving loads and stores across.
#[inline]
pub fn light() {
    if cfg!(miri) {
        // ORDER: Miri does not support the system call, so both sides are full fences there.
        fence(Ordering::SeqCst);
    }
    // ORDER: `heavy` executes the CPU's fence on the CPU that runs this thread.
    compiler_fence(Ordering::SeqCst);
}

/// Runs the costly side of the fence. On return, each thread of this process has passed a full fence since the call, or
/// will pass one before it runs again.
///
/// # Panics
/// Panics if [`is_available`] is false.
///
/// # Cost
/// A system call, which interrupts each CPU that runs another thread of this process: 0.1 to 10 microseconds.
pub fn heavy() {
    assert!(is_available(), "no kernel without membarrier can do without fences");
    if cfg!(miri) {
        // ORDER: see `light`.
        fence(Ordering::SeqCst);
        return;
    }
    membarrier(MembarrierCommand::PrivateExpedited).expect("it was registered");
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    /// Checks that of two threads that store and then load each other's store, at least one sees it.
    #[test]
    fn asymmetric_fences_order_both_sides() {
        const ROUNDS: u32 = if cfg!(miri) { 20 } else { 20_000 };
        if !is_available() {
            println!("skipped: asymmetric_fences_order_both_sides: the kernel has no membarrier");
            return;
        }
        let (often, seldom, start) = (AtomicU32::new(0), AtomicU32::new(0), Barrier::new(2));
        let saw = |mine: &AtomicU32, other: &AtomicU32, fence: fn(), round: u32| {
            start.wait();
            // ORDER: none: the test relies on the fence under test alone.
            mine.store(round, Ordering::Relaxed);
            fence();
            other.load(Ordering::Relaxed) == round
        };
        thread::scope(|scope| {
            let other = scope
                .spawn(|| (1..=ROUNDS).map(|round| saw(&seldom, &often, heavy, round)).collect::<Vec<_>>());
            let mine: Vec<bool> = (1..=ROUNDS).map(|round| saw(&often, &seldom, light, round)).collect();
            let other = other.join().expect("no panic");
            assert!(mine.iter().zip(other).all(|(mine, other)| *mine || other));
        });
    }
}
