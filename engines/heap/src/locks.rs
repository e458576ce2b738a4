//! Locks for words in the pool. They live in DRAM, so they are open after every start.
//!
//! ```text
//!   a stripe's word    number | tag | pending | held
//! ```
//!
//! The number is that of the last transaction that changed a word under the lock; see [`read_set`](crate::read_set).
//! Many offsets share a stripe. While it is held, the tag tells for which of them: a reader of another one need not
//! wait.
//!
//! A transaction that waits for its sync hands its locks on; see [`pending_words`](crate::pending_words). A lock is *pending*
//! then: to all but the transactions that see pending words it is as if it was held. The flag is a hint. It counts as
//! long as the transaction of that number is not written back, and is cleared sometime later.

use lode_layout::PoolOffset;
use lode_pmem::sync::{AtomicU64, Ordering};

/// Number of stripes, a power of two.
pub(crate) const STRIPES: usize = if cfg!(loom) { 2 } else { 1 << 14 };

const HELD: u64 = 1;
const PENDING: u64 = 2;
const TAG_SHIFT: u32 = 2;
const TAG_BITS: u32 = 12;
const TAG_MASK: u64 = ((1 << TAG_BITS) - 1) << TAG_SHIFT;
/// Leaves 50 bits for the number: three years of ten million transactions a second, without closing the pool.
const NUMBER_SHIFT: u32 = TAG_SHIFT + TAG_BITS;
/// The senior waits for no stripe.
const NONE_WANTED: u64 = u64::MAX;

/// The version of a lock's stripe at some moment: the number of the last transaction that changed words under it, and
/// its holder's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Returns true if a thread holds the lock, or if words under it may wait for their sync.
    #[inline]
    pub fn is_held(self) -> bool {
        self.0 & (HELD | PENDING) != 0
    }

    /// Returns true if words under the lock may wait for their sync.
    #[inline]
    pub(crate) fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// Returns the number of the last transaction that changed words under the lock.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }

    /// Returns the version of a lock that is open since transaction `number`.
    #[inline]
    pub(crate) fn of_number(number: u64) -> Version {
        Version(number << NUMBER_SHIFT)
    }

    /// Returns true if a thread holds the lock, perhaps for the offset that has `tag`.
    #[inline]
    pub(crate) fn is_held_for(self, tag: Tag) -> bool {
        let held_for = self.0 & TAG_MASK;
        self.0 & HELD != 0 && (held_for == 0 || held_for == tag.0)
    }
}

/// A hash of an offset, other than the one that chooses its stripe; shifted to its place in a stripe's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

impl Tag {
    #[inline]
    pub(crate) fn of(at: PoolOffset) -> Tag {
        let mixed = (at.get() >> 3).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        // 0 stands for several offsets.
        Tag((mixed >> (64 - TAG_BITS)).max(1) << TAG_SHIFT)
    }
}

/// A stripe of the table: offsets that share one share their lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stripe(u32);

impl Stripe {
    /// Returns the stripe's number, less than [`STRIPES`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize % STRIPES
    }
}

/// One versioned lock for each of many offsets.
///
/// One transaction at a time may be the *senior*: one that was restarted often. It waits for a lock as long as it has
/// to, and no other transaction takes the lock for which the senior waits.
#[derive(Debug)]
pub(crate) struct LockTable {
    stripes: Box<[AtomicU64]>,
    /// Index of the stripe for which the senior waits.
    wanted: AtomicU64,
    /// 1 while there is a senior.
    senior: AtomicU64,
}

impl LockTable {
    pub(crate) fn new() -> LockTable {
        LockTable {
            stripes: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            wanted: AtomicU64::new(NONE_WANTED),
            senior: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn stripe(&self, at: PoolOffset) -> Stripe {
        // Objects lie at multiples of 16; the multiplier spreads neighbours over the table.
        let mixed = (at.get() >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Stripe((mixed >> (64 - STRIPES.trailing_zeros())) as u32)
    }

    #[inline]
    pub(crate) fn version(&self, stripe: Stripe) -> Version {
        // ORDER: acquires the stores of the thread that held the lock last; loads of what it guards come after.
        Version(self.word(stripe).load(Ordering::Acquire))
    }

    /// Takes the lock for the offset that has `tag` if its version is still `version`, and is not pending.
    #[inline]
    pub(crate) fn take(&self, stripe: Stripe, tag: Tag, version: Version) -> bool {
        !version.is_held() && self.take_open(stripe, tag, version)
    }

    /// Takes the lock as [`take`](LockTable::take) does, also if it is pending.
    #[cold]
    pub(crate) fn take_pending(&self, stripe: Stripe, tag: Tag, version: Version) -> bool {
        version.0 & HELD == 0 && self.take_open(stripe, tag, version)
    }

    #[inline]
    fn take_open(&self, stripe: Stripe, tag: Tag, version: Version) -> bool {
        let held = version.0 | tag.0 | HELD;
        // ORDER: acquires as `version` does. If the version did not change, words that were loaded since it was read
        // have not changed either: loads before this can't be delayed past a locked instruction.
        self.word(stripe).compare_exchange(version.0, held, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Notes that the caller, who holds the lock, holds it for the offset that has `tag`, too.
    #[inline]
    pub(crate) fn hold_also(&self, stripe: Stripe, tag: Tag) {
        let word = self.word(stripe);
        // ORDER: none: the holder alone changes the word.
        let held = word.load(Ordering::Relaxed);
        if ![0, tag.0].contains(&(held & TAG_MASK)) {
            // ORDER: a locked instruction, as `take`: the loads of the holder's validation come after it. A plain store
            // could be delayed past them, and two holders would not see each other.
            let cleared = word.compare_exchange(held, held & !TAG_MASK, Ordering::AcqRel, Ordering::Relaxed);
            debug_assert!(cleared.is_ok(), "the holder alone changes the word");
        }
    }

    /// Releases the lock, under which transaction `number` has changed words.
    #[inline]
    pub(crate) fn release_changed(&self, stripe: Stripe, number: u64) {
        // ORDER: releases the holder's write-backs, which are durable by then.
        self.word(stripe).store(Version::of_number(number).0, Ordering::Release);
    }

    /// Releases the lock, under which no word was changed, at its old version.
    #[inline]
    pub(crate) fn release(&self, stripe: Stripe) {
        let word = self.word(stripe);
        // ORDER: none: the holder alone changes the word.
        let version = word.load(Ordering::Relaxed) & !(HELD | TAG_MASK);
        // ORDER: releases the holder's loads: the next holder's stores come after them.
        word.store(version, Ordering::Release);
    }

    /// Hands the lock on: releases it, pending, under the number of a transaction that has changed words and waits for its
    /// sync.
    pub(crate) fn hand_on(&self, stripe: Stripe, number: u64) {
        // ORDER: releases the pending words.
        self.word(stripe).store(Version::of_number(number).0 | PENDING, Ordering::Release);
    }

    /// Notes that the words of transaction `number` are written back, unless a later one holds or changed the lock.
    pub(crate) fn settle(&self, stripe: Stripe, number: u64) {
        let (pending, open) = (Version::of_number(number).0 | PENDING, Version::of_number(number).0);
        // ORDER: releases the write-backs, which the caller has seen. A failure is left alone.
        let _ = self.word(stripe).compare_exchange(pending, open, Ordering::Release, Ordering::Relaxed);
    }

    /// Notes that the words under the lock, which the caller holds, are written back.
    pub(crate) fn clear_pending(&self, stripe: Stripe) {
        let word = self.word(stripe);
        // ORDER: none: the holder alone changes the word.
        let held = word.load(Ordering::Relaxed);
        // ORDER: releases the write-backs, which the caller has seen.
        word.store(held & !PENDING, Ordering::Release);
    }

    /// Makes the caller the senior, if there is none.
    pub(crate) fn begin_senior(&self) -> bool {
        // ORDER: acquires the end of the last senior.
        self.senior.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends the caller's being the senior.
    pub(crate) fn end_senior(&self) {
        self.set_wanted(None);
        // ORDER: releases the word above to the next senior.
        self.senior.store(0, Ordering::Release);
    }

    /// Returns true if there is a senior.
    pub(crate) fn has_senior(&self) -> bool {
        // ORDER: none: a hint for how long to wait.
        self.senior.load(Ordering::Relaxed) != 0
    }

    /// Reserves the lock for which the senior, the caller, waits. `None` if it waits for none.
    pub(crate) fn set_wanted(&self, stripe: Option<Stripe>) {
        // ORDER: none: a thread that sees it late takes the lock once more.
        self.wanted.store(stripe.map_or(NONE_WANTED, |stripe| stripe.0.into()), Ordering::Relaxed);
    }

    /// Returns true if the senior waits for the lock.
    #[inline]
    pub(crate) fn is_wanted(&self, stripe: Stripe) -> bool {
        // ORDER: as in `set_wanted`.
        self.wanted.load(Ordering::Relaxed) == u64::from(stripe.0)
    }

    fn word(&self, stripe: Stripe) -> &AtomicU64 {
        &self.stripes[stripe.index()]
    }
}
