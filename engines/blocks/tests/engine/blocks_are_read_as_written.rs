//! Blocks are read as a plain array would be, before and after a reopening.

use crate::disk::{Disk, block, read};
use lode_blocks::BlocksError;
use lode_layout::Durability;
use lode_testing::{scaled, seed};

/// Runs random requests against the blocks, and against an array.
fn agrees_with_array(size: u64, block_size: u32, durability: Durability) {
    let seed = seed(17);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let disk = Disk::new(size, block_size, durability);
    let mut blocks = disk.open();
    let count = blocks.block_count();
    let mut model = vec![vec![0; block_size as usize]; count as usize];
    for step in 0..scaled(2000) {
        let lba = rng.u64(..count);
        match rng.u8(..10) {
            0 => {
                let len = rng.u64(1..=(count - lba).min(5));
                blocks.zero(lba, len).unwrap();
                (lba..lba + len).for_each(|lba| model[lba as usize].fill(0));
            }
            1 => blocks.flush().unwrap(),
            2 => {
                let writes: Vec<(u64, Vec<u8>)> =
                    (0..rng.usize(..40)).map(|_| (rng.u64(..count), block(&blocks, rng.u64(..)))).collect();
                let slices: Vec<(u64, &[u8])> =
                    writes.iter().map(|(lba, bytes)| (*lba, bytes.as_slice())).collect();
                blocks.write_batch(&slices).unwrap();
                for (lba, bytes) in writes {
                    model[lba as usize] = bytes;
                }
            }
            3 if rng.u8(..8) == 0 => {
                match rng.bool() {
                    true => blocks.close().unwrap(),
                    // Nothing is lost: the memory keeps what a machine without power would have to flush.
                    false => {
                        blocks.flush().unwrap();
                        drop(blocks);
                    }
                }
                assert_eq!(disk.check(), []);
                blocks = disk.open();
            }
            3..7 => assert_eq!(read(&blocks, lba), model[lba as usize], "step {step}, block {lba}"),
            _ => {
                let bytes = block(&blocks, rng.u64(..));
                blocks.write(lba, &bytes).unwrap();
                model[lba as usize] = bytes;
            }
        }
        let is_zeros = model[lba as usize].iter().all(|byte| *byte == 0);
        assert_eq!(blocks.is_zero(lba).unwrap(), is_zeros, "step {step}, block {lba}");
    }
    for (lba, want) in (0..).zip(&model) {
        let mut bytes = vec![0; block_size as usize];
        blocks.read_unchecked(lba, &mut bytes).unwrap();
        assert_eq!((&read(&blocks, lba), &bytes), (want, want), "block {lba}");
    }
}

#[test]
fn small_pool_agrees_with_array() {
    agrees_with_array(64 << 10, 512, Durability::Line);
}

#[test]
fn blocks_with_metadata_agree_with_array() {
    agrees_with_array(1 << 20, 520, Durability::Line);
}

#[test]
fn large_blocks_agree_with_array() {
    agrees_with_array(1 << 20, 4160, Durability::Byte);
}

#[test]
fn small_pool_with_cache_agrees_with_array() {
    agrees_with_array(64 << 10, 512, Durability::Commit);
}

#[test]
fn pool_with_cache_agrees_with_array() {
    agrees_with_array(1 << 20, 4096, Durability::Commit);
}

#[test]
fn requests_out_of_range_are_refused() {
    let disk = Disk::new(1 << 20, 4096, Durability::Line);
    let blocks = disk.open();
    let count = blocks.block_count();
    let mut bytes = block(&blocks, 1);
    let no_block = |lba| Err(BlocksError::NoBlock { lba, count });
    for lba in [count, count + 1, u64::MAX] {
        assert_eq!(blocks.write(lba, &bytes), no_block(lba));
        assert_eq!(blocks.read(lba, &mut bytes), no_block(lba));
        assert_eq!(blocks.zero(lba, 1), no_block(lba));
        assert_eq!(blocks.write_batch(&[(0, &bytes), (lba, &bytes)]), no_block(lba));
    }
    assert_eq!(blocks.zero(1, count), no_block(count));
    assert_eq!(blocks.zero(1, u64::MAX), no_block(count));
    let short = Err(BlocksError::Length { len: 4095, want: 4096 });
    assert_eq!(blocks.write(0, &bytes[1..]), short);
    assert_eq!(blocks.read(0, &mut bytes[1..]), short);
    assert!(blocks.is_zero(0).unwrap(), "nothing was written");
}
