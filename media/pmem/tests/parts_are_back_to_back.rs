//! A medium of several files: one range of addresses, without what is left out of each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::{Durability, PoolOffset};
use lode_pmem::{FaultKind, MappedPart, Mapping, Medium, PmemError};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// Three files of 4 pages, and their parts: 4 pages of the first, 3 and 2 of the others after their first page.
fn parts() -> (Vec<File>, Vec<MappedPart>) {
    let files: Vec<File> =
        (0..3).map(|_| tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap()).collect();
    let part = |(index, file): (usize, &File)| {
        file.set_len(4 * PAGE).unwrap();
        let (skip, len) = [(0, 4 * PAGE), (PAGE, 3 * PAGE), (PAGE, 2 * PAGE)][index];
        MappedPart {
            file: Arc::new(file.try_clone().unwrap()),
            path: format!("part {index}").into(),
            skip,
            len,
            unit: 4096,
        }
    };
    let parts = files.iter().enumerate().map(part).collect();
    (files, parts)
}

fn read(file: &File, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes
}

#[test]
fn bytes_reach_their_parts() {
    for durability in [Durability::Line, Durability::Commit] {
        let (files, parts) = parts();
        let medium = Mapping::options().durability(durability).map_parts(parts).unwrap();
        assert_eq!(medium.memory().len(), 9 * PAGE);
        assert!(!medium.can_grow());
        // Over both ends, by a store and by a write.
        let bytes: Vec<u8> = (0..4 * PAGE).map(|at| at as u8 | 1).collect();
        let at = PoolOffset::new(4 * PAGE - 100);
        medium.store(at, &bytes);
        medium.flush(at, bytes.len() as u64);
        medium.drain().unwrap();
        let log = vec![7; 2 * PAGE as usize];
        medium.log_write(PoolOffset::new(6 * PAGE), &log).unwrap();
        assert_eq!(read(&files[0], 4 * PAGE - 100, 100), bytes[..100]);
        assert_eq!(read(&files[1], PAGE, 2 * PAGE as usize), bytes[100..100 + 2 * PAGE as usize]);
        assert_eq!(read(&files[1], 3 * PAGE, PAGE as usize), log[..PAGE as usize]);
        assert_eq!(read(&files[2], PAGE, PAGE as usize), log[PAGE as usize..]);
        for file in &files[1..] {
            assert_eq!(read(file, 0, PAGE as usize), vec![0; PAGE as usize], "what is left out");
        }
        let found = medium.memory().reading(|memory| memory.load8(PoolOffset::new(6 * PAGE))).unwrap();
        assert_eq!(found, 0x0707_0707_0707_0707);
        assert_eq!(medium.hole_end(PoolOffset::NULL), None);
        assert_eq!(medium.deallocate(PoolOffset::NULL, PAGE), Ok(false));
        assert!(matches!(medium.grow(10 * PAGE), Err(PmemError::FixedSize { .. })));
    }
}

#[test]
fn private_view_of_parts_reaches_no_file() {
    let (files, parts) = parts();
    let medium = Mapping::options().private_view().map_parts(parts).unwrap();
    assert!(medium.memory().is_private_view());
    medium.store(PoolOffset::new(3 * PAGE), &[9; 2 * PAGE as usize]);
    assert_eq!(read(&files[0], 3 * PAGE, 8), [0; 8]);
    assert_eq!(read(&files[1], PAGE, 8), [0; 8]);
}

#[test]
fn parts_that_cannot_be_mapped_are_refused() {
    let refused = |change: fn(&mut Vec<MappedPart>)| {
        let (_, mut parts) = parts();
        change(&mut parts);
        Mapping::options().durability(Durability::Line).map_parts(parts).unwrap_err()
    };
    assert!(matches!(refused(Vec::clear), PmemError::NotMappable { .. }));
    for change in
        [|parts: &mut Vec<MappedPart>| parts[1].skip += 1, |parts: &mut Vec<MappedPart>| parts[2].len -= 8]
    {
        assert!(matches!(refused(change), PmemError::Io { op: "mmap", errno: 22, .. }));
    }
    let empty = |parts: &mut Vec<MappedPart>| parts[2].file = Arc::new(tempfile::tempfile().unwrap());
    assert!(matches!(refused(empty), PmemError::Empty { .. }));
}

/// A fault names a range of the medium, whichever part has it.
#[test]
fn part_that_is_cut_short_is_an_error() {
    let (files, parts) = parts();
    let medium = Mapping::options().durability(Durability::Line).map_parts(parts).unwrap();
    // The first file has bytes at the offset in the medium, which are not those of the part.
    files[0].set_len(16 * PAGE).unwrap();
    files[1].set_len(PAGE).unwrap();
    let load = |at: u64| medium.memory().reading(|memory| memory.load8(PoolOffset::new(at)));
    let fault = load(4 * PAGE).unwrap_err();
    assert_eq!((fault.at, fault.kind), (PoolOffset::new(4 * PAGE), FaultKind::Poison));
    assert_eq!(load(3 * PAGE), Ok(0));
    assert_eq!(load(7 * PAGE), Ok(0));
}
