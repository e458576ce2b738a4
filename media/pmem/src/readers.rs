//! Blocks that are being read, of a map whose writers give them other content.

use crate::Medium;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence, fence_after_exchange};
use std::cell::Cell;

/// Number of reads that can run at once.
const COUNT: usize = 64;

/// The block that a reader reads, plus one; 0 while there is no reader.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU64);

thread_local! {
    /// The slot that this thread used last, of any readers.
    static HINT: Cell<usize> = const { Cell::new(0) };
}

/// The announcements of all readers.
#[derive(Debug)]
pub struct Readers {
    slots: Box<[Slot]>,
    /// Number of slots that were ever used, the first ones.
    used: AtomicUsize,
}

/// The announcement of a reader. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the announcement ends when this is dropped"]
pub struct Announcement<'a>(&'a Slot);

impl Readers {
    /// Returns the announcements of no reader.
    pub fn new() -> Readers {
        let slots = (0..COUNT).map(|_| Slot(AtomicU64::new(0))).collect();
        Readers { slots, used: AtomicUsize::new(0) }
    }

    /// Announces that the caller is about to read `block`. It must then load the map entry again: if that is unchanged,
    /// no writer takes the block before the announcement ends.
    pub fn announce<M: Medium>(&self, medium: &M, block: u32) -> Announcement<'_> {
        let start = HINT.get();
        let mut round = 0;
        loop {
            for index in (0..COUNT).map(|step| (start + step) % COUNT) {
                let slot = &self.slots[index];
                // ORDER: acquires the slot from the reader before. The fence orders the note before the second load of
                // the map entry. A writer orders its map entry before its look at the notes, in `wait_for_readers`. So
                // the reader sees the new entry, or the writer sees the note.
                let claimed =
                    slot.0.compare_exchange(0, note_of(block), Ordering::Acquire, Ordering::Relaxed);
                if claimed.is_ok() {
                    self.note_used(index);
                    // ORDER: see above.
                    fence_after_exchange();
                    return Announcement(slot);
                }
            }
            medium.relax(round);
            round = round.saturating_add(1);
        }
    }

    #[inline]
    fn note_used(&self, index: usize) {
        HINT.set(index);
        // ORDER: none: the number only grows, and a reader that finds it high enough has raised it before, or another
        // has, whose raise the fence orders as well.
        if self.used.load(Ordering::Relaxed) <= index {
            // ORDER: before the fence in `announce`: a writer that misses the slot has made its map entry visible.
            self.used.fetch_max(index + 1, Ordering::SeqCst);
        }
    }

    /// Waits until no reader reads one of `blocks`, which no map entry names any more. The caller has taken a lock since it
    /// knows that.
    #[inline]
    pub fn wait_for_readers<M: Medium>(&self, medium: &M, blocks: &[u32]) {
        // ORDER: the map entry that freed the block is visible before the look at the notes; see `announce`. The lock is
        // the exchange.
        fence_after_exchange();
        // ORDER: after the fence, as the notes.
        let used = self.used.load(Ordering::Relaxed);
        let is_read = |slot: &Slot, block: &u32| {
            // ORDER: acquires the end of the reader's loads.
            slot.0.load(Ordering::Acquire) == note_of(*block)
        };
        for slot in &self.slots[..used] {
            let mut round = 0;
            while blocks.iter().any(|block| is_read(slot, block)) {
                medium.relax(round);
                round = round.saturating_add(1);
            }
        }
    }
}

impl Default for Readers {
    fn default() -> Readers {
        Readers::new()
    }
}

impl Announcement<'_> {
    /// Announces another block instead.
    #[inline]
    pub fn replace(&self, block: u32) {
        // ORDER: as in `announce`.
        self.0.0.store(note_of(block), Ordering::Relaxed);
        // ORDER: as in `announce`.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Announcement<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDER: releases the loads of the block: a writer that sees the 0 stores after them.
        self.0.0.store(0, Ordering::Release);
    }
}

fn note_of(block: u32) -> u64 {
    u64::from(block) + 1
}
