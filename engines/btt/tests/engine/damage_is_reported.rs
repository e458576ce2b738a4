//! Damaged info blocks, maps and flogs are errors that say what and where, and never a panic.

use crate::disk::{ARENA_LEN, assert_sound, block, copy, put, read, small};
use lode_btt::{Btt, BttError, Finding, check};
use lode_layout::PoolOffset;
use lode_nvdimm::{BttDamage, BttVersion, InfoBlockError};
use lode_pmem::Mapping;
use lode_testing::{memory, scaled, seed};
use std::sync::Arc;

/// Offset of the first arena.
const START: u64 = 4096;

fn open_error(medium: &Arc<Mapping>) -> BttError {
    Btt::open(Arc::clone(medium)).unwrap_err()
}

#[test]
fn medium_without_a_table_is_reported() {
    let medium = Arc::new(memory::persistent(1 << 20));
    assert_eq!(open_error(&medium), BttError::Absent);
    assert_eq!(check(&medium), [Finding::Unusable(BttError::Absent)]);
    let short = Arc::new(memory::persistent(4096));
    assert_eq!(open_error(&short), BttError::Absent);
}

#[test]
fn second_info_block_serves_for_the_first() {
    let (medium, geometry) = small(1, 512, 2);
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    btt.write(1, &block(&btt, 8)).unwrap();
    drop(btt);
    let second = START + geometry.infooff();
    for (at, zeros) in [(START, 16), (START + 100, 1), (second, 16), (second + 4090, 1)] {
        let damaged = copy(&medium);
        put(&damaged, at, &vec![0x77; zeros]);
        let btt = Btt::open(Arc::clone(&damaged)).unwrap();
        assert_eq!(read(&btt, 1), block(&btt, 8));
        let findings = check(&damaged);
        let found = matches!(findings[..], [Finding::InfoCopy { arena: 0, at: place, .. }]
            if place.get() == if at < second { START } else { second });
        assert!(found, "{findings:?}");
    }
    let both = copy(&medium);
    put(&both, START + 100, &[1]);
    put(&both, second + 100, &[1]);
    let error = open_error(&both);
    let is_checksum =
        matches!(error, BttError::Info { arena: 0, error: InfoBlockError::Checksum { .. }, .. });
    assert!(is_checksum, "{error}");
}

#[test]
fn arenas_of_different_tables_are_refused() {
    let (medium, _) = small(2, 512, 2);
    let (other, _) = small(2, 520, 2);
    // The second arena of another table, with other blocks.
    let bytes = memory::bytes(&other);
    put(&medium, START + ARENA_LEN, &bytes[(START + ARENA_LEN) as usize..]);
    let at = PoolOffset::new(START + ARENA_LEN);
    assert_eq!(open_error(&medium), BttError::Foreign { arena: 1, at, field: "external_lbasize" });
}

#[test]
fn medium_that_was_cut_short_is_refused() {
    let (medium, _) = small(2, 512, 2);
    let bytes = memory::bytes(&medium);
    let short = Arc::new(memory::from_bytes(&bytes[..bytes.len() - 8192]));
    let error = open_error(&short);
    assert!(matches!(error, BttError::CutShort { arena: 1, .. }), "{error}");
    assert!(error.to_string().contains("it was cut short"), "{error}");
}

#[test]
fn damaged_flog_is_refused() {
    let (medium, geometry) = small(1, 512, 2);
    let lane = |number: u64| START + geometry.flogoff() + number * 64;
    let refused = |changes: &[(u64, u32)]| {
        let damaged = copy(&medium);
        changes.iter().for_each(|(at, word)| put(&damaged, *at, &word.to_le_bytes()));
        let error = open_error(&damaged);
        assert_eq!(check(&damaged), [Finding::Unusable(error)]);
        match error {
            BttError::Damaged { arena: 0, damage, .. } => damage,
            other => panic!("{other}"),
        }
    };
    let big = geometry.internal_nlba();
    let field = |damage, name| matches!(damage, BttDamage::FlogField { lane: 1, field, .. } if field == name);
    assert!(field(refused(&[(lane(1), big)]), "lba"));
    assert!(field(refused(&[(lane(1) + 4, big)]), "old_map"));
    assert!(field(refused(&[(lane(1) + 8, big)]), "new_map"));
    assert!(field(refused(&[(lane(1) + 12, 4)]), "seq"));
    let zeros = [0, 4, 8, 12].map(|off| (lane(1) + off, 0));
    assert_eq!(refused(&zeros), BttDamage::NoEntry { lane: 1 });
    // Both lanes with one free block.
    let free = geometry.external_nlba();
    let shared = [(lane(1) + 4, free), (lane(1) + 8, free)];
    assert_eq!(refused(&shared), BttDamage::Shared { block: free });
}

#[test]
fn damaged_map_entry_fails_its_block_alone() {
    let (medium, geometry) = small(1, 512, 2);
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    (0..8).for_each(|lba| btt.write(lba, &block(&btt, lba + 1)).unwrap());
    let number = geometry.internal_nlba();
    put(&medium, START + geometry.mapoff() + 5 * 4, &(0xc000_0000 | number).to_le_bytes());
    let damage = BttDamage::MapNumber { lba: 5, found: number, internal_nlba: number };
    let at = PoolOffset::new(START);
    let error = BttError::Damaged { arena: 0, at, damage };
    assert_eq!(btt.read(5, &mut [0; 512]), Err(error));
    assert_eq!(btt.write(5, &[1; 512]), Err(error));
    assert_eq!(btt.zero(5, 1), Err(error));
    assert!(error.to_string().contains("arena 0 at 0x1000"), "{error}");
    for lba in [0, 4, 6, 7] {
        btt.write(lba, &block(&btt, lba + 10)).unwrap();
        assert_eq!(read(&btt, lba), block(&btt, lba + 10));
    }
    assert_eq!(check(&medium), [Finding::Unusable(error)]);
}

#[test]
fn two_map_entries_of_one_block_are_found() {
    let (medium, geometry) = small(1, 512, 2);
    put(&medium, START + geometry.mapoff() + 5 * 4, &(0xc000_0000_u32 | 4).to_le_bytes());
    let findings = check(&medium);
    let [Finding::Unusable(BttError::Damaged { damage, .. })] = findings[..] else { panic!("{findings:?}") };
    assert_eq!(damage, BttDamage::Shared { block: 5 - 1 });
}

#[test]
fn read_only_arena_is_not_written() {
    let (medium, geometry) = small(1, 512, 2);
    let mut bytes = memory::bytes(&medium);
    for start in [START, START + geometry.infooff()] {
        let block = &mut bytes[start as usize..][..4096];
        block[48] = 1;
        lode_nvdimm::store_fletcher64(block, 4088);
    }
    let medium = Arc::new(memory::from_bytes(&bytes));
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    assert_eq!(btt.write(0, &[1; 512]), Err(BttError::ReadOnly { arena: 0 }));
    assert_eq!(read(&btt, 0), [0; 512]);
    assert!(memory::bytes(&medium) == bytes);
}

/// Any change of the words that have a meaning ends in an error or in a table that still reads and writes.
#[test]
fn random_damage_never_panics() {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let (medium, geometry) = small(2, 512, 3);
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    (0..btt.block_count()).step_by(3).for_each(|lba| btt.write(lba, &block(&btt, lba)).unwrap());
    drop(btt);
    assert_sound(&medium);
    for _ in 0..scaled(2_000) {
        let damaged = copy(&medium);
        for _ in 0..rng.u64(1..4) {
            let part = [0, geometry.mapoff(), geometry.flogoff(), geometry.infooff()][rng.usize(..4)];
            let at = START + rng.u64(..2) * ARENA_LEN + part + rng.u64(..40) * 4;
            let word = if rng.bool() { rng.u32(..) } else { rng.u32(..300) | 0xc000_0000 };
            put(&damaged, at, &word.to_le_bytes());
        }
        for finding in check(&damaged) {
            assert!(!finding.to_string().is_empty());
        }
        let Ok(btt) = Btt::open(Arc::clone(&damaged)) else { continue };
        for _ in 0..20 {
            let lba = rng.u64(..btt.block_count());
            let _ = btt.write(lba, &block(&btt, 1));
            let _ = btt.read(lba, &mut vec![0; btt.block_size()]);
            let _ = btt.zero(lba, 1);
        }
    }
}

#[test]
fn lost_memory_fails_the_requests_that_need_it() {
    let (file, mapping) = memory::file(START + 2 * ARENA_LEN);
    let medium = Arc::new(mapping);
    crate::disk::plan(BttVersion::V1_1, 2, 4096, 2).format(&medium).unwrap();
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    // The second arena is gone, except for its first blocks.
    file.set_len(START + ARENA_LEN + 3 * 4096).unwrap();
    let count = btt.block_count();
    assert!(matches!(btt.read(count - 1, &mut vec![0; 4096]), Err(BttError::Memory(_))));
    assert!(matches!(btt.write(count - 1, &vec![1; 4096]), Err(BttError::Memory(_))));
    assert!(matches!(btt.zero(count - 1, 1), Err(BttError::Memory(_))));
    for lba in 0..count / 2 {
        btt.write(lba, &block(&btt, lba + 1)).unwrap();
        assert_eq!(read(&btt, lba), block(&btt, lba + 1));
    }
}
