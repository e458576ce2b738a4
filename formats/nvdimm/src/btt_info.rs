//! The info block of a BTT arena, and the parts of an arena.
#![doc = include_str!("btt_info.md")]

use crate::{BttMapEntry, InfoBlockError};
use lode_layout::format_table;
use lode_layout::format_table::FormatTable;
use lode_layout::{BLOCK, InvalidField, Want, align_down, align_up};
use lode_layout::{fletcher64_with_hole, store_fletcher64};
use std::mem::offset_of;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const SIG: [u8; 16] = *b"BTT_ARENA_INFO\0\0";
/// Bytes of an info block.
pub(crate) const INFO_LEN: usize = 4096;
/// Bytes of a lane in the flog.
pub(crate) const FLOG_LANE_LEN: u64 = 64;
/// Number of free blocks that the kernel and PMDK give an arena: one for each concurrent write.
const NFREE: u32 = 256;
/// Alignment of internal blocks in the kernel's arenas, in bytes.
const KERNEL_UNIT: u32 = 64;
/// Alignment of internal blocks in PMDK's arenas, in bytes.
const PMDK_UNIT: u32 = 256;
/// Number of blocks that the 30 bits of a map entry can address.
const NLBA_MAX: u64 = 1 << 30;
const LBASIZE_MIN: u32 = 512;
/// Bytes of data in a block with less than 4096 bytes.
const SECTOR_SMALL: u32 = 512;
/// Bytes of data in a block with 4096 bytes or more.
const SECTOR_LARGE: u32 = 4096;
/// Upper limit of a block's bytes. It is far larger than any block, and no sum here wraps.
const LBASIZE_MAX: u64 = 1 << 30;

pub(crate) const TABLE: FormatTable = format_table!(
    "btt_info",
    BttBytes,
    [
        sig,
        uuid,
        parent_uuid,
        flags,
        major,
        minor,
        external_lbasize,
        external_nlba,
        internal_lbasize,
        internal_nlba,
        nfree,
        infosize,
        nextoff,
        dataoff,
        mapoff,
        flogoff,
        infooff,
        reserved,
        checksum,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BttBytes {
    sig: [u8; 16],
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    flags: U32,
    major: U16,
    minor: U16,
    external_lbasize: U32,
    external_nlba: U32,
    internal_lbasize: U32,
    internal_nlba: U32,
    nfree: U32,
    infosize: U32,
    nextoff: U64,
    dataoff: U64,
    mapoff: U64,
    flogoff: U64,
    infooff: U64,
    reserved: [u8; 3968],
    checksum: U64,
}

const _: () = assert!(size_of::<BttBytes>() == INFO_LEN);

/// The version of a BTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BttVersion {
    /// 1.1: the first 4096 bytes of the namespace are unused.
    V1_1,
    /// 2.0, as in UEFI: for namespaces whose labels name the BTT.
    V2_0,
}

impl BttVersion {
    /// Returns the offset of the first arena in the namespace, in bytes.
    pub const fn arenas_off(self) -> u64 {
        match self {
            BttVersion::V1_1 => BLOCK,
            BttVersion::V2_0 => 0,
        }
    }

    const fn numbers(self) -> (u16, u16) {
        match self {
            BttVersion::V1_1 => (1, 1),
            BttVersion::V2_0 => (2, 0),
        }
    }
}

/// The choices of those who make a table: they decide how an arena is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BttRules {
    /// Size of a block in bytes, including its metadata.
    pub lbasize: u32,
    /// Size of the smallest block in bytes. A smaller one than 512 takes 512 in the data.
    pub lbasize_min: u32,
    /// Number of free blocks, and so of lanes.
    pub nfree: u32,
    /// Alignment of blocks in the data, in bytes.
    pub internal_unit: u32,
}

impl BttRules {
    /// Returns the rules of the kernel.
    pub const fn kernel(lbasize: u32) -> BttRules {
        BttRules { lbasize, lbasize_min: LBASIZE_MIN, nfree: NFREE, internal_unit: KERNEL_UNIT }
    }

    /// Returns the rules of PMDK, for tables in its pools.
    pub const fn pmdk(lbasize: u32) -> BttRules {
        BttRules { lbasize, lbasize_min: 1, nfree: NFREE, internal_unit: PMDK_UNIT }
    }
}

/// The parts of an arena. The fields of a value of this type are consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BttGeometry {
    external_lbasize: u32,
    external_nlba: u32,
    internal_lbasize: u32,
    internal_nlba: u32,
    nfree: u32,
    nextoff: u64,
    dataoff: u64,
    mapoff: u64,
    flogoff: u64,
    infooff: u64,
}

impl BttGeometry {
    /// The largest arena in bytes, 512 GiB.
    pub const ARENA_MAX: u64 = 1 << 39;
    /// The smallest arena in bytes, 16 MiB. A smaller rest of a namespace, after the last arena, is unused.
    pub const ARENA_MIN: u64 = 16 << 20;

    /// Divides a namespace of `size` bytes with blocks of `lbasize` bytes into arenas, as the kernel does. Returns the
    /// parts of each arena with its offset in the namespace.
    ///
    /// # Errors
    /// Fails if the namespace is too small for an arena. Fails if the blocks are smaller than 512 bytes or too large to
    /// fit.
    pub fn plan(
        size: u64,
        lbasize: u32,
        version: BttVersion,
    ) -> Result<Vec<(u64, BttGeometry)>, InfoBlockError> {
        BttGeometry::divide(size, version.arenas_off(), &BttRules::kernel(lbasize))
    }

    /// Divides the bytes from `start` to `size` into arenas, by these rules. Returns the parts of each arena with its
    /// offset.
    ///
    /// # Errors
    /// As [`plan`](BttGeometry::plan).
    pub fn divide(
        size: u64,
        start: u64,
        rules: &BttRules,
    ) -> Result<Vec<(u64, BttGeometry)>, InfoBlockError> {
        let mut next = start;
        let mut arenas = Vec::new();
        loop {
            let rest = size.saturating_sub(next);
            let len = rest.min(BttGeometry::ARENA_MAX);
            if len < BttGeometry::ARENA_MIN {
                break;
            }
            let is_last = rest - len < BttGeometry::ARENA_MIN;
            arenas.push((next, BttGeometry::arena(len, rules, is_last)?));
            next += len;
        }
        if arenas.is_empty() {
            let size_min = start + BttGeometry::ARENA_MIN;
            return Err(InfoBlockError::TooSmall { size, size_min });
        }
        Ok(arenas)
    }

    /// Returns the parts of one arena of `len` bytes. It may be smaller than [`ARENA_MIN`](BttGeometry::ARENA_MIN),
    /// for tests.
    ///
    /// # Errors
    /// Fails if the arena is too small for its blocks, or the blocks are smaller than 512 bytes or too large.
    pub fn arena(len: u64, rules: &BttRules, is_last: bool) -> Result<BttGeometry, InfoBlockError> {
        let BttRules { lbasize, lbasize_min, nfree, internal_unit } = *rules;
        Want::AtLeast(lbasize_min.into()).check("external_lbasize", 0, lbasize.into())?;
        Want::AtMost(LBASIZE_MAX).check("external_lbasize", 0, lbasize.into())?;
        let internal_lbasize = lbasize.max(LBASIZE_MIN).next_multiple_of(internal_unit);
        let flog_len = align_up(u64::from(nfree) * FLOG_LANE_LEN, BLOCK);
        // Two info blocks and the flog, and one block as padding because the map is rounded up to whole blocks.
        let len_min = 3 * BLOCK + flog_len;
        let len = align_down(len, BLOCK);
        if len < len_min {
            return Err(InfoBlockError::TooSmall { size: len, size_min: len_min });
        }
        // Room for data and map.
        let room = len - 2 * BLOCK - flog_len;
        let internal_nlba = (room - BLOCK) / (u64::from(internal_lbasize) + BttMapEntry::LEN);
        Want::AtLeast(u64::from(nfree) + 1).check("internal_nlba", 0, internal_nlba)?;
        let internal_nlba = InvalidField::narrow("internal_nlba", internal_nlba)?;
        let external_nlba = internal_nlba - nfree;
        let map_len = align_up(u64::from(external_nlba) * BttMapEntry::LEN, BLOCK);
        let mapoff = BLOCK + room - map_len;
        let flogoff = mapoff + map_len;
        Ok(BttGeometry {
            external_lbasize: lbasize,
            external_nlba,
            internal_lbasize,
            internal_nlba,
            nfree,
            nextoff: if is_last { 0 } else { len },
            dataoff: BLOCK,
            mapoff,
            flogoff,
            infooff: flogoff + flog_len,
        })
    }

    /// Returns the size of a block in bytes, including its metadata.
    pub const fn external_lbasize(&self) -> u32 {
        self.external_lbasize
    }

    /// Returns the bytes of data in a block, 512 or 4096. The rest of the block is metadata, which the kernel hands out
    /// beside the data.
    pub const fn sector_size(&self) -> u32 {
        BttGeometry::sector_size_of(self.external_lbasize)
    }

    /// Returns the bytes of data in a block of `lbasize` bytes, as the kernel divides it.
    pub const fn sector_size_of(lbasize: u32) -> u32 {
        if lbasize >= SECTOR_LARGE { SECTOR_LARGE } else { SECTOR_SMALL }
    }

    /// Returns the number of blocks that the user sees.
    pub const fn external_nlba(&self) -> u32 {
        self.external_nlba
    }

    /// Returns the number of bytes that a block takes in the data.
    pub const fn internal_lbasize(&self) -> u32 {
        self.internal_lbasize
    }

    /// Returns the number of blocks in the data, including the free ones.
    pub const fn internal_nlba(&self) -> u32 {
        self.internal_nlba
    }

    /// Returns the number of blocks that are free at any time. It limits the concurrent writes.
    pub const fn nfree(&self) -> u32 {
        self.nfree
    }

    /// Returns the offset of the next arena, in bytes from the start of this one; `None` for the last arena.
    pub const fn nextoff(&self) -> Option<u64> {
        if self.nextoff == 0 { None } else { Some(self.nextoff) }
    }

    /// Returns the offset of the data, in bytes from the start of the arena.
    pub const fn dataoff(&self) -> u64 {
        self.dataoff
    }

    /// Returns the offset of the map, in bytes from the start of the arena.
    pub const fn mapoff(&self) -> u64 {
        self.mapoff
    }

    /// Returns the offset of the flog, in bytes from the start of the arena.
    pub const fn flogoff(&self) -> u64 {
        self.flogoff
    }

    /// Returns the offset of the second info block, in bytes from the start of the arena.
    pub const fn infooff(&self) -> u64 {
        self.infooff
    }

    /// Returns the capacity for the user, in bytes: that of all blocks without their metadata.
    pub const fn capacity(&self) -> u64 {
        self.sector_size() as u64 * self.external_nlba as u64
    }

    /// Checks every rule of the table that concerns these fields.
    fn check(&self) -> Result<(), InfoBlockError> {
        use Want::{AtLeast, AtMost, Exactly, MultipleOf};
        let rule = |field, found: u64, want: Want| want.check(field, 0, found);
        let [external_nlba, internal_nlba, nfree] =
            [self.external_nlba, self.internal_nlba, self.nfree].map(u64::from);
        rule("external_lbasize", self.external_lbasize.into(), AtLeast(1))?;
        rule("internal_lbasize", self.internal_lbasize.into(), AtLeast(LBASIZE_MIN.into()))?;
        rule("external_nlba", external_nlba, AtLeast(1))?;
        rule("internal_lbasize", self.internal_lbasize.into(), AtLeast(self.external_lbasize.into()))?;
        rule("nfree", nfree, AtLeast(1))?;
        rule("internal_nlba", internal_nlba, Exactly(external_nlba + nfree))?;
        rule("internal_nlba", internal_nlba, AtMost(NLBA_MAX))?;
        // Checks go from the end to the start, so that each sum uses only checked numbers.
        rule("infooff", self.infooff, AtMost(BttGeometry::ARENA_MAX - BLOCK))?;
        rule("flogoff", self.flogoff, AtMost(self.infooff))?;
        rule("mapoff", self.mapoff, AtMost(self.flogoff))?;
        rule("dataoff", self.dataoff, AtMost(self.mapoff))?;
        rule("dataoff", self.dataoff, AtLeast(BLOCK))?;
        let data_len = internal_nlba * u64::from(self.internal_lbasize);
        rule("mapoff", self.mapoff, AtLeast(self.dataoff + data_len))?;
        rule("flogoff", self.flogoff, AtLeast(self.mapoff + external_nlba * BttMapEntry::LEN))?;
        rule("infooff", self.infooff, AtLeast(self.flogoff + nfree * FLOG_LANE_LEN))?;
        for (field, off) in [
            ("dataoff", self.dataoff),
            ("mapoff", self.mapoff),
            ("flogoff", self.flogoff),
            ("infooff", self.infooff),
        ] {
            rule(field, off, MultipleOf(BLOCK))?;
        }
        if self.nextoff != 0 {
            rule("nextoff", self.nextoff, AtLeast(self.infooff + BLOCK))?;
            rule("nextoff", self.nextoff, AtMost(BttGeometry::ARENA_MAX))?;
        }
        Ok(())
    }
}

/// The info block of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BttInfo {
    /// UUID of the table, the same in all its arenas.
    pub uuid: Uuid,
    /// UUID of the namespace that contains it; nil in tables that do not state it.
    pub parent_uuid: Uuid,
    /// True after an error: the arena must not be written.
    pub is_read_only: bool,
    /// Version of the table.
    pub version: BttVersion,
    /// The parts of the arena.
    pub geometry: BttGeometry,
}

/// The fields of the info block of an arena as they are stored, valid or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBtt {
    /// The signature.
    pub sig: [u8; 16],
    /// UUID of the table.
    pub uuid: [u8; 16],
    /// UUID of the namespace.
    pub parent_uuid: [u8; 16],
    /// Flags.
    pub flags: u32,
    /// The major number of the format.
    pub major: u16,
    /// The minor number of the format.
    pub minor: u16,
    /// Bytes of a sector, and number of sectors.
    pub external: [u32; 2],
    /// Bytes of a block, and number of blocks.
    pub internal: [u32; 2],
    /// Number of free blocks.
    pub nfree: u32,
    /// Bytes of the info block.
    pub infosize: u32,
    /// Offset of the next arena; 0 for the last one. All offsets are in bytes.
    pub nextoff: u64,
    /// Offset of the blocks.
    pub dataoff: u64,
    /// Offset of the map.
    pub mapoff: u64,
    /// Offset of the flog.
    pub flogoff: u64,
    /// Offset of the copy of the info block.
    pub infooff: u64,
    /// True if the checksum is that of the other bytes.
    pub is_intact: bool,
}

impl StoredBtt {
    /// Reads the fields at the start of `bytes`; `None` if the bytes are too few or begin with another signature.
    pub fn read(bytes: &[u8]) -> Option<StoredBtt> {
        let (raw, _) = BttBytes::ref_from_prefix(bytes).ok()?;
        (raw.sig == SIG).then(|| StoredBtt {
            sig: raw.sig,
            uuid: raw.uuid,
            parent_uuid: raw.parent_uuid,
            flags: raw.flags.get(),
            major: raw.major.get(),
            minor: raw.minor.get(),
            external: [raw.external_lbasize.get(), raw.external_nlba.get()],
            internal: [raw.internal_lbasize.get(), raw.internal_nlba.get()],
            nfree: raw.nfree.get(),
            infosize: raw.infosize.get(),
            nextoff: raw.nextoff.get(),
            dataoff: raw.dataoff.get(),
            mapoff: raw.mapoff.get(),
            flogoff: raw.flogoff.get(),
            infooff: raw.infooff.get(),
            is_intact: raw.checksum() == raw.checksum.get(),
        })
    }
}

impl StoredBtt {
    /// Bytes of an info block.
    pub const LEN: usize = INFO_LEN;

    /// Stores the UUID of the namespace in an info block, and the checksum.
    pub fn set_parent(info: &mut [u8; INFO_LEN], parent_uuid: [u8; 16]) {
        info[offset_of!(BttBytes, parent_uuid)..][..16].copy_from_slice(&parent_uuid);
        StoredBtt::store_checksum(info);
    }

    /// Stores the checksum of an info block.
    pub fn store_checksum(info: &mut [u8; INFO_LEN]) {
        store_fletcher64(info, offset_of!(BttBytes, checksum));
    }
}

impl BttInfo {
    /// The first word of an info block. A block without it is none.
    pub const SIG_WORD: u64 = u64::from_le_bytes(*b"BTT_AREN");

    /// Flag of an arena that had an error.
    const FLAG_ERROR: u32 = 1;

    /// Decodes the info block in the first 4096 of `bytes`. Never panics, for any content.
    ///
    /// # Errors
    /// Names the first broken rule of the table. Signature, checksum and version are checked first.
    pub fn decode(bytes: &[u8]) -> Result<BttInfo, InfoBlockError> {
        let (raw, _) = BttBytes::ref_from_prefix(bytes)
            .map_err(|_| InfoBlockError::TooShort { len: bytes.len() as u64 })?;
        if raw.sig != SIG {
            return Err(InfoBlockError::Absent);
        }
        let (want, found) = (raw.checksum(), raw.checksum.get());
        if want != found {
            return Err(InfoBlockError::Checksum { want, found });
        }
        let (major, minor) = (raw.major.get(), raw.minor.get());
        let version = [BttVersion::V1_1, BttVersion::V2_0]
            .into_iter()
            .find(|version| version.numbers() == (major, minor))
            .ok_or(InfoBlockError::Version { major, minor })?;
        Want::AtMost(BttInfo::FLAG_ERROR.into()).check("flags", 0, raw.flags.get().into())?;
        Want::Exactly(INFO_LEN as u64).check("infosize", 0, raw.infosize.get().into())?;
        let geometry = BttGeometry {
            external_lbasize: raw.external_lbasize.get(),
            external_nlba: raw.external_nlba.get(),
            internal_lbasize: raw.internal_lbasize.get(),
            internal_nlba: raw.internal_nlba.get(),
            nfree: raw.nfree.get(),
            nextoff: raw.nextoff.get(),
            dataoff: raw.dataoff.get(),
            mapoff: raw.mapoff.get(),
            flogoff: raw.flogoff.get(),
            infooff: raw.infooff.get(),
        };
        geometry.check()?;
        Ok(BttInfo {
            uuid: Uuid::from_bytes(raw.uuid),
            parent_uuid: Uuid::from_bytes(raw.parent_uuid),
            is_read_only: raw.flags.get() == BttInfo::FLAG_ERROR,
            version,
            geometry,
        })
    }

    /// Returns the bytes of the info block.
    pub fn encode(&self) -> [u8; INFO_LEN] {
        let (major, minor) = self.version.numbers();
        let geometry = &self.geometry;
        let mut raw = BttBytes::new_zeroed();
        raw.sig = SIG;
        raw.uuid = self.uuid.into_bytes();
        raw.parent_uuid = self.parent_uuid.into_bytes();
        raw.flags = if self.is_read_only { BttInfo::FLAG_ERROR } else { 0 }.into();
        raw.major = major.into();
        raw.minor = minor.into();
        raw.external_lbasize = geometry.external_lbasize.into();
        raw.external_nlba = geometry.external_nlba.into();
        raw.internal_lbasize = geometry.internal_lbasize.into();
        raw.internal_nlba = geometry.internal_nlba.into();
        raw.nfree = geometry.nfree.into();
        raw.infosize = (INFO_LEN as u32).into();
        raw.nextoff = geometry.nextoff.into();
        raw.dataoff = geometry.dataoff.into();
        raw.mapoff = geometry.mapoff.into();
        raw.flogoff = geometry.flogoff.into();
        raw.infooff = geometry.infooff.into();
        raw.checksum = raw.checksum().into();
        zerocopy::transmute!(raw)
    }
}

impl BttBytes {
    fn checksum(&self) -> u64 {
        fletcher64_with_hole(self.as_bytes(), offset_of!(BttBytes, checksum))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> BttInfo {
        let (_, geometry) = BttGeometry::plan(64 << 20, 512, BttVersion::V1_1).unwrap()[0];
        BttInfo {
            uuid: Uuid::from_u128(1),
            parent_uuid: Uuid::from_u128(2),
            is_read_only: false,
            version: BttVersion::V1_1,
            geometry,
        }
    }

    #[test]
    fn table_gets_another_namespace() {
        let mut bytes = sample().encode();
        StoredBtt::set_parent(&mut bytes, Uuid::from_u128(7).into_bytes());
        assert_eq!(BttInfo::decode(&bytes), Ok(BttInfo { parent_uuid: Uuid::from_u128(7), ..sample() }));
    }

    /// The arena that PMDK 1.12 makes in a pool of 32 MiB, after its own 8192 bytes.
    #[test]
    fn arena_layout_matches_pmdk() {
        let arena = BttGeometry::arena((32 << 20) - 8192, &BttRules::pmdk(512), true).unwrap();
        assert_eq!((arena.external_nlba, arena.internal_nlba, arena.nfree), (64_700, 64_956, 256));
        assert_eq!(
            (arena.dataoff, arena.mapoff, arena.flogoff, arena.infooff),
            (0x1000, 0x1fb_9000, 0x1ff_9000, 0x1ff_d000)
        );
    }

    #[test]
    fn plans_are_sound_and_arenas_adjacent() {
        let max = BttGeometry::ARENA_MAX;
        for lbasize in [512, 520, 528, 4096, 4104, 4160, 4224] {
            for size in
                [16 << 20, (16 << 20) + 4096, 33_333_333, max + 4096, max + (20 << 20), 3 * max + 12_345]
            {
                let Ok(arenas) = BttGeometry::plan(size, lbasize, BttVersion::V1_1) else {
                    assert!(size < BttGeometry::ARENA_MIN + 4096);
                    continue;
                };
                let mut start = 4096;
                for (number, (off, arena)) in arenas.iter().enumerate() {
                    assert_eq!(arena.check(), Ok(()), "{size} {lbasize}");
                    assert_eq!(*off, start);
                    let is_last = number + 1 == arenas.len();
                    assert_eq!(arena.nextoff().is_none(), is_last);
                    let end = start + arena.infooff + BLOCK;
                    assert!(end <= size);
                    start += arena.nextoff().unwrap_or(0);
                }
            }
        }
    }

    /// PMDK takes blocks of any size, and gives each at least 512 bytes.
    #[test]
    fn small_blocks_of_pmdk_take_512_bytes() {
        for lbasize in [1, 100, 511, 512] {
            let arena = BttGeometry::arena(16 << 20, &BttRules::pmdk(lbasize), true).unwrap();
            assert_eq!((arena.external_lbasize(), arena.internal_lbasize()), (lbasize, 512));
            assert_eq!(arena.external_nlba(), 32202);
        }
        assert!(BttGeometry::arena(16 << 20, &BttRules::pmdk(0), true).is_err());
    }

    #[test]
    fn impossible_tables_are_refused() {
        let refused =
            |size, lbasize| BttGeometry::plan(size, lbasize, BttVersion::V2_0).unwrap_err().to_string();
        assert_eq!(refused(1 << 20, 512), "a namespace of 1048576 bytes is too small, it needs 16777216");
        assert_eq!(refused(16 << 20, 511), "external_lbasize is 0x1ff, it must be at least 0x200");
        assert_eq!(refused(16 << 20, 1 << 20), "internal_nlba is 0xf, it must be at least 0x101");
        assert_eq!(
            refused(16 << 20, u32::MAX),
            "external_lbasize is 0xffffffff, it must be at most 0x40000000"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "32,768 checksums of 4096 bytes: minutes")]
    fn info_blocks_round_trip_and_detect_bit_flips() {
        let info = sample();
        let bytes = info.encode();
        assert_eq!(BttInfo::decode(&bytes), Ok(info));
        assert_eq!(BttInfo::decode(&bytes[..4095]), Err(InfoBlockError::TooShort { len: 4095 }));
        for bit in 0..INFO_LEN * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(BttInfo::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    /// Returns `bytes` with a correct checksum.
    fn with_checksum(mut bytes: [u8; INFO_LEN]) -> [u8; INFO_LEN] {
        store_fletcher64(&mut bytes, offset_of!(BttBytes, checksum));
        bytes
    }

    #[test]
    fn each_field_is_checked() {
        let changes: [(&str, usize, u8); 12] = [
            ("flags", 0x30, 2),
            ("external_lbasize", 0x39, 0),
            ("internal_lbasize", 0x41, 1),
            ("internal_nlba", 0x44, 0),
            ("nfree", 0x49, 0),
            ("infosize", 0x4d, 8),
            ("nextoff", 0x50, 1),
            ("dataoff", 0x59, 0),
            ("mapoff", 0x63, 0),
            ("flogoff", 0x6b, 0),
            ("infooff", 0x77, 1),
            ("dataoff", 0x58, 1),
        ];
        for (field, at, value) in changes {
            let mut bytes = sample().encode();
            bytes[at] = value;
            match BttInfo::decode(&with_checksum(bytes)) {
                Err(InfoBlockError::Field(contradiction)) => {
                    let near = ["dataoff", "mapoff", "flogoff", "infooff"];
                    let same = contradiction.field == field;
                    assert!(
                        same || near.contains(&field) && near.contains(&contradiction.field),
                        "{field} {contradiction}"
                    );
                }
                other => panic!("{field}: {other:?}"),
            }
        }
        let mut bytes = sample().encode();
        bytes[0x34] = 3;
        assert_eq!(
            BttInfo::decode(&with_checksum(bytes)),
            Err(InfoBlockError::Version { major: 3, minor: 1 })
        );
    }

    proptest! {
        #[test]
        fn field_changes_never_panic(changes in prop::collection::vec((0x10usize..0x78, any::<u8>()), 1..24)) {
            let mut bytes = sample().encode();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            if let Ok(info) = BttInfo::decode(&with_checksum(bytes)) {
                prop_assert_eq!(info.encode(), with_checksum(bytes));
            }
        }

        #[test]
        fn plan_never_panics(size: u64, lbasize: u32, v2: bool) {
            let size = size >> 20;
            let version = if v2 { BttVersion::V2_0 } else { BttVersion::V1_1 };
            for (_, arena) in BttGeometry::plan(size, lbasize, version).unwrap_or_default() {
                prop_assert_eq!(arena.check(), Ok(()));
            }
        }
    }
}
