//! Readers that hold no lock, and when what they may hold can be used again.
//!
//! A reader pins the current epoch before it follows its first pointer. A block that was unlinked may be used
//! again once every reader that was pinned then has let go.

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence, fence_after_exchange, thread_local};
use lode_pmem::Medium;
use std::cell::Cell;

/// Readers that can be pinned at once; more wait.
const SLOTS: usize = if cfg!(loom) { 2 } else { 128 };

const FREE: u64 = 0;

#[derive(Debug)]
#[repr(align(64))]
struct ReaderSlot(AtomicU64);

/// The epochs and who is pinned in them.
#[derive(Debug)]
pub(crate) struct Readers {
    /// The current epoch, from 1.
    epoch: AtomicU64,
    slots: Box<[ReaderSlot]>,
    /// Slots that were ever used lie below this.
    used: AtomicUsize,
}

/// A pinned reader: what was reachable when it was made stays as it is until it is dropped.
#[derive(Debug)]
pub struct Pin<'a> {
    slot: &'a ReaderSlot,
}

thread_local! {
    static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Readers {
    pub(crate) fn new() -> Readers {
        let slots = (0..SLOTS).map(|_| ReaderSlot(AtomicU64::new(FREE))).collect();
        Readers { epoch: AtomicU64::new(1), slots, used: AtomicUsize::new(0) }
    }

    /// Pins the calling thread.
    ///
    /// # Cost
    /// One locked instruction.
    #[inline]
    pub(crate) fn pin<M: Medium>(&self, medium: &M) -> Pin<'_> {
        // ORDER: an old epoch is safe: it only keeps blocks longer.
        let epoch = self.epoch.load(Ordering::Relaxed);
        if let Some(slot) = self.slots.get(HINT.with(Cell::get))
            && slot.claim(epoch)
        {
            return Pin { slot };
        }
        self.pin_any(medium)
    }

    #[cold]
    fn pin_any<M: Medium>(&self, medium: &M) -> Pin<'_> {
        for round in 0.. {
            for (index, slot) in self.slots.iter().enumerate() {
                // ORDER: the mark is raised before the slot is used, so that `oldest` looks at the slot.
                self.used.fetch_max(index + 1, Ordering::SeqCst);
                if slot.claim(self.epoch.load(Ordering::SeqCst)) {
                    HINT.with(|hint| hint.set(index));
                    return Pin { slot };
                }
            }
            medium.relax(round);
        }
        unreachable!("the loop ends with a slot")
    }

    /// Ends the current epoch and returns its number: what was unlinked before the call was unlinked in it or
    /// earlier.
    pub(crate) fn advance(&self) -> u64 {
        // ORDER: the unlinking stores of the caller come before the new epoch and before the look at the slots.
        self.epoch.fetch_add(1, Ordering::SeqCst)
    }

    /// The epoch before which what was unlinked has no reader: the oldest one in which a reader is pinned, and not
    /// later than the current one, since what others unlink after this look may well have a reader.
    pub(crate) fn oldest(&self) -> u64 {
        // ORDER: what was unlinked in epochs that are over was unlinked before the fence. Either what follows sees a
        // reader's claim, or the reader's loads, which follow its claim, see what was unlinked before the fence; then
        // it can't come to hold it.
        let current = self.epoch.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let used = self.used.load(Ordering::SeqCst);
        let pinned = self.slots[..used].iter().map(|slot| slot.0.load(Ordering::SeqCst));
        pinned.filter(|epoch| *epoch != FREE).fold(current, u64::min)
    }
}

impl ReaderSlot {
    #[inline]
    fn claim(&self, epoch: u64) -> bool {
        // ORDER: the claim comes before every load of the reader, for all threads; see `Readers::oldest`.
        let claimed = self.0.compare_exchange(FREE, epoch, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        fence_after_exchange();
        claimed
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDER: releases the reader's loads: who sees the free slot may overwrite what was read.
        self.slot.0.store(FREE, Ordering::Release);
    }
}
