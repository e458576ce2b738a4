//! The differences between the block translation tables of the kernel and of PMDK.

use crate::{BttBlockState, BttMapEntry};

/// The software whose tables a table has to agree with. Info blocks and maps are the same in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BttDialect {
    /// The kernel and UEFI: the flog has numbers of blocks alone, and a block that was never written holds the data of
    /// the block of its number.
    #[default]
    Kernel,
    /// PMDK: the flog has whole map entries, which its recovery compares with the map bit by bit, and a block that was
    /// never written reads as zeros.
    Pmdk,
}

impl BttDialect {
    /// Returns the word of the flog for this map entry.
    pub fn flog_word(self, entry: BttMapEntry) -> u32 {
        let state = match (self, entry.state) {
            (BttDialect::Kernel, _) => BttBlockState::Initial,
            // PMDK takes an entry that was never written as one that names the block of its own number.
            (BttDialect::Pmdk, BttBlockState::Initial) => BttBlockState::Normal,
            (BttDialect::Pmdk, state) => state,
        };
        u32::from_le_bytes(BttMapEntry { state, ..entry }.encode())
    }

    /// Returns true if a block that was never written reads as zeros.
    pub fn is_initial_zero(self) -> bool {
        self == BttDialect::Pmdk
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn flog_words_have_their_bits() {
        use BttBlockState::{Error, Initial, Normal, Zero};
        for (state, word) in
            [(Initial, 0xc000_0007), (Normal, 0xc000_0007), (Zero, 0x8000_0007), (Error, 0x4000_0007)]
        {
            let entry = BttMapEntry { state, number: 7 };
            assert_eq!((BttDialect::Kernel.flog_word(entry), BttDialect::Pmdk.flog_word(entry)), (7, word));
        }
    }
}
