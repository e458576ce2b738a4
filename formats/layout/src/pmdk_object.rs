//! The headers of objects in PMDK's object pools.
#![doc = include_str!("pmdk_object_compact.md")]
#![doc = include_str!("pmdk_object_legacy.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bits of a word that are no flags.
const SIZE_BITS: u32 = 48;
/// Flag: the root, or an extension of a log.
const INTERNAL: u16 = 1 << 15;

pub(crate) const TABLE_COMPACT: FormatTable =
    format_table!("pmdk_object_compact", PmdkObjectCompactBytes, [size, kind]);
pub(crate) const TABLE_LEGACY: FormatTable =
    format_table!("pmdk_object_legacy", PmdkObjectLegacyBytes, [unused, size, unused_2, flags, kind]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkObjectCompactBytes {
    size: U64,
    kind: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkObjectLegacyBytes {
    unused: [u8; 8],
    size: U64,
    unused_2: [u8; 32],
    flags: U64,
    kind: U64,
}

/// The header of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkObjectHeader {
    /// Bytes of the object with its header.
    pub size: u64,
    /// The type number that the program gave.
    pub type_number: u64,
    /// The flags.
    pub flags: u16,
}

impl PmdkObjectHeader {
    /// Bytes of a compact header.
    pub const COMPACT_LEN: usize = size_of::<PmdkObjectCompactBytes>();
    /// Bytes of a legacy header.
    pub const LEGACY_LEN: usize = size_of::<PmdkObjectLegacyBytes>();

    /// Decodes a compact header.
    pub fn decode_compact(bytes: [u8; PmdkObjectHeader::COMPACT_LEN]) -> PmdkObjectHeader {
        let raw: PmdkObjectCompactBytes = zerocopy::transmute!(bytes);
        let size = raw.size.get();
        PmdkObjectHeader {
            size: size & ((1 << SIZE_BITS) - 1),
            type_number: raw.kind.get(),
            flags: (size >> SIZE_BITS) as u16,
        }
    }

    /// Returns the bytes of a compact header.
    pub fn encode_compact(&self) -> [u8; PmdkObjectHeader::COMPACT_LEN] {
        let size = self.size & ((1 << SIZE_BITS) - 1) | u64::from(self.flags) << SIZE_BITS;
        zerocopy::transmute!(PmdkObjectCompactBytes { size: size.into(), kind: self.type_number.into() })
    }

    /// Decodes a legacy header.
    pub fn decode_legacy(bytes: [u8; PmdkObjectHeader::LEGACY_LEN]) -> PmdkObjectHeader {
        let raw: PmdkObjectLegacyBytes = zerocopy::transmute!(bytes);
        PmdkObjectHeader {
            size: raw.size.get(),
            type_number: raw.kind.get(),
            flags: (raw.flags.get() >> SIZE_BITS) as u16,
        }
    }

    /// Returns the bytes of a legacy header.
    pub fn encode_legacy(&self) -> [u8; PmdkObjectHeader::LEGACY_LEN] {
        let mut raw = PmdkObjectLegacyBytes::new_zeroed();
        raw.size = self.size.into();
        raw.flags = (u64::from(self.flags) << SIZE_BITS).into();
        raw.kind = self.type_number.into();
        zerocopy::transmute!(raw)
    }

    /// Returns true if the object is PMDK's own: the root, or an extension of a log.
    pub fn is_internal(&self) -> bool {
        self.flags & INTERNAL != 0
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for flags in [0, INTERNAL, 0xFFFF] {
            let header = PmdkObjectHeader { size: (1 << 48) - 1, type_number: u64::MAX, flags };
            assert_eq!(PmdkObjectHeader::decode_compact(header.encode_compact()), header);
            assert_eq!(PmdkObjectHeader::decode_legacy(header.encode_legacy()), header);
            assert_eq!(header.is_internal(), flags != 0);
        }
    }
}
