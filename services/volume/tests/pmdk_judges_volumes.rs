//! Volumes of the format `pmemblk`, with PMDK as the judge: Debian's `pmempool` and a C program on libpmemblk.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the tests of lode-btt use the rest")]
#[path = "../../../engines/btt/tests/pmdk/judge.rs"]
mod judge;

use judge::{Pmdk, Seen};
use lode_layout::VolumeClass;
use lode_pmem::Durability;
use lode_pool::{Access, PoolError};
use lode_volume::{
    BlockDevice, CreateVolume, Op, Request, Source, Volume, VolumeError, VolumeFormat, check, create, export,
    import, info,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::slice;
use tempfile::TempDir;

const DURABILITIES: [Durability; 2] = [Durability::Line, Durability::Commit];

/// Returns a folder on a disk, and a new volume in it with blocks of this size.
fn volume(block_size: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("volume");
    let (format, class, durability) = (VolumeFormat::Pmemblk, VolumeClass::Block, Some(Durability::Line));
    create(&path, &CreateVolume { size: 20 << 20, format, block_size, class, durability }).unwrap();
    (folder, path)
}

fn open(path: &Path, durability: Durability) -> Volume {
    Volume::open(path, Access::ReadWrite, Some(durability)).unwrap()
}

/// Returns a block of a tag, as the program of PMDK writes it.
fn block(tag: u64, size: usize) -> Vec<u8> {
    tag.to_le_bytes().into_iter().cycle().take(size).collect()
}

fn assert_listed(pmdk: Pmdk, path: &Path) {
    pmdk.assert_consistent(path);
    let (listed, info) = (pmdk.info(path), info(path).unwrap());
    let lists = |name: &str, value: String| {
        listed.lines().any(|line| {
            line.split_once(" : ").is_some_and(|(key, rest)| (key.trim(), rest) == (name, &value))
        })
    };
    assert!(lists("Block size", info.block_size.to_string()), "{listed}");
    assert!(lists("External LBA count", info.block_count.to_string()), "{listed}");
    assert!(lists("Last shutdown", "clean".to_owned()), "{listed}");
}

#[test]
fn both_sides_read_what_the_other_wrote() {
    let Some(pmdk) = Pmdk::find() else { return };
    for (block_size, durability) in [512, 4096].into_iter().zip(DURABILITIES) {
        let (_folder, path) = volume(block_size);
        assert_listed(pmdk, &path);
        let device = open(&path, durability);
        let (size, count) = (device.block_size(), device.block_count());
        // Each third block is zero.
        let tag = |lba: u64| if lba.is_multiple_of(3) { 0 } else { lba + 1000 };
        let content: Vec<u8> = (0..count).flat_map(|lba| block(tag(lba), size)).collect();
        let source = Source { reader: &mut &content[..], len: Some(content.len() as u64) };
        import(&device, source, &mut |_| ControlFlow::Continue(())).unwrap();
        let own = block(7, size);
        let mut request = Request::new(Op::Write { block: 5, from: &own }).with_fua();
        device.run(slice::from_mut(&mut request));
        request.result.unwrap();
        drop(device);
        assert_listed(pmdk, &path);
        let mut theirs = pmdk.open(&path);
        assert_eq!(theirs.block_count, count);
        for lba in (0..count).step_by(37).chain([5, count - 1]) {
            assert_eq!(theirs.read(lba), Seen::Tag(if lba == 5 { 7 } else { tag(lba) }), "{lba}");
        }
        theirs.write(1, 77);
        theirs.zero(2);
        drop(theirs);
        let device = Volume::open(&path, Access::ReadOnly, None).unwrap();
        let mut found = Vec::new();
        let mut put = |_: u64, part: &[u8]| {
            found.extend_from_slice(part);
            Ok(())
        };
        export(&device, &mut put, &mut |_| ControlFlow::Continue(())).unwrap();
        let want = |lba| match lba {
            1 => 77,
            2 => 0,
            5 => 7,
            lba => tag(lba),
        };
        let wanted: Vec<u8> = (0..count).flat_map(|lba| block(want(lba), size)).collect();
        assert!(found == wanted, "{block_size}");
    }
}

#[test]
fn lock_of_pmdk_excludes_ours() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = volume(512);
    let theirs = pmdk.open(&path);
    let refused = Volume::open(&path, Access::ReadWrite, Some(Durability::Line));
    let is_in_use = |error: &VolumeError| {
        matches!(error.cause(), VolumeError::File(PoolError::InUse { holder: Some(_) }))
    };
    assert!(is_in_use(&refused.err().unwrap()));
    assert!(is_in_use(&check(&path).unwrap_err()));
    assert!(info(&path).unwrap().is_in_use);
    drop(theirs);
    drop(open(&path, Durability::Line));
    assert!(check(&path).unwrap().1.is_empty());
}

/// The state of a shutdown is PMDK's own: a crash of ours leaves none that PMDK would refuse.
#[test]
fn open_volume_is_clean_for_pmdk() {
    let Some(pmdk) = Pmdk::find() else { return };
    let (_folder, path) = volume(512);
    let device = open(&path, Durability::Line);
    let own = block(3, 512);
    let mut request = Request::new(Op::Write { block: 0, from: &own });
    device.run(slice::from_mut(&mut request));
    request.result.unwrap();
    // As after SIGKILL: nothing closes it.
    let copy = path.with_extension("copy");
    std::fs::copy(&path, &copy).unwrap();
    drop(device);
    assert_listed(pmdk, &copy);
    assert_eq!(pmdk.open(&copy).read(0), Seen::Tag(3));
}
