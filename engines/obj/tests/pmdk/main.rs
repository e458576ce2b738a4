//! Object pools of PMDK, with PMDK as the judge: random programs on Debian's libpmemobj make pools, and it lists what ours reads.
//!
//! `LODE_BUDGET` multiplies the number of pools.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod judge;

use judge::Pmdk;
use lode_obj::ObjView;
use lode_pmem::Mapping;
use lode_testing::{memory, scaled, seed};
use std::fs;
use std::path::{Path, PathBuf};
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
    for _ in 0..scaled(6) {
        let (_folder, path) = place();
        for _ in 0..3 {
            let seed = rng.u64(1..1 << 40);
            pmdk.work(&path, seed, rng.u64(1..250), true);
            let medium = load(&path);
            let ours = list(&medium);
            assert_eq!(ours, pmdk.list(&path), "seed {seed}");
            let view = ObjView::open(&medium).unwrap();
            let statistics = view.statistics().unwrap();
            assert_eq!(statistics.objects as usize, ours.len() - 1);
            assert_eq!(statistics.chunk_bytes() >> 18, u64::from(view.zone(0).unwrap().unwrap().chunk_count));
        }
    }
}
