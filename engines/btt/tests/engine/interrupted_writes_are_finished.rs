//! An open rolls a write forward whose flog entry is durable and whose map entry is not.

use crate::disk::{assert_sound, block, put, read, small};
use lode_btt::Btt;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Counted, Medium};
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

/// A program that ends leaves the map entry of the last write of a lane to the caches. The next one makes it durable before
/// its own writes build on it.
#[test]
fn openings_flush_the_last_write_of_each_lane() {
    let (memory, _) = small(1, 512, 4);
    let medium = Arc::new(Counted::new(memory));
    let open = || {
        let before = medium.counts();
        let btt = Btt::open(Arc::clone(&medium)).unwrap();
        let counts = medium.counts() - before;
        (btt, counts.drains, counts.lines_flushed)
    };
    let (btt, ..) = open();
    btt.write(3, &block(&btt, 1)).unwrap();
    drop(btt);
    let (btt, drains, lines) = open();
    assert_eq!((drains, lines), (1, 2), "the flog entry and the map entry");
    let content = block(&btt, 2);
    btt.write_batch(&[(3, &content), (9, &content), (40, &content)]).unwrap();
    drop(btt);
    let (_, drains, lines) = open();
    assert_eq!((drains, lines), (1, 6), "those of three lanes");
}
