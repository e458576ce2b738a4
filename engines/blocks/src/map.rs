//! Map words: the newest of each block.

use crate::blocks::Blocks;
use crate::bugs;
use crate::error::{BlocksError, Damage};
use lode_layout::BlockMapWord;
use lode_pmem::{Medium, Readable};

impl<M: Medium> Blocks<M> {
    /// Returns the newest map word of a block, as it is stored.
    #[inline]
    pub(crate) fn stored_word(&self, memory: &Readable, lba: u64) -> u64 {
        let logged = self.logged.as_ref().and_then(|logged| logged.word(self.medium(), lba));
        logged.unwrap_or_else(|| memory.load8(self.segments.word_at(lba)))
    }

    /// Returns the data block that a map word names; `None` if it names none that exists.
    #[inline]
    pub(crate) fn data_block(&self, word: u64) -> Option<u32> {
        BlockMapWord::decode(word, self.segments.data_count()).ok().flatten().map(|word| word.block)
    }

    /// Returns the newest map word of a block.
    ///
    /// # Errors
    /// Fails if its data block does not exist.
    #[inline]
    pub(crate) fn word(&self, memory: &Readable, lba: u64) -> Result<Option<BlockMapWord>, BlocksError> {
        Ok(self.segments.decode(lba, self.stored_word(memory, lba))?)
    }

    /// Fetches the line of a block's map word, for a caller that replaces the word after it has copied the content.
    #[inline]
    pub(crate) fn prefetch_word(&self, lba: u64) {
        self.medium().memory().prefetch_store(self.segments.word_at(lba));
    }

    /// Returns the map word of a block that a writer replaces; `None` also for a block that is lost. The caller holds the lock
    /// of the block.
    ///
    /// # Errors
    /// Fails if it can't be read, or if its data block does not exist.
    pub(crate) fn replaced_word(&self, lba: u64) -> Result<Option<BlockMapWord>, BlocksError> {
        self.medium().memory().try_reading(|memory| {
            let word = match bugs::REPLACED_WORD_OF_POOL.is_active() {
                true => memory.load8(self.segments.word_at(lba)),
                false => self.stored_word(memory, lba),
            };
            match self.segments.decode(lba, word) {
                Err(Damage::Lost { .. }) => Ok(None),
                word => Ok(word?),
            }
        })
    }
}
