//! A table of an older kernel keeps its flog entries in the first and the third place of a lane.

use crate::disk::{assert_sound, block, read, small};
use lode_btt::Btt;
use lode_layout::PoolOffset;
use lode_nvdimm::{BttFlog, BttFlogSlots};
use lode_pmem::Medium;
use std::sync::Arc;

#[test]
fn entries_stay_in_the_places_that_are_used() {
    let (medium, geometry) = small(1, 512, 2);
    let at = PoolOffset::new(4096 + geometry.flogoff());
    // A second entry in the third place of lane 1, newer than the first.
    let free = geometry.external_nlba() + 1;
    let words = [3, free, free, 2].map(u32::to_le_bytes);
    medium.store(at.plus(64 + 32), words.as_flattened());
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    for round in 0..20 {
        // All lanes get their turn.
        std::thread::scope(|threads| {
            for lba in 0..4 {
                let btt = &btt;
                threads.spawn(move || btt.write(lba, &block(btt, round + lba)).unwrap());
            }
        });
    }
    let mut bytes = vec![0; BttFlog::len_of(&geometry) as usize];
    medium.memory().reading(|memory| memory.read(at, &mut bytes)).unwrap();
    assert_eq!(BttFlog::decode(&bytes, &geometry).unwrap().slots(), BttFlogSlots::FirstAndThird);
    assert_sound(&medium);
    let btt = Btt::open(medium).unwrap();
    assert!((0..4).all(|lba| read(&btt, lba) == block(&btt, 19 + lba)));
}
