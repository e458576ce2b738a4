//! The headers at the start of spans, for superblocks of equal blocks and for huge objects.
#![doc = include_str!("span.md")]

use crate::LINE;
use crate::format_table;
use crate::format_table::FormatTable;
use crate::word::CHECKED_BITS;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Bytes of a span header.
pub const SPAN_HEADER: u64 = LINE;

const SUPERBLOCK_MAGIC: u32 = u32::from_le_bytes(*b"LdSb");
const HUGE_MAGIC: u32 = u32::from_le_bytes(*b"LdHg");

/// A span header as it lies on the medium.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct SpanHeader {
    magic: u32,
    crc: u32,
    shape: u64,
    data_off: u64,
    type_number: u64,
    reserved: [u64; 4],
}

pub(crate) const TABLE: FormatTable =
    format_table!("span", SpanHeader, [magic, crc, shape, data_off, type_number, reserved]);

/// A superblock: a span divided into equal blocks, with a bitmap of the allocated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes of a block.
    pub block_size: u64,
    /// Number of blocks in the span.
    pub block_count: u64,
    /// Bytes from the start of the span to the first block.
    pub data_off: u64,
    /// The type number of the objects inside.
    pub type_number: u64,
}

/// A huge object: one object alone in its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Huge {
    /// Requested size in bytes.
    pub size: u64,
    /// Bytes from the start of the span to the object.
    pub data_off: u64,
    /// The type number of the object.
    pub type_number: u64,
}

/// Words of a span header as stored.
pub type SpanHeaderWords = [u64; 8];

impl Superblock {
    /// Plans the superblock with the most blocks of `block_size` bytes, aligned to `align`, in `span` bytes.
    pub fn plan(span: u64, block_size: u64, align: u64, type_number: u64) -> Superblock {
        debug_assert!(block_size > 0 && align.is_power_of_two() && block_size.is_multiple_of(align));
        let mut block_count = (span - SPAN_HEADER) / block_size;
        loop {
            let bitmap = block_count.div_ceil(u64::from(CHECKED_BITS)) * 8;
            let data_off = crate::align_up(SPAN_HEADER + bitmap, align);
            if data_off + block_count * block_size <= span {
                return Superblock { block_size, block_count, data_off, type_number };
            }
            block_count -= 1;
        }
    }

    /// Returns the number of words of the bitmap. The bitmap begins right after the header.
    pub const fn bitmap_words(&self) -> u64 {
        self.block_count.div_ceil(CHECKED_BITS as u64)
    }

    /// Returns the header as stored at `span_off` (bytes from the start of the pool). The checksum covers the offset.
    pub fn encode(&self, span_off: u64) -> SpanHeaderWords {
        let shape = self.block_size | self.block_count << 32;
        encode_header(SUPERBLOCK_MAGIC, shape, self.data_off, self.type_number, span_off)
    }

    /// Decodes the header `words` at `span_off` in a span of `span` bytes. Returns `None` if it is damaged.
    pub fn decode(words: &SpanHeaderWords, span_off: u64, span: u64) -> Option<Superblock> {
        let SpanHeader { shape, data_off, type_number, .. } =
            decode_header(SUPERBLOCK_MAGIC, words, span_off)?;
        let superblock = Superblock {
            block_size: shape & u64::from(u32::MAX),
            block_count: shape >> 32,
            data_off,
            type_number,
        };
        superblock.is_sound(span).then_some(superblock)
    }

    fn is_sound(&self, span: u64) -> bool {
        let fits =
            self.data_off.checked_add(self.block_size * self.block_count).is_some_and(|end| end <= span);
        let bitmap_end = SPAN_HEADER + self.bitmap_words() * 8;
        self.block_size > 0 && self.block_count > 0 && fits && self.data_off >= bitmap_end
    }
}

impl Huge {
    /// Returns the header as stored at `span_off` (bytes from the start of the pool). The checksum covers the offset.
    pub fn encode(&self, span_off: u64) -> SpanHeaderWords {
        encode_header(HUGE_MAGIC, self.size, self.data_off, self.type_number, span_off)
    }

    /// Decodes the header `words` at `span_off` in a span of `span` bytes. Returns `None` if it is damaged.
    pub fn decode(words: &SpanHeaderWords, span_off: u64, span: u64) -> Option<Huge> {
        let SpanHeader { shape: size, data_off, type_number, .. } =
            decode_header(HUGE_MAGIC, words, span_off)?;
        let fits = data_off.checked_add(size).is_some_and(|end| end <= span);
        (fits && data_off >= SPAN_HEADER).then_some(Huge { size, data_off, type_number })
    }
}

fn crc_of(header: &SpanHeader, span_off: u64) -> u32 {
    let covered = &header.as_bytes()[core::mem::offset_of!(SpanHeader, shape)..];
    crc32c::crc32c_append(crc32c::crc32c(&span_off.to_le_bytes()), covered)
}

fn encode_header(magic: u32, shape: u64, data_off: u64, type_number: u64, span_off: u64) -> SpanHeaderWords {
    let mut header = SpanHeader { magic, crc: 0, shape, data_off, type_number, reserved: [0; 4] };
    header.crc = crc_of(&header, span_off);
    transmute!(header)
}

fn decode_header(magic: u32, words: &SpanHeaderWords, span_off: u64) -> Option<SpanHeader> {
    let header: SpanHeader = transmute!(*words);
    (header.magic == magic && header.crc == crc_of(&header, span_off)).then_some(header)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::CHUNK;

    #[test]
    fn blocks_fill_span_without_overlap() {
        for span in [CHUNK, 4 * CHUNK, 32 * CHUNK] {
            for (block_size, align) in [(16, 16), (32, 16), (48, 16), (656, 16), (4096, 4096), (1024, 1024)] {
                let superblock = Superblock::plan(span, block_size, align, 7);
                assert!(superblock.is_sound(span));
                assert_eq!(superblock.data_off % align, 0);
                let one_more = (superblock.block_count + 1).div_ceil(48) * 8 + SPAN_HEADER;
                let end = crate::align_up(one_more, align) + (superblock.block_count + 1) * block_size;
                assert!(end > span, "a block more would have fitted");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of checksums: minutes to hours")]
    fn headers_round_trip_and_detect_bit_flips() {
        let superblock = Superblock::plan(CHUNK, 32, 16, 0xABCD);
        let huge = Huge { size: 100_000, data_off: 64, type_number: 1 << 63 };
        let (a, b) = (superblock.encode(0x8000), huge.encode(0x8000));
        assert_eq!(Superblock::decode(&a, 0x8000, CHUNK), Some(superblock));
        assert_eq!(Huge::decode(&b, 0x8000, 7 * CHUNK), Some(huge));
        for bit in 0..512 {
            let mut damaged = (a, b);
            damaged.0[bit / 64] ^= 1 << (bit % 64);
            damaged.1[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(Superblock::decode(&damaged.0, 0x8000, CHUNK), None);
            assert_eq!(Huge::decode(&damaged.1, 0x8000, 7 * CHUNK), None);
        }
        assert_eq!(Superblock::decode(&a, 0x4000, CHUNK), None, "a header that was moved");
        assert_eq!(Huge::decode(&b, 0x8000, CHUNK), None, "an object longer than its span");
    }
}
