//! A fence between two threads of which one pays for both.
//!
//! Where thread A stores x and loads y, and thread B stores y and loads x, at least one of them must see the other's
//! store: each needs a fence between its two accesses. When A comes by a million times as often as B, A passes
//! [`light`], which costs nothing, and B passes [`heavy`], which has every CPU that runs a thread of this process
//! pass a full fence.
//!
//! Source: membarrier(2), `MEMBARRIER_CMD_PRIVATE_EXPEDITED`.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether the kernel offers it, which it has since Linux 4.14. Without it neither fence may be used.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        cfg!(miri)
            || membarrier_query().contains_command(MembarrierCommand::PrivateExpedited)
                && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    })
}

/// The side that costs nothing: keeps the compiler from moving loads and stores across.
#[inline]
pub fn light() {
    if cfg!(miri) {
        // ORDER: Miri does not know the system call, so both sides are full fences there.
        fence(Ordering::SeqCst);
    }
    // ORDER: the CPU's part is done by `heavy`, on whatever CPU this thread runs.
    compiler_fence(Ordering::SeqCst);
}

/// The side that pays: when it returns, each thread of this process has passed a full fence since it was called, or
/// will before it runs again.
///
/// # Panics
/// Where [`is_available`] is false.
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

    /// Two threads store and then look for each other's store; never do both miss it.
    #[test]
    fn one_of_two_sees_the_other() {
        const ROUNDS: u32 = if cfg!(miri) { 20 } else { 20_000 };
        if !is_available() {
            println!("skipped: one_of_two_sees_the_other: the kernel has no membarrier");
            return;
        }
        let (often, seldom, start) = (AtomicU32::new(0), AtomicU32::new(0), Barrier::new(2));
        let saw = |mine: &AtomicU32, other: &AtomicU32, fence: fn(), round: u32| {
            start.wait();
            // ORDER: none but the fence's own, which is what is tested.
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
