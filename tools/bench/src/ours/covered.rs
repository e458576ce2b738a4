//! Transactions on an area of words to which the program stores in place.

use crate::engine::{BLOCK_WORDS, SLOTS, Transactions};
use anyhow::{Result, bail};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Durability, Mapping, Medium, Readable};
use lode_redo::cover::{Changes, Cover};
use lode_redo::{Log, LogArea};
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

/// The log, as long as in a pool of libpmemobj's format of this size.
const LOG: LogArea = LogArea { start: PoolOffset::new(0x4000), len: 32 << 20 };
const UUID: [u8; 16] = [1; 16];

/// An area of words that a log covers.
pub(super) struct CoveredArea {
    cover: Cover<Arc<Mapping>>,
    words: PoolOffset,
    word_count: u32,
    /// The word that the next transaction stores first.
    stamp: u64,
}

impl CoveredArea {
    /// An area of so many words, all zeros, in a fresh file, its pages touched.
    pub(super) fn create(path: &Path, durability: Durability, word_count: u32) -> Result<CoveredArea> {
        let words = LOG.start.plus(LOG.len);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(words.get() + u64::from(word_count) * WORD)?;
        let medium = Arc::new(Mapping::options().durability(durability).map_file(file, path)?);
        for page in (0..medium.memory().len()).step_by(4096) {
            medium.store8(PoolOffset::new(page), 0);
        }
        Log::format(&medium, LOG, &UUID, [1; 2])?;
        let (cover, _) = Cover::recover(medium, LOG, words, UUID, [2; 2], 16)?;
        Ok(CoveredArea { cover, words, word_count, stamp: 1 })
    }
}

impl Transactions for CoveredArea {
    fn change(&mut self, places: &[u32], ranges: usize) -> Result<()> {
        for places in places.chunks_exact(ranges) {
            let mut transaction = self.cover.begin()?;
            for (place, value) in places.iter().zip(self.stamp..) {
                let at = self.words.plus(u64::from(*place) * WORD);
                transaction.add_range(at, WORD)?;
                self.cover.medium().store8(at, value);
            }
            transaction.commit(Changes::default())?;
            self.stamp += ranges as u64;
        }
        Ok(())
    }

    fn replace(&mut self, _slots: &[u32]) -> Result<()> {
        bail!("the area has no allocator")
    }

    fn alloc_free(&mut self, _times: usize) -> Result<()> {
        bail!("the area has no allocator")
    }

    fn contents(&self) -> Result<Vec<u64>> {
        let word = |memory: &Readable, place: u32| memory.load8(self.words.plus(u64::from(place) * WORD));
        let words = |memory: &Readable| (0..self.word_count).map(|place| word(memory, place)).collect();
        let mut contents: Vec<u64> = self.cover.medium().memory().reading(words)?;
        // No slot has a block.
        contents.resize(contents.len() + (SLOTS * BLOCK_WORDS) as usize, 0);
        Ok(contents)
    }
}
