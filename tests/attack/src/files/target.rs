//! Pools of known content.

use crate::files::access::Pair;
use anyhow::Result;
use fastrand::Rng;
use lode_heap::{CreateOptions, Durability};
use lode_kv::Store;
use lode_layout::{LEAF_HEADER, LeafHeader, PoolOffset, TYPE_LEAF, TYPE_TREE};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// A pool of known content, as bytes.
#[derive(Clone, Debug)]
pub struct TargetPool {
    /// Keys and values of the pool.
    pub pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Bytes of its file.
    pub image: Vec<u8>,
    /// True if its last writer closed it. Otherwise each opening replays the log.
    pub is_closed: bool,
    /// Range of its log.
    pub log: Range<u64>,
    /// Range of the tree's root object.
    pub root: Vec<Range<u64>>,
    /// Ranges of its inner nodes.
    pub nodes: Vec<Range<u64>>,
    /// Ranges of its leaves.
    pub leaves: Vec<Range<u64>>,
    /// Offsets of lines outside of the ranges above that are not all zeros: tables, bitmaps, headers of spans.
    pub tables: Vec<u64>,
}

/// Bytes of a line.
pub(crate) const LINE: u64 = 64;

impl TargetPool {
    /// Makes the pool of `seed` at `path`. It has 3,000 keys, or 300 in a pool so small that most damage hits
    /// something. The seed also decides if it is closed.
    ///
    /// # Errors
    /// The pool can't be made.
    pub fn make(seed: u64, path: &Path) -> Result<TargetPool> {
        let mut rng = Rng::with_seed(seed);
        let (is_small, is_closed) = (seed.is_multiple_of(2), !seed.is_multiple_of(3));
        let (size, keys) = if is_small { (1 << 20, 300) } else { (6 << 20, 3000) };
        // The effect of damage does not depend on the durability, and this durability does not wait for a disk.
        let options = CreateOptions {
            durability: Some(Durability::Line),
            ..CreateOptions::new(size, Store::layout_name())
        };
        let store = Store::create(path, &options)?;
        let mut pairs = BTreeMap::new();
        for number in 0..keys {
            let (key, value) = pair(&mut rng, number, is_small);
            store.put(&key, &value)?;
            pairs.insert(key, value);
        }
        let all: Vec<Vec<u8>> = pairs.keys().cloned().collect();
        for key in all {
            // Gives the pool a past, with freed leaves and with nodes that have grown and shrunk.
            match rng.u8(..10) {
                0 => {
                    store.delete(&key)?;
                    pairs.remove(&key);
                }
                1 | 2 => {
                    let (_, value) = pair(&mut rng, 0, is_small);
                    store.put(&key, &value)?;
                    pairs.insert(key, value);
                }
                _ => {}
            }
        }
        let mut target = TargetPool::with_objects(&store, pairs, is_closed)?;
        if is_closed {
            store.close()?;
        } else {
            drop(store);
        }
        target.image = fs::read(path)?;
        target.tables = target.table_lines();
        Ok(target)
    }

    fn with_objects(store: &Store, pairs: BTreeMap<Vec<u8>, Vec<u8>>, is_closed: bool) -> Result<TargetPool> {
        let geometry = store.pool().header().geometry;
        let log = geometry.log_off().get()..geometry.log_off().get() + geometry.log_len();
        let (mut root, mut nodes, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
        for object in store.heap().objects() {
            let object = object?;
            let range = range(object.at, object.size);
            match object.type_number {
                TYPE_TREE => root.push(range),
                TYPE_LEAF => leaves.push(range),
                _ => nodes.push(range),
            }
        }
        let (image, tables) = (Vec::new(), Vec::new());
        Ok(TargetPool { pairs, image, is_closed, log, root, nodes, leaves, tables })
    }

    /// Returns the key in the leaf that lies at `leaf`.
    pub(crate) fn key_of(&self, leaf: &Range<u64>) -> Option<Vec<u8>> {
        let bytes = self.image.get(leaf.start as usize..leaf.end as usize)?;
        let words: &[[u8; 8]] = bytes.as_chunks().0;
        let word = |number: usize| words.get(number).map(|word| u64::from_le_bytes(*word));
        let header = LeafHeader::from_words([word(0)?, word(1)?]);
        bytes.get(LEAF_HEADER as usize..)?.get(..header.key_len as usize).map(<[u8]>::to_vec)
    }

    fn table_lines(&self) -> Vec<u64> {
        let objects = [&self.root, &self.nodes, &self.leaves].into_iter().flatten();
        let mut taken: Vec<&Range<u64>> = objects.collect();
        taken.sort_by_key(|range| range.start);
        let lines = self.image.chunks(LINE as usize).zip(0u64..);
        lines
            .filter(|(bytes, _)| bytes.iter().any(|byte| *byte != 0))
            .map(|(_, number)| number * LINE)
            .filter(|at| *at >= self.log.end)
            .filter(|at| {
                let next = taken.partition_point(|range| range.end <= *at);
                taken.get(next).is_none_or(|range| range.start >= at + LINE)
            })
            .collect()
    }
}

fn range(at: PoolOffset, size: u64) -> Range<u64> {
    at.get()..at.get() + size
}

/// Draws a key and a value of one of the forms that users store.
fn pair(rng: &mut Rng, number: u64, is_small: bool) -> Pair {
    let key = match rng.u8(..10) {
        0..4 => format!("user:{number:06}:{}", ["name", "mail", "balance"][rng.usize(..3)]).into_bytes(),
        4 | 5 => (number * rng.u64(1..1 << 40)).to_be_bytes().to_vec(),
        6 => (0..rng.usize(1..20)).map(|_| rng.u8(1..)).collect(),
        7 => format!("/srv/data/warehouse/2026/11/{}/{number}", rng.u8(..4)).into_bytes(),
        8 => format!("{}", number / 3).into_bytes(),
        _ if is_small => format!("k{number}").into_bytes(),
        _ => [&number.to_le_bytes()[..], &vec![b'k'; rng.usize(100..3000)]].concat(),
    };
    let mut bytes = |range: Range<usize>| -> Vec<u8> {
        let len = rng.usize(range);
        (0..len).map(|_| rng.u8(..)).collect()
    };
    let value = match number.wrapping_mul(7) % 20 {
        0..7 => format!("balance={}", 1_000_000 + number).into_bytes(),
        7..11 => bytes(0..9),
        11..17 => bytes(9..200),
        17 | 18 if is_small => bytes(9..300),
        17 | 18 => bytes(1000..5000),
        _ if is_small => bytes(1000..2000),
        _ if number.is_multiple_of(3) => bytes(20_000..40_000),
        _ => format!("{:>20}", number).into_bytes(),
    };
    (key, value)
}
