//! An entry of the map of a block translation table.
#![doc = include_str!("btt_map.md")]

use lode_layout::format_table;
use lode_layout::format_table::FormatTable;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bits of a word that hold the number of a block.
const NUMBER: u32 = (1 << 30) - 1;
const BIT_ERROR: u32 = 1 << 30;
const BIT_ZERO: u32 = 1 << 31;

pub(crate) const TABLE: FormatTable = format_table!("btt_map", MapBytes, [entry]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct MapBytes {
    entry: U32,
}

/// The state of an external block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BttBlockState {
    /// Never written: the block of the same number holds the data.
    Initial,
    /// Reading it is an error.
    Error,
    /// Reads as zeros.
    Zero,
    /// The entry holds the number of the block.
    Normal,
}

/// An entry of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BttMapEntry {
    /// State of the block.
    pub state: BttBlockState,
    /// The 30 bits of the number; without meaning in the state [`Initial`](BttBlockState::Initial).
    pub number: u32,
}

impl BttMapEntry {
    /// Bytes of an entry.
    pub const LEN: u64 = size_of::<MapBytes>() as u64;

    /// Decodes an entry from 4 bytes. All bytes are valid; the number may lie outside of the arena.
    pub fn decode(bytes: [u8; 4]) -> BttMapEntry {
        let raw = MapBytes::read_from_bytes(&bytes).map_or(0, |bytes| bytes.entry.get());
        let state = match (raw & BIT_ZERO != 0, raw & BIT_ERROR != 0) {
            (false, false) => BttBlockState::Initial,
            (false, true) => BttBlockState::Error,
            (true, false) => BttBlockState::Zero,
            (true, true) => BttBlockState::Normal,
        };
        BttMapEntry { state, number: raw & NUMBER }
    }

    /// Returns the bytes of the entry. Drops bits of the number above the 30th.
    pub fn encode(self) -> [u8; 4] {
        let bits = match self.state {
            BttBlockState::Initial => 0,
            BttBlockState::Error => BIT_ERROR,
            BttBlockState::Zero => BIT_ZERO,
            BttBlockState::Normal => BIT_ZERO | BIT_ERROR,
        };
        zerocopy::transmute!(MapBytes { entry: (bits | self.number & NUMBER).into() })
    }

    /// Returns the block of the data that holds external block `lba` when this is its entry.
    pub fn block(self, lba: u32) -> u32 {
        if self.state == BttBlockState::Initial { lba } else { self.number }
    }
}

/// Returns the number of a block from a word that may have the bits of a map entry above it.
pub fn block_number(word: u32) -> u32 {
    word & NUMBER
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_state_has_its_bits() {
        use BttBlockState::{Error, Initial, Normal, Zero};
        for (raw, state) in
            [(7, Initial), (0x4000_0007, Error), (0x8000_0007, Zero), (0xc000_0007_u32, Normal)]
        {
            let entry = BttMapEntry::decode(raw.to_le_bytes());
            assert_eq!(entry, BttMapEntry { state, number: 7 }, "{raw:#x}");
            assert_eq!(entry.block(9), if state == Initial { 9 } else { 7 });
        }
    }

    proptest! {
        #[test]
        fn entries_round_trip(raw: u32) {
            let bytes = raw.to_le_bytes();
            prop_assert_eq!(BttMapEntry::decode(bytes).encode(), bytes);
        }
    }
}
