//! Log pools of PMDK, with PMDK as the judge: Debian's `pmempool` and a C program on libpmemlog use ours, and we theirs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod judge;
mod storm;

use judge::{Pmdk, Walked};
use lode_layout::{Durability, PmdkHeader, PmdkHeaderError, PmdkKind, PmdkLog, PmdkShutdown, PoolOffset};
use lode_log::pmdk::{PmemLog, PmemLogError, PmemLogPool, PmemLogPoolError, check};
use lode_pmem::Medium;
use lode_pool::{Access, PoolError};
use lode_testing::{memory, scaled, seed};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use uuid::Uuid;

/// Not a multiple of the page, to which PMDK rounds down.
const SIZE: u64 = PmdkLog::SIZE_MIN + 2000;

/// Returns a folder on a disk, and the path of a pool in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

/// Returns `len` bytes of a tag, as the C program makes them.
fn bytes_of(tag: u64, len: usize) -> Vec<u8> {
    tag.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn open(path: &Path, durability: Durability) -> PmemLogPool {
    let pool = PmemLogPool::open(path, Access::ReadWrite, Some(durability)).unwrap();
    assert_eq!(check(pool.log().medium()), []);
    pool
}

/// Returns all bytes of the log, by a walk in chunks.
fn content<M: Medium>(log: &PmemLog<M>, chunk_len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let collect = |chunk: &[u8]| {
        all.extend_from_slice(chunk);
        ControlFlow::Continue(())
    };
    log.walk(chunk_len, collect).unwrap();
    all
}

/// Both sides append and rewind in turn, and each reads what the other left.
fn exchange(pmdk: Pmdk, path: &Path) {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let mut model = Vec::new();
    let mut tag = 1 << 56;
    for _ in 0..scaled(3) {
        for durability in [Durability::Line, Durability::Commit] {
            let pool = open(path, durability);
            assert!(content(pool.log(), rng.usize(..5000)) == model, "seed {}", seed(1));
            for _ in 0..30 {
                tag += 1;
                let (first, second) = (bytes_of(tag, rng.usize(..40)), bytes_of(tag + 1, rng.usize(..3000)));
                let position = match rng.u8(..2) {
                    0 => pool.log().append(&[&first[..], &second].concat()).unwrap(),
                    _ => pool.log().appendv(&[&first[..], &second[..]]).unwrap(),
                };
                assert_eq!(position, model.len() as u64);
                model.extend(first.into_iter().chain(second));
            }
            pool.close().unwrap();
        }
        pmdk.assert_consistent(path);
        let mut theirs = pmdk.open(path);
        assert_eq!(theirs.tell(), model.len() as u64);
        for chunk_len in [0, 4096, rng.usize(1..5000)] {
            assert_eq!(theirs.walk(chunk_len), Walked::of(&model, chunk_len), "seed {}", seed(1));
        }
        if rng.bool() {
            theirs.rewind();
            model.clear();
        }
        for _ in 0..30 {
            tag += 100;
            let (count, len) = (rng.usize(1..5), rng.usize(..1000));
            match count {
                1 => assert!(theirs.append(len, tag)),
                count => assert!(theirs.appendv(count, len, tag)),
            }
            (0..count).for_each(|part| model.extend(bytes_of(tag + part as u64, len)));
        }
        drop(theirs);
        pmdk.assert_consistent(path);
    }
    let pool = open(path, Durability::Line);
    assert!(content(pool.log(), 0) == model);
    pool.log().rewind().unwrap();
    drop(pool);
    assert_eq!(pmdk.open(path).tell(), 0);
}

#[test]
fn our_pools_are_theirs() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = place();
    let pool = PmemLogPool::create(&path, SIZE, Some(Durability::Line)).unwrap();
    let capacity = pool.log().capacity();
    pool.log().append(b"hello").unwrap();
    drop(pool);
    pmdk.assert_consistent(&path);
    let info = pmdk.info(&path);
    for (name, value) in
        [("Write offset", "0x2005 [OK]"), ("End offset", "0x200000"), ("Last shutdown", "clean")]
    {
        let is_listed = info.lines().any(|line| {
            line.split_once(" : ").is_some_and(|(key, rest)| (key.trim(), rest) == (name, value))
        });
        assert!(is_listed, "{name}: {info}");
    }
    let mut theirs = pmdk.open(&path);
    assert_eq!((theirs.capacity, theirs.walk(0)), (capacity, Walked::of(b"hello", 0)));
    theirs.rewind();
    drop(theirs);
    exchange(pmdk, &path);
}

#[test]
fn their_pools_are_ours() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = place();
    let capacity = pmdk.create(&path, SIZE);
    assert_eq!(open(&path, Durability::Line).log().capacity(), capacity);
    exchange(pmdk, &path);
}

/// Both sides find the same append too long.
#[test]
fn full_log_refuses_appends_on_both_sides() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = place();
    let pool = PmemLogPool::create(&path, SIZE, Some(Durability::Line)).unwrap();
    let capacity = pool.log().capacity();
    pool.log().append(&vec![1; capacity as usize - 7]).unwrap();
    assert_eq!(pool.log().append(&[2; 8]), Err(PmemLogError::Full { need: 8, free: 7 }));
    drop(pool);
    let mut theirs = pmdk.open(&path);
    assert!(!theirs.append(8, 1) && theirs.append(7, 1) && !theirs.append(1, 1));
    drop(theirs);
    let pool = open(&path, Durability::Line);
    assert_eq!(pool.log().append(&[2]), Err(PmemLogError::Full { need: 1, free: 0 }));
    assert_eq!(pool.log().len(), capacity);
}

/// With a volatile cache an append is visible at once, and is counted as durable after the next persist.
#[test]
fn durable_length_is_that_of_persisted_appends() {
    for durability in [Durability::Line, Durability::Commit] {
        let (_folder, path) = place();
        let pool = PmemLogPool::create(&path, SIZE, Some(durability)).unwrap();
        let log = pool.log();
        log.append(b"0123456789").unwrap();
        let before = if durability == Durability::Commit { 0 } else { 10 };
        assert_eq!((log.len(), log.durable_len()), (10, before));
        log.persist().unwrap();
        assert_eq!((log.len(), log.durable_len()), (10, 10));
        log.append(b"x").unwrap();
        log.rewind().unwrap();
        assert_eq!((log.len(), log.durable_len()), (0, 0));
        log.append(b"0123").unwrap();
        drop(pool);
        let there = open(&path, durability);
        assert_eq!(there.log().durable_len(), there.log().len());
    }
}

#[test]
fn one_side_locks_the_other_out() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = place();
    let pool = PmemLogPool::create(&path, SIZE, Some(Durability::Line)).unwrap();
    assert!(pmdk.refused(&path).contains("Resource temporarily unavailable"));
    drop(pool);
    let theirs = pmdk.open(&path);
    let error = PmemLogPool::open(&path, Access::ReadWrite, Some(Durability::Line)).unwrap_err();
    let PmemLogPoolError::File(PoolError::At { error, .. }) = error else { panic!("{error}") };
    assert!(matches!(*error, PoolError::InUse { .. }), "{error}");
    drop(theirs);
    open(&path, Durability::Line);
}

#[test]
fn killed_appends_are_whole_or_absent() {
    let Some(pmdk) = Pmdk::find() else { return };
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for round in 0..scaled(9) {
        // Each storm begins in a new log.
        let (_folder, path) = place();
        drop(PmemLogPool::create(&path, 16 << 20, Some(Durability::Line)).unwrap());
        let child = match round % 3 {
            0 => storm::ours(&path, Durability::Line),
            1 => storm::ours(&path, Durability::Commit),
            _ => pmdk.storm(&path),
        };
        let last = storm::kill(child, rng.u64(1..200));
        pmdk.assert_consistent(&path);
        let pool = open(&path, Durability::Line);
        let found = content(pool.log(), 0);
        storm::assert_legal(last, &found);
        drop(pool);
        assert_eq!(pmdk.open(&path).walk(0), Walked::of(&found, 0));
    }
}

fn sound() -> Arc<lode_pmem::Mapping> {
    let medium = Arc::new(memory::persistent(PmdkLog::SIZE_MIN));
    let header = PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 0);
    PmemLog::format(&medium, &header).unwrap();
    medium
}

/// Our open does not judge modules that it can't ask.
#[test]
fn pool_of_a_crash_on_modules_is_refused() {
    let medium = sound();
    let new = PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 0);
    for (shutdowns, is_dirty, is_refused) in [(1, true, true), (1, false, false), (0, true, false)] {
        let header = PmdkHeader { shutdown: Some(PmdkShutdown { shutdowns, devices: 0, is_dirty }), ..new };
        medium.store(PoolOffset::NULL, &header.encode());
        let result = PmemLog::open(&*medium).map(drop);
        assert_eq!(result, if is_refused { Err(PmemLogError::OpenInCrash) } else { Ok(()) });
    }
}

#[test]
fn pool_of_another_library_is_refused() {
    let medium = sound();
    let other = PmdkHeader::new(PmdkKind::Blocks, Uuid::from_u128(1), Uuid::from_u128(2), 0);
    medium.store(PoolOffset::NULL, &other.encode());
    assert_eq!(PmemLog::open(&*medium).map(drop), Err(PmemLogError::Kind(PmdkKind::Blocks)));
}

#[test]
fn damaged_pools_are_refused_and_not_changed() {
    type IsExpected = fn(&PmemLogError) -> bool;
    let cases: [(u64, u64, IsExpected); 4] = [
        (0, u64::from_le_bytes(*b"PMEMLOX\0"), |error| {
            matches!(error, PmemLogError::Header(PmdkHeaderError::NotAPool { .. }))
        }),
        (0x18, 7, |error| matches!(error, PmemLogError::Header(PmdkHeaderError::Checksum { .. }))),
        (0x1008, 7, |error| matches!(error, PmemLogError::Descriptor(field) if field.field == "end")),
        (0x1010, 7, |error| matches!(error, PmemLogError::Descriptor(field) if field.field == "write")),
    ];
    for (at, word, is_expected) in cases {
        let medium = sound();
        medium.store8(PoolOffset::new(at), word);
        let before = memory::bytes(&medium);
        let error = PmemLog::open(&*medium).map(drop).unwrap_err();
        assert!(is_expected(&error), "{error}");
        assert_eq!(check(&medium), [error]);
        assert!(memory::bytes(&medium) == before);
    }
}

#[test]
fn reader_learns_of_a_rewind() {
    let medium = sound();
    let log = PmemLog::open(&*medium).unwrap();
    log.append(b"0123456789").unwrap();
    let mut seen = Vec::new();
    let walked = log.walk(4, |chunk| {
        seen.extend_from_slice(chunk);
        log.rewind().unwrap();
        log.append(b"other bytes, and more").unwrap();
        ControlFlow::Continue(())
    });
    assert_eq!((walked, &seen[..]), (Err(PmemLogError::Rewound), &b"0123"[..]));
    let mut into = [0; 100];
    assert_eq!(log.read(6, &mut into), Ok(15));
    assert_eq!(&into[..15], b"bytes, and more");
}
