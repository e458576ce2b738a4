//! The header of raw volumes: plain blocks in a file.
#![doc = include_str!("raw_volume.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, InvalidField, Want, align_down, align_up};
use std::mem::offset_of;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of one copy of the header.
const LEN: usize = 4096;
/// The format that this code reads and writes.
const MAJOR: u32 = 1;
const MAGIC: [u8; 8] = *b"LODERAWV";
/// Sizes of a block in bytes, the least and the largest: that of a page, which no kernel's block device exceeds.
const BLOCK_SIZES: [u64; 2] = [512, 4096];
/// Alignment of block 0 of a DAX volume in bytes, so that programs can map it with large pages.
const DAX_ALIGN: u64 = 2 << 20;

pub(crate) const TABLE: FormatTable = format_table!(
    "raw_volume",
    RawVolumeBytes,
    [
        magic,
        major,
        minor,
        incompat,
        uuid,
        created,
        block_size,
        class,
        reserved,
        data_off,
        block_count,
        unused,
        crc,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawVolumeBytes {
    magic: [u8; 8],
    major: U32,
    minor: U32,
    incompat: U64,
    uuid: [u8; 16],
    created: U64,
    block_size: U32,
    class: u8,
    reserved: [u8; 3],
    data_off: U64,
    block_count: U64,
    unused: [u8; 4020],
    crc: U32,
}

const _: () = assert!(size_of::<RawVolumeBytes>() == LEN);

/// The use that a volume is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeClass {
    /// Read and written by blocks.
    Block,
    /// Mapped by programs, too.
    Dax,
}

/// The header of a raw volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawVolume {
    /// UUID of the volume.
    pub uuid: Uuid,
    /// Creation time, in seconds since 1970-01-01 UTC.
    pub created: u64,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// The class of the volume.
    pub class: VolumeClass,
    /// Offset of block 0 in the file, in bytes.
    pub data_off: u64,
    /// Number of blocks.
    pub block_count: u64,
}

/// Reasons why bytes are not a header that this code can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RawVolumeError {
    /// There are fewer bytes than a header has.
    #[error("there are only {len} bytes, a header of a raw volume has {LEN}")]
    TooShort {
        /// Number of bytes found.
        len: u64,
    },
    /// The bytes do not begin with the magic of a raw volume.
    #[error("not the header of a raw volume: it begins with \"{}\"", .found.escape_ascii())]
    NotAVolume {
        /// The first bytes.
        found: [u8; 8],
    },
    /// The checksum is wrong: the bytes are not those that were written.
    #[error("the header is damaged: its checksum is {found:#010x}, its bytes give {want:#010x}")]
    Checksum {
        /// The checksum of the bytes.
        want: u32,
        /// The checksum that the header holds.
        found: u32,
    },
    /// A volume of another format.
    #[error("the volume has format {major}, this program knows format {MAJOR}; use the program that made it")]
    Version {
        /// The number of the format.
        major: u32,
    },
    /// The volume uses features that this code does not know.
    #[error(
        "the volume uses features that this program does not know: {incompat:#x}; use the program that made it"
    )]
    Features {
        /// The bits of the features.
        incompat: u64,
    },
    /// A field breaks its rule although the checksum is right.
    #[error("the header contradicts itself: {0}")]
    Field(#[from] InvalidField),
}

impl RawVolume {
    /// Bytes of a copy of the header.
    pub const LEN: usize = LEN;
    /// Plans the volume of a file of `size` bytes.
    ///
    /// # Errors
    /// Fails if blocks can't have that size, or if the file has no room for one.
    pub fn plan(
        size: u64,
        block_size: u32,
        class: VolumeClass,
        uuid: Uuid,
        created: u64,
    ) -> Result<RawVolume, InvalidField> {
        let data_off = match class {
            VolumeClass::Block => 2 * BLOCK,
            VolumeClass::Dax => DAX_ALIGN,
        };
        check_block_size(block_size)?;
        Want::AtLeast(data_off + 2 * BLOCK).check("size", 0, size)?;
        let block_count = (RawVolume::last_copy_at(size) - data_off) / u64::from(block_size);
        Ok(RawVolume { uuid, created, block_size, class, data_off, block_count })
    }

    /// Returns this volume with as many blocks as a file of `size` bytes has room for, at least as many as it has.
    ///
    /// # Errors
    /// Fails if the file has no room for this volume, or if a volume can't be so large.
    pub fn grown(&self, size: u64) -> Result<RawVolume, InvalidField> {
        Want::AtLeast(self.end()).check("size", 0, size)?;
        Want::AtMost(i64::MAX as u64).check("size", 0, size)?;
        let block_count = (RawVolume::last_copy_at(size) - self.data_off) / u64::from(self.block_size);
        Ok(RawVolume { block_count, ..*self })
    }

    /// Returns true if `other` is this volume with another number of blocks.
    pub fn is_grown(&self, other: &RawVolume) -> bool {
        *self == RawVolume { block_count: self.block_count, ..*other }
    }

    /// Returns true if `bytes` are a copy of this header, of any number of blocks, whose store has not ended: it has no magic yet.
    pub fn is_unfinished(&self, bytes: &[u8]) -> bool {
        let copy = RawVolumeBytes::ref_from_prefix(bytes);
        copy.is_ok_and(|(copy, _)| {
            let mut want = self.to_bytes();
            (want.magic, want.block_count, want.crc) = ([0; 8], copy.block_count, copy.crc);
            want.as_bytes() == copy.as_bytes()
        })
    }

    /// Returns the offset of copy B of the header in a new file of `len` bytes: that of its last whole 4096 bytes.
    pub fn last_copy_at(len: u64) -> u64 {
        align_down(len, BLOCK).saturating_sub(BLOCK)
    }

    /// Returns the offsets of the two copies of the header, in bytes.
    pub fn copies(&self) -> [u64; 2] {
        [0, align_up(self.data_off + self.block_count * u64::from(self.block_size), BLOCK)]
    }

    /// Returns the offset of the end of the second copy of the header, in bytes: the least length of the file.
    pub fn end(&self) -> u64 {
        self.copies()[1] + BLOCK
    }

    /// Decodes the header in the first 4096 of `bytes`. Never panics, for any content.
    ///
    /// # Errors
    /// Reports the first failed check in the order of the errors.
    pub fn decode(bytes: &[u8]) -> Result<RawVolume, RawVolumeError> {
        let (raw, _) = RawVolumeBytes::ref_from_prefix(bytes)
            .map_err(|_| RawVolumeError::TooShort { len: bytes.len() as u64 })?;
        if raw.magic != MAGIC {
            return Err(RawVolumeError::NotAVolume { found: raw.magic });
        }
        let (want, found) = (raw.checksum(), raw.crc.get());
        if want != found {
            return Err(RawVolumeError::Checksum { want, found });
        }
        let (major, incompat) = (raw.major.get(), raw.incompat.get());
        if major != MAJOR {
            return Err(RawVolumeError::Version { major });
        }
        if incompat != 0 {
            return Err(RawVolumeError::Features { incompat });
        }
        Ok(raw.fields()?)
    }

    /// Returns the bytes of a copy of the header.
    pub fn encode(&self) -> [u8; LEN] {
        zerocopy::transmute!(self.to_bytes())
    }

    fn to_bytes(self) -> RawVolumeBytes {
        let mut raw = RawVolumeBytes::new_zeroed();
        raw.magic = MAGIC;
        raw.major = MAJOR.into();
        raw.uuid = self.uuid.into_bytes();
        raw.created = self.created.into();
        raw.block_size = self.block_size.into();
        raw.class = match self.class {
            VolumeClass::Block => 0,
            VolumeClass::Dax => 1,
        };
        raw.data_off = self.data_off.into();
        raw.block_count = self.block_count.into();
        raw.crc = raw.checksum().into();
        raw
    }
}

/// Writes the checksum of the header in `bytes`: for tests, which change its fields.
///
/// # Panics
/// Panics if there are fewer bytes than a header has.
pub fn store_raw_volume_checksum(bytes: &mut [u8]) {
    let sum = RawVolumeBytes::ref_from_prefix(bytes).map(|(raw, _)| raw.checksum());
    let sum = sum.unwrap_or_default().to_le_bytes();
    bytes[offset_of!(RawVolumeBytes, crc)..LEN].copy_from_slice(&sum);
}

fn check_block_size(block_size: u32) -> Result<(), InvalidField> {
    let size = u64::from(block_size);
    let [least, largest] = BLOCK_SIZES;
    for rule in [Want::PowerOfTwo, Want::AtLeast(least), Want::AtMost(largest)] {
        rule.check("block_size", 0, size)?;
    }
    Ok(())
}

impl RawVolumeBytes {
    fn checksum(&self) -> u32 {
        let before = &self.as_bytes()[..offset_of!(RawVolumeBytes, crc)];
        crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4])
    }

    fn fields(&self) -> Result<RawVolume, InvalidField> {
        let (block_size, data_off) = (self.block_size.get(), self.data_off.get());
        check_block_size(block_size)?;
        Want::AtMost(1).check("class", 0, self.class.into())?;
        let (class, align) = match self.class {
            0 => (VolumeClass::Block, BLOCK),
            _ => (VolumeClass::Dax, DAX_ALIGN),
        };
        let is_reserved_zero = self.reserved.iter().chain(&self.unused).all(|byte| *byte == 0);
        Want::Exactly(0).check("reserved", 0, u64::from(!is_reserved_zero))?;
        Want::AtLeast(2 * BLOCK).check("data_off", 0, data_off)?;
        Want::MultipleOf(align).check("data_off", 0, data_off)?;
        let end_max = i64::MAX as u64 - 2 * BLOCK;
        Want::AtMost(end_max).check("data_off", 0, data_off)?;
        let block_count = self.block_count.get();
        Want::AtLeast(1).check("block_count", 0, block_count)?;
        Want::AtMost((end_max - data_off) / u64::from(block_size)).check("block_count", 0, block_count)?;
        let (uuid, created) = (Uuid::from_bytes(self.uuid), self.created.get());
        Ok(RawVolume { uuid, created, block_size, class, data_off, block_count })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn sample(class: VolumeClass) -> RawVolume {
        RawVolume::plan(64 << 20, 512, class, Uuid::from_u128(1), 3).expect("room for blocks")
    }

    #[test]
    fn headers_round_trip() {
        for class in [VolumeClass::Block, VolumeClass::Dax] {
            let volume = sample(class);
            assert_eq!(RawVolume::decode(&volume.encode()), Ok(volume));
            assert_eq!((volume.copies(), volume.end()), ([0, (64 << 20) - 4096], 64 << 20));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn any_damaged_bit_is_found() {
        let bytes = sample(VolumeClass::Block).encode();
        // Miri needs minutes for all.
        let step = if cfg!(miri) { 401 } else { 1 };
        for bit in (0..LEN * 8).step_by(step) {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(RawVolume::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn copy_without_magic_is_unfinished() {
        let volume = sample(VolumeClass::Block);
        let mut copy = volume.grown(96 << 20).expect("a larger file").encode();
        assert!(!volume.is_unfinished(&copy));
        copy[..8].fill(0);
        assert!(volume.is_unfinished(&copy) && !volume.is_unfinished(&copy[1..]));
        // A crash mixes the words of the old copy and of the new one.
        copy[0xffc..].copy_from_slice(&volume.encode()[0xffc..]);
        assert!(volume.is_unfinished(&copy));
        let other = RawVolume { uuid: Uuid::from_u128(2), ..volume };
        assert!(!other.is_unfinished(&copy) && !volume.is_unfinished(&[0; LEN]));
    }

    #[test]
    fn each_field_is_checked() {
        let decode = |at: usize, value: u8| {
            let mut bytes = sample(VolumeClass::Dax).encode();
            bytes[at] = value;
            store_raw_volume_checksum(&mut bytes);
            RawVolume::decode(&bytes).expect_err("a field breaks its rule")
        };
        let field = |at, value| match decode(at, value) {
            RawVolumeError::Field(field) => field.field,
            other => panic!("{other}"),
        };
        assert_eq!(decode(0, b'X'), RawVolumeError::NotAVolume { found: *b"XODERAWV" });
        assert_eq!(decode(0x8, 2), RawVolumeError::Version { major: 2 });
        assert_eq!(decode(0x10, 1), RawVolumeError::Features { incompat: 1 });
        let fields =
            [(0x30, 1), (0x31, 1), (0x32, 1), (0x34, 2), (0x35, 1), (0x39, 1), (0x3f, 0x80), (0x47, 1)];
        let names = fields.map(|(at, value)| field(at, value));
        let size = "block_size";
        assert_eq!(names, [size, size, size, "class", "reserved", "data_off", "data_off", "block_count"]);
        assert_eq!(field(0x48, 1), "reserved");
        let short = RawVolume::decode(&sample(VolumeClass::Dax).encode()[1..]);
        assert_eq!(short, Err(RawVolumeError::TooShort { len: 4095 }));
    }

    #[test]
    fn plans_leave_room_for_a_block() {
        let plan = |size, block_size, class| RawVolume::plan(size, block_size, class, Uuid::nil(), 0);
        let blocks =
            |size, block_size| plan(size, block_size, VolumeClass::Block).map(|plan| plan.block_count);
        assert_eq!([blocks(16384, 512), blocks(20479, 512), blocks(16384, 4096)], [Ok(8), Ok(8), Ok(1)]);
        assert_eq!(blocks(16383, 512).map_err(|error| error.field), Err("size"));
        assert_eq!(plan((2 << 20) + 8191, 4096, VolumeClass::Dax).map_err(|error| error.field), Err("size"));
        for block_size in [0, 256, 520, 8192] {
            let error = plan(1 << 20, block_size, VolumeClass::Block).map_err(|error| error.field);
            assert_eq!(error, Err("block_size"), "{block_size}");
        }
    }

    proptest! {
        #[test]
        fn field_changes_never_panic(changes in prop::collection::vec((0usize..LEN, any::<u8>()), 1..24)) {
            let mut bytes = sample(VolumeClass::Block).encode();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            store_raw_volume_checksum(&mut bytes);
            if let Ok(volume) = RawVolume::decode(&bytes) {
                prop_assert!(volume.end() <= i64::MAX as u64);
                prop_assert_eq!(RawVolume::decode(&volume.encode()).map(|again| again.end()), Ok(volume.end()));
            }
        }
    }
}
