//! Map words: the newest of each block.

use crate::blocks::Blocks;
use crate::error::{BlocksError, Damage};
use crate::segments::Segments;
use lode_layout::BlockMapWord;
use lode_pmem::{Medium, Readable};

/// Decodes the map word of a block.
///
/// # Errors
/// Fails if its data block does not exist, or if the block is lost.
pub(crate) fn decode(segments: &Segments, lba: u64, word: u64) -> Result<Option<BlockMapWord>, Damage> {
    if word == BlockMapWord::LOST {
        return Err(Damage::Lost { lba });
    }
    BlockMapWord::decode(word, segments.data_count()).map_err(|error| Damage::MapWord {
        lba,
        at: segments.word_at(lba),
        error,
    })
}

impl<M: Medium> Blocks<M> {
    /// Returns the newest map word of a block.
    ///
    /// # Errors
    /// Fails if its data block does not exist.
    #[inline]
    pub(crate) fn word(&self, memory: &Readable, lba: u64) -> Result<Option<BlockMapWord>, BlocksError> {
        let cached = self.cache.as_ref().and_then(|cache| cache.word(self.medium(), lba));
        let word = cached.unwrap_or_else(|| memory.load8(self.segments.word_at(lba)));
        Ok(decode(&self.segments, lba, word)?)
    }

    /// Returns the map word of a block that the pool has; `None` also for a block that is lost.
    ///
    /// # Errors
    /// Fails if it can't be read, or if its data block does not exist.
    pub(crate) fn pool_word(&self, lba: u64) -> Result<Option<BlockMapWord>, BlocksError> {
        self.medium().memory().try_reading(|memory| {
            match decode(&self.segments, lba, memory.load8(self.segments.word_at(lba))) {
                Err(Damage::Lost { .. }) => Ok(None),
                word => Ok(word?),
            }
        })
    }
}
