//! An arena: its place on the medium, its map and its blocks.

use crate::bugs;
use crate::error::BttError;
use crate::found::FoundArena;
use crate::lanes::Lanes;
use crate::undrained::Stripe;
use lode_layout::{PoolOffset, WORD, align_down};
use lode_nvdimm::{BttBlockState, BttDamage, BttDialect, BttFlog, BttGeometry, BttMapEntry};
use lode_pmem::sync::{SpinMutex, SpinMutexGuard};
use lode_pmem::{Durability, FaultScope, Medium, Readable, Readers, hold};
use std::ops::Range;

/// An arena that is open.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The number of the arena, from 0.
    pub(crate) index: u32,
    /// Offset of the info block.
    pub(crate) start: PoolOffset,
    /// The number of its first block, in the whole table.
    pub(crate) first_lba: u64,
    pub(crate) geometry: BttGeometry,
    pub(crate) dialect: BttDialect,
    pub(crate) is_read_only: bool,
    pub(crate) lanes: Lanes,
    pub(crate) readers: Readers,
    /// The sum of the offsets of a lane's two flog entries: either is this sum less the other.
    pub(crate) flog_offs: u64,
    /// A lock for each group of words of the map.
    pub(crate) stripes: Box<[SpinMutex<Stripe>]>,
}

/// The map entries in a word.
const ENTRIES: u32 = (WORD / BttMapEntry::LEN) as u32;

impl Arena {
    /// Returns the arena that was found, with this flog.
    pub(crate) fn new(found: &FoundArena, dialect: BttDialect, first_lba: u64, flog: &BttFlog) -> Arena {
        let geometry = found.info.geometry;
        let stripes = (0..geometry.nfree()).map(|_| SpinMutex::new(Stripe::default())).collect();
        Arena {
            index: found.index,
            start: found.start,
            first_lba,
            geometry,
            dialect,
            is_read_only: found.info.is_read_only,
            lanes: Lanes::new(flog.lanes()),
            readers: Readers::new(),
            flog_offs: flog.other_off(0),
            stripes,
        }
    }

    /// Returns the offset of a block of the data.
    pub(crate) fn block_at(&self, block: u32) -> PoolOffset {
        let off = u64::from(block) * u64::from(self.geometry.internal_lbasize());
        self.start.plus(self.geometry.dataoff() + off)
    }

    /// Returns the offset of a lane in the flog.
    pub(crate) fn flog_at(&self, lane: usize) -> PoolOffset {
        self.start.plus(self.geometry.flogoff() + lane as u64 * BttFlog::LANE_LEN)
    }

    /// Returns the offset of the word of the map that holds the entry of `lba`, and one other.
    pub(crate) fn word_at(&self, lba: u32) -> PoolOffset {
        let off = u64::from(lba) * BttMapEntry::LEN;
        self.start.plus(self.geometry.mapoff() + align_down(off, WORD))
    }

    /// Returns the blocks of the table whose entries are in the word of the map with the entry of `lba`.
    pub(crate) fn blocks_of_word(&self, lba: u32) -> Range<u64> {
        let first = lba / ENTRIES * ENTRIES;
        let end = first.saturating_add(ENTRIES).min(self.geometry.external_nlba());
        self.first_lba + u64::from(first)..self.first_lba + u64::from(end)
    }

    /// Returns the index of the stripe of a block. Blocks in order have stripes of their own, except for the two of a word.
    pub(crate) fn stripe_index(&self, lba: u32) -> usize {
        (lba / ENTRIES) as usize % self.stripes.len()
    }

    /// Returns the place of the stripe of a block in the order in which every batch holds stripes.
    pub(crate) fn stripe_order(&self, lba: u32) -> (u32, usize) {
        (self.index, self.stripe_index(lba))
    }

    /// Waits until no reader reads a block of the data, which no map entry has any more.
    pub(crate) fn wait_for_readers<M: Medium>(&self, medium: &M, block: u32) {
        if !bugs::READERS_NOT_AWAITED.is_active() {
            self.readers.wait_for_readers(medium, &[block]);
        }
    }

    /// Holds the stripe of this number.
    ///
    /// # Errors
    /// [`BttError::Poisoned`] after a write in doubt of a block of the stripe. The table refuses all other changes, too, but its
    /// flag may not be set yet.
    #[inline]
    pub(crate) fn lock_stripe<M: Medium>(
        &self,
        medium: &M,
        index: usize,
    ) -> Result<SpinMutexGuard<'_, Stripe>, BttError> {
        let stripe = hold(&self.stripes[index], medium);
        if stripe.is_in_doubt { Err(BttError::Poisoned) } else { Ok(stripe) }
    }

    /// Returns the state of a map entry, or that of the same meaning: blocks that were never written can be zeros.
    pub(crate) fn read_state(&self, entry: BttMapEntry) -> BttBlockState {
        match entry.state {
            BttBlockState::Initial if self.dialect.is_initial_zero() => BttBlockState::Zero,
            state => state,
        }
    }

    /// Returns the error for this damage of the arena.
    pub(crate) fn damaged(&self, damage: BttDamage) -> BttError {
        BttError::Damaged { arena: self.index, at: self.start, damage }
    }

    /// Loads the map entry of `lba`.
    ///
    /// # Errors
    /// Fails if the entry names a block that does not exist.
    pub(crate) fn load_entry(&self, memory: &Readable, lba: u32) -> Result<BttMapEntry, BttError> {
        let word = memory.load8(self.word_at(lba)).to_le_bytes();
        let entries = word.as_chunks::<{ BttMapEntry::LEN as usize }>().0;
        let entry = BttMapEntry::decode(entries[(lba % ENTRIES) as usize]);
        let (found, internal_nlba) = (entry.block(lba), self.geometry.internal_nlba());
        if found >= internal_nlba {
            return Err(self.damaged(BttDamage::MapNumber { lba, found, internal_nlba }));
        }
        Ok(BttMapEntry { number: found, ..entry })
    }

    /// Fetches the line of the map entry of `lba`, for a caller that replaces the entry after it has copied the content.
    #[inline]
    pub(crate) fn prefetch_entry<M: Medium>(&self, medium: &M, lba: u32) {
        medium.memory().prefetch_store(self.word_at(lba));
    }

    /// Loads the map entry of `lba` in a scope of its own.
    ///
    /// # Errors
    /// Fails as [`load_entry`](Arena::load_entry) does, and if the map can't be read.
    pub(crate) fn entry<M: Medium>(&self, medium: &M, lba: u32) -> Result<BttMapEntry, BttError> {
        medium.memory().try_reading(|memory| self.load_entry(memory, lba))
    }

    /// Loads the map entry of `lba` for a caller that replaces it, and makes sure that its word has space. The caller holds
    /// the word: nothing else stores to it.
    ///
    /// # Errors
    /// Fails as [`entry`](Arena::entry) does, and if the file system has no space for the word. Nothing was changed.
    pub(crate) fn entry_to_replace<M: Medium>(&self, medium: &M, lba: u32) -> Result<BttMapEntry, BttError> {
        medium.memory().try_reading(|memory| {
            claim(medium, self.word_at(lba));
            self.load_entry(memory, lba)
        })
    }

    /// Stores the map entry of `lba`, and flushes it. The caller holds its stripe, since the word has another entry.
    pub(crate) fn store_entry<M: Medium>(&self, medium: &M, lba: u32, entry: BttMapEntry) {
        self.store_entry_unflushed(medium, lba, entry);
        medium.flush(self.word_at(lba), WORD);
    }

    /// Stores the map entry of `lba` for a caller that flushes it, and holds its stripe.
    pub(crate) fn store_entry_unflushed<M: Medium>(&self, medium: &M, lba: u32, entry: BttMapEntry) {
        let at = self.word_at(lba);
        let shift = lba % ENTRIES * u32::BITS;
        let old = medium.memory().reading_in_scope(|memory| memory.load8(at));
        let new = u64::from(u32::from_le_bytes(entry.encode())) << shift;
        medium.store8(at, old & !(u64::from(u32::MAX) << shift) | new);
    }

    /// Copies the content of a block past the cache.
    ///
    /// # Errors
    /// Fails if the block can't be stored to.
    pub(crate) fn copy_in<M: Medium>(&self, medium: &M, block: u32, from: &[u8]) -> Result<(), BttError> {
        let at = self.block_at(block);
        let (words, rest) = from.as_chunks::<{ WORD as usize }>();
        FaultScope::run(|| {
            medium.copy(at, words.as_flattened());
            if !rest.is_empty() {
                let mut last = [0; WORD as usize];
                last[..rest.len()].copy_from_slice(rest);
                medium.copy(at.plus((from.len() - rest.len()) as u64), &last);
            }
        })?;
        Ok(())
    }

    /// Copies the content of the block of `lba` to `into`. `entry` loads the map entry.
    ///
    /// # Errors
    /// Fails as `entry` does, and if the block can't be read.
    pub(crate) fn copy_out<M: Medium>(
        &self,
        medium: &M,
        lba: u32,
        into: &mut [u8],
        entry: impl Fn(&Readable) -> Result<BttMapEntry, BttError>,
    ) -> Result<(), BttError> {
        medium.memory().try_reading(|memory| {
            let mut seen = entry(memory)?;
            let mut announcement = None;
            loop {
                match self.read_state(seen) {
                    BttBlockState::Zero => {
                        into.fill(0);
                        return Ok(());
                    }
                    BttBlockState::Error => {
                        return Err(BttError::Lost { lba: self.first_lba + u64::from(lba) });
                    }
                    BttBlockState::Initial | BttBlockState::Normal => {}
                }
                match &announcement {
                    None => announcement = Some(self.readers.announce(medium, seen.number)),
                    Some(announcement) => announcement.replace(seen.number),
                }
                let again = entry(memory)?;
                if again == seen || bugs::READ_NOT_REPEATED.is_active() {
                    break;
                }
                seen = again;
            }
            // Nothing below calls the medium: without this, no other thread would run between note and copy.
            #[cfg(lode_bugs)]
            lode_pmem::scheduled::step();
            memory.read(self.block_at(seen.number), into);
            Ok(())
        })
    }
}

/// Makes sure that a word has space, by a store of what is there: on a sparse file a store can find a full disk, and this one
/// comes before all that may not fail. The caller holds the word, and has a scope open.
///
/// In memory that is mapped directly, only a page of zeros can lack space. In a page cache, which takes space for several pages at
/// a time, any can.
pub(crate) fn claim<M: Medium>(medium: &M, at: PoolOffset) {
    let word = medium.memory().reading_in_scope(|memory| memory.load8(at));
    if word == 0 || medium.durability() == Durability::Commit {
        medium.store8(at, word);
    }
}
