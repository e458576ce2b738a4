//! The descriptor of append logs.
#![doc = include_str!("log_descriptor.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, Extent, InvalidField, PoolOffset, Want};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

const MAGIC: u64 = u64::from_le_bytes(*b"LdAppLog");
const MAJOR: u32 = 1;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct DescriptorBytes {
    magic: u64,
    major: u32,
    spare: u32,
    area_off: u64,
    area_len: u64,
    key: [u64; 2],
    reserved: [u32; 3],
    crc: u32,
}

pub(crate) const TABLE: FormatTable = format_table!(
    "log_descriptor",
    DescriptorBytes,
    [magic, major, spare, area_off, area_len, key, reserved, crc]
);

/// The area of the log of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDescriptor {
    /// Offset of the area.
    pub area_off: PoolOffset,
    /// Length of the area in bytes.
    pub area_len: u64,
    /// Random number with which the checksums of records begin, so that no content can imitate a record.
    pub key: [u64; 2],
}

/// Reasons why a descriptor of a log can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogDescriptorError {
    /// The bytes do not begin with the magic number.
    #[error("there is no descriptor of a log")]
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

impl LogDescriptor {
    /// Bytes of a descriptor.
    pub const LEN: usize = size_of::<DescriptorBytes>();
    /// Distance in bytes between the two copies of a descriptor, and between the two copies of a state.
    pub const COPY_STRIDE: u64 = BLOCK / 2;
    /// Distance in bytes from a copy of the descriptor to a copy of the state.
    pub const STATE_OFF: u64 = BLOCK / 4;
    /// Length of the smallest area in bytes.
    pub const AREA_LEN_MIN: u64 = 1024;
    /// The unit of the length of an area in bytes.
    pub const AREA_UNIT: u64 = 512;
    /// The layout of pools that hold a log.
    pub const LAYOUT: &'static str = "log";

    /// Returns the offset of the first copy in a pool with this first extent.
    pub fn place(extent: &Extent) -> PoolOffset {
        extent.start.plus(extent.table_len)
    }

    /// Returns the bytes of the descriptor.
    pub fn encode(&self) -> [u8; LogDescriptor::LEN] {
        let LogDescriptor { area_off, area_len, key } = *self;
        let mut bytes = DescriptorBytes {
            magic: MAGIC,
            major: MAJOR,
            spare: 0,
            area_off: area_off.get(),
            area_len,
            key,
            reserved: [0; 3],
            crc: 0,
        };
        bytes.crc = crc(&bytes);
        transmute!(bytes)
    }

    /// Decodes the descriptor of a pool with this first extent.
    ///
    /// # Errors
    /// Fails with the first rule that the bytes break.
    pub fn decode(
        bytes: [u8; LogDescriptor::LEN],
        extent: &Extent,
    ) -> Result<LogDescriptor, LogDescriptorError> {
        let raw: DescriptorBytes = transmute!(bytes);
        if raw.magic != MAGIC {
            return Err(LogDescriptorError::Absent);
        }
        if raw.crc != crc(&raw) {
            return Err(LogDescriptorError::Checksum);
        }
        if raw.major != MAJOR {
            return Err(LogDescriptorError::Version { major: raw.major });
        }
        let DescriptorBytes { area_off, area_len, key, .. } = raw;
        Want::MultipleOf(BLOCK).check("area_off", 0, area_off)?;
        Want::AtLeast(LogDescriptor::place(extent).get() + BLOCK).check("area_off", 0, area_off)?;
        Want::AtMost(extent.end().get()).check("area_off", 0, area_off)?;
        Want::AtLeast(LogDescriptor::AREA_LEN_MIN).check("area_len", 0, area_len)?;
        Want::MultipleOf(LogDescriptor::AREA_UNIT).check("area_len", 0, area_len)?;
        Want::AtMost(extent.end().get() - area_off).check("area_len", 0, area_len)?;
        Ok(LogDescriptor { area_off: PoolOffset::new(area_off), area_len, key })
    }
}

fn crc(bytes: &DescriptorBytes) -> u32 {
    crc32c::crc32c(&bytes.as_bytes()[..offset_of!(DescriptorBytes, crc)])
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Geometry;

    fn extent() -> Extent {
        Geometry::plan(1 << 20).unwrap().extents()[0]
    }

    fn descriptor() -> LogDescriptor {
        let area_off = LogDescriptor::place(&extent()).plus(BLOCK);
        LogDescriptor { area_off, area_len: 3 * 512, key: [3, 4] }
    }

    #[test]
    fn descriptors_round_trip_and_detect_bit_flips() {
        let bytes = descriptor().encode();
        assert_eq!(LogDescriptor::decode(bytes, &extent()), Ok(descriptor()));
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(LogDescriptor::decode(damaged, &extent()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        let refused = |change: fn(&mut LogDescriptor), field: &str| {
            let mut changed = descriptor();
            change(&mut changed);
            match LogDescriptor::decode(changed.encode(), &extent()) {
                Err(LogDescriptorError::Field(found)) => assert_eq!(found.field, field),
                other => panic!("{field}: {other:?}"),
            }
        };
        refused(|it| it.area_off = it.area_off.plus(8), "area_off");
        refused(|it| it.area_off = PoolOffset::new(0), "area_off");
        refused(|it| it.area_off = PoolOffset::new(1 << 40), "area_off");
        refused(|it| it.area_len = 512, "area_len");
        refused(|it| it.area_len = 1025, "area_len");
        refused(|it| it.area_len = 1 << 20, "area_len");
    }
}
