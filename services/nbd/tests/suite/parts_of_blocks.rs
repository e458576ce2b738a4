//! Changes of parts of blocks, which read the block before.

use crate::client::{BLOCK, Form, SIZE, Served, TRIM, ZEROES};
use lode_testing::seed;
use std::thread;

#[test]
fn connections_that_share_a_block_lose_nothing() {
    let served = Served::start();
    thread::scope(|scope| {
        for (at, len) in [(0, 100), (100, 156), (256, 256)] {
            let mut client = served.client(Form::Simple);
            scope.spawn(move || {
                for round in 1..=250 {
                    client.write(at, &vec![round; len]);
                    assert_eq!(client.read(at, len), vec![round; len]);
                }
            });
        }
        // Whole blocks beside it, by batches that take no part in the reads.
        let mut client = served.client(Form::Simple);
        scope.spawn(move || {
            for round in 1..=250 {
                client.write(512, &[round; BLOCK]);
            }
        });
    });
    assert_eq!(served.device.bytes()[..1024], [250; 1024]);
}

/// Writes, zeros and trims of random ranges, compared with plain memory.
#[test]
fn random_ranges_match_plain_memory() {
    let mut random = fastrand::Rng::with_seed(seed(72));
    let served = Served::start();
    let mut client = served.client(Form::Structured);
    let mut model = vec![0_u8; SIZE as usize];
    for round in 0..2000 {
        let offset = random.usize(0..model.len());
        let len = random.usize(1..=(model.len() - offset).min(2000));
        let range = offset..offset + len;
        match random.u8(0..4) {
            0 => {
                let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
                client.write(offset as u64, &bytes);
                model[range].copy_from_slice(&bytes);
            }
            1 => {
                assert_eq!(client.error(ZEROES, 0, offset as u64, len as u64), 0);
                model[range].fill(0);
            }
            2 => {
                assert_eq!(client.error(TRIM, 0, offset as u64, len as u64), 0);
                let (start, end) = (offset.next_multiple_of(BLOCK), range.end / BLOCK * BLOCK);
                if start < end {
                    model[start..end].fill(0);
                }
            }
            _ => assert!(client.read(offset as u64, len) == model[range], "round {round}"),
        }
    }
    assert!(served.device.bytes() == model);
}
