//! Threads that read and write the same blocks never see a torn block, and lose no free block.

use crate::disk::{assert_sound, block, small};
use lode_btt::Btt;
use lode_testing::scaled;
use std::sync::Arc;

#[test]
fn reads_are_never_torn() {
    for nfree in [1, 2, 8] {
        let (medium, _) = small(1, 4096, nfree);
        let btt = Btt::open(Arc::clone(&medium)).unwrap();
        let rounds = scaled(2_000);
        std::thread::scope(|threads| {
            for thread in 0..2 {
                let btt = &btt;
                threads.spawn(move || {
                    for round in 0..rounds {
                        btt.write(round % 3, &block(btt, round * 2 + thread)).unwrap();
                    }
                });
            }
            for _ in 0..2 {
                let btt = &btt;
                threads.spawn(move || {
                    let mut bytes = vec![0; 4096];
                    for round in 0..rounds {
                        btt.read(round % 3, &mut bytes).unwrap();
                        assert!(bytes.chunks_exact(8).all(|word| *word == bytes[..8]), "a torn block");
                    }
                });
            }
        });
        assert_sound(&medium);
    }
}
