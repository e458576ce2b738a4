//! Nothing is stored before the first write, and blocks read as zeros until then.

use crate::disk::{assert_sound, block, plan, read};
use lode_btt::{Btt, BttError};
use lode_nvdimm::BttVersion;
use lode_testing::memory;
use std::sync::Arc;

#[test]
fn first_write_makes_the_table() {
    for version in [BttVersion::V1_1, BttVersion::V2_0] {
        let medium = Arc::new(memory::persistent(1 << 20));
        let plan = plan(version, 2, 512, 4);
        let btt = Btt::open_or_plan(Arc::clone(&medium), plan.clone()).unwrap();
        let count = btt.block_count();
        assert_eq!(read(&btt, count - 1), [0; 512]);
        assert_eq!(btt.read(count, &mut [0; 512]), Err(BttError::NoBlock { lba: count, count }));
        btt.flush().unwrap();
        assert!(memory::bytes(&medium).iter().all(|byte| *byte == 0), "nothing is stored");
        btt.write(count - 1, &block(&btt, 6)).unwrap();
        assert_eq!((read(&btt, count - 1), btt.block_count()), (block(&btt, 6), count));
        assert_sound(&medium);
        let btt = Btt::open_or_plan(medium, plan).unwrap();
        assert_eq!(read(&btt, count - 1), block(&btt, 6));
    }
}

#[test]
fn threads_make_the_table_once() {
    let medium = Arc::new(memory::persistent(1 << 20));
    let btt = Btt::open_or_plan(Arc::clone(&medium), plan(BttVersion::V1_1, 1, 512, 8)).unwrap();
    std::thread::scope(|threads| {
        for lba in 0..8 {
            let btt = &btt;
            threads.spawn(move || btt.write(lba, &block(btt, lba + 1)).unwrap());
        }
    });
    assert!((0..8).all(|lba| read(&btt, lba) == block(&btt, lba + 1)));
    assert_sound(&medium);
}

#[test]
fn format_replaces_an_old_table() {
    let medium = Arc::new(memory::persistent(1 << 20));
    plan(BttVersion::V1_1, 2, 512, 4).format(&medium).unwrap();
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    (0..20).for_each(|lba| btt.write(lba, &block(&btt, lba)).unwrap());
    drop(btt);
    plan(BttVersion::V2_0, 1, 4096, 2).format(&medium).unwrap();
    assert_sound(&medium);
    let btt = Btt::open(medium).unwrap();
    assert_eq!(btt.block_size(), 4096);
}
