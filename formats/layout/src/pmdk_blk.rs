//! The descriptor of PMDK's block pools.
#![doc = include_str!("pmdk_blk.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, InvalidField, Want};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a descriptor.
const LEN: usize = size_of::<PmdkBlkBytes>();
/// Bytes of the smallest block. The table gives it 512.
const BLOCK_SIZE_MIN: u64 = 1;

pub(crate) const TABLE: FormatTable =
    format_table!("pmdk_blk", PmdkBlkBytes, [block_size, is_zeroed, base, process, data]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkBlkBytes {
    block_size: U32,
    is_zeroed: U32,
    base: U64,
    process: [u8; 16],
    data: U64,
}

/// The descriptor of a block pool of PMDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkBlk {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// True if the file was zero when the pool was made.
    pub is_zeroed: bool,
}

impl PmdkBlk {
    /// Offset of the descriptor in the pool, in bytes.
    pub const OFF: u64 = BLOCK;
    /// Offset of the block translation table in the pool, in bytes.
    pub const TABLE_OFF: u64 = 2 * BLOCK;
    /// Bytes of a descriptor.
    pub const LEN: usize = LEN;

    /// Decodes a descriptor.
    ///
    /// # Errors
    /// Fails if the blocks have no bytes.
    pub fn decode(bytes: [u8; LEN]) -> Result<PmdkBlk, InvalidField> {
        let raw: PmdkBlkBytes = zerocopy::transmute!(bytes);
        let block_size = raw.block_size.get();
        Want::AtLeast(BLOCK_SIZE_MIN).check("block_size", 0, block_size.into())?;
        Ok(PmdkBlk { block_size, is_zeroed: raw.is_zeroed.get() != 0 })
    }

    /// Returns the bytes of the descriptor.
    pub fn encode(self) -> [u8; LEN] {
        let is_zeroed = u32::from(self.is_zeroed).into();
        let (block_size, data) = (self.block_size.into(), PmdkBlk::TABLE_OFF.into());
        zerocopy::transmute!(PmdkBlkBytes { block_size, is_zeroed, base: U64::ZERO, process: [0; 16], data })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn descriptors_round_trip() {
        for (block_size, is_zeroed) in [(1, false), (512, false), (4096, true), (u32::MAX, true)] {
            let descriptor = PmdkBlk { block_size, is_zeroed };
            assert_eq!(PmdkBlk::decode(descriptor.encode()), Ok(descriptor));
        }
        let small = PmdkBlk { block_size: 0, is_zeroed: false };
        assert_eq!(PmdkBlk::decode(small.encode()).unwrap_err().field, "block_size");
    }
}
