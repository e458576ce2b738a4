//! Atomic blocks: checking, repairing, opening and using them end without a panic, for any bytes, also if the descriptors of
//! the segments have valid checksums.

use lode_blocks::{Blocks, check, describe, repair};
use lode_layout::{BlocksDescriptor, Geometry, PoolOffset};
use lode_pmem::{Mapping, Medium};
use lode_testing::memory;
use std::sync::Arc;

/// Bytes of the pool. It is small, so most of its bytes have a meaning.
const POOL_LEN: u64 = 128 << 10;
const BLOCK_SIZE: u32 = 512;
const UUID: [u8; 16] = [5; 16];
/// Bytes of an operation: its kind, then its fields.
const OPERATION: usize = 25;
/// First byte of an operation that stores a word: its number and the word follow.
const WORD: u8 = 0;
/// First byte of an operation that stores both copies of a descriptor: the number of blocks and spares, then where the map and
/// the data lie.
const DESCRIPTOR: u8 = 1;

/// Reads the bytes as operations on sound blocks.
pub fn run(data: &[u8]) {
    let medium = sound_blocks();
    for operation in data.chunks_exact(OPERATION) {
        let field =
            |at: usize| u64::from_le_bytes(operation[at * 8 + 1..at * 8 + 9].try_into().unwrap_or_default());
        let [first, second, third] = [field(0), field(1), field(2)];
        if operation[0] % 2 == WORD {
            medium.store8(PoolOffset::new(first % (POOL_LEN / 8) * 8), second);
            continue;
        }
        let descriptor = BlocksDescriptor {
            block_size: BLOCK_SIZE,
            first_block: 0,
            block_count: first & u64::from(u32::MAX),
            spare_count: first >> 32,
            map_off: PoolOffset::new(second),
            data_off: PoolOffset::new(third),
        };
        let place = BlocksDescriptor::place(&geometry().extents()[0]);
        for copy in [0, BlocksDescriptor::COPY_STRIDE] {
            medium.copy(place.plus(copy), &descriptor.encode());
        }
    }
    check_and_use(&medium);
}

/// Checks, opens, repairs and uses the blocks.
fn check_and_use(medium: &Arc<Mapping>) {
    let bytes = memory::bytes(medium);
    let findings = check(medium, &geometry(), &UUID);
    assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
    let _ = describe(medium, &geometry());
    assert!(memory::bytes(medium) == bytes, "a check stores nothing");
    let is_sound = use_blocks(&Arc::new(memory::from_bytes(&bytes)));
    assert!(is_sound || !findings.is_empty(), "what can't be opened has a finding");
    if repair(medium, &geometry(), &UUID, [7; 2]).is_ok() {
        assert!(use_blocks(medium), "repaired blocks can be opened");
    }
}

/// Returns true if the blocks can be opened.
fn use_blocks(medium: &Arc<Mapping>) -> bool {
    let Ok((blocks, _)) = Blocks::open(Arc::clone(medium), &geometry(), UUID, [8; 2]) else { return false };
    let mut block = vec![1; blocks.block_size()];
    for lba in (0..blocks.block_count()).take(16) {
        let is_written = blocks.write(lba, &block).is_ok();
        let is_read = blocks.read(lba, &mut block).is_ok();
        assert!(is_read || !is_written, "a block that was written can be read");
        let _ = blocks.zero(lba, 1);
    }
    true
}

fn geometry() -> Geometry {
    Geometry::plan(POOL_LEN).expect("the size is valid")
}

/// Makes blocks, half of them written, that were not closed.
fn sound_blocks() -> Arc<Mapping> {
    let (medium, geometry) = (Arc::new(memory::persistent(POOL_LEN)), geometry());
    Blocks::format(&medium, &geometry, &UUID, BLOCK_SIZE, [1; 2]).expect("room");
    let (blocks, _) = Blocks::open(Arc::clone(&medium), &geometry, UUID, [2; 2]).expect("sound blocks");
    for lba in 0..blocks.block_count() / 2 {
        blocks.write(lba, &[lba as u8; BLOCK_SIZE as usize]).expect("a spare block");
    }
    drop(blocks);
    medium
}

/// Returns operations of each kind: none, sound ones, and those that lead to the wrong place.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let operation =
        |kind: u8, fields: [u64; 3]| [&[kind][..], fields.map(u64::to_le_bytes).as_flattened()].concat();
    let info = describe(&sound_blocks(), &geometry()).expect("sound blocks");
    let data_off = info.data_off.get();
    let map_off = BlocksDescriptor::place(&geometry().extents()[0]).get() + 4096;
    let descriptor = |count: u64, spares: u64, map_off: u64, data_off: u64| {
        operation(DESCRIPTOR, [count | spares << 32, map_off, data_off])
    };
    vec![
        ("sound", Vec::new()),
        ("descriptor", descriptor(info.block_count, 8, map_off, data_off)),
        ("no-blocks", descriptor(0, 8, map_off, data_off)),
        ("too-many", descriptor(u64::from(u32::MAX), 8, map_off, data_off)),
        ("map-outside", descriptor(info.block_count, 8, 1 << 40, data_off)),
        ("map-word", operation(WORD, [map_off / 8, u64::MAX, 0])),
        ("two-owners", [0, 1].map(|lba| operation(WORD, [map_off / 8 + lba, 1, 0])).concat()),
        ("log", operation(WORD, [0x5000 / 8, 0xffff_ffff_ffff_ff00, 0])),
        ("content", operation(WORD, [data_off / 8 + 3, 7, 0])),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_change_sound_blocks() {
        assert_eq!(check(&sound_blocks(), &geometry(), &UUID), []);
        assert!(seeds().iter().all(|(_, bytes)| bytes.len() % OPERATION == 0));
    }

    #[test]
    fn hostile_blocks_never_panic() {
        crate::run_mixed_seeds(&seeds(), 400, run);
    }
}
