//! A whole pool: checking, repairing and opening it end without a panic, for any bytes.

use lode_fsck::{check_pool, repair_pool};
use lode_index::Tree;
use lode_kv::LAYOUT;
use lode_layout::header::LEN;
use lode_layout::{Geometry, PoolOffset};
use lode_pmem::{Mapping, Medium};
use lode_testing::{kv, memory, tree};
use std::sync::Arc;

/// Bytes of the pool that is fuzzed. It is small, so most of its bytes have a meaning.
const POOL_LEN: u64 = 160 << 10;
/// Bytes of one change to the pool in a seed: the offset, then the new word.
const CHANGE: usize = 10;

/// Applies the bytes as changes to a sound pool: each is an offset (2 bytes, in words) and a word. The header already
/// has a valid checksum, so the fuzzer need not find one.
pub fn run(data: &[u8]) {
    let medium = sound_pool();
    for change in data.chunks_exact(CHANGE) {
        let (at, word) = change.split_at(CHANGE - 8);
        let at = u64::from(u16::from_le_bytes(at.try_into().unwrap_or_default())) * 8 % POOL_LEN;
        medium.store8(PoolOffset::new(at), u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    check_and_repair(&medium);
}

/// Checks, opens and repairs the pool on `medium`.
fn check_and_repair(medium: &Arc<Mapping>) {
    let bytes = memory::bytes(medium);
    let report = check_pool(Arc::new(memory::from_bytes(&bytes)), &[&LAYOUT]);
    assert!(!report.to_string().is_empty());
    open(&Arc::new(memory::from_bytes(&bytes)));
    if repair_pool(medium, [7, 8], &[&LAYOUT]).is_ok() {
        open(medium);
    }
}

fn open(medium: &Arc<Mapping>) {
    let Ok(heap) = kv::open(medium, [9, 9]) else { return };
    let Some(tree) = heap.root().ok().and_then(|root| Tree::open(&heap, root).ok()) else { return };
    let _ = tree.get(b"some key");
    let _ = tree.insert(b"another key", b"its value");
    let _ = tree.delete(b"key 3");
    assert!(tree.reader().iter().take(100_000).count() <= 100_000);
}

/// Makes a pool with some keys that was not closed.
fn sound_pool() -> Arc<Mapping> {
    let heap = kv::create(POOL_LEN);
    let tree = tree::open(&heap);
    for number in 0..20u8 {
        tree.insert(format!("key {number}").as_bytes(), &[number; 9]).expect("room");
    }
    Arc::clone(heap.medium())
}

/// Returns changes in each part of a pool: none, headers, slots, log, tables, spans.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let change = |at: u64, word: u64| {
        let at = ((at / 8) as u16).to_le_bytes();
        [&at[..], &word.to_le_bytes()].concat()
    };
    let heap = Geometry::plan(POOL_LEN).map_or(0, |geometry| geometry.extents()[0].start.get());
    vec![
        ("sound", Vec::new()),
        ("header", change(LEN as u64 / 2, 1)),
        ("slot", change(0x2008, u64::MAX)),
        ("log", change(0x4000 + 0x2000, 0xFFFF_0000_0000)),
        ("table", change(heap + 8, 1)),
        ("span", [change(heap + 0x4008, u64::MAX), change(heap + 0x4040, 0)].concat()),
    ]
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{CHUNK, CheckpointSlot, ChunkDescriptor, Superblock, checked};
    use uuid::Uuid;

    /// A generator of small and large numbers.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 11
        }

        fn below(&mut self, end: u64) -> u64 {
            self.next() % end
        }

        fn any(&mut self) -> u64 {
            let shift = self.below(64);
            self.next().rotate_left(7) >> shift
        }
    }

    /// Writes what a hostile writer would: words with valid checks and wrong contents.
    fn hostile(numbers: &mut Numbers, medium: &Mapping, uuid: &[u8; 16]) {
        let heap = Geometry::plan(POOL_LEN).unwrap().extents()[0];
        let chunk = 1 + numbers.below(heap.len / CHUNK - 1);
        let at = PoolOffset::new(numbers.below(POOL_LEN / 8) * 8);
        match numbers.below(6) {
            0 => medium.store8(at, numbers.any()),
            1 => medium.store8(at, checked(numbers.any())),
            2 => {
                let from = PoolOffset::new(numbers.below(POOL_LEN / 8) * 8);
                medium.store8(at, medium.memory().reading(|memory| memory.load8(from)).unwrap());
            }
            3 => {
                let chunks = numbers.any() >> 2;
                let kinds = [
                    ChunkDescriptor::Superblock { chunks },
                    ChunkDescriptor::Huge { chunks: 1 + chunks % 8 },
                ];
                let descriptor = kinds[numbers.below(2) as usize];
                medium.store8(heap.start.plus(chunk * 8), descriptor.encode());
            }
            4 => {
                let start = heap.start.plus(chunk * CHUNK);
                let (block_size, block_count) =
                    (1 + numbers.below(40_000), 1 + (numbers.any() as u32 as u64));
                let shape = Superblock {
                    block_size,
                    block_count,
                    data_off: numbers.any(),
                    type_number: numbers.any(),
                };
                for (word, value) in shape.encode(start.get()).into_iter().enumerate() {
                    medium.store8(start.plus(word as u64 * 8), value);
                }
            }
            _ => {
                let (generation, sequence) = (numbers.any(), numbers.any());
                let log_epoch = [numbers.below(5), 4];
                let slot = CheckpointSlot {
                    generation,
                    sequence,
                    log_epoch,
                    rings: 1 + numbers.any() as u32 / 2,
                    closed: false,
                    in_second_area: false,
                };
                for (word, value) in slot.encode(uuid).into_iter().enumerate() {
                    medium.store8(CheckpointSlot::offset(generation).plus(word as u64 * 8), value);
                }
            }
        }
    }

    #[test]
    fn hostile_pools_never_panic() {
        let uuid = *Uuid::from_u128(5).as_bytes();
        let mut numbers = Numbers(1);
        for round in 0..2000 {
            let medium = sound_pool();
            for _ in 0..=numbers.below(4) {
                hostile(&mut numbers, &medium, &uuid);
            }
            println!("round {round}");
            check_and_repair(&medium);
        }
    }
}
