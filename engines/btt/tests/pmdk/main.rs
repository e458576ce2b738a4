//! Block pools of PMDK, with PMDK as the judge: Debian's `pmempool` and a C program on libpmemblk use ours, and we theirs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod judge;
mod ours;
mod storm;

use judge::{Pmdk, Seen};
use lode_btt::{BttError, explore};
use lode_layout::{PmdkBlk, PoolOffset, WORD};
use lode_nvdimm::BttMapEntry;
use lode_pmem::{Durability, Medium};
use lode_testing::{scaled, seed};
use ours::OurPool;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SIZE: u64 = 20 << 20;
const BLOCK_SIZES: [u32; 7] = [512, 520, 528, 4096, 4104, 4160, 4224];

/// Returns a folder on a disk, and the path of a pool in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

/// Blocks are written, zeroed and lost by both sides in turn, and each reads what the other left.
fn exchange(pmdk: Pmdk, path: &Path) {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let mut model: BTreeMap<u64, Seen> = BTreeMap::new();
    for turn in 1..=scaled(4) {
        for durability in [Durability::Line, Durability::Commit] {
            let pool = OurPool::open_as(path, durability);
            let count = pool.0.block_count();
            assert!(model.iter().all(|(lba, want)| pool.read(*lba) == *want), "seed {}", seed(1));
            for tag in turn * 1000..turn * 1000 + 40 {
                let lba = [rng.u64(..8), rng.u64(..count)][rng.usize(..2)];
                let state = match rng.u8(..4) {
                    0 => pool.0.zero(lba, 1).map(|()| Seen::Tag(0)).unwrap(),
                    1 => pool.0.mark_lost(lba).map(|()| Seen::Lost).unwrap(),
                    _ => {
                        pool.write(lba, tag);
                        Seen::Tag(tag)
                    }
                };
                model.insert(lba, state);
            }
            pool.0.flush().unwrap();
        }
        pmdk.assert_consistent(path);
        let mut pool = pmdk.open(path);
        model.iter().for_each(|(lba, want)| assert_eq!(pool.read(*lba), *want, "{lba}, seed {}", seed(1)));
        for tag in turn * 1000 + 500..turn * 1000 + 540 {
            let lba = [rng.u64(..8), rng.u64(..pool.block_count)][rng.usize(..2)];
            match rng.u8(..4) {
                0 => pool.zero(lba),
                1 => pool.mark_lost(lba),
                _ => pool.write(lba, tag),
            }
            model.insert(lba, pool.read(lba));
        }
        drop(pool);
        pmdk.assert_consistent(path);
    }
}

#[test]
fn our_pools_are_theirs() {
    let Some(pmdk) = Pmdk::find() else { return };
    for block_size in BLOCK_SIZES {
        let (_folder, path) = place();
        let count = ours::create(&path, block_size, SIZE).0.block_count();
        pmdk.assert_consistent(&path);
        let info = pmdk.info(&path);
        let lists = |name: &str, value: &str| {
            info.lines().any(|line| {
                line.split_once(" : ").is_some_and(|(key, rest)| (key.trim(), rest) == (name, value))
            })
        };
        assert!(lists("Block size", &block_size.to_string()), "{info}");
        assert!(lists("External LBA count", &count.to_string()), "{info}");
        assert!(lists("Last shutdown", "clean"), "{info}");
        assert_eq!(pmdk.open(&path).block_count, count);
        exchange(pmdk, &path);
    }
}

#[test]
fn their_pools_are_ours() {
    let Some(pmdk) = Pmdk::find() else { return };
    for block_size in BLOCK_SIZES {
        let (_folder, path) = place();
        let count = pmdk.create(&path, block_size, SIZE);
        // No table yet: it is made by the first write.
        let pool = OurPool::open(&path);
        assert_eq!((pool.0.block_count(), pool.0.block_size()), (count, block_size as usize));
        assert_eq!(pool.read(count - 1), Seen::Tag(0));
        assert!(explore::arenas(pool.0.medium()).is_empty());
        pool.write(count - 1, 7);
        drop(pool);
        pmdk.assert_consistent(&path);
        let mut pool = pmdk.open(&path);
        assert_eq!((pool.read(count - 1), pool.read(0)), (Seen::Tag(7), Seen::Tag(0)));
        drop(pool);
        exchange(pmdk, &path);
    }
}

/// A file with other content, and so a map that has to be cleared.
#[test]
fn files_in_use_before_are_cleared() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = place();
    let mut bytes = vec![0x77; SIZE as usize];
    bytes[..PmdkBlk::OFF as usize].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let count = pmdk.create(&path, 512, 0);
    let pool = OurPool::open(&path);
    assert_eq!((pool.0.block_count(), pool.read(9)), (count, Seen::Tag(0)));
    pool.write(9, 1);
    assert!((0..count).step_by(100).all(|lba| pool.read(lba) == Seen::Tag(0)));
    drop(pool);
    pmdk.assert_consistent(&path);
    exchange(pmdk, &path);
}

/// The second arena's map lies beyond 512 GiB.
#[test]
fn pool_of_two_arenas() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = place();
    let pool = ours::create(&path, 4096, (512 << 30) + (32 << 20));
    let count = pool.0.block_count();
    let arenas = explore::arenas(pool.0.medium());
    let first = u64::from(arenas[0].1.external_nlba());
    assert_eq!(arenas.len(), 2);
    let lbas = [0, 1, first - 1, first, first + 1, count - 1];
    lbas.iter().for_each(|lba| pool.write(*lba, lba + 5));
    drop(pool);
    let mut theirs = pmdk.open(&path);
    assert_eq!(theirs.block_count, count);
    for lba in lbas {
        assert_eq!(theirs.read(lba), Seen::Tag(lba + 5));
        theirs.write(lba, lba + 6);
    }
    drop(theirs);
    let pool = OurPool(lode_btt::Btt::open(ours::map(&path, Durability::Line)).unwrap());
    assert!(lbas.iter().all(|lba| pool.read(*lba) == Seen::Tag(lba + 6)));
}

/// Returns the map entry of a block of the first arena, and the offset of its word.
fn entry(path: &Path, lba: u64) -> (PoolOffset, u64) {
    let medium = ours::map(path, Durability::Line);
    let (start, geometry) = explore::arenas(&medium)[0];
    let at = PoolOffset::new((start + geometry.mapoff() + lba * BttMapEntry::LEN) / WORD * WORD);
    (at, medium.memory().reading(|memory| memory.load8(at)).unwrap())
}

/// A power cut after the flog entry: the map still has the old entry, in each of its states. Either side finishes the
/// write of either side.
#[test]
fn unfinished_writes_are_finished_by_both() {
    let Some(pmdk) = Pmdk::find() else { return };
    for is_ours_cut in [true, false] {
        for is_ours_open in [true, false] {
            let (_folder, path) = place();
            ours::create(&path, 512, SIZE).write(1, 1);
            for (lba, state) in [(10, "never written"), (20, "normal"), (30, "zero"), (40, "lost")] {
                let mut pool = pmdk.open(&path);
                match state {
                    "normal" => pool.write(lba, 5),
                    "zero" => pool.zero(lba),
                    "lost" => pool.mark_lost(lba),
                    _ => {}
                }
                drop(pool);
                let (at, old) = entry(&path, lba);
                if is_ours_cut {
                    OurPool::open(&path).write(lba, 9);
                } else {
                    pmdk.open(&path).write(lba, 9);
                }
                let (_, new) = entry(&path, lba);
                assert_ne!(old, new);
                ours::map(&path, Durability::Line).store8(at, old);
                pmdk.assert_consistent(&path);
                let seen =
                    if is_ours_open { OurPool::open(&path).read(lba) } else { pmdk.open(&path).read(lba) };
                assert_eq!(
                    (seen, entry(&path, lba).1),
                    (Seen::Tag(9), new),
                    "{state}, {is_ours_cut}, {is_ours_open}"
                );
            }
        }
    }
}

#[test]
fn killed_writers_leave_sound_pools() {
    let Some(pmdk) = Pmdk::find() else { return };
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for block_size in [512, 4096] {
        let (_folder, path) = place();
        for round in 0..scaled(8) {
            // Each storm begins in a new pool, so that blocks of no write are zero.
            let _ = std::fs::remove_file(&path);
            drop(ours::create(&path, block_size, SIZE));
            let is_ours = round % 2 == 0;
            let child = if is_ours { storm::ours(&path) } else { pmdk.storm(&path, storm::THREADS) };
            let last = storm::kill(child, rng.u64(1..3_000));
            pmdk.assert_consistent(&path);
            if is_ours {
                let mut pool = pmdk.open(&path);
                storm::assert_legal(&last, |lba| pool.read(lba));
            }
            let pool = OurPool::open(&path);
            storm::assert_legal(&last, |lba| pool.read(lba));
        }
    }
}

/// Our open does not judge modules that it can't ask.
#[test]
fn pool_of_a_crash_on_modules_is_refused() {
    let (_folder, path) = place();
    drop(ours::create(&path, 512, SIZE));
    let mut bytes = [0; lode_layout::PmdkHeader::LEN];
    let medium = ours::map(&path, Durability::Line);
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes)).unwrap();
    let mut header = lode_layout::PmdkHeader::decode(&bytes).unwrap();
    for (shutdowns, is_dirty, is_refused) in [(1, true, true), (1, false, false), (0, true, false)] {
        header.shutdown = Some(lode_layout::PmdkShutdown { shutdowns, devices: 0, is_dirty });
        medium.store(PoolOffset::NULL, &header.encode());
        let result = lode_btt::Btt::open(&*medium).map(drop);
        assert_eq!(result, if is_refused { Err(BttError::OpenInCrash) } else { Ok(()) });
    }
}
