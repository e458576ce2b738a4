//! The runs of PMDK's object pools: blocks of one size, with a bitmap.
#![doc = include_str!("pmdk_run.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{InvalidField, LINE, PmdkChunk, PmdkHeap, WORD, Want, align_up};
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Words of a bitmap that is not flexible.
const BITMAP_WORDS: u64 = 38;
/// Bits of a word.
const BITS: u64 = 64;
/// Words of a run's header.
const HEADER_WORDS: u64 = PmdkRun::LEN as u64 / WORD;

pub(crate) const TABLE: FormatTable = format_table!("pmdk_run", PmdkRunBytes, [block_size, alignment]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkRunBytes {
    block_size: U64,
    alignment: U64,
}

/// The places in a run, as its header and that of its chunk give them. Offsets begin at its first chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkRun {
    /// Bytes of a block.
    pub block_size: u64,
    /// Alignment of the objects' data, in bytes; 0 for none.
    pub alignment: u64,
    /// Number of blocks.
    pub block_count: u64,
    /// Words of the bitmap that have a bit of a block. The words up to the first block are padding.
    pub bitmap_words: u64,
    /// Offset of the first block, in bytes.
    pub blocks_off: u64,
}

impl PmdkRun {
    /// Bytes of the header, and offset of the bitmap.
    pub const LEN: usize = size_of::<PmdkRunBytes>();

    /// Decodes the header of a run whose first chunk lies `at` bytes into the pool and has this header.
    ///
    /// # Errors
    /// The first field that breaks its rule.
    pub fn decode(bytes: [u8; PmdkRun::LEN], chunk: PmdkChunk, at: u64) -> Result<PmdkRun, InvalidField> {
        let raw: PmdkRunBytes = zerocopy::transmute!(bytes);
        let (block_size, alignment) = (raw.block_size.get(), raw.alignment.get());
        let content = (u64::from(chunk.size) * PmdkHeap::CHUNK).saturating_sub(PmdkRun::LEN as u64);
        Want::AtLeast(1).check("block_size", 0, block_size)?;
        Want::AtMost(content).check("block_size", 0, block_size)?;
        if alignment != 0 {
            Want::PowerOfTwo.check("alignment", 0, alignment)?;
            Want::AtMost(content).check("alignment", 0, alignment)?;
        }
        let spare = u64::from(alignment != 0);
        let (bitmap_len, block_count) = if chunk.has_flexible_bitmap() {
            let words = (content / block_size).div_ceil(BITS);
            let bitmap_len = (align_up(words + HEADER_WORDS, LINE / WORD) - HEADER_WORDS) * WORD;
            (bitmap_len, (content.saturating_sub(bitmap_len) / block_size).saturating_sub(spare))
        } else {
            let bitmap_len = BITMAP_WORDS * WORD;
            let fitting = content.saturating_sub(bitmap_len) / block_size;
            (bitmap_len, fitting.min(BITMAP_WORDS * BITS).saturating_sub(spare))
        };
        // A block size that leaves no block is too large.
        if block_count == 0 {
            Want::AtMost(content.saturating_sub(bitmap_len) / (1 + spare)).check(
                "block_size",
                0,
                block_size,
            )?;
        }
        let start = PmdkRun::LEN as u64 + bitmap_len;
        let header = chunk.object_header().len();
        let blocks_off = match alignment {
            unit if chunk.is_aligned() && unit != 0 => align_up(at + start + header, unit) - header - at,
            _ => start,
        };
        let end = blocks_off.saturating_add(block_count * block_size);
        Want::AtMost(content + PmdkRun::LEN as u64).check("alignment", 0, end)?;
        Ok(PmdkRun {
            block_size,
            alignment,
            block_count,
            bitmap_words: PmdkRun::words_in_use(bitmap_len / WORD, block_count),
            blocks_off,
        })
    }

    /// Returns the bytes of the header.
    pub fn encode(block_size: u64, alignment: u64) -> [u8; PmdkRun::LEN] {
        zerocopy::transmute!(PmdkRunBytes { block_size: block_size.into(), alignment: alignment.into() })
    }

    /// Returns the number of words that have a bit of a block, of `words`.
    fn words_in_use(words: u64, block_count: u64) -> u64 {
        words - (words * BITS - block_count) / BITS
    }

    /// Returns the number of blocks that can be used. Of a multiple of 64 blocks, PMDK marks the last 64 as used when it makes the
    /// run, so it never gives them away.
    pub fn usable_count(&self) -> u64 {
        if self.block_count.is_multiple_of(BITS) {
            self.block_count.saturating_sub(BITS)
        } else {
            self.block_count
        }
    }

    /// Returns the bits of word `index` of the bitmap that belong to a block which can be used.
    pub fn block_bits(&self, index: u64) -> u64 {
        match self.usable_count().saturating_sub(index * BITS) {
            0 => 0,
            bits if bits < BITS => (1 << bits) - 1,
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::PmdkChunkKind;

    fn run(flags: u16, size: u32, block_size: u64, alignment: u64) -> Result<PmdkRun, InvalidField> {
        let chunk = PmdkChunk { kind: PmdkChunkKind::Run, flags, size };
        PmdkRun::decode(PmdkRun::encode(block_size, alignment), chunk, 0x3c_0000)
    }

    /// As PMDK's own formula has them for its first class.
    #[test]
    fn places_of_runs() {
        let fixed = run(1, 1, 128, 0).unwrap();
        assert_eq!((fixed.block_count, fixed.blocks_off), (2045, 320));
        let flexible = run(9, 1, 128, 0).unwrap();
        assert_eq!((flexible.block_count, flexible.blocks_off, flexible.bitmap_words), (2045, 320, 32));
        let aligned = run(13, 1, 128, 128).unwrap();
        assert_eq!((aligned.block_count, aligned.blocks_off), (2044, 368));
        assert_eq!((aligned.blocks_off + 16 + 0x3c_0000) % 128, 0);
        let long = run(9, 10, 128, 0).unwrap();
        assert!(long.block_count > 20_000 && long.blocks_off.is_multiple_of(64));
    }

    #[test]
    fn runs_without_blocks_are_refused() {
        for block_size in [0, PmdkHeap::CHUNK, u64::MAX] {
            assert_eq!(run(9, 1, block_size, 0).unwrap_err().field, "block_size");
        }
        assert_eq!(run(9, 1, 200_000, 64).unwrap_err().field, "block_size", "none besides the spare one");
        for alignment in [3, 1 << 40] {
            assert_eq!(run(13, 1, 128, alignment).unwrap_err().field, "alignment");
        }
        assert_eq!(run(9, 0, 1, 0).unwrap_err().field, "block_size");
    }

    /// All sizes and flags: the blocks lie after the bitmap and inside of the run, and each has a bit.
    #[test]
    #[cfg_attr(miri, ignore = "many sizes: minutes")]
    fn blocks_lie_inside() {
        for size in [1, 2, 10] {
            for flags in 0..16 {
                for block_size in (1..200).chain([1 << 10, 5000, 1 << 16, 200_000, 1 << 20]) {
                    for alignment in [0, 64, 4096] {
                        let Ok(run) = run(flags, size, block_size, alignment) else { continue };
                        let end = run.blocks_off + run.block_count * block_size;
                        assert!(end <= u64::from(size) * PmdkHeap::CHUNK);
                        assert!(16 + run.bitmap_words * 8 <= run.blocks_off);
                        let bits: u64 =
                            (0..run.bitmap_words).map(|at| u64::from(run.block_bits(at).count_ones())).sum();
                        assert_eq!(bits, run.usable_count());
                    }
                }
            }
        }
    }
}
