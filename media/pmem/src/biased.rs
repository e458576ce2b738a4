//! A lock that one thread takes again and again without a locked instruction.
//!
//! A locked instruction waits until the stores before it are in the cache. Between the write-backs of one transaction
//! and the record of the next, nothing else goes on during that time. A lock that is *biased* to a thread is taken by
//! that thread with a plain store and a plain load. Another thread that wants the lock takes the bias away and then
//! waits for a [heavy fence](asymmetric::heavy). After the fence either the biased thread has seen the change, or its
//! store is seen here.
//!
//! ```text
//!   the thread of the bias              another thread
//!     busy = true                         word = HELD
//!     light fence                         heavy fence
//!     word still mine? it is in           wait while busy
//! ```

use crate::Counter;
use crate::sync::{AtomicBool, AtomicU64, Ordering, asymmetric, thread_local};
use cell::{MutPtr, UnsafeCell};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// No thread has the lock, and any thread may take it.
const FREE: u64 = 0;
/// A thread took the lock by a locked instruction and has it.
const HELD: u64 = 1;
/// No thread has the lock. No thread may take it while one lock of the group is biased [alone](Bias::Exclusive).
const CLOSED: u64 = 2;
/// Added to an owner's word: no other lock of the group can be held.
const EXCLUSIVE: u64 = 1;

/// A thread, distinct from all others of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u64);

thread_local! {
    /// The owner that stands for this thread, set when it is first needed.
    static CURRENT: Cell<Owner> = const { Cell::new(Owner::NONE) };
}

impl Owner {
    /// The owner that is no thread. Owners are multiples of 4, so their words differ from the states above.
    pub const NONE: Owner = Owner(!3);

    /// Returns the calling thread.
    pub fn current() -> Owner {
        static NEXT: Counter = Counter::new(4);
        if CURRENT.with(Cell::get) == Owner::NONE {
            CURRENT.with(|current| current.set(Owner(NEXT.add(4))));
        }
        CURRENT.with(Cell::get)
    }
}

/// The state that a lock gets when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// Any thread may take it.
    None,
    /// Biased to that thread.
    To(Owner),
    /// Biased to that thread. No other lock of the group can be held as long as it is.
    Exclusive(Owner),
    /// No thread may take it before the exclusive bias of another lock is revoked.
    Closed,
}

impl Bias {
    fn word(self) -> u64 {
        match self {
            Bias::None => FREE,
            Bias::To(owner) => owner.0,
            Bias::Exclusive(owner) => owner.0 | EXCLUSIVE,
            Bias::Closed => CLOSED,
        }
    }

    fn of(word: u64) -> Bias {
        match word {
            FREE | HELD => Bias::None,
            CLOSED => Bias::Closed,
            owner if owner & EXCLUSIVE == 0 => Bias::To(Owner(owner)),
            owner => Bias::Exclusive(Owner(owner & !EXCLUSIVE)),
        }
    }
}

/// A value that a biased lock guards.
#[derive(Debug)]
pub struct Biased<T> {
    word: AtomicU64,
    /// True while the thread of the bias has the lock.
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: - the value is reached through a `BiasedGuard` alone, and there is one at a time, see `Biased::hold`;
// - so sharing the lock does no more than sending the value from one thread to the next.
unsafe impl<T: Send> Sync for Biased<T> {}

impl<T> Biased<T> {
    /// Makes a lock that any thread may take.
    pub fn new(value: T) -> Biased<T> {
        Biased { word: AtomicU64::new(FREE), busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the lock if it is biased to the calling thread.
    #[inline]
    pub fn enter(&self) -> Option<BiasedGuard<'_, T>> {
        let owner = CURRENT.with(Cell::get);
        // ORDER: none: the load below acquires.
        let word = self.word.load(Ordering::Relaxed);
        // ORDER: none: this thread alone sets it. It is set if this thread is in the lock already: a second hold
        // would be one too many.
        if word & !EXCLUSIVE != owner.0 || self.busy.load(Ordering::Relaxed) {
            return None;
        }
        // ORDER: another thread changes the word and then passes the heavy fence. For it this store comes before the
        // load below: either it sees this store, or this thread sees the change.
        self.busy.store(true, Ordering::Relaxed);
        asymmetric::light();
        // ORDER: see above. Acquires what was done under the lock before it was biased to this thread, which may have
        // happened once more since the first load.
        if self.word.load(Ordering::Acquire) == word {
            return Some(self.hold(word, FREE));
        }
        // ORDER: nothing was done under the lock.
        self.busy.store(false, Ordering::Relaxed);
        None
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        // ORDER: acquires what was done under the lock.
        let taken = self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| self.hold(HELD, FREE))
    }

    /// Takes the lock away from the thread to which it is biased, if `is_wanted` accepts the bias. Waits until that
    /// thread is not in the lock.
    pub fn revoke(
        &self,
        is_wanted: impl Fn(Bias) -> bool,
        mut wait: impl FnMut(u32),
    ) -> Option<BiasedGuard<'_, T>> {
        // ORDER: none: the exchange below acquires.
        let word = self.word.load(Ordering::Relaxed);
        if word == HELD || !is_wanted(Bias::of(word)) || !self.mark_held(word) {
            return None;
        }
        asymmetric::heavy();
        self.wait_idle(&mut wait);
        Some(self.hold(HELD, FREE))
    }

    /// Takes all locks of a group, whatever their bias. A thread that holds one of them must not wait for another.
    pub fn lock_all<'a>(
        group: impl Iterator<Item = &'a Biased<T>> + Clone,
        mut wait: impl FnMut(u32),
    ) -> Vec<BiasedGuard<'a, T>>
    where
        T: 'a,
    {
        let mut is_biased = false;
        for lock in group.clone() {
            for round in 0.. {
                // ORDER: none: the exchange in `mark_held` acquires.
                let word = lock.word.load(Ordering::Relaxed);
                if word != HELD && lock.mark_held(word) {
                    is_biased |= matches!(Bias::of(word), Bias::To(_) | Bias::Exclusive(_));
                    break;
                }
                wait(round);
            }
        }
        if is_biased {
            asymmetric::heavy();
        }
        let hold = |lock: &'a Biased<T>| {
            lock.wait_idle(&mut wait);
            lock.hold(HELD, FREE)
        };
        group.map(hold).collect()
    }

    /// Opens the lock if it was closed.
    pub fn open(&self) {
        // ORDER: releases the end of the bias that kept this lock closed.
        let _ = self.word.compare_exchange(CLOSED, FREE, Ordering::Release, Ordering::Relaxed);
    }

    /// Makes the word HELD if it is still `word`.
    fn mark_held(&self, word: u64) -> bool {
        // ORDER: acquires what was done under the lock by the thread that set the word.
        self.word.compare_exchange(word, HELD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Waits until the thread that had the bias is not in the lock. The word is HELD.
    fn wait_idle(&self, wait: &mut impl FnMut(u32)) {
        for round in 0.. {
            // ORDER: acquires what that thread did under the lock.
            if !self.busy.load(Ordering::Acquire) {
                return;
            }
            wait(round);
        }
    }

    /// Returns the guard of a thread that has taken the lock. Either the thread made the word HELD, and saw that the
    /// thread of the bias is not in the lock. Or it is the thread of the bias: it set `busy`, and saw that the word
    /// was still its own.
    #[inline]
    fn hold(&self, word: u64, next_word: u64) -> BiasedGuard<'_, T> {
        BiasedGuard { lock: self, word, next_word, value: self.value.get_mut() }
    }
}

/// The value, while the calling thread has the lock.
#[derive(Debug)]
pub struct BiasedGuard<'a, T> {
    lock: &'a Biased<T>,
    /// The lock's word: HELD, or the word of the bias if the biased thread holds the lock.
    word: u64,
    /// The word after the release, if it was HELD.
    next_word: u64,
    value: MutPtr<T>,
}

impl<T> BiasedGuard<'_, T> {
    /// Returns true if no other lock of the group can be held meanwhile.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.word != HELD && self.word & EXCLUSIVE != 0
    }

    /// Sets the bias that the lock gets at its release. Has no effect if the biased thread holds it.
    pub fn bias(&mut self, bias: Bias) {
        self.next_word = bias.word();
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: - this thread alone has the lock while the hold lives, see `Biased::hold`;
        // - the reference ends with the borrow of the hold, so no exclusive one is made meanwhile.
        unsafe { self.value.deref() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: - as for `deref`; the hold is borrowed exclusively, so this is the one reference.
        unsafe { self.value.deref() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.word == HELD {
            // ORDER: releases what was done under the lock.
            self.lock.word.store(self.next_word, Ordering::Release);
        } else {
            // ORDER: releases what was done under the lock to a thread that waits for this one to leave it.
            self.lock.busy.store(false, Ordering::Release);
        }
    }
}

#[cfg(loom)]
use loom::cell;

/// Loom's form of the standard library's cell.
#[cfg(not(loom))]
mod cell {
    #[derive(Debug)]
    pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[derive(Debug)]
    pub(super) struct MutPtr<T>(*mut T);

    impl<T> UnsafeCell<T> {
        pub(super) fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(super) fn get_mut(&self) -> MutPtr<T> {
            MutPtr(self.0.get())
        }
    }

    impl<T> MutPtr<T> {
        /// # Safety
        /// The value lives as long as the reference, which is the only one to it.
        #[allow(clippy::mut_from_ref, reason = "loom's form")]
        #[inline]
        pub(super) unsafe fn deref(&self) -> &mut T {
            // SAFETY: - the pointer is that of a cell, so it is not null, and aligned, and its value is initialised;
            // - the caller ensures that the value lives, and that there is no other reference.
            unsafe { &mut *self.0 }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;
    use std::thread;

    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };

    fn wait(_: u32) {
        thread::yield_now();
    }

    /// The thread of the bias counts, while another one takes the lock away from it, counts too, and gives it back.
    #[test]
    fn revoked_bias_has_one_holder() {
        if !asymmetric::is_available() {
            return;
        }
        let lock = Biased::new(0u64);
        let give_back = |mut hold: BiasedGuard<'_, u64>, owner| {
            *hold += 1;
            hold.bias(Bias::To(owner));
        };
        let current = Owner::current();
        thread::scope(|scope| {
            give_back(lock.try_lock().expect("it is free"), current);
            let other = scope.spawn(|| {
                let is_biased = |bias| matches!(bias, Bias::To(_));
                let revoke = || lock.revoke(is_biased, wait).map(|hold| give_back(hold, current));
                (0..ROUNDS).filter(|_| revoke().is_some()).count() as u64
            });
            let mine =
                (0..ROUNDS).filter(|_| lock.enter().map(|mut hold| *hold += 1).is_some()).count() as u64;
            let others = other.join().expect("no panic");
            assert_eq!(*lock.try_lock().unwrap_or_else(|| lock.enter().expect("mine")), 1 + mine + others);
        });
    }

    #[test]
    fn exclusive_bias_closes_other_locks() {
        if !asymmetric::is_available() {
            return;
        }
        let group = [Biased::new(()), Biased::new(())];
        let mut all = Biased::lock_all(group.iter(), wait);
        all[0].bias(Bias::Exclusive(Owner::current()));
        all[1].bias(Bias::Closed);
        drop(all);
        assert!(group[1].enter().is_none() && group[1].try_lock().is_none());
        assert!(group[0].enter().expect("it is this thread's").is_exclusive());
        group[1].open();
        let hold = group[1].try_lock().expect("it is open");
        assert!(!hold.is_exclusive());
        drop(hold);
        assert!(group[1].enter().is_none(), "it has no owner");
    }

    #[test]
    fn biased_lock_is_not_reentrant() {
        if !asymmetric::is_available() {
            return;
        }
        let lock = Biased::new(());
        lock.try_lock().expect("it is free").bias(Bias::To(Owner::current()));
        let hold = lock.enter().expect("it is this thread's");
        assert!(lock.enter().is_none() && lock.try_lock().is_none());
        drop(hold);
        assert!(lock.enter().is_some());
    }

    #[test]
    fn new_lock_is_unbiased() {
        let lock = Biased::new(());
        assert_eq!(thread::spawn(move || lock.enter().is_none()).join().ok(), Some(true));
    }
}
