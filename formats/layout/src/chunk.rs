//! Chunks: the unit in which the heap hands out space, and their descriptors.
//!
//! Every extent of the heap begins with a table of one descriptor word for each chunk. The word of a span's first chunk
//! marks the span as in use. The words of its other chunks are zero, like the words of free chunks. So allocating or
//! freeing a span is one atomic store, and free neighbours need no merging.
//!
//! The table's own chunks come first in its extent and are never allocated. The very first word of the first extent
//! holds the root: the offset of the object from which all others are reached. It is never zero. A table that reads as
//! all zeros, as a lost block of a device may, is therefore not an empty heap.

use crate::PoolOffset;
use crate::word::{checked, unchecked};

const KIND_BITS: u32 = 2;
const ROOT_SHIFT: u32 = 4;
const SUPERBLOCK: u64 = 1;
const HUGE: u64 = 2;

/// The use of a span of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkDescriptor {
    /// The chunk is free, or in the middle of a span.
    Free,
    /// The span holds equal blocks after a superblock header.
    Superblock {
        /// Chunks in the span.
        chunks: u64,
    },
    /// The span holds one object after an object header.
    Huge {
        /// Chunks in the span.
        chunks: u64,
    },
}

impl ChunkDescriptor {
    /// Returns the word as stored.
    pub const fn encode(self) -> u64 {
        match self {
            ChunkDescriptor::Free => 0,
            ChunkDescriptor::Superblock { chunks } => checked(chunks << KIND_BITS | SUPERBLOCK),
            ChunkDescriptor::Huge { chunks } => checked(chunks << KIND_BITS | HUGE),
        }
    }

    /// Decodes `word`. Returns `None` if it is damaged.
    pub const fn decode(word: u64) -> Option<ChunkDescriptor> {
        if word == 0 {
            return Some(ChunkDescriptor::Free);
        }
        let Some(payload) = unchecked(word) else { return None };
        let chunks = payload >> KIND_BITS;
        if chunks == 0 {
            return None;
        }
        match payload & ((1 << KIND_BITS) - 1) {
            SUPERBLOCK => Some(ChunkDescriptor::Superblock { chunks }),
            HUGE => Some(ChunkDescriptor::Huge { chunks }),
            _ => None,
        }
    }

    /// Returns the number of chunks in the span that begins here; a free chunk counts as one.
    pub const fn chunks(self) -> u64 {
        match self {
            ChunkDescriptor::Free => 1,
            ChunkDescriptor::Superblock { chunks } | ChunkDescriptor::Huge { chunks } => chunks,
        }
    }
}

/// Returns the word that holds the offset of the root object. The offset is a multiple of 16.
pub const fn encode_root(at: PoolOffset) -> u64 {
    checked(at.get() >> ROOT_SHIFT)
}

/// Returns the offset of the root object: [`PoolOffset::NULL`] if there is no root yet, `None` if the word is damaged.
pub const fn decode_root(word: u64) -> Option<PoolOffset> {
    match unchecked(word) {
        Some(payload) => Some(PoolOffset::new(payload << ROOT_SHIFT)),
        None => None,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn descriptors_round_trip_and_reject_damage() {
        for chunks in [1, 2, 31, 32, 65_535, 1 << 40] {
            for descriptor in [ChunkDescriptor::Superblock { chunks }, ChunkDescriptor::Huge { chunks }] {
                let word = descriptor.encode();
                assert_eq!(ChunkDescriptor::decode(word), Some(descriptor));
                for bit in 0..64 {
                    assert_eq!(ChunkDescriptor::decode(word ^ 1 << bit), None);
                }
            }
        }
    }

    #[test]
    fn roots_round_trip_and_reject_damage() {
        assert_eq!(decode_root(0), None);
        assert_eq!(decode_root(encode_root(PoolOffset::NULL)), Some(PoolOffset::NULL));
        for at in [16, 0x8040, 1 << 50].map(PoolOffset::new) {
            assert_eq!(decode_root(encode_root(at)), Some(at));
            for bit in 0..64 {
                assert_eq!(decode_root(encode_root(at) ^ 1 << bit), None);
            }
        }
    }

    #[test]
    fn one_flipped_bit_never_makes_free_used() {
        assert_eq!(ChunkDescriptor::decode(0), Some(ChunkDescriptor::Free));
        for bit in 0..64 {
            assert_eq!(ChunkDescriptor::decode(1 << bit), None);
        }
    }
}
