//! An open rolls a write forward whose flog entry is durable and whose map entry is not.

use crate::disk::{assert_sound, block, put, read, small};
use lode_btt::Btt;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use std::sync::Arc;

#[test]
fn map_entry_is_set_from_the_flog() {
    let (medium, geometry) = small(2, 512, 1);
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    let lba = 5;
    let entry_at = 4096 + geometry.mapoff() + lba * 4;
    let word_at = PoolOffset::new(entry_at / WORD * WORD);
    let word = || medium.memory().reading(|memory| memory.load8(word_at)).unwrap();
    btt.write(lba, &block(&btt, 1)).unwrap();
    let old = word();
    btt.write(lba, &block(&btt, 2)).unwrap();
    let new = word();
    drop(btt);
    medium.store8(word_at, old);
    assert_sound(&medium);
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    assert_eq!(word(), new);
    assert_eq!(read(&btt, lba), block(&btt, 2));
    drop(btt);
    // Another number in the map: the write is long done, and the block was written by another lane since.
    put(&medium, entry_at, &0xc000_0007_u32.to_le_bytes());
    let other = word();
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    assert_eq!(word(), other);
    assert_eq!(read(&btt, lba), [0; 512]);
}
