//! The progress of loading a text into a tree: a part of the tree's root object; the table is in `tree.md`.

use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Offset of the progress, in bytes from the start of the tree's root object.
pub const KV_LOAD_OFF: u64 = 0x10;
/// Number of its words.
pub const KV_LOAD_WORDS: usize = 6;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct LoadBytes {
    crc: u32,
    mode: u32,
    offset: u64,
    lines: u64,
    hash: [u64; 2],
    begun: u64,
}

/// The part of an input that is in a tree. It is valid as long as no other writer changes the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLoad {
    /// Reading mode of the input; never 0. The same bytes read in another mode are another load.
    pub mode: u32,
    /// Offset in the input, in bytes. Every line before it is in the tree.
    pub offset: u64,
    /// Number of lines before the offset.
    pub lines: u64,
    /// XXH3, 128 bits, of the input before the offset. If the offset is 0, of the first line.
    pub hash: [u64; 2],
    /// Offset in the input, in bytes, not before `offset`. No line that ends after it has changed the tree. Lines
    /// between `offset` and here may have changed it, some of them or all.
    pub begun: u64,
}

/// The words are damaged: no writer stores such words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLoadDamage;

impl KvLoad {
    /// The words for no load, or for a tree that another writer has changed since its load.
    pub const NONE: [u64; KV_LOAD_WORDS] = [0; KV_LOAD_WORDS];

    /// Returns the words as stored.
    pub fn encode(&self) -> [u64; KV_LOAD_WORDS] {
        let KvLoad { mode, offset, lines, hash, begun } = *self;
        let mut bytes = LoadBytes { crc: 0, mode, offset, lines, hash, begun };
        bytes.crc = crc(&bytes);
        transmute!(bytes)
    }

    /// Decodes stored words. Returns `None` if no text was loaded.
    ///
    /// # Errors
    /// Fails if the words are damaged.
    pub fn decode(words: &[u64; KV_LOAD_WORDS]) -> Result<Option<KvLoad>, KvLoadDamage> {
        if *words == KvLoad::NONE {
            return Ok(None);
        }
        let bytes: LoadBytes = transmute!(*words);
        let LoadBytes { mode, offset, lines, hash, begun, .. } = bytes;
        let intact = bytes.crc == crc(&bytes) && mode != 0 && begun >= offset;
        if intact { Ok(Some(KvLoad { mode, offset, lines, hash, begun })) } else { Err(KvLoadDamage) }
    }
}

fn crc(bytes: &LoadBytes) -> u32 {
    crc32c::crc32c(&bytes.as_bytes()[offset_of!(LoadBytes, mode)..])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn loads_round_trip_and_detect_bit_flips() {
        let load = KvLoad { mode: 1, offset: 985_084, lines: 104_334, hash: [3, 4], begun: 985_099 };
        let words = load.encode();
        assert_eq!(KvLoad::decode(&words), Ok(Some(load)));
        assert_eq!(KvLoad::decode(&KvLoad::NONE), Ok(None));
        for stored in [words, KvLoad::NONE] {
            for bit in 0..64 * KV_LOAD_WORDS {
                let mut damaged = stored;
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(KvLoad::decode(&damaged), Err(KvLoadDamage), "bit {bit}");
            }
        }
    }
}
