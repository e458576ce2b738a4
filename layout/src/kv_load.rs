//! How much of a text a tree holds: a part of the tree's root object, drawn in `tree.md`.

use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Where it begins, in bytes from the start of the tree's root object.
pub const KV_LOAD_OFF: u64 = 0x10;
/// Its words.
pub const KV_LOAD_WORDS: usize = 6;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct LoadBytes {
    crc: u32,
    how: u32,
    offset: u64,
    lines: u64,
    hash: [u64; 2],
    begun: u64,
}

/// How much of an input is in a tree, as long as nothing else changes the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLoad {
    /// How the input is read; never 0. Another reading of the same bytes is another load.
    pub how: u32,
    /// Bytes of the input; every line before them is in the tree.
    pub offset: u64,
    /// The lines before the offset.
    pub lines: u64,
    /// XXH3, 128 bits, of the input before the offset; of its first line if that is 0.
    pub hash: [u64; 2],
    /// Bytes of the input; no line that ends after them has changed the tree. Those between the offset and here may
    /// have, some of them or all. At least the offset.
    pub begun: u64,
}

/// Words that no writer has written like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvDamage;

impl KvLoad {
    /// The words that say that nothing was loaded, or that something else has changed the tree since.
    pub const NONE: [u64; KV_LOAD_WORDS] = [0; KV_LOAD_WORDS];

    /// The words as stored.
    pub fn encode(&self) -> [u64; KV_LOAD_WORDS] {
        let KvLoad { how, offset, lines, hash, begun } = *self;
        let mut bytes = LoadBytes { crc: 0, how, offset, lines, hash, begun };
        bytes.crc = crc(&bytes);
        transmute!(bytes)
    }

    /// What stored words say, if anything was loaded.
    ///
    /// # Errors
    /// They are damaged.
    pub fn decode(words: &[u64; KV_LOAD_WORDS]) -> Result<Option<KvLoad>, KvDamage> {
        if *words == KvLoad::NONE {
            return Ok(None);
        }
        let bytes: LoadBytes = transmute!(*words);
        let LoadBytes { how, offset, lines, hash, begun, .. } = bytes;
        let intact = bytes.crc == crc(&bytes) && how != 0 && begun >= offset;
        if intact { Ok(Some(KvLoad { how, offset, lines, hash, begun })) } else { Err(KvDamage) }
    }
}

fn crc(bytes: &LoadBytes) -> u32 {
    crc32c::crc32c(&bytes.as_bytes()[offset_of!(LoadBytes, how)..])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn loads_come_back_and_every_flipped_bit_is_found() {
        let load = KvLoad { how: 1, offset: 985_084, lines: 104_334, hash: [3, 4], begun: 985_099 };
        let words = load.encode();
        assert_eq!(KvLoad::decode(&words), Ok(Some(load)));
        assert_eq!(KvLoad::decode(&KvLoad::NONE), Ok(None));
        for stored in [words, KvLoad::NONE] {
            for bit in 0..64 * KV_LOAD_WORDS {
                let mut damaged = stored;
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(KvLoad::decode(&damaged), Err(KvDamage), "bit {bit}");
            }
        }
    }
}
