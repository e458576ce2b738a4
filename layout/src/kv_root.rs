//! The root object of the layout `kv`: where the tree is, and how far a load has come.
#![doc = include_str!("kv_root.md")]

use crate::drawing::{Drawing, drawing};
use crate::{LINE, PoolOffset};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Words of the root object.
pub const KV_ROOT_WORDS: usize = 16;
/// Where its line about loads begins, in bytes from its start.
pub const KV_LOAD_OFF: u64 = LINE;
/// Words of that line.
pub const KV_LOAD_WORDS: usize = 8;
/// Type number of the root object.
pub const TYPE_KV: u64 = u64::from_le_bytes(*b"LdKvRoot");

const MAGIC: u32 = u32::from_le_bytes(*b"LdKv");

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct KvRootBytes {
    magic: u32,
    crc: u32,
    tree: u64,
    reserved: [u64; 6],
    load_crc: u32,
    load_how: u32,
    load_offset: u64,
    load_lines: u64,
    load_hash: [u64; 2],
    load_reserved: [u64; 3],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct LoadBytes {
    crc: u32,
    how: u32,
    offset: u64,
    lines: u64,
    hash: [u64; 2],
    reserved: [u64; 3],
}

pub(crate) const DRAWING: Drawing = drawing!(
    "kv_root",
    KvRootBytes,
    [magic, crc, tree, reserved, load_crc, load_how, load_offset, load_lines, load_hash, load_reserved]
);

/// How much of an input is in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLoad {
    /// How the input is read; never 0. Another reading of the same bytes is another load.
    pub how: u32,
    /// Bytes of the input; every line before them is in the tree.
    pub offset: u64,
    /// The lines before the offset.
    pub lines: u64,
    /// XXH3, 128 bits, of the input before the offset.
    pub hash: [u64; 2],
}

/// A root object, or its line about loads, that nobody wrote like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvDamage;

/// A new root object: the tree's own is at `tree`, and nothing was loaded.
pub fn encode_kv_root(tree: PoolOffset) -> [u64; KV_ROOT_WORDS] {
    let mut words = [0; KV_ROOT_WORDS];
    words[1] = tree.get();
    words[0] = u64::from(root_crc(&words)) << 32 | u64::from(MAGIC);
    words
}

/// Where the tree is, by the first line of the root object.
///
/// # Errors
/// The line is damaged, or was never written.
pub fn decode_kv_root(words: &[u64; KV_ROOT_WORDS]) -> Result<PoolOffset, KvDamage> {
    let bytes: KvRootBytes = transmute!(*words);
    let intact = bytes.magic == MAGIC && bytes.crc == root_crc(words);
    if intact { Ok(PoolOffset::new(bytes.tree)) } else { Err(KvDamage) }
}

impl KvLoad {
    /// The line that says that nothing was loaded, or that something else has changed the tree since.
    pub const NONE: [u64; KV_LOAD_WORDS] = [0; KV_LOAD_WORDS];

    /// The line as stored.
    pub fn encode(&self) -> [u64; KV_LOAD_WORDS] {
        let KvLoad { how, offset, lines, hash } = *self;
        let mut bytes = LoadBytes { crc: 0, how, offset, lines, hash, reserved: [0; 3] };
        bytes.crc = load_crc(&bytes);
        transmute!(bytes)
    }

    /// What a stored line says, if anything was loaded.
    ///
    /// # Errors
    /// The line is damaged.
    pub fn decode(words: &[u64; KV_LOAD_WORDS]) -> Result<Option<KvLoad>, KvDamage> {
        if *words == KvLoad::NONE {
            return Ok(None);
        }
        let bytes: LoadBytes = transmute!(*words);
        let LoadBytes { how, offset, lines, hash, .. } = bytes;
        let intact = bytes.crc == load_crc(&bytes) && how != 0;
        if intact { Ok(Some(KvLoad { how, offset, lines, hash })) } else { Err(KvDamage) }
    }
}

fn root_crc(words: &[u64; KV_ROOT_WORDS]) -> u32 {
    crc32c::crc32c(&words.as_bytes()[offset_of!(KvRootBytes, tree)..LINE as usize])
}

fn load_crc(bytes: &LoadBytes) -> u32 {
    crc32c::crc32c(&bytes.as_bytes()[offset_of!(LoadBytes, how)..])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn roots_come_back_and_every_flipped_bit_is_found() {
        let words = encode_kv_root(PoolOffset::new(0x12340));
        assert_eq!(decode_kv_root(&words), Ok(PoolOffset::new(0x12340)));
        for bit in 0..512 {
            let mut damaged = words;
            damaged[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(decode_kv_root(&damaged), Err(KvDamage), "bit {bit}");
        }
        assert_eq!(decode_kv_root(&[0; KV_ROOT_WORDS]), Err(KvDamage), "never written");
    }

    #[test]
    fn loads_come_back_and_every_flipped_bit_is_found() {
        let load = KvLoad { how: 1, offset: 985_084, lines: 104_334, hash: [3, 4] };
        let words = load.encode();
        assert_eq!(KvLoad::decode(&words), Ok(Some(load)));
        assert_eq!(KvLoad::decode(&KvLoad::NONE), Ok(None));
        for line in [words, KvLoad::NONE] {
            for bit in 0..512 {
                let mut damaged = line;
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(KvLoad::decode(&damaged), Err(KvDamage), "bit {bit}");
            }
        }
    }
}
