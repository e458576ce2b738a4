//! Leaves of the radix tree: a key and its value.
#![doc = include_str!("leaf.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{WORD, align_up};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// The longest key, in bytes.
pub const KEY_LEN_MAX: usize = 64 * 1024;
/// Bytes of a leaf's header. The key follows, and then the value, at a multiple of 8.
pub const LEAF_HEADER: u64 = size_of::<LeafHeader>() as u64;

/// A leaf's header as it lies on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct LeafHeader {
    /// CRC32C of all following bytes, including padding.
    pub crc: u32,
    /// Length of the key in bytes.
    pub key_len: u32,
    /// Length of the value in bytes.
    pub value_len: u64,
}

pub(crate) const TABLE: FormatTable = format_table!("leaf", LeafHeader, [crc, key_len, value_len]);

impl LeafHeader {
    /// Returns the header stored as `words`, without checks.
    #[inline]
    pub const fn from_words(words: [u64; 2]) -> LeafHeader {
        LeafHeader { crc: words[0] as u32, key_len: (words[0] >> 32) as u32, value_len: words[1] }
    }

    /// Returns the offset of the value, in bytes from the start of the leaf.
    #[inline]
    pub const fn value_off(&self) -> u64 {
        LEAF_HEADER + align_up(self.key_len as u64, WORD)
    }

    /// Returns the size of the whole leaf in bytes, padded to words. Returns `None` if it exceeds `i64::MAX`.
    #[inline]
    pub const fn leaf_len(&self) -> Option<u64> {
        match self.value_off().checked_add(self.value_len) {
            Some(len) if len <= i64::MAX as u64 => Some(align_up(len, WORD)),
            _ => None,
        }
    }
}

/// Returns the number of words of a leaf with a key and a value of these lengths in bytes.
#[inline]
pub const fn leaf_words(key_len: usize, value_len: usize) -> usize {
    LEAF_HEADER as usize / WORD as usize + key_len.div_ceil(WORD as usize) + value_len.div_ceil(WORD as usize)
}

/// Writes the leaf of `key` and `value` to `words`, which has [`leaf_words`] words, all zero.
///
/// # Panics
/// Panics if `words` is too short, or the key too long.
#[inline]
pub fn encode_leaf(key: &[u8], value: &[u8], words: &mut [u64]) {
    let key_len = u32::try_from(key.len()).expect("keys are no longer than 64 KiB");
    let mut header = LeafHeader { crc: 0, key_len, value_len: value.len() as u64 };
    let value_at = header.value_off() as usize;
    let bytes = words.as_mut_bytes();
    bytes[..LEAF_HEADER as usize].copy_from_slice(header.as_bytes());
    bytes[LEAF_HEADER as usize..][..key.len()].copy_from_slice(key);
    bytes[value_at..][..value.len()].copy_from_slice(value);
    header.crc = leaf_crc(words);
    let [first, _]: [u64; 2] = transmute!(header);
    words[0] = first;
}

/// Returns the checksum that the leaf stored as `words` should have.
#[inline]
pub fn leaf_crc(words: &[u64]) -> u32 {
    crc32c::crc32c(&words.as_bytes()[core::mem::offset_of!(LeafHeader, key_len)..])
}

/// Continues the checksum `crc` of the start of a leaf, by [`leaf_crc`], over the `words` that follow.
#[inline]
pub fn leaf_crc_append(crc: u32, words: &[u64]) -> u32 {
    crc32c::crc32c_append(crc, words.as_bytes())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "thousands of checksums: minutes to hours")]
    fn leaves_round_trip_and_detect_bit_flips() {
        for (key, value) in
            [(&b""[..], &b""[..]), (b"k", b""), (b"12345678", b"abcdefgh"), (b"123", b"12345678901")]
        {
            let mut words = vec![0; leaf_words(key.len(), value.len())];
            encode_leaf(key, value, &mut words);
            let header = LeafHeader::from_words([words[0], words[1]]);
            assert_eq!((header.key_len as usize, header.value_len as usize), (key.len(), value.len()));
            assert_eq!(header.leaf_len(), Some(words.len() as u64 * 8));
            assert_eq!(&words.as_bytes()[16..][..key.len()], key);
            assert_eq!(&words.as_bytes()[header.value_off() as usize..][..value.len()], value);
            assert_eq!(header.crc, leaf_crc(&words));
            assert_eq!(header.crc, leaf_crc_append(leaf_crc(&words[..2]), &words[2..]));
            for bit in 0..words.len() * 64 {
                let mut damaged = words.clone();
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_ne!(damaged[0] as u32, leaf_crc(&damaged), "bit {bit}");
            }
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let header = LeafHeader { crc: 0, key_len: 5, value_len: u64::MAX - 7 };
        assert_eq!(header.leaf_len(), None);
    }
}
