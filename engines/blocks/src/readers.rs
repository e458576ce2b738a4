//! The data blocks that are being read.

use crate::bugs;
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicU64, AtomicUsize, Ordering, fence};
use std::cell::Cell;

/// Number of reads that can run at once.
const COUNT: usize = 64;

/// The data block that a reader reads, plus one; 0 while there is no reader.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU64);

thread_local! {
    /// The slot that this thread used last, in any pool.
    static HINT: Cell<usize> = const { Cell::new(0) };
}

/// The announcements of all readers.
#[derive(Debug)]
pub(crate) struct Readers {
    slots: Box<[Slot]>,
    /// Number of slots that were ever used, the first ones.
    used: AtomicUsize,
}

/// The announcement of a reader. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the announcement ends when this is dropped"]
pub(crate) struct Announcement<'a>(&'a Slot);

impl Readers {
    pub(crate) fn new() -> Readers {
        let slots = (0..COUNT).map(|_| Slot(AtomicU64::new(0))).collect();
        Readers { slots, used: AtomicUsize::new(0) }
    }

    /// Announces that the caller is about to read `block`. It must then look at the map again: if that is unchanged, no
    /// writer stores to the data block before the announcement ends.
    pub(crate) fn announce<M: Medium>(&self, medium: &M, block: u32) -> Announcement<'_> {
        let start = HINT.get();
        let mut round = 0;
        loop {
            for index in (0..COUNT).map(|step| (start + step) % COUNT) {
                let slot = &self.slots[index];
                // ORDER: acquires the slot from the reader before. The fence orders the note before the second look at
                // the map; see `wait_for_readers`.
                let claimed =
                    slot.0.compare_exchange(0, note_of(block), Ordering::Acquire, Ordering::Relaxed);
                if claimed.is_ok() {
                    self.note_used(index);
                    // ORDER: see above.
                    fence(Ordering::SeqCst);
                    return Announcement(slot);
                }
            }
            medium.relax(round);
            round += 1;
        }
    }

    fn note_used(&self, index: usize) {
        HINT.set(index);
        // ORDER: none: the number only grows, and a reader that finds it high enough has raised it before, or another
        // has, whose raise the fence orders as well.
        if self.used.load(Ordering::Relaxed) <= index {
            // ORDER: before the fence in `announce`: a writer that misses the slot has made its map word visible.
            self.used.fetch_max(index + 1, Ordering::SeqCst);
        }
    }

    /// Waits until no reader reads one of `blocks`, which no map word names any more.
    #[inline]
    pub(crate) fn wait_for_readers<M: Medium>(&self, medium: &M, blocks: &[u32]) {
        if bugs::READERS_NOT_AWAITED.is_active() {
            return;
        }
        // ORDER: the map word that freed the data block is visible before the look at the notes. So the reader sees the
        // new map word, or the writer sees the note.
        fence(Ordering::SeqCst);
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
                round += 1;
            }
        }
    }
}

impl Announcement<'_> {
    /// Announces another data block instead.
    pub(crate) fn replace(&self, block: u32) {
        // ORDER: as in `announce`.
        self.0.0.store(note_of(block), Ordering::Relaxed);
        // ORDER: as in `announce`.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Announcement<'_> {
    fn drop(&mut self) {
        // ORDER: releases the loads of the data block: a writer that sees the 0 stores after them.
        self.0.0.store(0, Ordering::Release);
    }
}

fn note_of(block: u32) -> u64 {
    u64::from(block) + 1
}
