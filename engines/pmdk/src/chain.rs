//! The rules between the headers of a pool: PMDK's, in its order.

use crate::error::{ChainFault, PmdkError};
use crate::locked_part::LockedPart;
use lode_layout::{PmdkHeaderError, PmdkKind, PmdkPartHeader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// The headers of a replica, each with the path of its part.
pub(crate) type Headers = Vec<(PathBuf, PmdkPartHeader)>;
/// The bytes where the parts of a replica have headers, each with the path of its part.
pub(crate) type Starts = Vec<(PathBuf, Box<[u8; PmdkPartHeader::LEN]>)>;

/// Reads the headers of these parts.
pub(crate) fn read_starts(parts: &[Arc<LockedPart>]) -> Result<Starts, PmdkError> {
    parts.iter().map(|part| Ok((part.path().to_owned(), Box::new(part.read_header()?)))).collect()
}

/// Decodes the header of a part of a pool of `kind`.
pub(crate) fn decode(
    path: &Path,
    bytes: &[u8; PmdkPartHeader::LEN],
    kind: PmdkKind,
) -> Result<PmdkPartHeader, PmdkError> {
    let path = || path.to_owned();
    // A file of zeros, or of anything else.
    if PmdkPartHeader::major_in(bytes) == 0 && !PmdkPartHeader::is_unsigned(bytes) {
        let error = PmdkHeaderError::Version { major: 0, known: kind.major() };
        return Err(PmdkError::Header { path: path(), error });
    }
    // The kind first: the other checks depend on it.
    if let Some(found) = PmdkKind::of_signature(bytes)
        && found != kind
    {
        return Err(PmdkError::Kind { path: path(), want: kind, found });
    }
    PmdkPartHeader::decode(bytes).map_err(|error| PmdkError::Header { path: path(), error })
}

/// Checks that the headers are those of one pool of `kind`, in the order of the set file: all of a part before the next one.
/// Each replica has at least one. Returns the headers.
pub(crate) fn check_headers(
    replicas: &[Starts],
    kind: PmdkKind,
    has_single_header: bool,
) -> Result<Vec<Headers>, PmdkError> {
    let uuids = |starts: &Starts| starts.iter().map(|(_, bytes)| PmdkPartHeader::uuid_in(bytes)).collect();
    let uuids: Vec<Vec<Uuid>> = replicas.iter().map(uuids).collect();
    let firsts: Vec<Uuid> = uuids.iter().filter_map(|uuids| uuids.first().copied()).collect();
    let mut all: Vec<Headers> = Vec::new();
    for (index, (starts, uuids)) in replicas.iter().zip(&uuids).enumerate() {
        let mut headers: Headers = Vec::new();
        for (nth, (path, bytes)) in starts.iter().enumerate() {
            let header = decode(path, bytes, kind)?;
            let refused = |fault| Err(PmdkError::Chain { path: path.clone(), fault });
            let (_, first) = headers.first().unwrap_or(&(PathBuf::new(), header)).clone();
            let master = all.first().and_then(|headers| headers.first()).map_or(first, |(_, header)| *header);
            if header.poolset_uuid != master.poolset_uuid {
                return refused(ChainFault::PoolSet);
            }
            if neighbours(uuids, nth) != (header.prev_part, header.next_part) {
                return refused(ChainFault::Part);
            }
            if header.features.when_closed() != first.features.when_closed() {
                return refused(ChainFault::Features);
            }
            if first.features.has_single_header() != has_single_header {
                return refused(ChainFault::SingleHeader { incompat: first.features.incompat });
            }
            headers.push((path.clone(), header));
        }
        if let Some((path, first)) = headers.first()
            && neighbours(&firsts, index) != (first.prev_replica, first.next_replica)
        {
            return Err(PmdkError::Chain { path: path.clone(), fault: ChainFault::Replica });
        }
        all.push(headers);
    }
    Ok(all)
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

    /// Checks the headers as they are stored.
    fn check(replicas: &[Headers], has_single_header: bool) -> Result<(), PmdkError> {
        let start = |(path, header): &(PathBuf, PmdkPartHeader)| (path.clone(), Box::new(header.encode()));
        let starts: Vec<Starts> =
            replicas.iter().map(|headers| headers.iter().map(start).collect()).collect();
        let found = check_headers(&starts, PmdkKind::Objects, has_single_header)?;
        assert_eq!(found, replicas);
        Ok(())
    }

    fn fault(replicas: &[Headers]) -> (String, ChainFault) {
        match check(replicas, false).unwrap_err() {
            PmdkError::Chain { path, fault } => (path.display().to_string(), fault),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn sound_chains_pass() {
        for counts in [&[1][..], &[2], &[3, 1], &[2, 3, 1]] {
            check(&sound(counts), false).unwrap();
        }
        check(&[], false).unwrap();
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
        check(&replicas, false).unwrap();
        let mut replicas = sound(&[2, 2, 2]);
        replicas.swap(0, 1);
        assert_eq!(fault(&replicas).1, ChainFault::Replica);
        let mut replicas = sound(&[2, 2]);
        replicas.pop();
        assert_eq!(fault(&replicas).1, ChainFault::Replica);
    }

    #[test]
    fn option_and_feature_agree() {
        let error = check(&sound(&[1]), true).unwrap_err();
        let want = ChainFault::SingleHeader { incompat: PmdkFeatures::DEFAULT.incompat };
        assert!(matches!(error, PmdkError::Chain { fault, .. } if fault == want), "{error}");
    }

    /// As PMDK: all rules of a part before those of the next one, and the links are compared with what is there.
    #[test]
    fn first_damaged_part_is_told() {
        let sound: Vec<Headers> = sound(&[3]);
        let start = |(path, header): &(PathBuf, PmdkPartHeader)| (path.clone(), Box::new(header.encode()));
        let mut starts: Starts = sound[0].iter().map(start).collect();
        starts[2].1[0] = b'X';
        let check = |starts: &Starts| {
            check_headers(std::slice::from_ref(starts), PmdkKind::Objects, false).unwrap_err()
        };
        let error = check(&starts);
        assert!(error.to_string().starts_with("wrong pool type: \"XMEMOBJ\"; /0.2"), "{error}");
        starts[1].1[0x28] ^= 1;
        let error = check(&starts);
        assert!(error.to_string().starts_with("wrong part UUID: "), "{error}");
        assert!(error.to_string().ends_with("/0.0"), "{error}");
        starts[0].1[8..12].fill(0);
        let error = check(&starts);
        assert!(error.to_string().starts_with("invalid major version (0); /0.0"), "{error}");
        starts[0].1.fill(0);
        let error = check(&starts);
        assert!(error.to_string().starts_with("invalid major version (0); /0.0"), "{error}");
    }
}
