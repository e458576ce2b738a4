//! The block device, the same for all formats: each request of a batch has a result of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_btt::{Btt, Plan};
use lode_layout::{PmdkHeader, PmdkKind, PoolOffset, VolumeClass};
use lode_nvdimm::{BttInfo, BttVersion};
use lode_pmem::{Counted, Durability, Mapping, Medium};
use lode_pool::{Access, Headers};
use lode_testing::cost;
use lode_volume::{BlockDevice, BlockFault, CreateVolume, Extent, Op, Request, Volume, VolumeFormat, create};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;
use tempfile::TempDir;
use uuid::Uuid;

const FORMATS: [VolumeFormat; 5] =
    [VolumeFormat::Btt, VolumeFormat::Btt2, VolumeFormat::Pmemblk, VolumeFormat::Atomic, VolumeFormat::Raw];
const DURABILITIES: [Durability; 2] = [Durability::Line, Durability::Commit];
const SIZE: usize = 512;

fn volume(format: VolumeFormat, durability: Durability) -> (TempDir, PathBuf, Volume) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let options = CreateVolume {
        size: 20 << 20,
        format,
        block_size: SIZE as u64,
        class: VolumeClass::Block,
        durability: Some(durability),
    };
    create(&path, &options).unwrap();
    let volume = Volume::open(&path, Access::ReadWrite, Some(durability)).unwrap();
    (folder, path, volume)
}

fn run(device: &dyn BlockDevice, op: Op<'_>) {
    let mut request = Request::new(op);
    device.run(slice::from_mut(&mut request));
    request.result.unwrap();
}

fn read(device: &dyn BlockDevice, block: u64, count: usize) -> Vec<u8> {
    let mut into = vec![0xff; count * SIZE];
    run(device, Op::Read { block, into: &mut into });
    into
}

#[test]
fn requests_fail_one_by_one() {
    for (format, durability) in FORMATS.into_iter().flat_map(|format| DURABILITIES.map(|one| (format, one))) {
        let (_folder, _, volume) = volume(format, durability);
        let count = volume.block_count();
        let (two, one) = ([7; 2 * SIZE], [8; SIZE]);
        let mut seen = [0xff; 3 * SIZE];
        let batch = &mut [
            Request::new(Op::Write { block: 0, from: &two }),
            Request::new(Op::Write { block: count - 1, from: &two }),
            Request::new(Op::Write { block: 5, from: &two[1..] }),
            Request::new(Op::Write { block: 1, from: &one }).with_fua(),
            Request::new(Op::Read { block: 0, into: &mut seen }),
            Request::new(Op::Zero { block: u64::MAX, count: 2 }),
            Request::new(Op::Zero { block: 0, count: 1 }),
        ];
        volume.run(batch);
        let faults: Vec<Option<BlockFault>> =
            batch.iter().map(|request| request.result.err().map(|error| error.fault)).collect();
        let none = Some(BlockFault::NoBlock { count });
        let length = Some(BlockFault::Length { len: 2 * SIZE - 1, block_size: SIZE });
        assert_eq!(faults, [None, none, length, None, None, none, None], "{format} {durability}");
        assert_eq!(seen, [[7; SIZE], [8; SIZE], [0; SIZE]].concat()[..], "{format} {durability}");
        assert_eq!(read(&volume, 0, 2), [[0; SIZE], [8; SIZE]].concat(), "{format} {durability}");
        assert!(read(&volume, count - 1, 1).iter().all(|byte| *byte == 0), "{format}: no part was written");
    }
}

/// Without a volatile cache a request is durable on return. With one, a flush makes it so, and the cache of a table dies with the
/// process.
#[test]
fn volatile_cache_is_reported_on_commit_alone() {
    for format in FORMATS {
        for durability in [Durability::Byte, Durability::Line, Durability::Commit] {
            let (_folder, path, device) = volume(format, durability);
            let is_cached = durability == Durability::Commit;
            let is_table = !matches!(format, VolumeFormat::Atomic | VolumeFormat::Raw);
            assert_eq!(device.has_volatile_cache(), is_cached, "{format} {durability}");
            assert_eq!(device.has_process_cache(), is_cached && is_table, "{format} {durability}");
            drop(device);
            let reader = Volume::open(&path, Access::ReadOnly, None).unwrap();
            assert!(!reader.has_volatile_cache(), "{format}: nothing is written");
        }
    }
}

/// Returns a table in memory that counts drains.
fn table() -> (Arc<Counted<Mapping>>, Btt<Arc<Counted<Mapping>>>) {
    let (size, uuids) = (20 << 20, [Uuid::from_u128(1), Uuid::nil()]);
    let medium = Arc::new(cost::medium(size, Durability::Line, env!("CARGO_TARGET_TMPDIR")));
    Plan::kernel(size, SIZE as u32, BttVersion::V1_1, uuids).unwrap().format(&medium).unwrap();
    let table = Btt::open(Arc::clone(&medium)).unwrap();
    (medium, table)
}

#[test]
fn writes_of_a_batch_share_the_drains_of_a_table() {
    let (medium, table) = table();
    let before = medium.counts();
    let batch = &mut [
        Request::new(Op::Write { block: 0, from: &[1; 9 * SIZE] }),
        Request::new(Op::Write { block: 100, from: &[2; SIZE] }),
        Request::new(Op::Write { block: 4, from: &[3; 3 * SIZE] }),
    ];
    table.run(batch);
    assert!(batch.iter().all(|request| request.result.is_ok()), "{batch:?}");
    assert_eq!((medium.counts() - before).drains, 2, "the data, then the flog entries");
    assert_eq!(read(&table, 0, 9), [[1; 4 * SIZE].as_slice(), &[3; 3 * SIZE], &[1; 2 * SIZE]].concat());
    let before = medium.counts();
    run(&table, Op::Zero { block: 2, count: 200 });
    assert_eq!((medium.counts() - before).drains, 2, "the zeros, then the flog entries");
}

/// Writes, zeros and trims of one batch share the drains of the writes, whatever their order, and the last change of a block counts.
#[test]
fn zeros_and_trims_of_a_batch_share_the_drains_of_a_table() {
    let (size, uuid) = (20 << 20, Uuid::from_u128(1));
    let kernel = |version| Plan::kernel(size, SIZE as u32, version, [uuid, Uuid::nil()]).unwrap();
    let header = PmdkHeader::new(PmdkKind::Blocks, uuid, Uuid::from_u128(2), 1);
    let pmdk = Plan::pmdk(size, SIZE as u32, header).unwrap();
    for (plan, durability) in [kernel(BttVersion::V1_1), kernel(BttVersion::V2_0), pmdk]
        .iter()
        .flat_map(|plan| [(plan, Durability::Line), (plan, Durability::Byte), (plan, Durability::Commit)])
    {
        let medium = Arc::new(cost::medium(size, durability, env!("CARGO_TARGET_TMPDIR")));
        plan.format(&medium).unwrap();
        let table = Btt::open(Arc::clone(&medium)).unwrap();
        let is_cached = BlockDevice::has_volatile_cache(&table);
        run(&table, Op::Write { block: 0, from: &[1; 32 * SIZE] });
        let before = medium.counts();
        let batch = &mut [
            Request::new(Op::Zero { block: 2, count: 4 }),
            Request::new(Op::Write { block: 0, from: &[2; 4 * SIZE] }),
            Request::new(Op::Trim { block: 3, count: 2 }),
            Request::new(Op::Zero { block: table.block_count(), count: 1 }),
            Request::new(Op::Write { block: 4, from: &[3; SIZE] }),
            Request::new(Op::Zero { block: 20, count: 12 }),
            Request::new(Op::Zero { block: 7, count: 0 }),
        ];
        table.run(batch);
        let faulty: Vec<bool> = batch.iter().map(|request| request.result.is_err()).collect();
        assert_eq!(faulty, [false, false, false, true, false, false, false]);
        let drains = (medium.counts() - before).drains;
        assert_eq!(drains, if is_cached { 0 } else { 2 }, "the data and the zeros, then the flog entries");
        let mut want = [1; 32];
        want[..7].copy_from_slice(&[2, 2, 2, 0, 3, 0, 1]);
        want[20..].fill(0);
        assert_eq!(read(&table, 0, 32), want.map(|byte| [byte; SIZE]).concat());
        let before = medium.counts();
        let batch = &mut [
            Request::new(Op::Trim { block: 0, count: 1 }),
            Request::new(Op::Zero { block: 8, count: 3 }),
            Request::new(Op::Trim { block: 14, count: 1 }),
        ];
        table.run(batch);
        assert!(batch.iter().all(|request| request.result.is_ok()));
        let drains = (medium.counts() - before).drains;
        let uncached = if table.hides_blocks_after_zeros() { 2 } else { 1 };
        assert_eq!(
            drains,
            if is_cached { 0 } else { uncached },
            "the map entries, or zeros and flog entries"
        );
        want[0] = 0;
        want[8..11].fill(0);
        want[14] = 0;
        BlockDevice::flush(&table).unwrap();
        drop(table);
        let table = Btt::open(Arc::clone(&medium)).unwrap();
        assert_eq!(read(&table, 0, 32), want.map(|byte| [byte; SIZE]).concat());
    }
}

/// Metadata go through the table, and data to the places that they have, in one batch.
#[test]
fn writes_in_place_cost_a_table_one_drain() {
    let (medium, table) = table();
    run(&table, Op::Zero { block: 30, count: 10 });
    let before = medium.counts();
    let batch = &mut [
        Request::new(Op::Write { block: 0, from: &[1; 9 * SIZE] }).in_place(),
        Request::new(Op::Write { block: 4, from: &[2; 2 * SIZE] }).in_place(),
    ];
    table.run(batch);
    let cost = medium.counts() - before;
    assert_eq!((cost.drains, cost.lines_flushed), (1, 0), "neither a flog entry nor a map entry");
    let batch = &mut [
        Request::new(Op::Write { block: 5, from: &[3; SIZE] }),
        Request::new(Op::Write { block: 5, from: &[4; SIZE] }).in_place(),
        Request::new(Op::Write { block: 29, from: &[5; 2 * SIZE] }).in_place(),
        Request::new(Op::Write { block: table.block_count(), from: &[6; SIZE] }).in_place(),
    ];
    table.run(batch);
    let faults: Vec<bool> = batch.iter().map(|request| request.result.is_err()).collect();
    assert_eq!(faults, [false, false, false, true]);
    assert_eq!(read(&table, 0, 7), [1, 1, 1, 1, 2, 4, 1].map(|byte| [byte; SIZE]).concat());
    assert_eq!(read(&table, 29, 2), [5; 2 * SIZE], "also where there was no place");
}

/// A format whose blocks have checksums keeps them whole, and every format reads what was written.
#[test]
fn writes_in_place_are_read_in_every_format() {
    for (format, durability) in FORMATS.into_iter().flat_map(|format| DURABILITIES.map(|one| (format, one))) {
        let (_folder, path, volume) = volume(format, durability);
        for byte in [1, 2] {
            let from = [byte; 2 * SIZE];
            let mut request = Request::new(Op::Write { block: 3, from: &from }).in_place();
            volume.run(slice::from_mut(&mut request));
            request.result.unwrap();
        }
        volume.flush().unwrap();
        drop(volume);
        let volume = Volume::open(&path, Access::ReadOnly, Some(durability)).unwrap();
        assert_eq!(
            read(&volume, 2, 4),
            [[0; SIZE], [2; SIZE], [2; SIZE], [0; SIZE]].concat(),
            "{format} {durability}"
        );
    }
}

/// A map entry that names no block fails the requests of its block.
#[test]
fn damaged_block_of_a_table_fails_its_requests_alone() {
    let (medium, table) = table();
    let start = BttVersion::V1_1.arenas_off();
    let mut info = [0; 4096];
    medium.memory().reading(|memory| memory.read(PoolOffset::new(start), &mut info)).unwrap();
    let map = start + BttInfo::decode(&info).unwrap().geometry.mapoff();
    // The entries of blocks 4 and 5.
    medium.store8(PoolOffset::new(map + 4 * 4), u64::from(u32::MAX) << u32::BITS);
    let batch = &mut [
        Request::new(Op::Write { block: 0, from: &[1; 3 * SIZE] }),
        Request::new(Op::Write { block: 3, from: &[2; 4 * SIZE] }),
        Request::new(Op::Write { block: 7, from: &[3; SIZE] }),
        Request::new(Op::Zero { block: 1, count: 8 }),
        Request::new(Op::Zero { block: 8, count: 1 }),
    ];
    table.run(batch);
    let faulty: Vec<Option<u64>> =
        batch.iter().map(|request| request.result.err().map(|error| error.block)).collect();
    assert_eq!(faulty, [None, Some(5), None, Some(5), None]);
    assert_eq!(read(&table, 0, 1), [1; SIZE]);
    assert_eq!(read(&table, 1, 4), [0; 4 * SIZE]);
    assert_eq!(read(&table, 7, 1), [3; SIZE]);
}

#[test]
fn status_tells_written_blocks_from_zeros() {
    for (format, durability) in FORMATS.into_iter().flat_map(|format| DURABILITIES.map(|one| (format, one))) {
        let (_folder, path, device) = volume(format, durability);
        let extents = |device: &Volume| {
            let mut block = 0;
            let mut extents = Vec::new();
            while block < 30 {
                let Extent { count, is_zero } = device.status(block, 30 - block).unwrap();
                extents.push((count, is_zero));
                block += count;
            }
            extents
        };
        run(&device, Op::Write { block: 3, from: &[1; 5 * SIZE] });
        run(&device, Op::Zero { block: 5, count: 1 });
        run(&device, Op::Trim { block: 6, count: 1 });
        let want = match format {
            // The file has whole pages of data, and a part of a page is not given back.
            VolumeFormat::Raw => vec![(8, false), (22, true)],
            // The kernel gives a block that was never written the content that lies at its place, and would end the read of a page at a
            // block with a mark of zeros, so there is none.
            VolumeFormat::Btt | VolumeFormat::Btt2 => vec![(30, false)],
            _ => vec![(3, true), (2, false), (2, true), (1, false), (22, true)],
        };
        assert_eq!(extents(&device), want, "{format} {durability}");
        let past = device.status(device.block_count() - 1, 2).unwrap_err();
        assert_eq!(past.fault, BlockFault::NoBlock { count: device.block_count() });
        device.close().unwrap();
        let device = Volume::open(&path, Access::ReadOnly, None).unwrap();
        assert_eq!(extents(&device), want, "{format} {durability}: after it was closed");
    }
}

/// A trim of a raw volume gives the pages inside of it back, and no other byte. A zeroed block keeps its space.
#[test]
fn trims_of_raw_volumes_give_space_back() {
    const COUNT: u64 = 4096;
    let mut rng = fastrand::Rng::with_seed(lode_testing::seed(1));
    for durability in [Durability::Line, Durability::Commit, Durability::None] {
        let (_folder, path, device) = volume(VolumeFormat::Raw, durability);
        let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let mut model: Vec<u8> = (0..COUNT as usize * SIZE).map(|at| (at / SIZE % 250 + 1) as u8).collect();
        run(&device, Op::Write { block: 0, from: &model });
        device.flush().unwrap();
        let full = taken();
        assert!(full >= COUNT * SIZE as u64);
        run(&device, Op::Zero { block: 8, count: 512 });
        model[8 * SIZE..520 * SIZE].fill(0);
        assert_eq!(taken(), full, "{durability}");
        for round in 0..40 {
            let (block, count) = (rng.u64(..COUNT), rng.u64(1..300));
            let count = count.min(COUNT - block);
            let mut request = Request::new(Op::Trim { block, count }).with_fua();
            device.run(slice::from_mut(&mut request));
            request.result.unwrap();
            model[block as usize * SIZE..(block + count) as usize * SIZE].fill(0);
            assert!(read(&device, 0, COUNT as usize) == model, "{durability}: round {round}");
            // What is a hole is zeros, and every page inside of the trim is a hole.
            let mut block = 0;
            while block < COUNT {
                let Extent { count, is_zero } = device.status(block, COUNT - block).unwrap();
                let run = &model[block as usize * SIZE..(block + count) as usize * SIZE];
                assert!(!is_zero || run.iter().all(|byte| *byte == 0), "{durability}: {block}");
                block += count;
            }
        }
        run(&device, Op::Trim { block: 0, count: COUNT });
        assert_eq!(device.status(0, COUNT).unwrap(), Extent { count: COUNT, is_zero: true }, "{durability}");
        // The headers stay, and what the file system has noted of the extents.
        assert!(taken() <= full / 16, "{durability}: {} of {full}", taken());
        assert!(read(&device, 0, COUNT as usize).iter().all(|byte| *byte == 0));
        // A block of a page: the data is its page.
        run(&device, Op::Write { block: 21, from: &[9; SIZE] });
        assert_eq!(device.status(0, COUNT).unwrap(), Extent { count: 16, is_zero: true });
        assert_eq!(device.status(16, COUNT - 16).unwrap(), Extent { count: 8, is_zero: false });
        assert_eq!(device.status(18, 2).unwrap(), Extent { count: 2, is_zero: false });
    }
}

/// The end of the file is lost, with all data blocks of a pool of atomic blocks. Blocks of zeros can still be read.
#[test]
fn writes_of_lost_memory_fail_each() {
    for (format, durability) in [VolumeFormat::Atomic, VolumeFormat::Raw]
        .into_iter()
        .flat_map(|format| DURABILITIES.map(|one| (format, one)))
    {
        let (_folder, path, device) = volume(format, durability);
        let (last, mut seen) = (device.block_count() - 1, [0xff; SIZE]);
        let lost_from = match format {
            VolumeFormat::Atomic => {
                let medium = Mapping::options().private_view().open(&path).unwrap();
                let headers = Headers::read(&medium).unwrap();
                lode_blocks::describe(&medium, headers.geometry()).unwrap().data_off.get()
            }
            _ => 4 << 20,
        };
        File::options().write(true).open(&path).unwrap().set_len(lost_from).unwrap();
        let batch = &mut [
            Request::new(Op::Write { block: last - 1, from: &[1; SIZE] }),
            Request::new(Op::Write { block: last, from: &[2; SIZE] }),
            Request::new(Op::Read { block: 0, into: &mut seen }),
        ];
        device.run(batch);
        let faulty: Vec<Option<u64>> =
            batch.iter().map(|request| request.result.err().map(|error| error.block)).collect();
        assert_eq!(faulty, [Some(last - 1), Some(last), None], "{format} {durability}");
    }
}

#[test]
fn read_only_volumes_refuse_changes() {
    for format in FORMATS {
        let (_folder, path, device) = volume(format, Durability::Line);
        run(&device, Op::Write { block: 2, from: &[3; SIZE] });
        device.close().unwrap();
        let before = std::fs::read(&path).unwrap();
        let device = Volume::open(&path, Access::ReadOnly, None).unwrap();
        assert!(device.is_read_only());
        let ops = [
            Op::Write { block: 2, from: &[4; SIZE] },
            Op::Zero { block: 2, count: 1 },
            Op::Trim { block: 2, count: 1 },
        ];
        for op in ops {
            let mut request = Request::new(op).with_fua();
            device.run(slice::from_mut(&mut request));
            assert_eq!(request.result.unwrap_err().fault, BlockFault::ReadOnly, "{format}: {request:?}");
        }
        device.flush().unwrap();
        assert_eq!(read(&device, 2, 1), [3; SIZE], "{format}");
        device.close().unwrap();
        assert!(std::fs::read(&path).unwrap() == before, "{format}");
    }
}
