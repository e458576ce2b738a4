//! The headers of heap, zones and chunks of PMDK's object pools.
#![doc = include_str!("pmdk_heap.md")]
#![doc = include_str!("pmdk_zone.md")]
#![doc = include_str!("pmdk_chunk.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{InvalidField, Want, fletcher64_with_hole, store_fletcher64};
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const SIGNATURE: [u8; 16] = *b"MEMORY_HEAP_HDR\0";
const ZONE_MAGIC: u32 = 0xC3F0_A2D2;
const CHECKSUM: usize = offset_of!(PmdkHeapBytes, checksum);

pub(crate) const TABLE_HEAP: FormatTable = format_table!(
    "pmdk_heap",
    PmdkHeapBytes,
    [signature, major, minor, unused, chunk_size, chunks_per_zone, reserved, checksum]
);
pub(crate) const TABLE_ZONE: FormatTable = format_table!("pmdk_zone", PmdkZoneBytes, [magic, size, reserved]);
pub(crate) const TABLE_CHUNK: FormatTable = format_table!("pmdk_chunk", PmdkChunkBytes, [kind, flags, size]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkHeapBytes {
    signature: [u8; 16],
    major: U64,
    minor: U64,
    unused: U64,
    chunk_size: U64,
    chunks_per_zone: U64,
    reserved: [u8; 960],
    checksum: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkZoneBytes {
    magic: U32,
    size: U32,
    reserved: [u8; 56],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkChunkBytes {
    kind: U16,
    flags: U16,
    size: U32,
}

/// The header of the heap of an object pool of PMDK. All its fields are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkHeap;

/// The header of a zone that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkZone {
    /// Number of its chunks.
    pub chunk_count: u32,
}

/// The kind of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PmdkChunkKind {
    /// The last chunk of a free or used block.
    Footer,
    /// The first chunk of a free block.
    Free,
    /// The first chunk of a block that is one object.
    Used,
    /// The first chunk of a run.
    Run,
    /// A later chunk of a run.
    RunData,
}

/// The header that the objects of a block have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PmdkObjectHeaderKind {
    /// 64 bytes, as PMDK wrote until its version 1.2.
    Legacy,
    /// 16 bytes.
    Compact,
    /// No header: an object has its run's size and type 0.
    None,
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkChunk {
    /// The kind.
    pub kind: PmdkChunkKind,
    /// The bits of the field.
    pub flags: u16,
    /// The field, in chunks.
    pub size: u32,
}

impl PmdkHeap {
    /// Bytes of the header.
    pub const LEN: usize = size_of::<PmdkHeapBytes>();
    /// Bytes of a chunk.
    pub const CHUNK: u64 = 256 << 10;
    /// Most chunks of a zone.
    pub const ZONE_CHUNKS_MAX: u32 = 65528;
    /// Bytes of a zone before its chunks.
    pub const ZONE_HEADERS: u64 =
        PmdkZone::LEN as u64 + PmdkHeap::ZONE_CHUNKS_MAX as u64 * PmdkChunk::LEN as u64;
    /// Bytes of a zone that has all its chunks.
    pub const ZONE_MAX: u64 = PmdkHeap::ZONE_HEADERS + PmdkHeap::ZONE_CHUNKS_MAX as u64 * PmdkHeap::CHUNK;

    /// Checks a header.
    ///
    /// # Errors
    /// The first field that breaks its rule, the checksum first.
    pub fn check(bytes: &[u8; PmdkHeap::LEN]) -> Result<(), InvalidField> {
        let raw: PmdkHeapBytes = zerocopy::transmute!(*bytes);
        Want::Exactly(fletcher64_with_hole(bytes, CHECKSUM)).check("checksum", 0, raw.checksum.get())?;
        let halves = |text: [u8; 16]| {
            let (low, high) = text.split_at(8);
            [low, high].map(|half| u64::from_le_bytes(*half.first_chunk().unwrap_or(&[0; 8])))
        };
        for (found, want) in halves(raw.signature).into_iter().zip(halves(SIGNATURE)) {
            Want::Exactly(want).check("signature", 0, found)?;
        }
        Want::Exactly(1).check("major", 0, raw.major.get())?;
        Want::Exactly(0).check("minor", 0, raw.minor.get())?;
        Want::Exactly(PmdkHeap::CHUNK).check("chunk_size", 0, raw.chunk_size.get())?;
        Want::Exactly(PmdkHeap::ZONE_CHUNKS_MAX.into()).check("chunks_per_zone", 0, raw.chunks_per_zone.get())
    }

    /// Returns the bytes of the header.
    pub fn encode() -> [u8; PmdkHeap::LEN] {
        let mut raw = PmdkHeapBytes::new_zeroed();
        raw.signature = SIGNATURE;
        raw.major = 1.into();
        raw.chunk_size = PmdkHeap::CHUNK.into();
        raw.chunks_per_zone = u64::from(PmdkHeap::ZONE_CHUNKS_MAX).into();
        let mut bytes: [u8; PmdkHeap::LEN] = zerocopy::transmute!(raw);
        store_fletcher64(&mut bytes, CHECKSUM);
        bytes
    }

    /// Returns the number of zones of a heap of `size` bytes.
    pub fn zone_count(size: u64) -> u64 {
        let after_header = size.saturating_sub(PmdkHeap::LEN as u64);
        let rest = after_header % PmdkHeap::ZONE_MAX;
        after_header / PmdkHeap::ZONE_MAX + u64::from(rest >= PmdkHeap::ZONE_HEADERS + PmdkHeap::CHUNK)
    }

    /// Returns the number of chunks of zone `index` of a heap of `size` bytes; 0 if it has no such zone.
    pub fn chunk_count(size: u64, index: u64) -> u32 {
        let before = (PmdkHeap::LEN as u64).saturating_add(index.saturating_mul(PmdkHeap::ZONE_MAX));
        let chunks = size.saturating_sub(before).saturating_sub(PmdkHeap::ZONE_HEADERS) / PmdkHeap::CHUNK;
        u32::try_from(chunks).unwrap_or(u32::MAX).min(PmdkHeap::ZONE_CHUNKS_MAX)
    }
}

impl PmdkZone {
    /// Bytes of the header.
    pub const LEN: usize = size_of::<PmdkZoneBytes>();

    /// Decodes the first word of the header of a zone that has room for `chunks_max` chunks. `None` if the zone was never used.
    ///
    /// # Errors
    /// The first field that breaks its rule.
    pub fn decode(word: u64, chunks_max: u32) -> Result<Option<PmdkZone>, InvalidField> {
        let (magic, chunk_count) = (word as u32, (word >> 32) as u32);
        if magic == 0 {
            return Ok(None);
        }
        Want::Exactly(ZONE_MAGIC.into()).check("magic", 0, magic.into())?;
        Want::AtLeast(1).check("size", 0, chunk_count.into())?;
        Want::AtMost(chunks_max.into()).check("size", 0, chunk_count.into())?;
        Ok(Some(PmdkZone { chunk_count }))
    }

    /// Returns the first word of the header.
    pub fn encode(self) -> u64 {
        u64::from(ZONE_MAGIC) | u64::from(self.chunk_count) << 32
    }
}

impl PmdkChunk {
    /// Bytes of a header.
    pub const LEN: usize = size_of::<PmdkChunkBytes>();
    const COMPACT: u16 = 1;
    const NO_HEADER: u16 = 2;
    const ALIGNED: u16 = 4;
    const FLEXIBLE: u16 = 8;

    /// Decodes a header.
    ///
    /// # Errors
    /// The first field that breaks its rule. No rule concerns the size.
    pub fn decode(word: u64) -> Result<PmdkChunk, InvalidField> {
        let (kind, flags, size) = (word as u16, (word >> 16) as u16, (word >> 32) as u32);
        Want::AtLeast(1).check("kind", 0, kind.into())?;
        Want::AtMost(5).check("kind", 0, kind.into())?;
        Want::AtMost(15).check("flags", 0, flags.into())?;
        let kind = match kind {
            1 => PmdkChunkKind::Footer,
            2 => PmdkChunkKind::Free,
            3 => PmdkChunkKind::Used,
            4 => PmdkChunkKind::Run,
            _ => PmdkChunkKind::RunData,
        };
        Ok(PmdkChunk { kind, flags, size })
    }

    /// Returns the word of the header.
    pub fn encode(self) -> u64 {
        let kind: u64 = match self.kind {
            PmdkChunkKind::Footer => 1,
            PmdkChunkKind::Free => 2,
            PmdkChunkKind::Used => 3,
            PmdkChunkKind::Run => 4,
            PmdkChunkKind::RunData => 5,
        };
        kind | u64::from(self.flags) << 16 | u64::from(self.size) << 32
    }

    /// Returns the header that the objects of the block have.
    pub fn object_header(self) -> PmdkObjectHeaderKind {
        match self.flags {
            flags if flags & PmdkChunk::COMPACT != 0 => PmdkObjectHeaderKind::Compact,
            flags if flags & PmdkChunk::NO_HEADER != 0 => PmdkObjectHeaderKind::None,
            _ => PmdkObjectHeaderKind::Legacy,
        }
    }

    /// Returns true if the objects of a run are aligned.
    pub fn is_aligned(self) -> bool {
        self.flags & PmdkChunk::ALIGNED != 0
    }

    /// Returns true if a run's bitmap is as long as the run needs.
    pub fn has_flexible_bitmap(self) -> bool {
        self.flags & PmdkChunk::FLEXIBLE != 0
    }
}

impl PmdkObjectHeaderKind {
    /// Returns the bytes of the header.
    pub fn len(self) -> u64 {
        match self {
            PmdkObjectHeaderKind::Legacy => 64,
            PmdkObjectHeaderKind::Compact => 16,
            PmdkObjectHeaderKind::None => 0,
        }
    }

    /// Returns true if there is no header.
    pub fn is_empty(self) -> bool {
        self == PmdkObjectHeaderKind::None
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn heap_headers_round_trip() {
        let bytes = PmdkHeap::encode();
        assert_eq!(PmdkHeap::check(&bytes), Ok(()));
        for at in [0, 16, 24, 40, 48, 100, 1016] {
            let mut damaged = bytes;
            damaged[at] ^= 4;
            assert_eq!(PmdkHeap::check(&damaged).unwrap_err().field, "checksum");
            store_fletcher64(&mut damaged, CHECKSUM);
            assert_eq!(PmdkHeap::check(&damaged).is_ok(), at >= 100, "{at}");
        }
    }

    #[test]
    fn zones_of_a_heap() {
        assert_eq!(PmdkHeap::ZONE_MAX, 17_178_296_320);
        let first = PmdkHeap::LEN as u64 + PmdkHeap::ZONE_HEADERS;
        // As PMDK made it of 8 MiB.
        assert_eq!((PmdkHeap::zone_count(0x4f_e000), PmdkHeap::chunk_count(0x4f_e000, 0)), (1, 17));
        for (size, zones, chunks) in [
            (0, 0, 0),
            (first + PmdkHeap::CHUNK - 1, 0, 0),
            (first + PmdkHeap::CHUNK, 1, 1),
            (1024 + PmdkHeap::ZONE_MAX, 1, 65528),
            (1024 + PmdkHeap::ZONE_MAX + PmdkHeap::ZONE_HEADERS + PmdkHeap::CHUNK, 2, 65528),
        ] {
            assert_eq!((PmdkHeap::zone_count(size), PmdkHeap::chunk_count(size, 0)), (zones, chunks));
        }
        assert_eq!(PmdkHeap::chunk_count(u64::MAX, u64::MAX), 0);
    }

    #[test]
    fn zone_and_chunk_headers_round_trip() {
        let zone = PmdkZone { chunk_count: 17 };
        assert_eq!(PmdkZone::decode(zone.encode(), 17), Ok(Some(zone)));
        assert_eq!(PmdkZone::decode(zone.encode(), 16).unwrap_err().field, "size");
        assert_eq!(PmdkZone::decode(0, 16), Ok(None));
        assert_eq!(PmdkZone::decode(7, 16).unwrap_err().field, "magic");
        for word in 1..6u64 {
            let header = PmdkChunk::decode(word | 9 << 16 | 77 << 32).unwrap();
            assert_eq!((header.encode() & 0xFFFF, header.size), (word, 77));
            assert_eq!(header.object_header(), PmdkObjectHeaderKind::Compact);
            assert!(header.has_flexible_bitmap() && !header.is_aligned());
        }
        for (word, field) in [(0, "kind"), (6, "kind"), (2 | 16 << 16, "flags")] {
            assert_eq!(PmdkChunk::decode(word).unwrap_err().field, field);
        }
    }
}
