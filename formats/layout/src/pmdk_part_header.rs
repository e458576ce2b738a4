//! The header of each part of a pool of PMDK: its place in the pool set, and the features as they are stored.
//!
//! `pmdk_header.md` has the table. `PmdkHeader` is the same for pools of a single file.

use crate::pmdk_header::{
    CHECK_BAD_BLOCKS, IN_USE, LEN, PmdkHeaderBytes, PmdkHeaderError, PmdkKind, PmdkShutdown, SHORT_CHECKSUM,
    SHUTDOWN_STATE, SINGLE_HEADER,
};
use core::mem::offset_of;
use uuid::Uuid;
use zerocopy::{FromBytes, FromZeros};

/// The features of a pool of PMDK, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkFeatures {
    /// Features that may be ignored.
    pub compat: u32,
    /// Features that may not be ignored.
    pub incompat: u32,
    /// Features that a writer may not ignore.
    pub ro_compat: u32,
}

impl PmdkFeatures {
    /// The bit of `compat` by which an open looks for bad blocks.
    pub const CHECK_BAD_BLOCKS: u32 = CHECK_BAD_BLOCKS;
    /// The bit of `incompat` of sets in which only the first part of a replica has a header.
    pub const SINGLE_HEADER: u32 = SINGLE_HEADER;
    /// The bit of `incompat` of checksums that leave out the second half of the header.
    pub const SHORT_CHECKSUM: u32 = SHORT_CHECKSUM;
    /// The bit of `incompat` of the shutdown state.
    pub const SHUTDOWN_STATE: u32 = SHUTDOWN_STATE;
    /// The bit of `incompat` of an object pool that Lodestone has open, or that a crash of it left: PMDK refuses the pool.
    pub const IN_USE: u32 = IN_USE;
    /// All bits of `incompat` that a pool may have when it is closed.
    pub const KNOWN_INCOMPAT: u32 = SINGLE_HEADER | SHORT_CHECKSUM | SHUTDOWN_STATE;

    /// The features of the pools that Debian's PMDK makes.
    pub const DEFAULT: PmdkFeatures =
        PmdkFeatures { compat: CHECK_BAD_BLOCKS, incompat: SHORT_CHECKSUM | SHUTDOWN_STATE, ro_compat: 0 };

    /// No features.
    pub const NONE: PmdkFeatures = PmdkFeatures { compat: 0, incompat: 0, ro_compat: 0 };

    /// Returns the features that this code does not know.
    pub const fn unknown(self) -> PmdkFeatures {
        PmdkFeatures {
            compat: self.compat & !CHECK_BAD_BLOCKS,
            incompat: self.incompat & !PmdkFeatures::KNOWN_INCOMPAT,
            ro_compat: self.ro_compat,
        }
    }

    /// Returns true if an open looks for bad blocks.
    pub const fn checks_bad_blocks(self) -> bool {
        self.compat & CHECK_BAD_BLOCKS != 0
    }

    /// Returns true if only the first part of a replica has a header.
    pub const fn has_single_header(self) -> bool {
        self.incompat & SINGLE_HEADER != 0
    }

    /// Returns true if the checksum leaves out the second half of the header.
    pub const fn has_short_checksum(self) -> bool {
        self.incompat & SHORT_CHECKSUM != 0
    }

    /// Returns true if the header has a shutdown state.
    pub const fn has_shutdown_state(self) -> bool {
        self.incompat & SHUTDOWN_STATE != 0
    }

    /// Returns true if Lodestone has the object pool open, or a crash of it left the pool.
    pub const fn is_in_use(self) -> bool {
        self.incompat & PmdkFeatures::IN_USE != 0
    }

    /// Returns the features that the pool has when it is closed.
    pub const fn when_closed(self) -> PmdkFeatures {
        PmdkFeatures { incompat: self.incompat & !PmdkFeatures::IN_USE, ..self }
    }

    /// Returns true if the pool may only be read: it has features that a writer must know, and none is known.
    pub const fn is_read_only(self) -> bool {
        self.ro_compat != 0
    }
}

/// The shutdown state as a header holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkShutdownRecord {
    /// All bytes are zero: no state was stored.
    Empty,
    /// The checksum is wrong: a crash stopped an open or a close.
    Torn,
    /// A state.
    Stored(PmdkShutdown),
}

impl PmdkShutdownRecord {
    /// Reads the state that a header holds.
    pub(crate) fn of(raw: &PmdkHeaderBytes) -> PmdkShutdownRecord {
        let is_empty = raw.shutdown_bytes().iter().all(|byte| *byte == 0);
        match raw.sound_shutdown() {
            _ if is_empty => PmdkShutdownRecord::Empty,
            None => PmdkShutdownRecord::Torn,
            Some(state) => PmdkShutdownRecord::Stored(state),
        }
    }
}

impl PmdkShutdown {
    /// Offset of the state in a header.
    pub const OFF: u64 = offset_of!(PmdkHeaderBytes, shutdowns) as u64;
    /// Bytes of the state.
    pub const LEN: usize = offset_of!(PmdkHeaderBytes, checksum) - offset_of!(PmdkHeaderBytes, shutdowns);

    /// Returns the bytes of the state, with their checksum.
    pub fn encode(self) -> [u8; PmdkShutdown::LEN] {
        let mut raw = PmdkHeaderBytes::new_zeroed();
        raw.set_shutdown(self);
        *raw.shutdown_bytes().first_chunk().unwrap_or(&[0; PmdkShutdown::LEN])
    }
}

/// The header of a part of a pool of PMDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkPartHeader {
    /// The library of the pool.
    pub kind: PmdkKind,
    /// The features of the pool.
    pub features: PmdkFeatures,
    /// UUID of the pool set.
    pub poolset_uuid: Uuid,
    /// UUID of the part.
    pub uuid: Uuid,
    /// UUID of the part before it in its replica; of the last one for the first.
    pub prev_part: Uuid,
    /// UUID of the part after it in its replica; of the first one for the last.
    pub next_part: Uuid,
    /// UUID of the first part of the replica before.
    pub prev_replica: Uuid,
    /// UUID of the first part of the replica after.
    pub next_replica: Uuid,
    /// Creation time, in seconds since 1970-01-01 UTC.
    pub created: u64,
    /// The state of the last shutdown. It counts in the first part of a replica only, and if the features have it.
    pub shutdown: PmdkShutdownRecord,
}

impl PmdkPartHeader {
    /// Bytes of a header.
    pub const LEN: usize = LEN;

    /// The word that lies in the place of the signature until a creation is finished. No program of PMDK writes it: a pool
    /// that has lost its signature is told from a pool that never had one.
    pub const UNSIGNED: [u8; 8] = *b"LODE-NEW";

    /// Decodes the header in the first 4096 of `bytes`. Never panics, for any content.
    ///
    /// # Errors
    /// Reports the first failed check in PMDK's order: signature, format, features, checksum, machine. Unknown features
    /// of readers are no error: [`PmdkFeatures::is_read_only`]. An object pool that is marked as in use is no error either; a
    /// checksum that fits with the mark turned counts as a mark, since the change of it is half done.
    pub fn decode(bytes: &[u8]) -> Result<PmdkPartHeader, PmdkHeaderError> {
        let (raw, _) = PmdkHeaderBytes::ref_from_prefix(bytes)
            .map_err(|_| PmdkHeaderError::TooShort { len: bytes.len() as u64 })?;
        let kind = raw.kind()?;
        raw.check_version(kind)?;
        let is_in_use = kind == PmdkKind::Objects && raw.has(PmdkFeatures::IN_USE);
        let known = PmdkFeatures::KNOWN_INCOMPAT | if is_in_use { PmdkFeatures::IN_USE } else { 0 };
        let incompat = raw.incompat.get() & !known;
        if incompat != 0 {
            return Err(PmdkHeaderError::Features { incompat, ro_compat: 0 });
        }
        let is_half_marked = kind == PmdkKind::Objects && raw.with_mark_turned().check_checksum().is_ok();
        if !is_half_marked {
            raw.check_checksum()?;
        }
        raw.check_machine().map_err(PmdkHeaderError::Field)?;
        let shutdown = PmdkShutdownRecord::of(raw);
        Ok(PmdkPartHeader {
            kind,
            features: PmdkFeatures {
                compat: raw.compat.get(),
                incompat: raw.incompat.get() | if is_half_marked { PmdkFeatures::IN_USE } else { 0 },
                ro_compat: raw.ro_compat.get(),
            },
            poolset_uuid: Uuid::from_bytes(raw.poolset_uuid),
            uuid: Uuid::from_bytes(raw.uuid),
            prev_part: Uuid::from_bytes(raw.prev_part),
            next_part: Uuid::from_bytes(raw.next_part),
            prev_replica: Uuid::from_bytes(raw.prev_replica),
            next_replica: Uuid::from_bytes(raw.next_replica),
            created: raw.created.get(),
            shutdown,
        })
    }

    /// Returns the bytes of the header. A torn shutdown state becomes an empty one.
    pub fn encode(&self) -> [u8; LEN] {
        let mut raw = PmdkHeaderBytes::new_zeroed();
        raw.signature = self.kind.signature();
        raw.major = self.kind.major().into();
        raw.compat = self.features.compat.into();
        raw.incompat = self.features.incompat.into();
        raw.ro_compat = self.features.ro_compat.into();
        raw.poolset_uuid = self.poolset_uuid.into_bytes();
        raw.uuid = self.uuid.into_bytes();
        raw.prev_part = self.prev_part.into_bytes();
        raw.next_part = self.next_part.into_bytes();
        raw.prev_replica = self.prev_replica.into_bytes();
        raw.next_replica = self.next_replica.into_bytes();
        raw.created = self.created.into();
        raw.set_machine();
        if let PmdkShutdownRecord::Stored(state) = self.shutdown {
            raw.set_shutdown(state);
        }
        raw.checksum = raw.checksum().into();
        zerocopy::transmute!(raw)
    }

    /// Returns the UUID of the part that these bytes hold, also if they are no header: PMDK compares links with it.
    pub fn uuid_in(bytes: &[u8; LEN]) -> Uuid {
        let at = offset_of!(PmdkHeaderBytes, uuid);
        Uuid::from_bytes(*bytes[at..].first_chunk().unwrap_or(&[0; 16]))
    }

    /// Returns the number of the format that these bytes hold, also if they are no header.
    pub fn major_in(bytes: &[u8; LEN]) -> u32 {
        let at = offset_of!(PmdkHeaderBytes, major);
        u32::from_le_bytes(*bytes[at..].first_chunk().unwrap_or(&[0; 4]))
    }

    /// Returns true if the header begins with the mark of a part whose creation is not finished.
    pub fn is_unsigned(bytes: &[u8]) -> bool {
        bytes.starts_with(&PmdkPartHeader::UNSIGNED)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::pmdk_header::{PmdkHeader, store_pmdk_checksum};

    fn uuid(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn sample() -> PmdkPartHeader {
        PmdkPartHeader {
            kind: PmdkKind::Objects,
            features: PmdkFeatures::DEFAULT,
            poolset_uuid: uuid(1),
            uuid: uuid(2),
            prev_part: uuid(3),
            next_part: uuid(4),
            prev_replica: uuid(5),
            next_replica: uuid(6),
            created: 7,
            shutdown: PmdkShutdownRecord::Empty,
        }
    }

    #[test]
    fn headers_round_trip() {
        let dirty = PmdkShutdown { shutdowns: 9, devices: 8, is_dirty: true };
        for kind in PmdkKind::ALL {
            for incompat in 0..8 {
                for shutdown in [PmdkShutdownRecord::Empty, PmdkShutdownRecord::Stored(dirty)] {
                    let features = PmdkFeatures { compat: 1, incompat, ro_compat: 0 };
                    let header = PmdkPartHeader { kind, features, shutdown, ..sample() };
                    assert_eq!(PmdkPartHeader::decode(&header.encode()), Ok(header));
                }
            }
        }
    }

    #[test]
    fn fields_of_damaged_headers_are_read() {
        let mut bytes = sample().encode();
        bytes[0] = 0;
        assert_eq!((PmdkPartHeader::uuid_in(&bytes), PmdkPartHeader::major_in(&bytes)), (uuid(2), 6));
    }

    #[test]
    fn single_file_is_a_part_of_itself() {
        let single = PmdkHeader::new(PmdkKind::Log, uuid(1), uuid(2), 3);
        let part = PmdkPartHeader::decode(&single.encode()).unwrap();
        assert_eq!([part.prev_part, part.next_part, part.prev_replica, part.next_replica], [uuid(2); 4]);
        assert_eq!(part.features, PmdkFeatures::DEFAULT);
        assert_eq!(part.encode(), single.encode());
    }

    #[test]
    fn marks_are_told_when_half_done() {
        let closed = sample().encode();
        let features = PmdkFeatures { incompat: 6 | PmdkFeatures::IN_USE, ..PmdkFeatures::DEFAULT };
        let in_use = PmdkPartHeader { features, ..sample() };
        assert_eq!(PmdkPartHeader::decode(&in_use.encode()), Ok(in_use));
        assert_eq!((features.when_closed(), features.unknown().incompat), (PmdkFeatures::DEFAULT, 1 << 31));
        for (word, from) in [(0x10, in_use.encode()), (0xff8, in_use.encode())] {
            let mut half = closed;
            half[word..word + 8].copy_from_slice(&from[word..word + 8]);
            assert_eq!(PmdkPartHeader::decode(&half), Ok(in_use), "{word:#x}");
        }
        let log = PmdkPartHeader { kind: PmdkKind::Log, ..in_use };
        assert!(matches!(PmdkPartHeader::decode(&log.encode()), Err(PmdkHeaderError::Features { .. })));
    }

    /// PMDK tells unknown features before a wrong checksum, so that a newer pool is not called damaged.
    #[test]
    fn checks_follow_the_order_of_pmdk() {
        let mut bytes = sample().encode();
        bytes[0x18] ^= 1;
        assert!(matches!(PmdkPartHeader::decode(&bytes), Err(PmdkHeaderError::Checksum { .. })));
        bytes[0x13] |= 0x40;
        let features = PmdkHeaderError::Features { incompat: 1 << 30, ro_compat: 0 };
        assert_eq!(PmdkPartHeader::decode(&bytes), Err(features));
        bytes[0x8] = 5;
        assert_eq!(PmdkPartHeader::decode(&bytes), Err(PmdkHeaderError::Version { major: 5, known: 6 }));
        bytes[0] = b'X';
        assert!(matches!(PmdkPartHeader::decode(&bytes), Err(PmdkHeaderError::NotAPool { .. })));
        assert_eq!(PmdkPartHeader::decode(&bytes[1..]), Err(PmdkHeaderError::TooShort { len: 4095 }));
        let mut bytes = sample().encode();
        bytes[0x88] = 1;
        store_pmdk_checksum(&mut bytes);
        assert!(matches!(PmdkPartHeader::decode(&bytes), Err(PmdkHeaderError::Field(_))));
    }

    #[test]
    fn features_of_writers_make_a_pool_read_only() {
        let features = PmdkFeatures { ro_compat: 4, ..PmdkFeatures::DEFAULT };
        let header = PmdkPartHeader { features, ..sample() };
        let found = PmdkPartHeader::decode(&header.encode()).unwrap();
        assert!(found.features.is_read_only() && !sample().features.is_read_only());
    }

    #[test]
    fn torn_shutdown_state_is_none() {
        let at = PmdkShutdown::OFF as usize;
        let state = PmdkShutdown { shutdowns: 1, devices: 2, is_dirty: true };
        let mut bytes = sample().encode();
        bytes[at..at + PmdkShutdown::LEN].copy_from_slice(&state.encode());
        let decoded = |bytes: &[u8]| PmdkPartHeader::decode(bytes).unwrap().shutdown;
        assert_eq!(decoded(&bytes), PmdkShutdownRecord::Stored(state));
        bytes[at] ^= 1;
        assert_eq!(decoded(&bytes), PmdkShutdownRecord::Torn);
        bytes[at..at + PmdkShutdown::LEN].fill(0);
        assert_eq!(decoded(&bytes), PmdkShutdownRecord::Empty);
    }

    /// A power cut keeps any of the words of a state that was being stored: then it is the old one, the new one, or torn.
    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn half_stored_states_are_torn() {
        let old = PmdkShutdown { shutdowns: 3, devices: 4, is_dirty: false };
        for new in [
            PmdkShutdown { is_dirty: true, ..old },
            PmdkShutdown { shutdowns: 5, devices: 6, is_dirty: true },
        ] {
            for kept in 0_u32..1 << 8 {
                let mut state = old.encode();
                for word in (0..8).filter(|word| kept >> word & 1 == 1) {
                    let range = word * 8..word * 8 + 8;
                    state[range.clone()].copy_from_slice(&new.encode()[range]);
                }
                let mut bytes = sample().encode();
                let at = PmdkShutdown::OFF as usize;
                bytes[at..at + PmdkShutdown::LEN].copy_from_slice(&state);
                let want = match state {
                    state if state == old.encode() => PmdkShutdownRecord::Stored(old),
                    state if state == new.encode() => PmdkShutdownRecord::Stored(new),
                    _ => PmdkShutdownRecord::Torn,
                };
                assert_eq!(PmdkPartHeader::decode(&bytes).unwrap().shutdown, want, "{kept:#010b}");
            }
        }
    }

    /// A damaged pool, of which the signature alone is lost, is no pool that is being made.
    #[test]
    fn mark_of_a_creation_is_no_signature() {
        let mut bytes = sample().encode();
        assert!(!PmdkPartHeader::is_unsigned(&bytes), "it has its signature");
        bytes[..8].fill(0);
        assert!(!PmdkPartHeader::is_unsigned(&bytes), "its signature is lost");
        bytes[..8].copy_from_slice(&PmdkPartHeader::UNSIGNED);
        assert!(PmdkPartHeader::is_unsigned(&bytes));
        let error = PmdkPartHeader::decode(&bytes).unwrap_err();
        assert!(matches!(error, PmdkHeaderError::NotAPool { found: PmdkPartHeader::UNSIGNED }), "{error}");
        assert!(PmdkKind::ALL.iter().all(|kind| kind.signature() != PmdkPartHeader::UNSIGNED));
        assert!(!PmdkPartHeader::is_unsigned(&[]));
    }
}
