//! Object pools of PMDK, with PMDK as the judge: random programs on Debian's libpmemobj make pools, and it lists what ours reads.
//!
//! `LODE_BUDGET` multiplies the number of pools.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod judge;

use judge::Pmdk;
use lode_obj::{ObjView, Recovery, check, recover};
use lode_pmem::Mapping;
use lode_testing::{memory, scaled, seed};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Returns a folder on a disk, and the path of a pool in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

fn load(path: &Path) -> Mapping {
    memory::from_bytes(&fs::read(path).unwrap())
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Lists the root and the objects as the C program does.
fn list(medium: &Mapping) -> Vec<String> {
    let bytes = memory::bytes(medium);
    let view = ObjView::open(medium).unwrap();
    let content = |at: u64, len: u64| hash(&bytes[at as usize..][..len as usize]);
    let mut lines = Vec::new();
    let (root, len) = (view.state().root, view.state().root_size);
    if !root.is_null() {
        assert!(view.object_at(root).unwrap().is_internal);
        lines.push(format!("root {} {len} {:x}", root.get(), content(root.get(), len)));
    }
    for object in view.objects() {
        let object = object.unwrap();
        assert_eq!(view.object_at(object.at), Ok(object));
        if !object.is_internal {
            let (at, usable) = (object.at.get(), object.usable_size);
            lines.push(format!("{at} {} {usable} {:x}", object.type_number, content(at, usable)));
        }
    }
    lines
}

#[test]
fn closed_pools_are_read_as_pmdk_lists_them() {
    let Some(pmdk) = Pmdk::find() else { return };
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for _ in 0..scaled(3) {
        let (_folder, path) = place();
        for _ in 0..3 {
            let seed = rng.u64(1..1 << 40);
            pmdk.work(&path, seed, rng.u64(1..250), true);
            let medium = load(&path);
            let ours = list(&medium);
            assert_eq!(ours, pmdk.list(&path), "seed {seed}");
            recover(&medium).unwrap();
            assert_eq!(check(&medium), [], "seed {seed}");
            let view = ObjView::open(&medium).unwrap();
            let statistics = view.statistics().unwrap();
            assert_eq!(statistics.objects as usize, ours.len() - 1);
            assert_eq!(statistics.chunk_bytes() >> 18, u64::from(view.zone(0).unwrap().unwrap().chunk_count));
        }
    }
}

/// Recovers a copy of a pool that a crash left, while PMDK recovers another one. Both have the same objects and contents, and PMDK reads ours.
fn compare_recoveries(pmdk: Pmdk, path: &Path, what: &str) -> Recovery {
    let theirs = path.with_extension("theirs");
    fs::copy(path, &theirs).unwrap();
    let medium = load(path);
    let done = recover(&medium).unwrap_or_else(|error| panic!("{what}: {error}"));
    let ours = list(&medium);
    assert_eq!(ours, pmdk.list(&theirs), "{what}");
    assert_eq!(recover(&medium), Ok(Recovery::default()), "{what}");
    assert!(!ObjView::open(&medium).unwrap().needs_recovery().unwrap());
    assert_eq!(check(&medium), [], "{what}");
    fs::write(path, memory::bytes(&medium)).unwrap();
    pmdk.assert_consistent(path);
    assert_eq!(ours, pmdk.list(path), "{what}");
    done
}

#[test]
fn killed_pools_are_recovered_as_pmdk_does() {
    let Some(pmdk) = Pmdk::find() else { return };
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for _ in 0..scaled(4) {
        let (_folder, path) = place();
        let seed = rng.u64(1..1 << 40);
        pmdk.kill(&path, seed, Duration::from_micros(rng.u64(0..50_000)));
        compare_recoveries(pmdk, &path, &format!("killed, seed {seed}"));
        // The recovered pool is used by PMDK, and killed again.
        pmdk.kill(&path, seed + 1, Duration::from_micros(rng.u64(0..20_000)));
        compare_recoveries(pmdk, &path, &format!("killed twice, seed {seed}"));
    }
}

#[test]
fn open_transactions_are_rolled_back_as_pmdk_does() {
    let Some(pmdk) = Pmdk::find() else { return };
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let mut undone = 0;
    for _ in 0..scaled(6) {
        let (_folder, path) = place();
        let seed = rng.u64(1..1 << 40);
        pmdk.work(&path, seed, rng.u64(20..200), false);
        undone += compare_recoveries(pmdk, &path, &format!("left, seed {seed}")).undone;
    }
    assert!(undone > 2, "{undone} transactions");
}
