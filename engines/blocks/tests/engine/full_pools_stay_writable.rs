//! A pool whose blocks are all written can be written again, however often, and a zeroed block gives its data block back.

use crate::disk::{Disk, block, read};
use lode_layout::Durability;
use lode_testing::scaled;

#[test]
fn all_blocks_are_written_again_and_again() {
    for durability in [Durability::Line, Durability::Commit] {
        let disk = Disk::new(64 << 10, 512, durability);
        let blocks = disk.open();
        let count = blocks.block_count();
        for round in 1..scaled(50).max(4) {
            for lba in 0..count {
                blocks.write(lba, &block(&blocks, round * 100 + lba)).unwrap();
            }
            if round % 3 == 0 {
                blocks.zero(0, count).unwrap();
            }
            for lba in 0..count {
                let tag = if round % 3 == 0 { 0 } else { round * 100 + lba };
                assert_eq!(read(&blocks, lba), block(&blocks, tag), "round {round}");
            }
        }
        blocks.flush().unwrap();
        assert_eq!(disk.check(), []);
    }
}

#[test]
fn threads_share_the_spares_of_a_full_pool() {
    for durability in [Durability::Line, Durability::Commit] {
        let disk = Disk::new(64 << 10, 512, durability);
        let blocks = disk.open();
        let count = blocks.block_count();
        let rounds = scaled(if durability == Durability::Commit { 10 } else { 200 });
        std::thread::scope(|scope| {
            for thread in 0..12 {
                let blocks = &blocks;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let bytes = block(blocks, thread * 1000 + round);
                        let batch: Vec<(u64, &[u8])> =
                            (0..count).map(|lba| ((lba + thread) % count, bytes.as_slice())).collect();
                        blocks.write_batch(&batch).unwrap();
                    }
                });
            }
        });
        blocks.flush().unwrap();
        assert_eq!(disk.check(), []);
    }
}
