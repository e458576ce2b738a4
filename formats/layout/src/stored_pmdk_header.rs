//! The header of a part of PMDK as it is stored, valid or not: for programs that check and repair it field by field.
//!
//! `pmdk_header.md` has the table. `PmdkPartHeader` is a header whose fields are valid.

use crate::pmdk_header::{LEN, PmdkHeaderBytes, PmdkKind};
use crate::pmdk_part_header::{PmdkFeatures, PmdkShutdownRecord};
use crate::{PoolOffset, WORD};
use std::mem::offset_of;

/// The UUIDs that a header holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkUuidField {
    /// The UUID of the pool set.
    PoolSet,
    /// The UUID of the part.
    Part,
    /// The UUID of the part after it in its replica.
    NextPart,
    /// The UUID of the part before it in its replica.
    PrevPart,
    /// The UUID of the first part of the replica after.
    NextReplica,
    /// The UUID of the first part of the replica before.
    PrevReplica,
}

impl PmdkUuidField {
    /// All fields, in the order of the header.
    pub const ALL: [PmdkUuidField; 6] = [
        PmdkUuidField::PoolSet,
        PmdkUuidField::Part,
        PmdkUuidField::NextPart,
        PmdkUuidField::PrevPart,
        PmdkUuidField::NextReplica,
        PmdkUuidField::PrevReplica,
    ];
}

/// The bytes of a header, and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPmdkHeader {
    bytes: [u8; LEN],
}

impl StoredPmdkHeader {
    /// Offset of the first feature word in a header, in bytes.
    pub const FEATURES_OFF: usize = offset_of!(PmdkHeaderBytes, compat);
    /// Offset of the checksum in a header, in bytes.
    pub const CHECKSUM_OFF: usize = offset_of!(PmdkHeaderBytes, checksum);

    /// Takes the bytes of a header. All bytes are accepted.
    pub fn new(bytes: [u8; LEN]) -> StoredPmdkHeader {
        StoredPmdkHeader { bytes }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8; LEN] {
        &self.bytes
    }

    fn raw(&self) -> &PmdkHeaderBytes {
        zerocopy::transmute_ref!(&self.bytes)
    }

    fn raw_mut(&mut self) -> &mut PmdkHeaderBytes {
        zerocopy::transmute_mut!(&mut self.bytes)
    }

    /// Returns true if all bytes are zeros.
    pub fn is_zero(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }

    /// Returns true if the checksum is that of the other bytes. A header of zeros is not intact.
    pub fn is_intact(&self) -> bool {
        !self.is_zero() && self.raw().check_checksum().is_ok()
    }

    /// Returns the library of the pool; `None` if the signature is unknown.
    pub fn kind(&self) -> Option<PmdkKind> {
        PmdkKind::of_signature(&self.bytes)
    }

    /// Stores the signature of a kind.
    pub fn set_kind(&mut self, kind: PmdkKind) {
        self.raw_mut().signature = kind.signature();
    }

    /// Returns the number of the format.
    pub fn major(&self) -> u32 {
        self.raw().major.get()
    }

    /// Stores the number of the format.
    pub fn set_major(&mut self, major: u32) {
        self.raw_mut().major = major.into();
    }

    /// Returns the features.
    pub fn features(&self) -> PmdkFeatures {
        let raw = self.raw();
        let (compat, incompat, ro_compat) = (raw.compat.get(), raw.incompat.get(), raw.ro_compat.get());
        PmdkFeatures { compat, incompat, ro_compat }
    }

    /// Stores the features. The checksum is another one then.
    pub fn set_features(&mut self, features: PmdkFeatures) {
        let raw = self.raw_mut();
        raw.compat = features.compat.into();
        raw.incompat = features.incompat.into();
        raw.ro_compat = features.ro_compat.into();
    }

    /// Returns the two words that say, or no longer say, that a pool of objects is in use by Lodestone: one with the features, and the
    /// checksum.
    pub fn in_use_words(&self, is_in_use: bool) -> [(PoolOffset, u64); 2] {
        const INCOMPAT: usize =
            StoredPmdkHeader::FEATURES_OFF / WORD as usize * WORD as usize + WORD as usize;
        let mut marked = self.clone();
        let features = self.features().when_closed();
        let mark = if is_in_use { PmdkFeatures::IN_USE } else { 0 };
        marked.set_features(PmdkFeatures { incompat: features.incompat | mark, ..features });
        crate::store_pmdk_checksum(&mut marked.bytes);
        [INCOMPAT, StoredPmdkHeader::CHECKSUM_OFF].map(|at| {
            let (words, _) = marked.bytes[at..].as_chunks();
            (PoolOffset::new(at as u64), words.first().copied().map_or(0, u64::from_le_bytes))
        })
    }

    /// Returns true if the unused bytes that every checksum counts are zeros.
    pub fn is_unused_zero(&self) -> bool {
        self.raw().unused.iter().all(|byte| *byte == 0)
    }

    /// Clears these unused bytes.
    pub fn clear_unused(&mut self) {
        self.raw_mut().unused.fill(0);
    }

    /// Clears all unused bytes, also those that a short checksum does not count.
    pub fn clear_all_unused(&mut self) {
        self.clear_unused();
        self.raw_mut().unused_2k.fill(0);
    }

    /// Returns the creation time, in seconds since 1970-01-01 UTC.
    pub fn created(&self) -> u64 {
        self.raw().created.get()
    }

    /// Stores the creation time.
    pub fn set_created(&mut self, created: u64) {
        self.raw_mut().created = created.into();
    }

    /// Returns the two words that describe the machine.
    pub fn machine(&self) -> [u64; 2] {
        let (words, _) = self.bytes[MACHINE_OFF..MACHINE_OFF + MACHINE_LEN].as_chunks();
        [0, 1].map(|index| words.get(index).copied().map_or(0, u64::from_le_bytes))
    }

    /// Stores the words that describe the machine.
    pub fn set_machine(&mut self, machine: [u64; 2]) {
        let words = machine.map(u64::to_le_bytes);
        self.bytes[MACHINE_OFF..MACHINE_OFF + MACHINE_LEN].copy_from_slice(words.as_flattened());
    }

    /// Returns a UUID in the order of its bytes.
    pub fn uuid(&self, field: PmdkUuidField) -> [u8; 16] {
        let raw = self.raw();
        match field {
            PmdkUuidField::PoolSet => raw.poolset_uuid,
            PmdkUuidField::Part => raw.uuid,
            PmdkUuidField::NextPart => raw.next_part,
            PmdkUuidField::PrevPart => raw.prev_part,
            PmdkUuidField::NextReplica => raw.next_replica,
            PmdkUuidField::PrevReplica => raw.prev_replica,
        }
    }

    /// Stores a UUID.
    pub fn set_uuid(&mut self, field: PmdkUuidField, uuid: [u8; 16]) {
        let raw = self.raw_mut();
        *match field {
            PmdkUuidField::PoolSet => &mut raw.poolset_uuid,
            PmdkUuidField::Part => &mut raw.uuid,
            PmdkUuidField::NextPart => &mut raw.next_part,
            PmdkUuidField::PrevPart => &mut raw.prev_part,
            PmdkUuidField::NextReplica => &mut raw.next_replica,
            PmdkUuidField::PrevReplica => &mut raw.prev_replica,
        } = uuid;
    }

    /// Returns the shutdown state.
    pub fn shutdown(&self) -> PmdkShutdownRecord {
        PmdkShutdownRecord::of(self.raw())
    }

    /// Clears the shutdown state, as in a pool that was never open.
    pub fn clear_shutdown(&mut self) {
        let range = offset_of!(PmdkHeaderBytes, shutdowns)..offset_of!(PmdkHeaderBytes, checksum);
        self.bytes[range].fill(0);
    }

    /// Returns the checksum that is stored.
    pub fn checksum(&self) -> u64 {
        self.raw().checksum.get()
    }

    /// Stores the checksum of the other bytes, as the features ask for it.
    pub fn store_checksum(&mut self) {
        self.raw_mut().checksum = self.raw().checksum().into();
    }
}

/// Offset of the description of the machine, in bytes.
const MACHINE_OFF: usize = PmdkHeaderBytes::MACHINE_OFF;
/// Its bytes.
const MACHINE_LEN: usize = 16;

#[cfg(test)]
mod test {
    use super::*;
    use crate::pmdk_header::{PmdkHeader, PmdkShutdown};
    use uuid::Uuid;

    fn sample() -> StoredPmdkHeader {
        let header = PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 3);
        StoredPmdkHeader::new(header.encode())
    }

    #[test]
    fn stored_fields_are_those_of_the_header() {
        let stored = sample();
        assert!(stored.is_intact() && !stored.is_zero() && stored.is_unused_zero());
        assert_eq!((stored.kind(), stored.major()), (Some(PmdkKind::Log), 1));
        assert_eq!((stored.features(), stored.created()), (PmdkFeatures::DEFAULT, 3));
        assert_eq!(stored.machine(), [0x07f7_3777_7310, stored.machine()[1]]);
        assert_eq!(stored.uuid(PmdkUuidField::PoolSet), Uuid::from_u128(1).into_bytes());
        for link in [
            PmdkUuidField::Part,
            PmdkUuidField::NextPart,
            PmdkUuidField::PrevPart,
            PmdkUuidField::NextReplica,
            PmdkUuidField::PrevReplica,
        ] {
            assert_eq!(stored.uuid(link), Uuid::from_u128(2).into_bytes(), "{link:?}");
        }
        assert!(!StoredPmdkHeader::new([0; LEN]).is_intact(), "zeros are no header");
    }

    #[test]
    fn mark_is_two_words() {
        let header = PmdkHeader::new(PmdkKind::Objects, Uuid::from_u128(1), Uuid::from_u128(2), 3);
        let mut stored = StoredPmdkHeader::new(header.encode());
        for is_in_use in [true, true, false] {
            for (at, word) in stored.in_use_words(is_in_use) {
                stored.bytes[at.get() as usize..][..8].copy_from_slice(&word.to_le_bytes());
            }
            let features = crate::PmdkPartHeader::decode(&stored.bytes).unwrap().features;
            assert!(stored.is_intact() && features.is_in_use() == is_in_use);
        }
        assert_eq!(stored.bytes, header.encode());
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn each_change_breaks_the_checksum_and_is_read_back() {
        type Change = fn(&mut StoredPmdkHeader);
        let changes: [Change; 7] = [
            |header| header.set_kind(PmdkKind::Blocks),
            |header| header.set_major(7),
            |header| header.set_features(PmdkFeatures { compat: 0, ..PmdkFeatures::DEFAULT }),
            |header| header.set_created(9),
            |header| header.set_machine([5, 6]),
            |header| header.set_uuid(PmdkUuidField::PrevPart, [7; 16]),
            |header| header.bytes[0x100] = 1,
        ];
        for change in changes {
            let mut header = sample();
            change(&mut header);
            assert!(!header.is_intact());
            header.store_checksum();
            assert!(header.is_intact() && header != sample());
        }
        let mut header = sample();
        header.set_machine([5, 6]);
        header.set_uuid(PmdkUuidField::PrevPart, [7; 16]);
        assert_eq!((header.machine(), header.uuid(PmdkUuidField::PrevPart)), ([5, 6], [7; 16]));
        header.bytes[0x100] = 1;
        header.clear_unused();
        assert!(header.is_unused_zero());
        header.bytes[0xbb8] = 1;
        header.clear_all_unused();
        assert_eq!(header.bytes[0xbb8], 0);
    }

    #[test]
    fn shutdown_state_is_cleared_alone() {
        let mut header = sample();
        let state = PmdkShutdown { shutdowns: 1, devices: 2, is_dirty: true };
        let at = PmdkShutdown::OFF as usize;
        header.bytes[at..at + PmdkShutdown::LEN].copy_from_slice(&state.encode());
        assert_eq!(header.shutdown(), PmdkShutdownRecord::Stored(state));
        header.clear_shutdown();
        assert!(header.shutdown() == PmdkShutdownRecord::Empty && header.is_intact());
    }
}
