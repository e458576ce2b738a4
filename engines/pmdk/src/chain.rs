//! The rules between the headers of a pool: PMDK's, in its order.

use crate::error::{ChainFault, PmdkError};
use crate::locked_part::LockedPart;
use lode_layout::{PmdkKind, PmdkPartHeader};
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// The headers of a replica, each with the path of its part.
pub(crate) type Headers = Vec<(PathBuf, PmdkPartHeader)>;

/// Reads the headers of a replica of a pool of `kind`.
pub(crate) fn read_headers(parts: &[Arc<LockedPart>], kind: PmdkKind) -> Result<Headers, PmdkError> {
    parts.iter().map(|part| Ok((part.path().to_owned(), read_header(part, kind)?))).collect()
}

/// Reads the header of a part of a pool of `kind`.
pub(crate) fn read_header(part: &LockedPart, kind: PmdkKind) -> Result<PmdkPartHeader, PmdkError> {
    let (path, bytes) = (part.path().to_owned(), part.read_header()?);
    // The kind first: the other checks depend on it.
    if let Some(found) = PmdkKind::of_signature(&bytes)
        && found != kind
    {
        return Err(PmdkError::Kind { path, want: kind, found });
    }
    PmdkPartHeader::decode(&bytes).map_err(|error| PmdkError::Header { path, error })
}

/// Checks that the headers are those of one pool, in the order of the set file. Each replica has at least one.
pub(crate) fn check_chain(replicas: &[Headers], has_single_header: bool) -> Result<(), PmdkError> {
    let firsts: Vec<&PmdkPartHeader> =
        replicas.iter().filter_map(|headers| headers.first().map(|(_, header)| header)).collect();
    let Some(master) = firsts.first() else { return Ok(()) };
    for (index, headers) in replicas.iter().enumerate() {
        let uuids: Vec<Uuid> = headers.iter().map(|(_, header)| header.uuid).collect();
        for (nth, (path, header)) in headers.iter().enumerate() {
            let refused = |fault| Err(PmdkError::Chain { path: path.clone(), fault });
            if header.poolset_uuid != master.poolset_uuid {
                return refused(ChainFault::PoolSet);
            }
            if neighbours(&uuids, nth) != (header.prev_part, header.next_part) {
                return refused(ChainFault::Part);
            }
            if header.features != firsts[index].features {
                return refused(ChainFault::Features);
            }
            if firsts[index].features.has_single_header() != has_single_header {
                return refused(ChainFault::SingleHeader { has_single_header: !has_single_header });
            }
        }
        let uuids: Vec<Uuid> = firsts.iter().map(|first| first.uuid).collect();
        let (path, first) = &headers[0];
        if neighbours(&uuids, index) != (first.prev_replica, first.next_replica) {
            return Err(PmdkError::Chain { path: path.clone(), fault: ChainFault::Replica });
        }
    }
    Ok(())
}

/// Returns the elements before and after the one at `index`, in a circle.
pub(crate) fn neighbours(uuids: &[Uuid], index: usize) -> (Uuid, Uuid) {
    let len = uuids.len();
    (uuids[(index + len - 1) % len], uuids[(index + 1) % len])
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{PmdkFeatures, PmdkShutdownRecord};

    /// Returns the headers of replicas with so many parts each.
    fn sound(counts: &[usize]) -> Vec<Headers> {
        let uuid = |replica: usize, part: usize| Uuid::from_u128((replica * 100 + part + 1) as u128);
        let count = counts.len();
        let replica = |(index, parts): (usize, &usize)| {
            let header = |nth: usize| PmdkPartHeader {
                kind: PmdkKind::Objects,
                features: PmdkFeatures::DEFAULT,
                poolset_uuid: Uuid::from_u128(9999),
                uuid: uuid(index, nth),
                prev_part: uuid(index, (nth + parts - 1) % parts),
                next_part: uuid(index, (nth + 1) % parts),
                prev_replica: uuid((index + count - 1) % count, 0),
                next_replica: uuid((index + 1) % count, 0),
                created: 0,
                shutdown: PmdkShutdownRecord::Empty,
            };
            (0..*parts).map(|nth| (PathBuf::from(format!("/{index}.{nth}")), header(nth))).collect()
        };
        counts.iter().enumerate().map(replica).collect()
    }

    fn fault(replicas: &[Headers]) -> (String, ChainFault) {
        match check_chain(replicas, false).unwrap_err() {
            PmdkError::Chain { path, fault } => (path.display().to_string(), fault),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn sound_chains_pass() {
        for counts in [&[1][..], &[2], &[3, 1], &[2, 3, 1]] {
            check_chain(&sound(counts), false).unwrap();
        }
        check_chain(&[], false).unwrap();
    }

    #[test]
    fn each_link_is_checked() {
        type Change = fn(&mut PmdkPartHeader);
        let changes: [(Change, ChainFault); 4] = [
            (|header| header.poolset_uuid = Uuid::nil(), ChainFault::PoolSet),
            (|header| header.prev_part = Uuid::nil(), ChainFault::Part),
            (|header| header.next_part = Uuid::nil(), ChainFault::Part),
            (|header| header.features.compat = 0, ChainFault::Features),
        ];
        for (change, want) in changes {
            let mut replicas = sound(&[2, 3]);
            change(&mut replicas[1][2].1);
            assert_eq!(fault(&replicas), ("/1.2".to_owned(), want));
        }
        let changes: [Change; 2] =
            [|header| header.prev_replica = Uuid::nil(), |header| header.next_replica = Uuid::nil()];
        for change in changes {
            let mut replicas = sound(&[2, 3]);
            change(&mut replicas[1][0].1);
            assert_eq!(fault(&replicas), ("/1.0".to_owned(), ChainFault::Replica));
        }
    }

    #[test]
    fn parts_are_neither_swapped_nor_left_out_nor_foreign() {
        let mut replicas = sound(&[3]);
        replicas[0].swap(1, 2);
        assert_eq!(fault(&replicas).1, ChainFault::Part);
        let mut replicas = sound(&[3]);
        replicas[0].pop();
        assert_eq!(fault(&replicas).1, ChainFault::Part);
        let mut replicas = sound(&[2, 2]);
        replicas.swap(0, 1);
        // Two replicas are each other's neighbours in any order.
        check_chain(&replicas, false).unwrap();
        let mut replicas = sound(&[2, 2, 2]);
        replicas.swap(0, 1);
        assert_eq!(fault(&replicas).1, ChainFault::Replica);
        let mut replicas = sound(&[2, 2]);
        replicas.pop();
        assert_eq!(fault(&replicas).1, ChainFault::Replica);
    }

    #[test]
    fn option_and_feature_agree() {
        let error = check_chain(&sound(&[1]), true).unwrap_err();
        let want = ChainFault::SingleHeader { has_single_header: false };
        assert!(matches!(error, PmdkError::Chain { fault, .. } if fault == want), "{error}");
    }
}
