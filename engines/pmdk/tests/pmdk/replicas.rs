//! Local replicas.

use crate::judge::Pmdk;
use crate::{create, folder, get, open, put, write_set};
use lode_layout::{PmdkFeatures, PmdkKind, PmdkPartHeader, StoredPmdkHeader};
use lode_pmem::Medium;
use std::fs;
use std::path::Path;

const LINES: &str = "8M @/a\n4M @/b\n4M @/c\nREPLICA\n10M @/r\n8M @/s\n";

/// Returns the bytes of a replica, from its parts: the first header, and no other.
fn bytes(folder: &Path, parts: &[&str]) -> Vec<u8> {
    let part =
        |(index, name): (usize, &&str)| fs::read(folder.join(name)).unwrap()[4096 * 1.min(index)..].to_vec();
    parts.iter().enumerate().flat_map(part).collect()
}

#[test]
fn what_is_durable_is_in_all_replicas() {
    let Some(pmdk) = Pmdk::find() else { return };
    for is_ours in [true, false] {
        let folder = folder();
        let path = write_set(folder.path(), LINES);
        match is_ours {
            true => create(PmdkKind::Objects, &path, None).unwrap().close().unwrap(),
            false => pmdk.create(&["obj"], &path),
        }
        let pool = open(PmdkKind::Objects, &path);
        let size = pool.size();
        assert_eq!((size, pool.medium().replica_count()), ((16 << 20) - 2 * 4096, 1));
        // Over the ends of parts of both replicas.
        let ranges = [((8 << 20) - 5000, 9000), ((10 << 20) - 100, 200), (size - 64, 64)];
        for (at, len) in ranges {
            put(&**pool.medium(), at, &vec![at as u8 | 1; len]);
        }
        pool.close().unwrap();
        for (at, len) in ranges {
            for parts in [&["a", "b", "c"][..], &["r", "s"]] {
                let found = &bytes(folder.path(), parts)[at as usize..][..len];
                assert!(found.iter().all(|byte| *byte == at as u8 | 1), "ours: {is_ours}, {parts:?} at {at}");
            }
        }
        pmdk.assert_consistent(&path);
        open(PmdkKind::Objects, &path).close().unwrap();
    }
}

/// A sync of PMDK copies the mark of a pool in use into later parts. An open takes it away there, where a close does not.
#[test]
fn marks_of_later_parts_are_taken_away() {
    let folder = folder();
    let path = write_set(folder.path(), LINES);
    create(PmdkKind::Objects, &path, None).unwrap().close().unwrap();
    let features = |name: &str| {
        let bytes = fs::read(folder.path().join(name)).unwrap();
        PmdkPartHeader::decode(&bytes).unwrap().features
    };
    for name in ["b", "s"] {
        let part = folder.path().join(name);
        let mut bytes = fs::read(&part).unwrap();
        let mut header = StoredPmdkHeader::new(bytes[..PmdkPartHeader::LEN].try_into().unwrap());
        let old = header.features();
        header.set_features(PmdkFeatures { incompat: old.incompat | PmdkFeatures::IN_USE, ..old });
        header.store_checksum();
        bytes[..PmdkPartHeader::LEN].copy_from_slice(header.bytes());
        fs::write(&part, bytes).unwrap();
        assert!(features(name).is_in_use());
    }
    open(PmdkKind::Objects, &path).close().unwrap();
    for name in ["a", "b", "c", "r", "s"] {
        assert!(!features(name).is_in_use(), "{name}");
    }
}

/// The smallest replica bounds the pool.
#[test]
fn pool_is_as_large_as_its_smallest_replica() {
    let folder = folder();
    let path = write_set(folder.path(), "8M @/a\n4M @/b\n4M @/c\nREPLICA\n9M @/r\n");
    let pool = create(PmdkKind::Objects, &path, None).unwrap();
    assert_eq!(pool.size(), 9 << 20);
    put(&**pool.medium(), (9 << 20) - 64, &[5; 64]);
    assert_eq!(pool.medium().memory().len(), 9 << 20);
    pool.close().unwrap();
    let pool = open(PmdkKind::Objects, &path);
    assert_eq!(get(&**pool.medium(), (9 << 20) - 64, 64), [5; 64]);
}
