//! The header of PMDK's pools, of those that are a single file.
#![doc = include_str!("pmdk_header.md")]

use crate::fletcher::fletcher64_with_hole;
use crate::format_table;
use crate::format_table::FormatTable;
use crate::{InvalidField, Want};
use std::mem::offset_of;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header.
pub(crate) const LEN: usize = 4096;
/// Offset from which a short checksum takes all bytes as zeros.
const SHORT_LEN: usize = 2048;
/// The feature bit of pool sets with a single header.
pub(crate) const SINGLE_HEADER: u32 = 1;
/// The feature bit of a short checksum.
pub(crate) const SHORT_CHECKSUM: u32 = 2;
/// The feature bit of the shutdown state.
pub(crate) const SHUTDOWN_STATE: u32 = 4;
/// The feature bit of an object pool that Lodestone has open.
pub(crate) const IN_USE: u32 = 1 << 31;
/// The feature bit of those who look for bad blocks at open.
pub(crate) const CHECK_BAD_BLOCKS: u32 = 1;
/// Alignments of the types of C on every 64-bit machine that is known here.
const ALIGNMENTS: u64 = 0x07f7_3777_7310;
const CLASS_64_BITS: u8 = 2;
const DATA_LITTLE_ENDIAN: u8 = 1;
/// The number of the machine in ELF.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

pub(crate) const TABLE: FormatTable = format_table!(
    "pmdk_header",
    PmdkHeaderBytes,
    [
        signature,
        major,
        compat,
        incompat,
        ro_compat,
        poolset_uuid,
        uuid,
        prev_part,
        next_part,
        prev_replica,
        next_replica,
        created,
        alignments,
        class,
        data,
        arch_reserved,
        machine,
        unused,
        unused_2k,
        shutdowns,
        devices,
        is_dirty,
        sds_reserved,
        sds_checksum,
        checksum,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PmdkHeaderBytes {
    pub(crate) signature: [u8; 8],
    pub(crate) major: U32,
    pub(crate) compat: U32,
    pub(crate) incompat: U32,
    pub(crate) ro_compat: U32,
    pub(crate) poolset_uuid: [u8; 16],
    pub(crate) uuid: [u8; 16],
    pub(crate) prev_part: [u8; 16],
    pub(crate) next_part: [u8; 16],
    pub(crate) prev_replica: [u8; 16],
    pub(crate) next_replica: [u8; 16],
    pub(crate) created: U64,
    alignments: U64,
    class: u8,
    data: u8,
    arch_reserved: [u8; 4],
    machine: U16,
    pub(crate) unused: [u8; 1904],
    pub(crate) unused_2k: [u8; 1976],
    pub(crate) shutdowns: U64,
    devices: U64,
    is_dirty: u8,
    sds_reserved: [u8; 39],
    sds_checksum: U64,
    pub(crate) checksum: U64,
}

const _: () = assert!(size_of::<PmdkHeaderBytes>() == LEN);

/// The library that a pool of PMDK belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkKind {
    /// libpmemobj.
    Objects,
    /// libpmemblk.
    Blocks,
    /// libpmemlog.
    Log,
}

impl PmdkKind {
    pub(crate) const ALL: [PmdkKind; 3] = [PmdkKind::Objects, PmdkKind::Blocks, PmdkKind::Log];

    /// Returns the first bytes of a header.
    pub const fn signature(self) -> [u8; 8] {
        match self {
            PmdkKind::Objects => *b"PMEMOBJ\0",
            PmdkKind::Blocks => *b"PMEMBLK\0",
            PmdkKind::Log => *b"PMEMLOG\0",
        }
    }

    /// Returns the kind of the pool whose header begins with these bytes; `None` if no header does.
    pub fn of_signature(start: &[u8]) -> Option<PmdkKind> {
        PmdkKind::ALL.into_iter().find(|kind| start.starts_with(&kind.signature()))
    }

    /// Returns the number of the format that this code knows.
    pub const fn major(self) -> u32 {
        match self {
            PmdkKind::Objects => 6,
            PmdkKind::Blocks | PmdkKind::Log => 1,
        }
    }
}

/// The state that PMDK keeps to recognise stores that a module lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmdkShutdown {
    /// Sum of the unsafe shutdowns that the modules had counted when the pool was opened; 0 on other media.
    pub shutdowns: u64,
    /// Sum of the checksums of the modules' names; 0 on other media.
    pub devices: u64,
    /// True while the pool is open, and after a crash.
    pub is_dirty: bool,
}

impl PmdkShutdown {
    /// Returns true if the pool was open in a crash on modules, which may have lost stores: the counts of the modules at open are
    /// known to PMDK alone. Without modules both sums are 0.
    pub fn was_open_on_modules(self) -> bool {
        self.is_dirty && (self.shutdowns, self.devices) != (0, 0)
    }
}

/// The header of a pool of PMDK that is a single file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkHeader {
    /// The library of the pool.
    pub kind: PmdkKind,
    /// Features that may be ignored, one bit each.
    pub compat: u32,
    /// True if the checksum leaves out the second half of the header.
    pub has_short_checksum: bool,
    /// The state of the last shutdown; `None` in pools without that feature.
    pub shutdown: Option<PmdkShutdown>,
    /// UUID of the pool.
    pub poolset_uuid: Uuid,
    /// UUID of the file.
    pub uuid: Uuid,
    /// Creation time, in seconds since 1970-01-01 UTC.
    pub created: u64,
}

/// Reasons why bytes are not a header of PMDK that this code can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PmdkHeaderError {
    /// There are fewer bytes than a header has.
    #[error("there are only {len} bytes, a pool header of PMDK has {LEN}")]
    TooShort {
        /// Number of bytes found.
        len: u64,
    },
    /// The bytes do not begin with a signature of PMDK.
    #[error("not a pool of PMDK: it begins with \"{}\"", .found.escape_ascii())]
    NotAPool {
        /// The first bytes.
        found: [u8; 8],
    },
    /// The checksum is wrong: the bytes are not those that were written.
    #[error(
        "the pool header is damaged: its checksum is {found:#018x}, its bytes give {want:#018x}; `pmempool check --repair` can help"
    )]
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that the header holds.
        found: u64,
    },
    /// A pool of another format.
    #[error("the pool has format {major} of its kind, this program knows format {known}")]
    Version {
        /// The number of the format.
        major: u32,
        /// The number that this code knows.
        known: u32,
    },
    /// The pool uses features that this code does not know and must not ignore.
    #[error(
        "the pool uses features that this program does not know: incompat {incompat:#x}, ro_compat {ro_compat:#x}"
    )]
    Features {
        /// The unknown bits of the features that no one may ignore.
        incompat: u32,
        /// The unknown bits of the features that no writer may ignore.
        ro_compat: u32,
    },
    /// The pool has several files or replicas.
    #[error("the file is a part of a pool set; only pools of a single file can be opened")]
    PoolSet,
    /// A field breaks its rule although the checksum is right.
    #[error("the pool header contradicts itself, or comes from another kind of machine: {0}")]
    Field(#[source] InvalidField),
}

impl PmdkHeader {
    /// Bytes of a header.
    pub const LEN: usize = LEN;

    /// The first word of the header of a block pool. A file without it is none.
    pub const BLOCKS_WORD: u64 = u64::from_le_bytes(PmdkKind::Blocks.signature());

    /// Returns the header of a new pool with PMDK's own features, made `created` seconds after 1970-01-01 UTC.
    pub fn new(kind: PmdkKind, poolset_uuid: Uuid, uuid: Uuid, created: u64) -> PmdkHeader {
        let (compat, shutdown) = (CHECK_BAD_BLOCKS, Some(PmdkShutdown::default()));
        PmdkHeader { kind, compat, has_short_checksum: true, shutdown, poolset_uuid, uuid, created }
    }

    /// Decodes the header in the first 4096 of `bytes`. Never panics, for any content.
    ///
    /// # Errors
    /// Reports the first failed check in the order of the errors.
    pub fn decode(bytes: &[u8]) -> Result<PmdkHeader, PmdkHeaderError> {
        let (raw, _) = PmdkHeaderBytes::ref_from_prefix(bytes)
            .map_err(|_| PmdkHeaderError::TooShort { len: bytes.len() as u64 })?;
        let kind = raw.kind()?;
        raw.check_checksum()?;
        raw.check_version(kind)?;
        let incompat = raw.incompat.get() & !(SINGLE_HEADER | SHORT_CHECKSUM | SHUTDOWN_STATE);
        let ro_compat = raw.ro_compat.get();
        if (incompat, ro_compat) != (0, 0) {
            return Err(PmdkHeaderError::Features { incompat, ro_compat });
        }
        raw.check_machine().map_err(PmdkHeaderError::Field)?;
        let links = [raw.prev_part, raw.next_part, raw.prev_replica, raw.next_replica];
        if raw.has(SINGLE_HEADER) || links.iter().any(|link| *link != raw.uuid) {
            return Err(PmdkHeaderError::PoolSet);
        }
        Ok(PmdkHeader {
            kind,
            compat: raw.compat.get(),
            has_short_checksum: raw.has(SHORT_CHECKSUM),
            shutdown: raw.has(SHUTDOWN_STATE).then(|| raw.shutdown()),
            poolset_uuid: Uuid::from_bytes(raw.poolset_uuid),
            uuid: Uuid::from_bytes(raw.uuid),
            created: raw.created.get(),
        })
    }

    /// Returns the bytes of the header.
    pub fn encode(&self) -> [u8; LEN] {
        let mut raw = PmdkHeaderBytes::new_zeroed();
        let feature = |is_used: bool, bit: u32| if is_used { bit } else { 0 };
        raw.signature = self.kind.signature();
        raw.major = self.kind.major().into();
        raw.compat = self.compat.into();
        let short = feature(self.has_short_checksum, SHORT_CHECKSUM);
        raw.incompat = (short | feature(self.shutdown.is_some(), SHUTDOWN_STATE)).into();
        raw.poolset_uuid = self.poolset_uuid.into_bytes();
        let uuid = self.uuid.into_bytes();
        (raw.uuid, raw.prev_part, raw.next_part) = (uuid, uuid, uuid);
        (raw.prev_replica, raw.next_replica) = (uuid, uuid);
        raw.created = self.created.into();
        raw.set_machine();
        raw.set_shutdown(self.shutdown.unwrap_or_default());
        raw.checksum = raw.checksum().into();
        zerocopy::transmute!(raw)
    }
}

/// Writes the checksum of the header in `bytes`, as its features ask for it, after a change of its fields.
///
/// # Panics
/// Panics if there are fewer bytes than a header has.
pub fn store_pmdk_checksum(bytes: &mut [u8]) {
    let sum = PmdkHeaderBytes::ref_from_prefix(bytes).map(|(raw, _)| raw.checksum());
    let sum = sum.unwrap_or_default().to_le_bytes();
    bytes[offset_of!(PmdkHeaderBytes, checksum)..LEN].copy_from_slice(&sum);
}

impl PmdkHeaderBytes {
    /// Offset of the words that describe the machine.
    pub(crate) const MACHINE_OFF: usize = offset_of!(PmdkHeaderBytes, alignments);

    pub(crate) fn has(&self, feature: u32) -> bool {
        self.incompat.get() & feature != 0
    }

    /// Returns the kind of the pool.
    pub(crate) fn kind(&self) -> Result<PmdkKind, PmdkHeaderError> {
        let found = self.signature;
        PmdkKind::of_signature(&found).ok_or(PmdkHeaderError::NotAPool { found })
    }

    pub(crate) fn check_checksum(&self) -> Result<(), PmdkHeaderError> {
        let (want, found) = (self.checksum(), self.checksum.get());
        if want == found { Ok(()) } else { Err(PmdkHeaderError::Checksum { want, found }) }
    }

    /// Returns the header with the mark of a pool in use added, or taken away.
    pub(crate) fn with_mark_turned(&self) -> PmdkHeaderBytes {
        let mut turned = PmdkHeaderBytes::new_zeroed();
        turned.as_mut_bytes().copy_from_slice(self.as_bytes());
        turned.incompat = (self.incompat.get() ^ IN_USE).into();
        turned
    }

    pub(crate) fn check_version(&self, kind: PmdkKind) -> Result<(), PmdkHeaderError> {
        let (major, known) = (self.major.get(), kind.major());
        if major == known { Ok(()) } else { Err(PmdkHeaderError::Version { major, known }) }
    }

    pub(crate) fn set_machine(&mut self) {
        self.alignments = ALIGNMENTS.into();
        (self.class, self.data) = (CLASS_64_BITS, DATA_LITTLE_ENDIAN);
        self.machine = MACHINE.into();
    }

    pub(crate) fn set_shutdown(&mut self, shutdown: PmdkShutdown) {
        let PmdkShutdown { shutdowns, devices, is_dirty } = shutdown;
        (self.shutdowns, self.devices, self.is_dirty) = (shutdowns.into(), devices.into(), is_dirty.into());
        self.sds_checksum = self.shutdown_checksum().into();
    }

    /// Returns the bytes of the shutdown state.
    pub(crate) fn shutdown_bytes(&self) -> &[u8] {
        &self.as_bytes()[offset_of!(PmdkHeaderBytes, shutdowns)..offset_of!(PmdkHeaderBytes, checksum)]
    }

    pub(crate) fn checksum(&self) -> u64 {
        let hole = offset_of!(PmdkHeaderBytes, checksum);
        if !self.has(SHORT_CHECKSUM) {
            return fletcher64_with_hole(self.as_bytes(), hole);
        }
        let mut bytes = [0; LEN];
        bytes[..SHORT_LEN].copy_from_slice(&self.as_bytes()[..SHORT_LEN]);
        fletcher64_with_hole(&bytes, hole)
    }

    fn shutdown_checksum(&self) -> u64 {
        let hole = offset_of!(PmdkHeaderBytes, sds_checksum) - offset_of!(PmdkHeaderBytes, shutdowns);
        fletcher64_with_hole(self.shutdown_bytes(), hole)
    }

    /// Returns the shutdown state; `None` if its checksum is wrong.
    pub(crate) fn sound_shutdown(&self) -> Option<PmdkShutdown> {
        let (shutdowns, devices) = (self.shutdowns.get(), self.devices.get());
        let is_sound = self.shutdown_checksum() == self.sds_checksum.get();
        is_sound.then_some(PmdkShutdown { shutdowns, devices, is_dirty: self.is_dirty != 0 })
    }

    /// Returns the shutdown state, or that of a pool that was never open.
    fn shutdown(&self) -> PmdkShutdown {
        self.sound_shutdown().unwrap_or_default()
    }

    pub(crate) fn check_machine(&self) -> Result<(), InvalidField> {
        let rule = |field, found: u64, want: u64| Want::Exactly(want).check(field, 0, found);
        rule("alignments", self.alignments.get(), ALIGNMENTS)?;
        rule("class", self.class.into(), CLASS_64_BITS.into())?;
        rule("data", self.data.into(), DATA_LITTLE_ENDIAN.into())?;
        rule("arch_reserved", u32::from_le_bytes(self.arch_reserved).into(), 0)?;
        rule("machine", self.machine.get().into(), MACHINE.into())
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> PmdkHeader {
        PmdkHeader::new(PmdkKind::Blocks, Uuid::from_u128(1), Uuid::from_u128(2), 3)
    }

    #[test]
    fn each_kind_round_trips() {
        let dirty = PmdkShutdown { shutdowns: 9, devices: u64::MAX, is_dirty: true };
        for kind in PmdkKind::ALL {
            for (has_short_checksum, shutdown) in [(true, Some(dirty)), (true, None), (false, None)] {
                let header = PmdkHeader { kind, has_short_checksum, shutdown, ..sample() };
                assert_eq!(PmdkHeader::decode(&header.encode()), Ok(header));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn any_damaged_bit_is_found() {
        let bytes = sample().encode();
        let counted = (0..SHORT_LEN).chain(LEN - 8..LEN);
        // Miri needs more than 20 minutes for all.
        let step = if cfg!(miri) { 401 } else { 1 };
        for bit in counted.flat_map(|byte| byte * 8..byte * 8 + 8).step_by(step) {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(PmdkHeader::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    /// PMDK stores the state in place, and a crash may stop it in between.
    #[test]
    fn half_shutdown_state_is_none() {
        let mut bytes = sample().encode();
        bytes[offset_of!(PmdkHeaderBytes, is_dirty)] = 1;
        assert_eq!(PmdkHeader::decode(&bytes), Ok(sample()));
    }

    #[test]
    fn each_field_is_checked() {
        let decode = |at: usize, value: u8| {
            let mut bytes = sample().encode();
            bytes[at] = value;
            store_pmdk_checksum(&mut bytes);
            PmdkHeader::decode(&bytes).unwrap_err()
        };
        let field = |at, value| match decode(at, value) {
            PmdkHeaderError::Field(field) => field.field,
            other => panic!("{other}"),
        };
        assert_eq!(decode(0x4, b'X'), PmdkHeaderError::NotAPool { found: *b"PMEMXLK\0" });
        assert_eq!(decode(0x8, 2), PmdkHeaderError::Version { major: 2, known: 1 });
        assert_eq!(decode(0x10, 0xe), PmdkHeaderError::Features { incompat: 8, ro_compat: 0 });
        assert_eq!(decode(0x14, 1), PmdkHeaderError::Features { incompat: 0, ro_compat: 1 });
        assert_eq!(decode(0x10, 7), PmdkHeaderError::PoolSet);
        for link in [0x38, 0x48, 0x58, 0x68] {
            assert_eq!(decode(link, 9), PmdkHeaderError::PoolSet);
        }
        let fields = [(0x80, 0), (0x88, 1), (0x89, 2), (0x8d, 1), (0x8e, 21)];
        assert_eq!(
            fields.map(|(at, value)| field(at, value)),
            ["alignments", "class", "data", "arch_reserved", "machine"]
        );
        let short = PmdkHeader::decode(&sample().encode()[1..]);
        assert_eq!(short, Err(PmdkHeaderError::TooShort { len: 4095 }));
    }

    proptest! {
        #[test]
        fn field_changes_never_panic(changes in prop::collection::vec((0usize..LEN, any::<u8>()), 1..24)) {
            let mut bytes = sample().encode();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            store_pmdk_checksum(&mut bytes);
            if let Ok(header) = PmdkHeader::decode(&bytes) {
                prop_assert_eq!(PmdkHeader::decode(&header.encode()), Ok(header));
            }
        }
    }
}
