//! A read beside writers returns one of the contents that were written, whole: the checksum of each read says so.

use crate::disk::{Disk, block};
use lode_layout::Durability;
use lode_testing::scaled;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn reads_are_never_torn() {
    for durability in [Durability::Line, Durability::Commit] {
        let disk = Disk::new(96 << 10, 4096, durability);
        let blocks = disk.open();
        let count = blocks.block_count().min(2);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut into = block(&blocks, 0);
                    while !is_over.load(Ordering::Relaxed) {
                        for lba in 0..count {
                            blocks.read(lba, &mut into).unwrap();
                            assert!(into.chunks(8).all(|word| word == &into[..8]), "a torn block");
                        }
                    }
                });
            }
            for tag in 1..scaled(3000) {
                blocks.write(tag % count, &block(&blocks, tag)).unwrap();
                if tag % 64 == 0 {
                    blocks.zero(tag % count, 1).unwrap();
                    blocks.flush().unwrap();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
