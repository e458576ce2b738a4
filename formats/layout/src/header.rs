#![doc = include_str!("header.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::geometry::{EXTENTS_MAX, Extent};
use crate::{Durability, Geometry, InvalidField, LayoutName, LayoutNameError, PoolOffset, Want};
use std::mem::offset_of;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of one copy of the header.
pub const LEN: usize = 4096;
/// The format that this code reads and writes.
pub const MAJOR: u32 = 1;
/// The revision of the format that this code writes.
pub const MINOR: u32 = 0;

const MAGIC: [u8; 8] = *b"LODESTON";
const ENDIAN_MARK: u64 = 0x0102_0304_0506_0708;
/// Features that this code knows, one constant for each feature word.
const INCOMPAT_KNOWN: u64 = 0;
const RO_COMPAT_KNOWN: u64 = 0;

pub(crate) const TABLE: FormatTable = format_table!(
    "header",
    HeaderBytes,
    [
        magic,
        endian_mark,
        major,
        minor,
        incompat,
        ro_compat,
        compat,
        generation,
        uuid,
        layout,
        created,
        durability_min,
        durability_forced,
        in_use,
        reserved_flags,
        dirty_shutdowns,
        size,
        log_off,
        log_len,
        extent_count,
        extents,
        size_max,
        reserved,
        crc,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct ExtentBytes {
    start: U64,
    len: U64,
    table_len: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    magic: [u8; 8],
    endian_mark: U64,
    major: U32,
    minor: U32,
    incompat: U64,
    ro_compat: U64,
    compat: U64,
    generation: U64,
    uuid: [u8; 16],
    layout: [u8; LayoutName::LEN_MAX],
    created: U64,
    durability_min: u8,
    durability_forced: u8,
    in_use: u8,
    reserved_flags: [u8; 5],
    dirty_shutdowns: U64,
    size: U64,
    log_off: U64,
    log_len: U64,
    extent_count: U64,
    extents: [ExtentBytes; EXTENTS_MAX],
    size_max: U64,
    reserved: [u8; 3124],
    crc: U32,
}

const _: () = assert!(size_of::<HeaderBytes>() == LEN);

/// A header whose fields are consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The revision of the format that the last writer of the header used.
    pub minor: u32,
    /// Features that a reader and a writer may ignore, one bit each.
    pub compat: u64,
    /// Features that a writer must know, one bit each.
    pub ro_compat: u64,
    /// Number of times that the header was written. The newer of two copies has the larger number.
    pub generation: u64,
    /// The identity of the pool.
    pub uuid: Uuid,
    /// The name of the pool's content format.
    pub layout: LayoutName,
    /// Creation time of the pool, in seconds since 1970-01-01 UTC.
    pub created: u64,
    /// The durability at creation. The medium must offer at least this durability at each open.
    pub durability_min: Durability,
    /// The durability that a user last forced against the medium's own; `None` if no durability was ever forced.
    pub durability_forced: Option<Durability>,
    /// Sum of the dirty shutdowns that the modules below had counted at open. `Some` while a writer has the pool open
    /// on modules that count them.
    pub dirty_shutdowns: Option<u64>,
    /// The parts of the pool.
    pub geometry: Geometry,
    /// Size in bytes up to which the pool grows by itself; 0 if it does not.
    pub size_max: u64,
}

/// Reasons why bytes are not a header that this code can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// There are fewer bytes than a header has.
    #[error("there are only {len} bytes, a pool header has {LEN}")]
    TooShort {
        /// Number of bytes found.
        len: u64,
    },
    /// The bytes do not begin with the magic of a pool.
    #[error("not a pool: it begins with \"{}\"", .found.escape_ascii())]
    NotAPool {
        /// The first bytes.
        found: [u8; 8],
    },
    /// A pool whose numbers are written in big-endian order.
    #[error("the header is written in the other byte order (big-endian)")]
    OtherEndian,
    /// The checksum is wrong: the bytes are not those that were written.
    #[error("the header is damaged: its checksum is {found:#010x}, its bytes give {want:#010x}")]
    Checksum {
        /// The checksum of the bytes.
        want: u32,
        /// The checksum that the header holds.
        found: u32,
    },
    /// A pool of another format.
    #[error("the pool has format {major}.{minor}, this program knows format {MAJOR}")]
    Version {
        /// The number of the format; this code knows [`MAJOR`].
        major: u32,
        /// The revision of the format.
        minor: u32,
    },
    /// The pool uses features that this code does not know and must not ignore.
    #[error("the pool uses features that this program does not know: {unknown:#x}")]
    Incompat {
        /// The unknown bits.
        unknown: u64,
    },
    /// The stored layout name is invalid.
    #[error("the header contradicts itself: {0}")]
    Layout(#[source] LayoutNameError),
    /// A field breaks its rule although the checksum is right.
    #[error("the header contradicts itself: {0}")]
    Field(#[source] InvalidField),
    /// The pool is longer than the file or device that holds it.
    #[error("the pool has {want} bytes, but only {found} of them are there")]
    PoolCutShort {
        /// The length of the pool in bytes.
        want: u64,
        /// The length of the file or device in bytes.
        found: u64,
    },
}

impl Header {
    /// Returns the header of a new pool, made `created` seconds after 1970-01-01 UTC.
    pub fn new(
        uuid: Uuid,
        layout: LayoutName,
        geometry: Geometry,
        durability_min: Durability,
        created: u64,
    ) -> Header {
        Header {
            minor: MINOR,
            compat: 0,
            ro_compat: 0,
            generation: 1,
            uuid,
            layout,
            created,
            durability_min,
            durability_forced: None,
            dirty_shutdowns: None,
            geometry,
            size_max: 0,
        }
    }

    /// Decodes the header in the first 4096 of `bytes`. Never panics, for any content.
    ///
    /// # Errors
    /// Reports the first failed check in the order of the table. Never reports [`HeaderError::PoolCutShort`];
    /// [`fits`](Header::fits) does that.
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let (raw, _) = HeaderBytes::ref_from_prefix(bytes)
            .map_err(|_| HeaderError::TooShort { len: bytes.len() as u64 })?;
        if raw.magic != MAGIC {
            return Err(HeaderError::NotAPool { found: raw.magic });
        }
        if raw.endian_mark.get() == ENDIAN_MARK.swap_bytes() {
            return Err(HeaderError::OtherEndian);
        }
        let (want, found) = (raw.checksum(), raw.crc.get());
        if want != found {
            return Err(HeaderError::Checksum { want, found });
        }
        let (major, minor) = (raw.major.get(), raw.minor.get());
        if major != MAJOR {
            return Err(HeaderError::Version { major, minor });
        }
        let unknown = raw.incompat.get() & !INCOMPAT_KNOWN;
        if unknown != 0 {
            return Err(HeaderError::Incompat { unknown });
        }
        raw.validated()
    }

    /// Returns the bytes of this header, as both copies hold them.
    pub fn encode(&self) -> [u8; LEN] {
        let mut raw = HeaderBytes::new_zeroed();
        raw.magic = MAGIC;
        raw.endian_mark = ENDIAN_MARK.into();
        raw.major = MAJOR.into();
        raw.minor = self.minor.into();
        raw.ro_compat = self.ro_compat.into();
        raw.compat = self.compat.into();
        raw.generation = self.generation.into();
        raw.uuid = self.uuid.into_bytes();
        raw.layout = self.layout.padded();
        raw.created = self.created.into();
        raw.durability_min = self.durability_min.code();
        raw.durability_forced = self.durability_forced.map_or(0, |durability| durability.code() + 1);
        raw.in_use = self.dirty_shutdowns.is_some().into();
        raw.dirty_shutdowns = self.dirty_shutdowns.unwrap_or(0).into();
        raw.size = self.geometry.size().into();
        raw.log_off = self.geometry.log_off().get().into();
        raw.log_len = self.geometry.log_len().into();
        raw.extent_count = (self.geometry.extents().len() as u64).into();
        raw.extents = self.geometry.extent_slots().map(|extent| ExtentBytes {
            start: extent.start.get().into(),
            len: extent.len.into(),
            table_len: extent.table_len.into(),
        });
        raw.size_max = self.size_max.into();
        raw.crc = raw.checksum().into();
        zerocopy::transmute!(raw)
    }

    /// Checks that the pool ends inside of a medium of `len` bytes.
    ///
    /// # Errors
    /// Fails with [`HeaderError::PoolCutShort`].
    pub fn fits(&self, len: u64) -> Result<(), HeaderError> {
        let want = self.geometry.size();
        if want > len { Err(HeaderError::PoolCutShort { want, found: len }) } else { Ok(()) }
    }

    /// Returns the features in use that a writer must know and this code does not. Such a pool is opened read-only.
    pub fn ro_compat_unknown(&self) -> u64 {
        self.ro_compat & !RO_COMPAT_KNOWN
    }
}

impl HeaderBytes {
    /// Returns the CRC32C of all bytes, those of the checksum taken as zeros.
    fn checksum(&self) -> u32 {
        let (before, _) = self.as_bytes().split_at(offset_of!(HeaderBytes, crc));
        crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4])
    }

    /// Returns the checked values of the fields. The caller has verified magic, checksum, version and incompat.
    fn validated(&self) -> Result<Header, HeaderError> {
        use Want::{AtLeast, AtMost, Exactly};
        let rule = |field, found: u64, want: Want| want.check(field, 0, found).map_err(HeaderError::Field);
        rule("endian_mark", self.endian_mark.get(), Exactly(ENDIAN_MARK))?;
        rule("generation", self.generation.get(), AtLeast(1))?;
        rule("uuid", u64::from(self.uuid != [0; 16]), Exactly(1))?;
        let layout = LayoutName::from_padded(&self.layout).map_err(HeaderError::Layout)?;
        let durability_codes = u64::from(Durability::Byte.code());
        rule("durability_min", self.durability_min.into(), AtMost(durability_codes))?;
        rule("durability_forced", self.durability_forced.into(), AtMost(durability_codes + 1))?;
        rule("in_use", self.in_use.into(), AtMost(1))?;
        let dirty_shutdowns = if self.in_use == 1 {
            Some(self.dirty_shutdowns.get())
        } else {
            rule("dirty_shutdowns", self.dirty_shutdowns.get(), Exactly(0))?;
            None
        };
        let header = Header {
            minor: self.minor.get(),
            compat: self.compat.get(),
            ro_compat: self.ro_compat.get(),
            generation: self.generation.get(),
            uuid: Uuid::from_bytes(self.uuid),
            layout,
            created: self.created.get(),
            durability_min: Durability::from_code(self.durability_min).unwrap_or(Durability::None),
            durability_forced: self.durability_forced.checked_sub(1).and_then(Durability::from_code),
            dirty_shutdowns,
            geometry: self.geometry().map_err(HeaderError::Field)?,
            size_max: self.size_max.get(),
        };
        rule("size_max", header.size_max, AtMost(Geometry::SIZE_MAX))?;
        if header.ro_compat_unknown() == 0 {
            let reserved = self.reserved_flags.iter().chain(&self.reserved);
            let used = reserved.filter(|byte| **byte != 0).count() as u64;
            rule("reserved bytes in use", used, Exactly(0))?;
        }
        Ok(header)
    }

    fn geometry(&self) -> Result<Geometry, InvalidField> {
        let extents = self.extents.map(|extent| Extent {
            start: PoolOffset::new(extent.start.get()),
            len: extent.len.get(),
            table_len: extent.table_len.get(),
        });
        Geometry::from_parts(
            self.size.get(),
            self.log_off.get(),
            self.log_len.get(),
            extents,
            self.extent_count.get(),
        )
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Header {
        let uuid = Uuid::from_bytes([0x5a; 16]);
        let layout = LayoutName::new("kv").unwrap();
        let geometry = Geometry::plan(1 << 30).unwrap().grow(1 << 40).unwrap();
        Header {
            generation: 7,
            durability_forced: Some(Durability::None),
            dirty_shutdowns: Some(3),
            size_max: 1 << 42,
            ..Header::new(uuid, layout, geometry, Durability::Commit, 1_700_000_000)
        }
    }

    /// Decodes the sample after `change`, with a correct checksum, as a faulty or hostile writer leaves it.
    fn written_by(change: impl FnOnce(&mut HeaderBytes)) -> Result<Header, HeaderError> {
        let mut raw = HeaderBytes::read_from_bytes(&sample().encode()).unwrap();
        change(&mut raw);
        raw.crc = raw.checksum().into();
        Header::decode(raw.as_bytes())
    }

    fn invalid_field(change: impl FnOnce(&mut HeaderBytes)) -> (&'static str, usize) {
        match written_by(change) {
            Err(HeaderError::Field(InvalidField { field, index, .. })) => (field, index),
            other => panic!("expected a contradiction, not {other:?}"),
        }
    }

    #[test]
    fn header_round_trips() {
        let counted = sample();
        assert_eq!(Header::decode(&counted.encode()), Ok(counted));
        let plain = Header { durability_forced: None, dirty_shutdowns: None, ..counted };
        assert_eq!(Header::decode(&plain.encode()), Ok(plain));
    }

    #[test]
    #[cfg_attr(miri, ignore = "32768 checksums of 4 KiB: hours")]
    fn every_flipped_bit_is_found() {
        let good = sample().encode();
        for bit in 0..LEN * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = Header::decode(&bytes).expect_err("a flipped bit passed");
            if bit / 8 < MAGIC.len() {
                assert!(matches!(error, HeaderError::NotAPool { .. }), "bit {bit}: {error:?}");
            } else {
                assert!(matches!(error, HeaderError::Checksum { .. }), "bit {bit}: {error:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "4096 headers: minutes")]
    fn every_shorter_input_is_refused() {
        let good = sample().encode();
        for len in 0..LEN {
            assert_eq!(Header::decode(&good[..len]), Err(HeaderError::TooShort { len: len as u64 }));
        }
    }

    #[test]
    fn each_corruption_has_its_error() {
        assert_eq!(Header::decode(&[0; LEN]), Err(HeaderError::NotAPool { found: [0; 8] }));
        assert_eq!(
            written_by(|raw| raw.endian_mark = ENDIAN_MARK.swap_bytes().into()),
            Err(HeaderError::OtherEndian)
        );
        assert_eq!(
            written_by(|raw| raw.major = 2.into()),
            Err(HeaderError::Version { major: 2, minor: MINOR })
        );
        assert_eq!(
            written_by(|raw| raw.incompat = 0x12.into()),
            Err(HeaderError::Incompat { unknown: 0x12 })
        );
        assert_eq!(
            written_by(|raw| raw.layout[1] = 0xff),
            Err(HeaderError::Layout(LayoutNameError::NotUtf8 { at: 1 }))
        );
    }

    #[test]
    fn newer_minor_version_is_read() {
        let header = written_by(|raw| {
            raw.minor = 9.into();
            raw.compat = 0x10.into();
        });
        assert_eq!(header, Ok(Header { minor: 9, compat: 0x10, ..sample() }));
        let read_only = written_by(|raw| {
            raw.ro_compat = 4.into();
            raw.reserved[0] = 1;
        })
        .unwrap();
        assert_eq!(read_only.ro_compat_unknown(), 4);
    }

    #[test]
    fn foreign_header_is_not_damage() {
        // Bytes of a big-endian writer: every number is reversed, including the checksum.
        let mut raw = HeaderBytes::read_from_bytes(&sample().encode()).unwrap();
        raw.endian_mark = raw.endian_mark.get().swap_bytes().into();
        raw.major = raw.major.get().swap_bytes().into();
        raw.size = raw.size.get().swap_bytes().into();
        raw.crc = raw.checksum().swap_bytes().into();
        assert_eq!(Header::decode(raw.as_bytes()), Err(HeaderError::OtherEndian));
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn invalid_fields_are_named() {
        type Change = fn(&mut HeaderBytes);
        let cases: &[(&str, usize, Change)] = &[
            ("endian_mark", 0, |raw| raw.endian_mark = 0.into()),
            ("generation", 0, |raw| raw.generation = 0.into()),
            ("uuid", 0, |raw| raw.uuid = [0; 16]),
            ("durability_min", 0, |raw| raw.durability_min = 4),
            ("durability_forced", 0, |raw| raw.durability_forced = 5),
            ("in_use", 0, |raw| raw.in_use = 2),
            ("dirty_shutdowns", 0, |raw| raw.in_use = 0),
            ("size", 0, |raw| raw.size = ((1 << 40) + 1).into()),
            ("size", 0, |raw| raw.size = 0.into()),
            ("size", 0, |raw| raw.size = u64::MAX.into()),
            ("log_off", 0, |raw| raw.log_off = 0x3000.into()),
            ("log_off", 0, |raw| raw.log_off = 0x4800.into()),
            ("log_off", 0, |raw| raw.log_off = u64::MAX.into()),
            ("log_len", 0, |raw| raw.log_len = 0x3000.into()),
            ("log_len", 0, |raw| raw.log_len = 0x8001.into()),
            ("log_len", 0, |raw| raw.log_len = u64::MAX.into()),
            ("extent_count", 0, |raw| raw.extent_count = 0.into()),
            ("extent_count", 0, |raw| raw.extent_count = 33.into()),
            // A longer log runs into the first extent.
            ("extent.start", 0, |raw| raw.log_len = (65 << 20).into()),
            // The second extent begins inside of the first, is unaligned, lies outside, is too long.
            ("extent.start", 1, |raw| raw.extents[1].start = (raw.extents[1].start.get() - 0x4000).into()),
            ("extent.start", 1, |raw| raw.extents[1].start = (raw.extents[1].start.get() + 8).into()),
            ("extent.start", 1, |raw| raw.extents[1].start = u64::MAX.into()),
            ("extent.len", 1, |raw| raw.extents[1].len = (raw.extents[1].len.get() + 0x4000).into()),
            ("extent.len", 0, |raw| raw.extents[0].len = 0.into()),
            ("extent.table_len", 0, |raw| raw.extents[0].table_len = 0x4000.into()),
            ("extent.table_len", 0, |raw| raw.extents[0].table_len = raw.extents[0].len),
            ("extent.len", 2, |raw| raw.extents[2].len = 0x4000.into()),
            ("extent.start", 1, |raw| raw.extent_count = 1.into()),
            ("size_max", 0, |raw| raw.size_max = u64::MAX.into()),
            ("reserved bytes in use", 0, |raw| raw.reserved[3123] = 1),
            ("reserved bytes in use", 0, |raw| raw.reserved_flags[4] = 1),
        ];
        for (number, (field, index, change)) in cases.iter().enumerate() {
            assert_eq!(invalid_field(change), (*field, *index), "case {number}");
        }
    }

    #[test]
    fn pool_longer_than_medium_is_refused() {
        let header = sample();
        let size = header.geometry.size();
        assert_eq!(header.fits(size), Ok(()));
        assert_eq!(header.fits(size - 1), Err(HeaderError::PoolCutShort { want: size, found: size - 1 }));
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "minutes in the interpreter: in `make soak`")]
        fn decode_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..LEN + 8)) {
            prop_assert!(Header::decode(&bytes).is_err());
        }

        /// Damages random bytes and corrects the checksum: decoding fails, or the header survives a round trip.
        #[test]
        fn field_changes_never_panic(changes in prop::collection::vec((16usize..0x3d8, any::<u8>()), 1..24)) {
            let mut bytes = sample().encode();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            let mut raw = HeaderBytes::read_from_bytes(&bytes).unwrap();
            raw.crc = raw.checksum().into();
            if let Ok(header) = Header::decode(raw.as_bytes()) {
                prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
            }
        }
    }
}
