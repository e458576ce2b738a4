//! Repairs that stop at each write: the same repair repairs what is left, and no block in doubt becomes readable.

use super::stops::stopping_after;
use super::{Answer, Arguments, Check, Flags, PoolType, Status, Verdict};
use lode_layout::{PmdkBlk, PmdkHeader, PmdkKind};
use lode_nvdimm::{
    BttDialect, BttFlog, BttFlogEntry, BttGeometry, BttInfo, BttMapEntry, BttRules, BttVersion,
};
use std::fs;
use std::path::Path;
use uuid::Uuid;

const LEN: u64 = (16 << 20) + 8192;
pub(super) const START: usize = PmdkBlk::TABLE_OFF as usize;
pub(super) const ALL: u32 =
    Flags::REPAIR | Flags::ADVANCED | Flags::ALWAYS_YES | Flags::VERBOSE | Flags::FORMAT_STR;

/// A block pool whose first blocks were written.
pub(super) fn pool() -> (Vec<u8>, BttGeometry) {
    let (poolset_uuid, uuid) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let mut bytes = vec![0; LEN as usize];
    let mut put = |at: usize, content: &[u8]| bytes[at..at + content.len()].copy_from_slice(content);
    put(0, &PmdkHeader::new(PmdkKind::Blocks, poolset_uuid, uuid, 3).encode());
    put(4096, &PmdkBlk { block_size: 4096, is_zeroed: true }.encode());
    let geometry = BttGeometry::arena(LEN - START as u64, &BttRules::pmdk(4096), true).unwrap();
    let info = BttInfo {
        uuid: Uuid::from_u128(3),
        parent_uuid: poolset_uuid,
        is_read_only: false,
        version: BttVersion::V1_1,
        geometry,
    };
    put(START, &info.encode());
    put(START + geometry.infooff() as usize, &info.encode());
    put(START + geometry.flogoff() as usize, &BttFlog::new(&geometry, BttDialect::Pmdk).encode());
    for lba in 0..40_u32 {
        put(entry_at(&geometry, lba), &(lba | NORMAL).to_le_bytes());
    }
    (bytes, geometry)
}

const NORMAL: u32 = 0xC000_0000;
const ERROR: u32 = 0x4000_0000;

fn entry_at(geometry: &BttGeometry, lba: u32) -> usize {
    START + geometry.mapoff() as usize + lba as usize * BttMapEntry::LEN as usize
}

fn entry(bytes: &[u8], geometry: &BttGeometry, lba: u32) -> u32 {
    let at = entry_at(geometry, lba);
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Two pairs of blocks that share a place, one outside, two lanes without an entry, a damaged header, and a lost info block.
fn damaged() -> (Vec<u8>, BttGeometry) {
    let (mut bytes, geometry) = pool();
    for (lba, block) in [(7, 3), (9, 5), (11, 0x3fff_ffff)] {
        let at = entry_at(&geometry, lba);
        bytes[at..at + 4].copy_from_slice(&(block | NORMAL).to_le_bytes());
    }
    for lane in [4, 6] {
        let at = START + geometry.flogoff() as usize + lane * BttFlog::LANE_LEN as usize;
        bytes[at..at + 64].fill(0);
    }
    bytes[0x18] ^= 1;
    bytes[START + 0x20] ^= 1;
    (bytes, geometry)
}

/// Repairs the pool. Returns the verdict, and the messages.
pub(super) fn repair(path: &Path, flags: u32) -> (Verdict, Vec<String>) {
    let mut check = Check::begin(Arguments {
        path: path.to_owned(),
        backup: None,
        pool_type: PoolType::Blocks,
        flags: Flags(flags),
        time_text: |_| String::new(),
    })
    .unwrap();
    let mut texts = Vec::new();
    while let Some(status) = check.next(Answer::Other) {
        let (Status::Info(text) | Status::Error(text) | Status::Question(text)) = status;
        texts.push(text);
    }
    (check.end(), texts)
}

/// Checks a pool that was repaired.
fn assert_repaired(path: &Path, geometry: &BttGeometry, context: &str) {
    let (verdict, texts) = repair(path, Flags::VERBOSE | Flags::FORMAT_STR);
    assert_eq!(verdict, Verdict::Consistent, "{context}: {texts:?}");
    let bytes = fs::read(path).unwrap();
    for lba in 0..40 {
        let found = entry(&bytes, geometry, lba);
        match lba {
            3 | 5 | 7 | 9 | 11 => assert_eq!(found & NORMAL, ERROR, "{context}: block {lba} is in doubt"),
            _ => assert_eq!(found, lba | NORMAL, "{context}: block {lba}"),
        }
    }
    assert_eq!(&bytes[0x18..0x28], Uuid::from_u128(1).as_bytes(), "{context}");
}

#[test]
fn stopped_repair_is_repaired_by_the_next_one() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("pool");
    let (bytes, geometry) = damaged();
    fs::write(&path, &bytes).unwrap();
    let (verdict, texts) = repair(&path, ALL);
    assert_eq!(verdict, Verdict::Repaired, "{texts:?}");
    assert_repaired(&path, &geometry, "not stopped");
    let whole = fs::read(&path).unwrap();
    for writes in 0.. {
        for seed in [u64::MAX, 0, 0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA, 0x1248_7123_4567_89AB] {
            fs::write(&path, &bytes).unwrap();
            let (verdict, _) = stopping_after(writes, seed, || repair(&path, ALL));
            if verdict == Verdict::Repaired {
                assert!(writes > 8, "{writes}");
                return;
            }
            assert_eq!(verdict, Verdict::Error);
            let context = format!("{writes} writes, seed {seed:#x}");
            let (verdict, texts) = repair(&path, ALL);
            assert!(matches!(verdict, Verdict::Repaired | Verdict::Consistent), "{context}: {texts:?}");
            assert_repaired(&path, &geometry, &context);
            if seed == u64::MAX {
                assert!(
                    fs::read(&path).unwrap() == whole,
                    "{context}: the writes before the stop are those of the whole repair"
                );
            }
        }
    }
}

/// A lane that two blocks of free space share, and a write that was not finished, are what the next open expects.
#[test]
fn lanes_are_judged_as_by_pmdk() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("pool");
    let (mut bytes, geometry) = pool();
    let free = geometry.external_nlba();
    let lane = START + geometry.flogoff() as usize;
    // Lane 0 has written block 2 to its free block, and the map has the old one still.
    let unfinished = BttFlogEntry { lba: 2, old_map: 2 | NORMAL, new_map: free | NORMAL, seq: 2 };
    bytes[lane + 16..lane + 32].copy_from_slice(unfinished.words().map(u64::to_le_bytes).as_flattened());
    fs::write(&path, &bytes).unwrap();
    let (verdict, texts) = repair(&path, Flags::VERBOSE | Flags::FORMAT_STR);
    assert_eq!(verdict, Verdict::Consistent, "{texts:?}");
    // Lane 1 has the free block of lane 5.
    let doubled = BttFlogEntry { lba: 0, old_map: free + 5, new_map: free + 5, seq: 1 };
    bytes[lane + 64..lane + 80].copy_from_slice(doubled.words().map(u64::to_le_bytes).as_flattened());
    fs::write(&path, &bytes).unwrap();
    let (verdict, texts) = repair(&path, Flags::VERBOSE | Flags::FORMAT_STR);
    assert_eq!(verdict, Verdict::NotConsistent);
    assert!(texts.contains(&"arena 0: duplicated BTT Flog entry at 5\n".to_owned()), "{texts:?}");
    assert_eq!(repair(&path, ALL).0, Verdict::Repaired);
    assert_eq!(repair(&path, Flags::FORMAT_STR).0, Verdict::Consistent);
}

/// A table without a pool around it, as the kernel makes it.
#[test]
fn kernel_tables_are_checked_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let (len, rules) = (16 << 20, BttRules::kernel(512));
    let geometry = BttGeometry::arena(len, &rules, true).unwrap();
    let (uuid, version) = (Uuid::from_u128(5), BttVersion::V1_1);
    let info = BttInfo { uuid, parent_uuid: Uuid::nil(), is_read_only: false, version, geometry };
    let mut bytes = vec![0; len as usize + 4096];
    let mut put =
        |at: u64, content: &[u8]| bytes[4096 + at as usize..][..content.len()].copy_from_slice(content);
    put(0, &info.encode());
    put(geometry.infooff(), &info.encode());
    put(geometry.flogoff(), &BttFlog::new(&geometry, BttDialect::Kernel).encode());
    fs::write(&path, &bytes).unwrap();
    let check = |flags: u32| {
        let arguments = Arguments {
            path: path.clone(),
            backup: None,
            pool_type: PoolType::Table,
            flags: Flags(flags | Flags::FORMAT_STR),
            time_text: |_| String::new(),
        };
        let mut check = Check::begin(arguments).unwrap();
        while check.next(Answer::Yes).is_some() {}
        check.end()
    };
    assert_eq!(check(0), Verdict::Consistent);
    let sound = bytes.clone();
    bytes[4096 + 0x30] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!((check(0), check(Flags::REPAIR)), (Verdict::NotConsistent, Verdict::Repaired));
    assert!(fs::read(&path).unwrap() == sound, "the copy is restored");
    fs::write(&path, vec![0; len as usize]).unwrap();
    assert_eq!(check(0), Verdict::NotConsistent);
}
