//! At durability commit a batch of requests costs one sync of the file, whatever the format, counted at the disk.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::VolumeClass;
use lode_pmem::Durability;
use lode_pool::Access;
use lode_powercut::{Disk, Volume as PowercutVolume};
use lode_testing::skip;
use lode_volume::{BlockDevice, CreateVolume, Op, Request, Volume, VolumeFormat, create};
use std::fs;
use std::path::Path;

const BLOCK: usize = 512;
/// The power is not cut.
const NEVER: u64 = u64::MAX;

/// Returns the number of syncs that each of some batches costs.
fn syncs(format: VolumeFormat, disk: &PowercutVolume, batches: &mut [Vec<Request<'_>>]) -> Vec<u64> {
    let volume = Volume::open(&disk.path(), Access::ReadWrite, Some(Durability::Commit)).unwrap();
    // What only the first write of a volume does.
    let first = &mut [Request::new(Op::Write { block: 0, from: &[1; BLOCK] }).with_fua()];
    volume.run(first);
    first[0].result.unwrap();
    let cost = batches.iter_mut().map(|batch| {
        let before = disk.disk().requests().persists;
        volume.run(batch);
        assert!(batch.iter().all(|request| request.result.is_ok()), "{format}");
        disk.disk().requests().persists - before
    });
    let cost = cost.collect();
    volume.close().unwrap();
    cost
}

#[test]
fn batch_of_requests_costs_one_sync() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for format in [VolumeFormat::Raw, VolumeFormat::Atomic] {
        let path = folder.path().join("volume");
        let options = CreateVolume {
            size: 4 << 20,
            format,
            block_size: BLOCK as u64,
            class: VolumeClass::Block,
            durability: Some(Durability::Commit),
        };
        create(&path, &options).unwrap();
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let disk =
            match PowercutVolume::mount(Disk::new(content, NEVER), Path::new(env!("CARGO_TARGET_TMPDIR"))) {
                Ok(disk) => disk,
                Err(error) => return skip("batch_of_requests_costs_one_sync", &error),
            };
        let (two, three) = ([2; BLOCK], [3; BLOCK]);
        let write = |block, from| Request::new(Op::Write { block, from });
        let one = vec![write(7, &two[..]).with_fua()];
        let many = (0..32).map(|block| write(block, &two[..]).with_fua()).collect();
        let unsynced = (0..32).map(|block| write(block, &three[..])).collect();
        let mut read = [0; 3 * BLOCK];
        let mixed = vec![
            write(0, &two[..]),
            Request::new(Op::Zero { block: 1, count: 1 }).with_fua(),
            Request::new(Op::Read { block: 0, into: &mut read }),
            write(9, &three[..]).with_fua(),
        ];
        let costs = syncs(format, &disk, &mut [one, many, unsynced, mixed]);
        assert_eq!(costs, [1, 1, 0, 1], "{format}");
        assert_eq!(read, [[2; BLOCK], [0; BLOCK], [3; BLOCK]].concat()[..], "{format}");
    }
}
