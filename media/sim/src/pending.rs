//! Stores that may be lost, and the hash of the unit that they change.

use crate::machine::SECTOR;
use lode_layout::{LINE, WORD};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Words of a line.
const LINE_WORDS: usize = (LINE / WORD) as usize;
/// Words of a sector.
const SECTOR_WORDS: usize = (SECTOR / WORD) as usize;

/// The ways of a store to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritePath {
    /// A store through the cache.
    Cached,
    /// A store past the cache, by this thread.
    NonTemporal(u8),
    /// A part of a sector that is written whole; true only for its last word.
    Sector(bool),
}

/// A store that may be lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Number of the word in its unit.
    pub(crate) word: u8,
    /// Way of the store.
    pub(crate) path: WritePath,
    /// True if the store is durable, but an earlier store of the unit is not yet.
    pub(crate) is_durable: bool,
    /// Value of the word.
    pub(crate) value: u64,
}

/// Hashes the content of a unit. The hash of a pool is the sum over its units, so a change of few units needs the
/// hashes of only those. Two different pools have the same hash with probability 2^-128.
pub(crate) fn unit_hash(unit: u32, words: &[u64]) -> u128 {
    if let Ok(line) = <[u64; LINE_WORDS]>::try_from(words) {
        return hash(unit, line);
    }
    let mut sector = [0; SECTOR_WORDS];
    sector[..words.len()].copy_from_slice(words);
    hash(unit, sector)
}

fn hash<const N: usize>(unit: u32, words: [u64; N]) -> u128 {
    xxh3_128_with_seed(words.map(u64::to_le_bytes).as_flattened(), u64::from(unit))
}
