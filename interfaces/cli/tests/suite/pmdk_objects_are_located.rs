//! `lode platform where` of pools of PMDK: from a byte to its structure or object, and from an OID to the module.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::bytes_are_located::{on_namespace, place, places};
use crate::program::{lode, text};
use lode_btt::{Btt, PoolUuids, format_content};
use lode_layout::{PmdkBlk, PmdkChunk, PmdkHeap, PmdkKind, PmdkObj, PmdkObjState, PmdkZone};
use lode_obj::{ObjError, Pool, Request, pool_number};
use lode_pmdk::{CreateOptions, PmdkPool};
use lode_pmem::{FilePlace, Sysfs};
use serde_json::{Value, json};
use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const LIVE: [&str; 2] = ["--sysfs", "/sys"];
const SIZE: u64 = 8 << 20;

/// Makes a pool with a root of 100 bytes, and objects of these sizes, whose type number is 3.
fn make(path: &Path, size: Option<u64>, objects: &[u64]) -> PmdkPool {
    let options = CreateOptions::new(PmdkKind::Objects);
    let made = PmdkPool::create::<Box<dyn Error>>(path, size, &options, |medium, _| {
        Ok(Pool::format(medium, b"jobs")?)
    });
    let made = made.unwrap();
    let pool = Pool::open(Arc::clone(made.medium())).unwrap();
    pool.root_of::<ObjError>(100, |_| Ok(())).unwrap();
    for size in objects {
        let mut tx = pool.begin().unwrap();
        pool.allocate(&mut tx, &Request { size: *size, type_number: 3, ..Request::default() }).unwrap();
        pool.commit(tx).unwrap();
    }
    pool.close().unwrap();
    made
}

/// Returns the pool that `lode platform where` shows for a place.
fn pool(of: &str) -> Value {
    place(LIVE, of)["files"][0]["pool"].clone()
}

/// Returns the only piece that has this byte.
fn piece(path: &Path, at: u64) -> Value {
    let found = pool(&format!("{}:{at}", text(path)));
    let [piece] = <[Value; 1]>::try_from(found["parts"].as_array().unwrap().clone()).unwrap();
    assert!(piece["at"].as_u64().unwrap() <= at, "{piece}");
    assert!(at < piece["at"].as_u64().unwrap() + piece["len"].as_u64().unwrap(), "{piece}");
    piece
}

/// Returns the offsets of the objects, with their sizes, as `lode pool dump` shows them.
fn objects(path: &Path) -> Vec<(u64, u64)> {
    let dump = lode(["pool", "dump", text(path), "--json"]).success();
    let lines = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let objects = lines.filter(|line| line["structure"] == "object");
    objects.map(|line| (line["at"].as_u64().unwrap(), line["len"].as_u64().unwrap())).collect()
}

#[test]
fn bytes_of_object_pools_lead_to_their_objects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs");
    let made = make(&path, Some(SIZE), &[40, 3000, 300_000]);
    let number = pool_number(made.header().poolset_uuid.as_bytes());
    let shown = pool(&format!("{}:0", text(&path)));
    assert!(shown["note"].as_str().unwrap().contains("can't be read"), "it is in use: {shown}");
    made.close().unwrap();
    let before = fs::read(&path).unwrap();
    let shown = pool(&format!("{}:0", text(&path)));
    assert_eq!((&shown["library"], &shown["layout"]), (&json!("libpmemobj"), &json!("jobs")));
    let all = objects(&path);
    assert_eq!(all.len(), 4);
    let mut roots = 0;
    for (at, size) in &all {
        for byte in [*at, at + size - 1] {
            let object = piece(&path, byte)["object"].clone();
            assert_eq!(
                (&object["off"], &object["pool_uuid_lo"], &object["size"]),
                (&json!(at), &json!(number), &json!(size))
            );
            roots += i32::from(object["is_root"] == true);
            assert!(object["type_number"] == 3 || object["is_root"] == true, "{object}");
        }
        // The other way round.
        let found = place(LIVE, &format!("{}:{number:#x}:{at:#x}", text(&path)));
        assert_eq!((&found["files"][0]["offset"], &found["files"][0]["len"]), (&json!(at), &json!(size)));
        assert_eq!(found["files"][0]["pool"]["parts"][0]["object"]["off"], *at);
    }
    assert_eq!(roots, 2);
    let heap =
        PmdkObj::decode(&before[PmdkObj::OFF as usize..][..PmdkObj::LEN].try_into().unwrap()).unwrap().heap;
    let zone = heap + PmdkHeap::LEN as u64;
    for (at, kind) in [
        (0, "header"),
        (PmdkObj::OFF, "descriptor"),
        (PmdkObjState::OFF.get(), "state"),
        (0x2000, "lane"),
        (heap, "heap header"),
        (zone, "zone header"),
        (zone + PmdkZone::LEN as u64, "chunk headers"),
        (zone + PmdkHeap::ZONE_HEADERS - 1, "unused"),
        (zone + PmdkHeap::ZONE_HEADERS, "run header"),
        (SIZE - PmdkHeap::CHUNK * 2, "free"),
    ] {
        assert_eq!(piece(&path, at)["kind"], kind, "{at:#x}");
    }
    let refused =
        |oid: String| lode(["platform", "where", "--sysfs", "/sys", &format!("{}:{oid}", text(&path))]);
    refused(format!("{:#x}:{:#x}", number ^ 1, all[0].0))
        .failure(1, &["is of another pool", "objects of this one have"]);
    refused(format!("{number}:{}", all[0].0 + 8)).failure(1, &["OID 0x"]);
    refused(format!("{number}:{}", u64::MAX)).failure(1, &["OID 0x"]);
    assert!(fs::read(&path).unwrap() == before, "nothing is stored");
}

/// A header of a chunk hides what follows it, a descriptor the objects; no damage is a panic.
#[test]
fn damaged_object_pools_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs");
    make(&path, Some(SIZE), &[40, 300_000]).close().unwrap();
    let content = fs::read(&path).unwrap();
    let heap =
        PmdkObj::decode(&content[PmdkObj::OFF as usize..][..PmdkObj::LEN].try_into().unwrap()).unwrap().heap;
    let headers = heap + (PmdkHeap::LEN + PmdkZone::LEN) as u64;
    let (at, _) = objects(&path)[0];
    let damage = |off: u64, bytes: &[u8]| {
        fs::write(&path, &content).unwrap();
        File::options().write(true).open(&path).unwrap().write_all_at(bytes, off).unwrap();
        pool(&format!("{}:{at}", text(&path)))
    };
    let size = PmdkChunk::decode(u64::from_le_bytes(content[headers as usize..][..8].try_into().unwrap()))
        .unwrap()
        .size;
    assert_eq!(size, 1);
    for (off, bytes) in [(headers, [0xff; 8]), (PmdkObj::OFF, [1; 8]), (heap, [7; 8]), (8, [0xee; 8])] {
        let shown = damage(off, &bytes);
        assert!(shown["note"].as_str().unwrap().contains("damaged: "), "{off:#x}: {shown}");
        assert_eq!(shown["library"], "libpmemobj");
    }
    // The start of each structure, and of the first run, in all words.
    for start in [PmdkObj::OFF, PmdkObjState::OFF.get(), 0x2000, heap, headers, at - 512] {
        for word in (0..512).step_by(120) {
            for bytes in [[0xff; 8], [0x11, 0, 0, 0, 0, 0, 0, 0x40]] {
                assert_eq!(damage(start + word, &bytes)["library"], "libpmemobj");
            }
        }
    }
}

/// A byte of a set is one of the pool, in a part of each replica.
#[test]
fn objects_of_sets_have_a_place_in_each_replica() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let set = format!("PMEMPOOLSET\n6M {0}/a\n6M {0}/b\nREPLICA\n12M {0}/c\n", text(folder.path()));
    fs::write(file("set"), set).unwrap();
    make(&file("set"), None, &[7_000_000, 40]).close().unwrap();
    let [master, _] = places(LIVE, &format!("{}:0", text(&file("set")))).try_into().unwrap();
    assert_eq!(master["files"][0]["pool"]["parts"][0]["kind"], "header");
    let (at, size) = objects(&file("set")).into_iter().max_by_key(|(_, size)| *size).unwrap();
    for byte in [at, at + size - 1] {
        let [a, c] = places(LIVE, &format!("{}:{byte}", text(&file("set")))).try_into().unwrap();
        for found in [&a, &c] {
            assert_eq!(found["files"][0]["pool"]["parts"][0]["object"]["off"], at, "{found}");
        }
        assert_eq!(c["files"][0]["path"], text(&file("c")));
        let part = if byte < 6 << 20 { file("a") } else { file("b") };
        assert_eq!(a["files"][0]["path"], text(&part));
        // Both places have the same byte.
        let read = |found: &Value| {
            let path = found["files"][0]["path"].as_str().unwrap();
            fs::read(path).unwrap()[found["files"][0]["offset"].as_u64().unwrap() as usize]
        };
        assert_eq!(read(&a), read(&c));
    }
    let part = pool(&format!("{}:0", text(&file("a"))));
    assert!(part["note"].as_str().unwrap().contains("a part of a pool set: give SETFILE:OFFSET"), "{part}");
    lode(["platform", "where", "--sysfs", "/sys", &format!("{}:{}", text(&file("set")), 1u64 << 40)])
        .failure(1, &["no part of the pool has byte"]);
}

#[test]
fn bytes_of_logs_and_blocks_have_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    lode(["log", "create", "--format", "pmemlog", "--size", "4MiB", text(&log)]).success();
    let shown = piece(&log, 0x2000 + 5);
    assert_eq!((&shown["kind"], piece(&log, 0)["kind"].clone()), (&json!("free"), json!("header")));
    let write = PmdkBlk::TABLE_OFF + 100;
    File::options().write(true).open(&log).unwrap().write_all_at(&write.to_le_bytes(), 0x1010).unwrap();
    let shown = piece(&log, 0x2000 + 5);
    assert_eq!((&shown["kind"], &shown["holds"]), (&json!("log"), &json!("byte 5 of the 100 of the log")));

    let blk = folder.path().join("blk");
    let options = CreateOptions::new(PmdkKind::Blocks);
    let made = PmdkPool::create::<Box<dyn Error>>(&blk, Some(32 << 20), &options, |medium, is_zeroed| {
        Ok(format_content(medium, 4096, is_zeroed)?)
    });
    let made = made.unwrap();
    let uuids = PoolUuids { poolset: made.header().poolset_uuid, part: made.header().uuid };
    let btt = Btt::open_pool(Arc::clone(made.medium()), uuids).unwrap();
    for lba in [1, 700, 5] {
        btt.write(lba, &[lba as u8; 4096]).unwrap();
    }
    btt.flush().unwrap();
    drop(btt);
    made.close().unwrap();
    let content = fs::read(&blk).unwrap();
    for lba in [1, 700, 5] {
        let blocks = content.chunks(4096).position(|block| *block == [lba as u8; 4096]).unwrap() as u64;
        let shown = piece(&blk, blocks * 4096 + 17);
        assert_eq!(shown["holds"], format!("byte 17 of block {lba}, in arena 0"), "{shown}");
    }
    assert_eq!(piece(&blk, 0x2000)["kind"], "info block");
    assert_eq!(piece(&blk, (32 << 20) - 1)["kind"], "info block");
    File::options().write(true).open(&blk).unwrap().write_all_at(&[0xff; 4096], 0x1000).unwrap();
    let damaged = pool(&format!("{}:0x10000", text(&blk)));
    assert!(damaged["note"].as_str().unwrap().contains("damaged: "), "{damaged}");
}

/// The device of the folder is a namespace.
#[test]
fn objects_lead_to_modules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs");
    let made = make(&path, Some(SIZE), &[40]);
    let number = pool_number(made.header().poolset_uuid.as_bytes());
    made.close().unwrap();
    let (at, _) = objects(&path)[1];
    let (sysfs, region) = on_namespace(&path);
    let found = FilePlace::of(&File::open(&path).unwrap(), &Sysfs::at(sysfs.path()));
    let Some(on_device) = found.ok().flatten().and_then(|place| place.device_off(at)) else {
        let why = "needs a temporary folder whose file system tells extents";
        return lode_testing::skip("objects_lead_to_modules", why);
    };
    let found = place(["--sysfs", text(sysfs.path())], &format!("{}:{number}:{at}", text(&path)));
    let resource = fs::read_to_string(region.join("pfn0.0/resource")).unwrap();
    let resource = u64::from_str_radix(resource.trim().trim_start_matches("0x"), 16).unwrap();
    assert_eq!(found["address"], resource + on_device);
    assert_eq!(
        (&found["namespace"]["device"], &found["modules"][0]["name"]),
        (&json!("pmem0"), &json!("nmem2"))
    );
    assert_eq!(found["files"][0]["pool"]["parts"][0]["object"]["off"], at);
}
