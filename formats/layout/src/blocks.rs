//! The descriptor and the map words of atomic blocks.
#![doc = include_str!("blocks.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, Extent, InvalidField, LINE, PoolOffset, WORD, Want, align_up};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

const MAGIC: u64 = u64::from_le_bytes(*b"LdBlocks");
const MAJOR: u32 = 1;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct BlocksBytes {
    magic: u64,
    major: u32,
    block_size: u32,
    block_count: u64,
    spare_count: u64,
    map_off: u64,
    data_off: u64,
    first_block: u64,
    reserved: u32,
    crc: u32,
}

pub(crate) const TABLE: FormatTable = format_table!(
    "blocks",
    BlocksBytes,
    [magic, major, block_size, block_count, spare_count, map_off, data_off, first_block, reserved, crc]
);

/// The sizes and the areas of a segment of the atomic blocks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlocksDescriptor {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Number of the first block.
    pub first_block: u64,
    /// Number of blocks.
    pub block_count: u64,
    /// Number of further data blocks.
    pub spare_count: u64,
    /// Offset of the map.
    pub map_off: PoolOffset,
    /// Offset of the first data block.
    pub data_off: PoolOffset,
}

/// Reasons why a descriptor can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlocksDescriptorError {
    /// The bytes do not begin with the magic number.
    #[error("there is no descriptor of blocks")]
    Absent,
    /// The checksum does not fit.
    #[error("the checksum of the descriptor does not fit")]
    Checksum,
    /// Another version made the pool.
    #[error("version {major} of the format is unknown, this program knows {MAJOR}")]
    Version {
        /// The version that was found.
        major: u32,
    },
    /// A field breaks a rule.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

impl BlocksDescriptor {
    /// Bytes of a descriptor.
    pub const LEN: usize = size_of::<BlocksBytes>();
    /// Distance in bytes between the two copies of a descriptor.
    pub const COPY_STRIDE: u64 = BLOCK / 2;
    /// Size of the smallest block in bytes.
    pub const BLOCK_SIZE_MIN: u32 = 512;
    /// Size of the largest block in bytes.
    pub const BLOCK_SIZE_MAX: u32 = 1 << 16;
    /// The layout of pools that hold blocks.
    pub const LAYOUT: &'static str = "blocks";

    /// Returns the offset of the first copy in a pool with this first extent.
    pub fn place(extent: &Extent) -> PoolOffset {
        extent.start.plus(extent.table_len)
    }

    /// Returns the distance in bytes from one data block to the next.
    pub fn stride(&self) -> u64 {
        align_up(u64::from(self.block_size), LINE)
    }

    /// Returns the number of data blocks.
    pub fn data_count(&self) -> u64 {
        self.block_count + self.spare_count
    }

    /// Returns the offset of the map word of the block `lba`, one of the segment.
    #[inline]
    pub fn word_at(&self, lba: u64) -> PoolOffset {
        self.map_off.plus((lba - self.first_block) * WORD)
    }

    /// Returns the offset of the data block `index`, counted from the first one of the segment.
    #[inline]
    pub fn data_at(&self, index: u64) -> PoolOffset {
        self.data_off.plus(index * self.stride())
    }

    /// Returns the offset of the end of the last data block.
    pub fn end(&self) -> PoolOffset {
        self.data_at(self.data_count())
    }

    /// Returns the bytes of the descriptor.
    pub fn encode(&self) -> [u8; BlocksDescriptor::LEN] {
        let BlocksDescriptor { block_size, first_block, block_count, spare_count, map_off, data_off } = *self;
        let (map_off, data_off) = (map_off.get(), data_off.get());
        let mut bytes = BlocksBytes {
            magic: MAGIC,
            major: MAJOR,
            block_size,
            block_count,
            spare_count,
            map_off,
            data_off,
            first_block,
            reserved: 0,
            crc: 0,
        };
        bytes.crc = crc(&bytes);
        transmute!(bytes)
    }

    /// Decodes the descriptor of a segment that begins at `place` and ends at `end` or before.
    ///
    /// # Errors
    /// Fails with the first rule that the bytes break.
    pub fn decode(
        bytes: [u8; BlocksDescriptor::LEN],
        place: PoolOffset,
        end: PoolOffset,
    ) -> Result<BlocksDescriptor, BlocksDescriptorError> {
        let raw: BlocksBytes = transmute!(bytes);
        if raw.magic != MAGIC {
            return Err(BlocksDescriptorError::Absent);
        }
        if raw.crc != crc(&raw) {
            return Err(BlocksDescriptorError::Checksum);
        }
        if raw.major != MAJOR {
            return Err(BlocksDescriptorError::Version { major: raw.major });
        }
        let BlocksBytes { block_size, first_block, block_count, spare_count, map_off, data_off, .. } = raw;
        BlocksDescriptor::check_block_size(block_size)?;
        Want::AtLeast(1).check("block_count", 0, block_count)?;
        Want::AtLeast(u64::from(first_block == 0)).check("spare_count", 0, spare_count)?;
        let data_count_max = u64::from(u32::MAX - 1);
        Want::AtMost(data_count_max).check("first_block", 0, first_block)?;
        Want::AtMost(data_count_max - first_block).check("block_count", 0, block_count)?;
        Want::AtMost(data_count_max - first_block - block_count).check("spare_count", 0, spare_count)?;
        Want::Exactly(0).check("reserved", 0, raw.reserved.into())?;
        Want::MultipleOf(BLOCK).check("map_off", 0, map_off)?;
        Want::AtLeast(place.get() + BLOCK).check("map_off", 0, map_off)?;
        Want::AtMost(end.get()).check("map_off", 0, map_off)?;
        Want::MultipleOf(BLOCK).check("data_off", 0, data_off)?;
        Want::AtLeast(map_off + block_count * WORD).check("data_off", 0, data_off)?;
        let [map_off, data_off] = [map_off, data_off].map(PoolOffset::new);
        let descriptor =
            BlocksDescriptor { block_size, first_block, block_count, spare_count, map_off, data_off };
        let data_len = descriptor.data_count() * descriptor.stride();
        Want::AtMost(end.get().saturating_sub(data_len)).check("data_off", 0, data_off.get())?;
        Ok(descriptor)
    }

    /// Checks the size of a block.
    ///
    /// # Errors
    /// Fails if it is out of range, or no multiple of 8.
    pub fn check_block_size(block_size: u32) -> Result<(), InvalidField> {
        Want::AtLeast(BlocksDescriptor::BLOCK_SIZE_MIN.into()).check("block_size", 0, block_size.into())?;
        Want::AtMost(BlocksDescriptor::BLOCK_SIZE_MAX.into()).check("block_size", 0, block_size.into())?;
        Want::MultipleOf(WORD).check("block_size", 0, block_size.into())
    }
}

fn crc(bytes: &BlocksBytes) -> u32 {
    crc32c::crc32c(&bytes.as_bytes()[..offset_of!(BlocksBytes, crc)])
}

/// A map word of a block that has a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMapWord {
    /// Number of the data block.
    pub block: u32,
    /// CRC32C of its content.
    pub crc: u32,
}

impl BlockMapWord {
    /// The word of a block of zeros.
    pub const ZERO: u64 = 0;
    /// The word of a block that is lost.
    pub const LOST: u64 = (u32::MAX as u64) << u32::BITS;

    /// Returns the word as stored.
    #[inline]
    pub fn encode(self) -> u64 {
        (u64::from(self.block) + 1) << u32::BITS | u64::from(self.crc)
    }

    /// Decodes a word other than [`LOST`](BlockMapWord::LOST). Returns `None` if the block is zeros.
    ///
    /// # Errors
    /// Fails if the data block is not one of `data_count`.
    #[inline]
    pub fn decode(word: u64, data_count: u64) -> Result<Option<BlockMapWord>, InvalidField> {
        if word == BlockMapWord::ZERO {
            return Ok(None);
        }
        let number = word >> u32::BITS;
        if number == 0 || number > data_count {
            let want = if number == 0 { Want::AtLeast(1) } else { Want::AtMost(data_count) };
            return Err(InvalidField { field: "data block", index: 0, found: number, want });
        }
        Ok(Some(BlockMapWord { block: (number - 1) as u32, crc: word as u32 }))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{CHUNK, Geometry};

    fn extent() -> Extent {
        Geometry::plan(1 << 20).unwrap().extents()[0]
    }

    fn decode(bytes: [u8; BlocksDescriptor::LEN]) -> Result<BlocksDescriptor, BlocksDescriptorError> {
        BlocksDescriptor::decode(bytes, BlocksDescriptor::place(&extent()), extent().end())
    }

    fn descriptor() -> BlocksDescriptor {
        let map_off = BlocksDescriptor::place(&extent()).plus(BLOCK);
        BlocksDescriptor {
            block_size: 520,
            first_block: 0,
            block_count: 513,
            spare_count: 8,
            map_off,
            data_off: map_off.plus(2 * BLOCK),
        }
    }

    #[test]
    fn descriptors_round_trip_and_detect_bit_flips() {
        let bytes = descriptor().encode();
        assert_eq!(decode(bytes), Ok(descriptor()));
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        let refused = |change: fn(&mut BlocksDescriptor), field: &str| {
            let mut changed = descriptor();
            change(&mut changed);
            match decode(changed.encode()) {
                Err(BlocksDescriptorError::Field(found)) => assert_eq!(found.field, field),
                other => panic!("{field}: {other:?}"),
            }
        };
        refused(|it| it.block_size = 504, "block_size");
        refused(|it| it.block_size = 516, "block_size");
        refused(|it| it.block_size = (1 << 16) + 8, "block_size");
        refused(|it| it.block_count = 0, "block_count");
        refused(|it| it.block_count = u64::MAX, "block_count");
        refused(|it| it.first_block = u64::from(u32::MAX), "first_block");
        refused(|it| it.spare_count = 0, "spare_count");
        refused(|it| it.spare_count = u64::from(u32::MAX), "spare_count");
        refused(|it| it.map_off = it.map_off.plus(8), "map_off");
        refused(|it| it.map_off = PoolOffset::new(0), "map_off");
        refused(|it| it.map_off = PoolOffset::new(1 << 40), "map_off");
        refused(|it| it.data_off = it.map_off.plus(BLOCK), "data_off");
        refused(|it| it.block_count = (1 << 20) / 576, "data_off");
        assert!(extent().len > CHUNK);
    }

    #[test]
    fn map_words_round_trip() {
        assert_eq!(BlockMapWord::decode(0, 1), Ok(None));
        for (block, crc) in [(0, 0), (0, u32::MAX), (u32::MAX - 2, 7)] {
            let word = BlockMapWord { block, crc };
            assert_eq!(BlockMapWord::decode(word.encode(), u64::from(block) + 1), Ok(Some(word)));
            assert!(BlockMapWord::decode(word.encode(), u64::from(block)).is_err());
        }
        assert!(BlockMapWord::decode(1, 1).is_err());
    }
}
