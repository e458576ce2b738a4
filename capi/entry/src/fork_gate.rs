//! The calls that are under way when the process forks.
//!
//! The child of a fork has one thread, and the locks and marks of all threads of its parent. So a fork waits until no other thread is in a
//! call on a pool, and calls that begin meanwhile wait for the fork:
//!
//! ```text
//!   a call                          a fork
//!     is_busy = true                  FORKS += 1
//!     light fence                     heavy fence
//!     no FORKS? it goes on            waits while another thread is busy
//! ```
//!
//! A call costs two stores and no locked instruction, where the kernel has membarrier(2) and up to 128 threads make calls.
//!
//! A fork waits for 10 seconds at most: a call that a signal handler has left by siglongjmp(3) never ends, and one may wait for a lock that
//! another handler of the fork holds.
//!
//! A signal handler that has interrupted a call of its thread, and forks, waits for no call: the interrupted one may hold what another
//! thread waits for.

use crate::process::{errno, on_fork, set_errno, thread_name, uncancelled};
use lode_pmem::asymmetric;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};
use std::{hint, ptr, thread};

/// Threads that have a slot of their own. Others share a number, which takes a locked instruction.
const SLOTS: usize = 128;
/// The longest wait of a fork.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state of a thread's calls.
#[repr(align(128))]
struct Slot {
    /// The name of the thread; 0 for none. That of a thread that has ended stays until a new one has the same name.
    owner: AtomicUsize,
    /// True while the thread is in a call.
    is_busy: AtomicBool,
}

static OWN_SLOTS: [Slot; SLOTS] =
    [const { Slot { owner: AtomicUsize::new(0), is_busy: AtomicBool::new(false) } }; SLOTS];
/// Number of calls of the threads without a slot.
static SHARED: AtomicUsize = AtomicUsize::new(0);
/// Number of forks that wait for calls, or are under way.
static FORKS: AtomicUsize = AtomicUsize::new(0);
/// True if the fence of calls costs nothing.
static IS_LIGHT: AtomicBool = AtomicBool::new(false);

/// The word in which a thread notes its calls.
#[derive(Clone, Copy)]
enum Place {
    Unknown,
    Slot(&'static Slot),
    Shared,
}

thread_local! {
    // Without destructors, so that the library can be unloaded, and a thread end, at any time.
    static PLACE: Cell<Place> = const { Cell::new(Place::Unknown) };
    /// Number of calls of this thread that are under way, one within the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Number of forks of this thread that have begun: one more in a signal handler that interrupts a fork.
    static FORKING: Cell<usize> = const { Cell::new(0) };
    /// True while the thread is in [`SHARED`].
    static IS_SHARED: Cell<bool> = const { Cell::new(false) };
}

/// Lets forks of this process wait for calls that are [under way](under_way). `in_child` runs in each child before the fork returns there.
pub fn register(in_child: extern "C" fn()) {
    // ORDER: the process has one thread, or none of the others knows the library.
    IS_LIGHT.store(asymmetric::is_available(), Ordering::Relaxed);
    on_fork(before_fork, after_fork, in_child);
}

/// Runs a call that no fork of another thread interrupts.
#[inline]
pub fn under_way<T>(call: impl FnOnce() -> T) -> T {
    let _entered = Entered::begin();
    call()
}

/// Runs a part of a call during which forks of other threads don't wait for it: it holds nothing that a child would miss.
pub fn interruptible<T>(wait: impl FnOnce() -> T) -> T {
    let depth = DEPTH.get();
    if depth > 0 {
        leave();
    }
    // Last, as in a drop: a signal handler that forks finds the call under way as long as it is noted.
    DEPTH.set(0);
    let result = wait();
    DEPTH.set(depth);
    if depth > 0 {
        enter();
    }
    result
}

/// A call, until drop.
struct Entered;

impl Entered {
    #[inline]
    fn begin() -> Entered {
        let depth = DEPTH.get();
        // First: a signal handler finds the call under way.
        DEPTH.set(depth + 1);
        if depth == 0 {
            enter();
        }
        Entered
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        if depth == 0 {
            leave();
        }
        DEPTH.set(depth);
    }
}

#[inline]
fn enter() {
    loop {
        match PLACE.get() {
            // ORDER: a fork stores `FORKS`, and then passes the heavy fence: either it sees this store, or the load below sees the fork.
            Place::Slot(slot) if IS_LIGHT.load(Ordering::Relaxed) => {
                // ORDER: as above.
                slot.is_busy.store(true, Ordering::Relaxed);
                asymmetric::light();
            }
            place => enter_by_exchange(place),
        }
        // ORDER: see above. Acquires what the fork has changed.
        if FORKS.load(Ordering::Acquire) == 0 || FORKING.get() > 0 {
            return;
        }
        leave();
        wait_for_forks();
    }
}

#[cold]
fn enter_by_exchange(place: Place) {
    let place = match place {
        Place::Unknown => place_of_thread(),
        known => known,
    };
    PLACE.set(place);
    match place {
        Place::Slot(slot) => {
            // ORDER: a fork stores `FORKS` and passes a fence before it loads this: one of both sees the other.
            slot.is_busy.swap(true, Ordering::SeqCst);
        }
        _ => {
            // ORDER: as above.
            SHARED.fetch_add(1, Ordering::SeqCst);
            IS_SHARED.set(true);
        }
    }
    // ORDER: as above.
    fence(Ordering::SeqCst);
}

#[inline]
fn leave() {
    match PLACE.get() {
        // ORDER: releases what the call has stored to the fork that waits for it.
        Place::Slot(slot) => slot.is_busy.store(false, Ordering::Release),
        _ => {
            IS_SHARED.set(false);
            // ORDER: as above.
            SHARED.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Returns the slot of an ended thread with the same name, or a free one.
fn place_of_thread() -> Place {
    let name = thread_name();
    // ORDER: only a thread with this name has stored it, and that has ended.
    let is_own = |slot: &&Slot| slot.owner.load(Ordering::Relaxed) == name;
    // ORDER: the slot of no thread has nothing to be seen.
    let take =
        |slot: &&Slot| slot.owner.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let found = OWN_SLOTS.iter().find(is_own).or_else(|| OWN_SLOTS.iter().find(take));
    found.map_or(Place::Shared, Place::Slot)
}

#[cold]
fn wait_for_forks() {
    let before = errno();
    // A sleep is a point at which pthread_cancel(3) ends a thread.
    uncancelled(|| {
        for round in 0.. {
            // ORDER: `enter` looks again.
            if FORKS.load(Ordering::Relaxed) == 0 {
                return;
            }
            pause(round);
        }
    });
    set_errno(before);
}

/// Waits for a moment.
fn pause(round: u32) {
    match round {
        0..64 => hint::spin_loop(),
        64..128 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(20)),
    }
}

/// Waits for the calls of other threads, and lets no call begin.
extern "C" fn before_fork() {
    if DEPTH.get() > 0 {
        return;
    }
    FORKING.set(FORKING.get() + 1);
    // ORDER: before the fence, and the loads below; see `enter`.
    FORKS.fetch_add(1, Ordering::SeqCst);
    // ORDER: set before the first call.
    if IS_LIGHT.load(Ordering::Relaxed) {
        asymmetric::heavy();
    }
    // ORDER: as above, for the calls of threads that share a number.
    fence(Ordering::SeqCst);
    let before = errno();
    // A sleep is a point at which pthread_cancel(3) ends a thread.
    uncancelled(wait_for_calls);
    set_errno(before);
}

/// Waits until no other thread is in a call.
fn wait_for_calls() {
    let begin = Instant::now();
    // ORDER: acquires what the calls have stored.
    let is_busy = |slot: &Slot| slot.is_busy.load(Ordering::Acquire);
    // A call of this thread that has just ended or begun holds nothing.
    let is_own = |slot: &Slot| matches!(PLACE.get(), Place::Slot(own) if ptr::eq(own, slot));
    let others = OWN_SLOTS.iter().filter(|slot| !is_own(slot));
    // ORDER: as above.
    let are_over = || SHARED.load(Ordering::Acquire) == 0 && !others.clone().any(is_busy);
    for round in 0.. {
        if are_over() || begin.elapsed() > PATIENCE {
            return;
        }
        pause(round);
    }
}

/// Lets calls begin again, in the parent.
extern "C" fn after_fork() {
    if DEPTH.get() == 0 {
        FORKING.set(FORKING.get() - 1);
        // ORDER: releases what other handlers of the fork have changed.
        FORKS.fetch_sub(1, Ordering::Release);
    }
}

/// Forgets the calls and the forks of other threads, in the child, which has none.
pub fn forget_other_threads() {
    if DEPTH.get() == 0 {
        FORKING.set(FORKING.get().saturating_sub(1));
    }
    // ORDER: the child has one thread.
    SHARED.store(usize::from(IS_SHARED.get()), Ordering::Relaxed);
    for slot in &OWN_SLOTS {
        let is_own = matches!(PLACE.get(), Place::Slot(own) if ptr::eq(own, slot));
        if !is_own {
            // ORDER: as above.
            slot.owner.store(0, Ordering::Relaxed);
            // ORDER: as above.
            slot.is_busy.store(false, Ordering::Relaxed);
        }
    }
    // ORDER: as above. A fork that this one has interrupted in a signal handler goes on.
    FORKS.store(FORKING.get(), Ordering::Relaxed);
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;

    /// Threads, more than have slots, change two words in calls. Between the handlers of a fork they are equal.
    #[test]
    fn forks_find_no_call_under_way() {
        static WORDS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
        static IS_OVER: AtomicBool = AtomicBool::new(false);
        IS_LIGHT.store(asymmetric::is_available(), Ordering::Relaxed);
        let started = Barrier::new(SLOTS + 9);
        thread::scope(|threads| {
            for _ in 0..SLOTS + 8 {
                threads.spawn(|| {
                    under_way(|| ());
                    started.wait();
                    while !IS_OVER.load(Ordering::Relaxed) {
                        under_way(|| {
                            WORDS[0].fetch_add(1, Ordering::Relaxed);
                            under_way(|| thread::sleep(Duration::from_millis(1)));
                            WORDS[1].fetch_add(1, Ordering::Relaxed);
                        });
                        under_way(|| interruptible(|| thread::sleep(Duration::from_millis(1))));
                    }
                });
            }
            started.wait();
            let mut seen = 0;
            while seen < 30 {
                let before = WORDS[0].load(Ordering::Relaxed);
                before_fork();
                let words = [0, 1].map(|index| WORDS[index].load(Ordering::Relaxed));
                assert_eq!(words[0], words[1]);
                // The thread that forks may call the library.
                under_way(|| ());
                after_fork();
                thread::sleep(Duration::from_millis(1));
                seen += u32::from(words[0] != before);
            }
            IS_OVER.store(true, Ordering::Relaxed);
        });
        // In a signal handler that has interrupted a call.
        under_way(|| {
            before_fork();
            assert_eq!(FORKS.load(Ordering::Relaxed), 0);
            after_fork();
        });
    }
}
