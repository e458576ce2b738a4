//! Blocks of a batch share drains, and each of them is written as if it were alone.

use crate::disk::{assert_sound, block, read, small};
use lode_btt::{Btt, BttError};
use lode_pmem::Counted;
use lode_testing::scaled;
use std::sync::Arc;

/// Returns a batch of blocks of `contents`.
fn batch(lbas: impl IntoIterator<Item = u64>, contents: &[Vec<u8>]) -> Vec<(u64, &[u8])> {
    lbas.into_iter().zip(contents).map(|(lba, content)| (lba, &content[..])).collect()
}

#[test]
fn batch_without_enough_lanes_is_cut() {
    for (nfree, drains) in [(1, 20), (4, 6), (9, 4), (10, 2)] {
        let (memory, _) = small(1, 512, nfree);
        let medium = Arc::new(Counted::new(Arc::clone(&memory)));
        let btt = Btt::open(Arc::clone(&medium)).unwrap();
        let contents: Vec<Vec<u8>> = (0..11).map(|tag| block(&btt, 20 + tag)).collect();
        // Block 7 is there twice.
        let before = medium.counts();
        btt.write_batch(&batch([7, 3, 0, 9, 8, 7, 1, 2, 5, 60, 70], &contents)).unwrap();
        assert_eq!((medium.counts() - before).drains, drains, "{nfree} lanes");
        for (lba, tag) in [(7, 5), (3, 1), (0, 2), (9, 3), (8, 4), (1, 6), (2, 7), (5, 8), (60, 9), (70, 10)]
        {
            assert_eq!(read(&btt, lba), contents[tag], "block {lba}");
        }
        assert_sound(&memory);
    }
}

#[test]
fn batch_and_zeros_cross_arenas() {
    let (memory, geometry) = small(2, 512, 3);
    let btt = Btt::open(Arc::clone(&memory)).unwrap();
    let (second, end) = (u64::from(geometry.external_nlba()), btt.block_count());
    let contents: Vec<Vec<u8>> = (0..end).map(|tag| block(&btt, tag + 1)).collect();
    btt.write_batch(&batch(0..end, &contents)).unwrap();
    (0..end).for_each(|lba| assert_eq!(read(&btt, lba), contents[lba as usize], "block {lba}"));
    // From the middle of a word, and over more words than there are stripes.
    for (first, count) in [(5, 1), (7, 3), (second - 3, 9), (31, 64), (end - 1, 1), (40, 0)] {
        btt.zero(first, count).unwrap();
        (first..first + count).for_each(|lba| assert_eq!(read(&btt, lba), vec![0; 512], "block {lba}"));
    }
    let is_zero = |lba: &u64| {
        [5..6, 7..10, second - 3..second + 6, 31..95, end - 1..end].iter().any(|range| range.contains(lba))
    };
    for lba in (0..end).filter(|lba| !is_zero(lba)) {
        assert_eq!(read(&btt, lba), contents[lba as usize], "block {lba}");
    }
    assert_eq!(btt.zero(end - 1, 2), Err(BttError::NoBlock { lba: end, count: end }));
    assert_eq!(btt.write_batch(&batch([0, end], &contents)), Err(BttError::NoBlock { lba: end, count: end }));
    assert_eq!(read(&btt, 0), contents[0], "errors of the arguments come first");
    assert_sound(&memory);
}

/// A batch leaves map entries that its own thread alone has flushed. A write of another thread that builds on one of them
/// flushes it again, also if the batch stored several words of the stripe.
#[test]
fn writes_flush_the_map_entries_of_a_batch_again() {
    let nfree = 4;
    let (memory, _) = small(1, 512, nfree);
    let medium = Arc::new(Counted::new(memory));
    let btt = Btt::open(Arc::clone(&medium)).unwrap();
    let contents = vec![block(&btt, 1); 3];
    // Words 0, 4 and 8 of the map: one stripe of four.
    let words = u64::from(nfree) * 2;
    let stored = batch([0, words, 2 * words], &contents);
    std::thread::scope(|threads| {
        threads.spawn(|| btt.write_batch(&stored).unwrap());
    });
    let before = medium.counts();
    btt.write(words, &contents[0]).unwrap();
    let flushed = (medium.counts() - before).lines_flushed;
    assert_eq!(flushed, 2 + 3 + 1, "the flog, the map, the words of the stripe, and that of the first lane");
}

#[test]
fn batches_of_threads_never_wait_for_each_other_forever() {
    for nfree in [1, 2, 5, 8] {
        let (memory, _) = small(2, 512, nfree);
        let btt = Btt::open(Arc::clone(&memory)).unwrap();
        let count = btt.block_count();
        let rounds = scaled(200);
        std::thread::scope(|threads| {
            for thread in 0..3 {
                let btt = &btt;
                threads.spawn(move || {
                    for round in 0..rounds {
                        let content = vec![block(btt, round * 4 + thread); 6];
                        let step = 1 + (round + thread) % 7;
                        let lbas = (0..6).map(|index| (round + index * step * 9) % count);
                        btt.write_batch(&batch(lbas, &content)).unwrap();
                        btt.zero(round % (count - 20), 20).unwrap();
                    }
                });
            }
            let btt = &btt;
            threads.spawn(move || {
                for round in 0..rounds * 4 {
                    let bytes = read(btt, round % 30);
                    assert!(bytes.chunks_exact(8).all(|word| *word == bytes[..8]), "a torn block");
                }
            });
        });
        assert_sound(&memory);
    }
}
