//! Each block holds what was written to it last, in tables of every kind, and after they are opened again.

use crate::disk::{assert_sound, block, plan, read};
use lode_btt::{Btt, BttError, Plan};
use lode_nvdimm::BttVersion;
use lode_pmem::{Durability, Mapping};
use lode_testing::{memory, scaled, seed};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

const LBASIZES: [u32; 7] = [512, 520, 528, 4096, 4104, 4160, 4224];

/// Writes, zeroes and reads blocks at random, and opens the table again now and then.
fn random_requests(medium: Arc<Mapping>, rounds: u64) {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let mut btt = Btt::open(Arc::clone(&medium)).unwrap();
    let mut model = BTreeMap::new();
    let count = btt.block_count();
    for round in 1..=rounds {
        let lba = match rng.u8(..3) {
            0 => rng.u64(..count),
            1 => rng.u64(..count.min(4)),
            // The blocks around the border of two arenas.
            _ => (count / 2 + rng.u64(..4)).min(count - 1),
        };
        match rng.u8(..20) {
            0..10 => {
                btt.write(lba, &block(&btt, round)).unwrap();
                model.insert(lba, block(&btt, round));
            }
            10..12 => {
                btt.zero(lba, 1).unwrap();
                model.insert(lba, vec![0; btt.block_size()]);
            }
            12 => btt.flush().unwrap(),
            13 => {
                btt.flush().unwrap();
                drop(btt);
                assert_sound(&medium);
                btt = Btt::open(Arc::clone(&medium)).unwrap();
            }
            _ => {
                let want = model.get(&lba).cloned().unwrap_or(vec![0; btt.block_size()]);
                assert!(read(&btt, lba) == want, "block {lba} in round {round}, seed {}", seed(1));
            }
        }
    }
}

#[test]
fn tables_of_all_block_sizes() {
    for lbasize in LBASIZES {
        for version in [BttVersion::V1_1, BttVersion::V2_0] {
            let medium = Arc::new(memory::persistent(17 << 20));
            let uuids = [Uuid::from_u128(3), Uuid::nil()];
            Plan::kernel(17 << 20, lbasize, version, uuids).unwrap().format(&medium).unwrap();
            random_requests(medium, scaled(300));
        }
    }
}

#[test]
fn tables_of_several_arenas() {
    for nfree in [1, 3, 16] {
        let medium = Arc::new(memory::persistent(1 << 20));
        plan(BttVersion::V1_1, 3, 512, nfree).format(&medium).unwrap();
        random_requests(medium, scaled(3_000));
    }
}

#[test]
fn tables_that_are_durable_by_syncs() {
    for nfree in [1, 3, 16] {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let options = Mapping::options().durability(Durability::Commit);
        let medium = Arc::new(options.map_file(file, "table").unwrap());
        plan(BttVersion::V2_0, 2, 520, nfree).format(&medium).unwrap();
        let btt = Btt::open(Arc::clone(&medium)).unwrap();
        assert!(btt.has_volatile_cache());
        drop(btt);
        random_requests(medium, scaled(3_000));
    }
}

/// Arenas have at most 512 GiB, and the second one's map lies beyond the first.
#[test]
fn sparse_table_of_two_large_arenas() {
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let size = (512 << 30) + (32 << 20);
    file.set_len(size).unwrap();
    let options = Mapping::options().durability(Durability::Line);
    let medium = Arc::new(options.map_file(file, "table").unwrap());
    let uuids = [Uuid::from_u128(3), Uuid::nil()];
    Plan::kernel(size, 4096, BttVersion::V1_1, uuids).unwrap().on_zeros().format(&medium).unwrap();
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    let first_of_second = (1..btt.block_count()).rev().find(|lba| btt.block_count() - lba > 7_000).unwrap();
    let chosen = [0, 1, 130_000_000, first_of_second, btt.block_count() - 1];
    for lba in chosen {
        btt.write(lba, &block(&btt, lba + 1)).unwrap();
    }
    let btt = Btt::open(medium).unwrap();
    for lba in chosen {
        assert_eq!(read(&btt, lba), block(&btt, lba + 1), "{lba}");
    }
}

#[test]
fn requests_outside_of_the_table_are_refused() {
    let (medium, _) = crate::disk::small(2, 512, 2);
    let btt = Btt::open(medium).unwrap();
    let (count, block) = (btt.block_count(), [1; 512]);
    for lba in [count, count + 1, u64::MAX] {
        let refused = Err(BttError::NoBlock { lba, count });
        assert_eq!(btt.write(lba, &block), refused);
        assert_eq!(btt.zero(lba, 1), refused);
        assert_eq!(btt.read(lba, &mut [0; 512]), refused);
    }
    assert_eq!(btt.write(0, &block[1..]), Err(BttError::Length { len: 511, want: 512 }));
    assert_eq!(btt.read(0, &mut [0; 513]), Err(BttError::Length { len: 513, want: 512 }));
}

#[test]
fn lost_block_is_an_error_until_it_is_written() {
    let (medium, _) = crate::disk::small(1, 512, 2);
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    btt.mark_lost(3).unwrap();
    assert_eq!(btt.read(3, &mut [0; 512]), Err(BttError::Lost { lba: 3 }));
    let btt = Btt::open(medium).unwrap();
    assert_eq!(btt.read(3, &mut [0; 512]), Err(BttError::Lost { lba: 3 }));
    assert_eq!(read(&btt, 2), [0; 512]);
    btt.write(3, &[9; 512]).unwrap();
    assert_eq!(read(&btt, 3), [9; 512]);
}
