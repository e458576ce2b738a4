//! Changes of map words.

use lode_layout::BlockMapWord;

/// A map word to be. Its content is in its data block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// The number of the block.
    pub(crate) lba: u64,
    /// The new map word; `None` for zeros.
    pub(crate) word: Option<BlockMapWord>,
}

impl Change {
    /// Returns the map word as stored.
    pub(crate) fn stored_word(&self) -> u64 {
        self.word.map_or(BlockMapWord::ZERO, BlockMapWord::encode)
    }
}
