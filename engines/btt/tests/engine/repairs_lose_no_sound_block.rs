//! A repair makes a sound table again, keeps what is sound, and names what is lost.

use crate::disk::{ARENA_LEN, assert_sound, block, copy, put, read, small};
use lode_btt::{Btt, BttError, Repair, check, repair};
use lode_nvdimm::BttGeometry;
use lode_pmem::Mapping;
use lode_testing::{memory, scaled, seed};
use std::sync::Arc;

/// Offset of the first arena.
const START: u64 = 4096;

/// Returns a table of two arenas, all blocks of which were written several times, and the geometry of the first.
fn full() -> (Arc<Mapping>, BttGeometry) {
    let (medium, geometry) = small(2, 512, 3);
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    for round in 0..3 {
        (0..btt.block_count()).rev().for_each(|lba| btt.write(lba, &block(&btt, lba + round)).unwrap());
    }
    (medium, geometry)
}

/// Checks that each block has its content, except for those in `lost`.
fn assert_contents(medium: &Arc<Mapping>, lost: &[u64]) {
    assert_sound(medium);
    let btt = Btt::open(Arc::clone(medium)).unwrap();
    for lba in 0..btt.block_count() {
        if lost.contains(&lba) {
            assert_eq!(btt.read(lba, &mut [0; 512]), Err(BttError::Lost { lba }));
        } else {
            assert!(read(&btt, lba) == block(&btt, lba + 2), "block {lba}");
        }
        btt.write(lba, &block(&btt, lba + 9)).unwrap();
    }
    assert!((0..btt.block_count()).all(|lba| read(&btt, lba) == block(&btt, lba + 9)));
    assert_sound(medium);
}

#[test]
fn sound_table_is_not_changed() {
    let (medium, _) = full();
    let before = memory::bytes(&medium);
    assert_eq!(repair(&medium), Ok(vec![]));
    assert!(memory::bytes(&medium) == before);
}

#[test]
fn info_block_is_copied() {
    let (medium, geometry) = full();
    for at in [START + ARENA_LEN, START + geometry.infooff(), START + ARENA_LEN + geometry.infooff()] {
        let damaged = copy(&medium);
        put(&damaged, at + 200, &[1]);
        let repairs = repair(&damaged).unwrap();
        assert!(
            matches!(repairs[..], [Repair::InfoCopy { at: place, .. }] if place.get() == at),
            "{repairs:?}"
        );
        assert!(memory::bytes(&damaged) == memory::bytes(&medium));
    }
}

#[test]
fn blocks_with_useless_map_entries_are_lost() {
    let (medium, geometry) = full();
    let entry = |lba: u64| START + geometry.mapoff() + lba * 4;
    let word = |at: u64| u32::from_le_bytes(memory::bytes(&medium)[at as usize..][..4].try_into().unwrap());
    let impossible = copy(&medium);
    put(&impossible, entry(7), &u32::MAX.to_le_bytes());
    assert_eq!(repair(&impossible), Ok(vec![Repair::LostBlock { lba: 7 }]));
    assert_contents(&impossible, &[7]);
    let shared = copy(&medium);
    put(&shared, entry(7), &word(entry(9)).to_le_bytes());
    assert_eq!(repair(&shared), Ok(vec![Repair::LostBlock { lba: 7 }, Repair::LostBlock { lba: 9 }]));
    assert_contents(&shared, &[7, 9]);
}

#[test]
fn damaged_lanes_get_new_free_blocks() {
    let (medium, geometry) = full();
    for (at, word) in [(12, 9), (4, u32::MAX), (60, 1)] {
        let damaged = copy(&medium);
        put(&damaged, START + geometry.flogoff() + 64 + at, &u32::to_le_bytes(word));
        assert_ne!(check(&damaged), []);
        assert_eq!(repair(&damaged), Ok(vec![Repair::Lane { arena: 0, lane: 1 }]));
        assert_contents(&damaged, &[]);
    }
}

#[test]
fn any_damage_of_map_and_flog_is_repaired() {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let (medium, geometry) = full();
    for _ in 0..scaled(500) {
        let damaged = copy(&medium);
        for _ in 0..rng.u64(1..6) {
            let (part, words) = if rng.bool() { (geometry.mapoff(), 240) } else { (geometry.flogoff(), 48) };
            let at = START + rng.u64(..2) * ARENA_LEN + part + rng.u64(..words) * 4;
            let word = if rng.bool() { rng.u32(..) } else { rng.u32(..300) | 0xc000_0000 };
            put(&damaged, at, &word.to_le_bytes());
        }
        for change in repair(&damaged).unwrap() {
            assert!(!change.to_string().is_empty());
        }
        assert_sound(&damaged);
        assert_eq!(repair(&damaged), Ok(vec![]), "a second repair changes nothing");
    }
}
