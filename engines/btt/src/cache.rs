//! The volatile cache: on a medium that is durable by syncs, flog and map words wait in DRAM for the sync of their data.
//!
//! ```text
//!   write:  data -> free block of a lane, in the page cache;  map word -> `newer`, visible at once
//!   flush:  newer becomes `settling` -> SYNC, the data -> flog entries -> SYNC -> map words -> the lanes are free again
//! ```
//!
//! A write keeps its lane until the flush, and so both its blocks: the durable map still has the old one. A second write
//! of the block, or zeros, takes the place of the first one, whose lane and block are free at once. Lanes do not exchange
//! blocks: which block of a lane is free follows from its flog entry.

use crate::arena::Arena;
use crate::bugs;
use crate::error::BttError;
use lode_nvdimm::{BttBlockState, BttMapEntry};
use lode_pmem::hold;
use lode_pmem::sync::{AtomicBool, Ordering, SpinMutex};
use lode_pmem::{Medium, Readable};
use std::collections::BTreeMap;

/// A map entry that is not on the medium yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedEntry {
    pub(crate) entry: BttMapEntry,
    /// The entry that the map has when the flush replaces it. Its block is the lane's free one then.
    pub(crate) old: BttMapEntry,
    /// The lane of the write that waits for a flush; `None` if only the state of the block changed.
    pub(crate) lane: Option<usize>,
}

/// Entries by the number of their block in the table.
pub(crate) type Entries = BTreeMap<u64, CachedEntry>;

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Entries since the last flush began.
    pub(crate) newer: Entries,
    /// Entries that the running flush makes durable.
    pub(crate) settling: Entries,
}

impl Waiting {
    /// Returns true if the running flush stores to the word of the map with the entry of `lba`.
    fn settles_word(&self, arena: &Arena, lba: u32) -> bool {
        self.settling.range(arena.blocks_of_word(lba)).next().is_some()
    }

    fn entry(&self, lba: u64) -> Option<BttMapEntry> {
        self.newer.get(&lba).or_else(|| self.settling.get(&lba)).map(|cached| cached.entry)
    }
}

/// The volatile cache of a table.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) waiting: SpinMutex<Waiting>,
    /// Held by the flush that runs.
    pub(crate) flushing: SpinMutex<()>,
    /// True if a block was written in place since the last flush began.
    is_written_in_place: AtomicBool,
}

impl Cache {
    /// Returns the newest map entry of a block.
    pub(crate) fn entry<M: Medium>(
        &self,
        medium: &M,
        memory: &Readable,
        (arena, lba): (&Arena, u32),
    ) -> Result<BttMapEntry, BttError> {
        let cached = hold(&self.waiting, medium).entry(arena.first_lba + u64::from(lba));
        cached.map_or_else(|| arena.load_entry(memory, lba), Ok)
    }

    /// Replaces the entry of a block by a write of `lane`, or by another state of the block. `change` makes the new entry
    /// of the one that the next flush finds in the map, which is returned. A write that waits is then in vain.
    pub(crate) fn replace<M: Medium>(
        &self,
        medium: &M,
        (arena, lba): (&Arena, u32),
        lane: Option<usize>,
        change: impl FnOnce(BttMapEntry) -> BttMapEntry,
    ) -> Result<BttMapEntry, BttError> {
        let number = arena.first_lba + u64::from(lba);
        let mut waiting = hold(&self.waiting, medium);
        let replaced = waiting.newer.get(&number).copied();
        let mut old = match (replaced, waiting.settling.get(&number)) {
            (Some(replaced), _) => replaced.old,
            (None, Some(settling)) => settling.entry,
            // Flushes alone store to words of the map, so the lock of the entries holds this one.
            (None, None) if !waiting.settles_word(arena, lba) => arena.entry_to_replace(medium, lba)?,
            (None, None) => arena.entry(medium, lba)?,
        };
        if bugs::VISIBLE_STATE_IN_FLOG.is_active() {
            old.state = waiting.entry(number).unwrap_or(old).state;
        }
        waiting.newer.insert(number, CachedEntry { entry: change(old), old, lane });
        // A writer that holds the lane asks for the lock of the entries.
        drop(waiting);
        if let Some(in_vain) = replaced.and_then(|replaced| replaced.lane) {
            hold(arena.lanes.state(in_vain), medium).is_waiting = false;
        }
        Ok(old)
    }

    /// Notes that a block was written in place.
    pub(crate) fn note_in_place(&self) {
        if !bugs::IN_PLACE_NOT_NOTED.is_active() {
            // ORDER: releases: the content is in the page cache before a flush takes the note and syncs.
            self.is_written_in_place.store(true, Ordering::Release);
        }
    }

    /// Takes the note that a block was written in place. A flush does so before its sync.
    pub(crate) fn take_in_place(&self) -> bool {
        // ORDER: acquires what was written before the notes.
        self.is_written_in_place.swap(false, Ordering::Acquire)
    }

    /// Returns true if nothing waits for a flush to begin.
    #[cfg(lode_bugs)]
    pub(crate) fn is_empty<M: Medium>(&self, medium: &M) -> bool {
        hold(&self.waiting, medium).newer.is_empty()
    }

    /// Notes that the map entry of a block has a new state.
    pub(crate) fn set_state<M: Medium>(
        &self,
        medium: &M,
        place: (&Arena, u32),
        state: BttBlockState,
    ) -> Result<(), BttError> {
        self.replace(medium, place, None, |old| BttMapEntry { state, ..old }).map(drop)
    }
}
