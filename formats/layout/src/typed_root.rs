//! The root object of a pool of typed data.
#![doc = include_str!("typed_root.md")]

use crate::chunk::{decode_root, encode_root};
use crate::format_table;
use crate::format_table::FormatTable;
use crate::offset::PoolOffset;
use std::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Type number of the root object of a pool of typed data.
pub const TYPE_TYPED_ROOT: u64 = u64::from_le_bytes(*b"LdTypedR");

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct TypedRootWords {
    root: u64,
    types: u64,
    from: u64,
    trees: u64,
}

pub(crate) const TABLE: FormatTable = format_table!("typed_root", TypedRootWords, [root, types, from, trees]);

/// The objects by which typed data, and the trees beside it, are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedRoot {
    /// Offset of the object of the root's type.
    pub root: PoolOffset,
    /// Offset of the type table.
    pub types: PoolOffset,
    /// Offset of the type table that the pool had before a migration that is not finished; null otherwise.
    pub from: PoolOffset,
    /// Offset of the root object of the table of trees; null before the first tree was made.
    pub trees: PoolOffset,
}

impl TypedRoot {
    /// Length in bytes.
    pub const LEN: u64 = size_of::<TypedRootWords>() as u64;

    /// Number of words.
    pub const WORDS: usize = 4;
    /// Offset of the word that leads to the table of trees.
    pub const TREES: u64 = offset_of!(TypedRootWords, trees) as u64;

    /// Returns the words as stored.
    pub fn encode(&self) -> [u64; TypedRoot::WORDS] {
        [self.root, self.types, self.from, self.trees].map(encode_root)
    }

    /// Decodes stored words. Returns `None` if they are damaged.
    pub fn decode([root, types, from, trees]: [u64; TypedRoot::WORDS]) -> Option<TypedRoot> {
        let (root, types, from) = (decode_root(root)?, decode_root(types)?, decode_root(from)?);
        let trees = decode_root(trees)?;
        (!root.is_null() && !types.is_null()).then_some(TypedRoot { root, types, from, trees })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn typed_roots_round_trip_and_reject_damage() {
        let [at, other, null] = [0x4_0040, 0x5_0010, 0].map(PoolOffset::new);
        for (from, trees) in [(null, null), (at, null), (null, at), (other, at)] {
            let typed = TypedRoot { root: at, types: other, from, trees };
            let words = typed.encode();
            assert_eq!(TypedRoot::decode(words), Some(typed));
            for (word, bit) in (0..TypedRoot::WORDS).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
                let mut damaged = words;
                damaged[word] ^= 1 << bit;
                assert_eq!(TypedRoot::decode(damaged), None, "word {word}, bit {bit}");
            }
        }
        for (root, types) in [(null, other), (at, null)] {
            let words = TypedRoot { root, types, from: null, trees: null }.encode();
            assert_eq!(TypedRoot::decode(words), None);
        }
    }
}
