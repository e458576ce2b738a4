//! Entries of the table of trees: the names of the trees of a pool, and the dropped trees that still have keys.
#![doc = include_str!("tree_entry.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::offset::{LINE, PoolOffset};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Longest name of a tree in bytes.
pub const TREE_NAME_LEN_MAX: usize = 255;
/// Longest name of a type of keys or values in bytes.
pub const TYPE_NAME_LEN_MAX: usize = 1024;

/// First byte of the keys of named trees.
const NAMED: u8 = 1;
/// First byte of the keys of dropped trees.
const DROPPED: u8 = 2;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct EntryHeader {
    root: u64,
    key_type_len: u16,
    value_type_len: u16,
    reserved: u32,
}

pub(crate) const TABLE: FormatTable =
    format_table!("tree_entry", EntryHeader, [root, key_type_len, value_type_len, reserved]);

/// A named tree: its root object, and the types of its keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// Offset of the root object.
    pub root: PoolOffset,
    /// Name of the type of the keys.
    pub key_type: &'a str,
    /// Name of the type of the values.
    pub value_type: &'a str,
}

/// The bytes are damaged, or of a newer version: no writer of this version stores such bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEntryDamage;

impl<'a> TreeEntry<'a> {
    /// Returns the bytes as stored.
    ///
    /// # Panics
    /// Panics if the name of a type has more than [`TYPE_NAME_LEN_MAX`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let len = |name: &str| {
            assert!(name.len() <= TYPE_NAME_LEN_MAX, "the name of a type has {} bytes", name.len());
            name.len() as u16
        };
        let header = EntryHeader {
            root: self.root.get(),
            key_type_len: len(self.key_type),
            value_type_len: len(self.value_type),
            reserved: 0,
        };
        [header.as_bytes(), self.key_type.as_bytes(), self.value_type.as_bytes()].concat()
    }

    /// Decodes stored bytes.
    ///
    /// # Errors
    /// Fails if the bytes are damaged.
    pub fn decode(bytes: &'a [u8]) -> Result<TreeEntry<'a>, TreeEntryDamage> {
        let (header, names) = EntryHeader::read_from_prefix(bytes).map_err(|_| TreeEntryDamage)?;
        let [key_len, value_len] = [header.key_type_len, header.value_type_len].map(usize::from);
        let is_valid = is_root(header.root)
            && header.reserved == 0
            && key_len.max(value_len) <= TYPE_NAME_LEN_MAX
            && names.len() == key_len + value_len;
        if !is_valid {
            return Err(TreeEntryDamage);
        }
        let (key_type, value_type) = names.split_at(key_len);
        let text = |name: &'a [u8]| std::str::from_utf8(name).map_err(|_| TreeEntryDamage);
        Ok(TreeEntry {
            root: PoolOffset::new(header.root),
            key_type: text(key_type)?,
            value_type: text(value_type)?,
        })
    }
}

/// A key of the table of trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeTableKey<'a> {
    /// The key of a named tree.
    Named(&'a str),
    /// The key of a dropped tree, by its root object.
    Dropped(PoolOffset),
}

impl<'a> TreeTableKey<'a> {
    /// The first byte of the keys of all named trees.
    pub const NAMED_PREFIX: [u8; 1] = [NAMED];
    /// The first byte of the keys of all dropped trees.
    pub const DROPPED_PREFIX: [u8; 1] = [DROPPED];

    /// Returns the bytes of the key. The name of a tree has 1 to [`TREE_NAME_LEN_MAX`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            TreeTableKey::Named(name) => [&[NAMED], name.as_bytes()].concat(),
            TreeTableKey::Dropped(root) => [&[DROPPED][..], &root.get().to_be_bytes()].concat(),
        }
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// Fails if the bytes are damaged.
    pub fn decode(bytes: &'a [u8]) -> Result<TreeTableKey<'a>, TreeEntryDamage> {
        let (kind, rest) = bytes.split_first().ok_or(TreeEntryDamage)?;
        match *kind {
            NAMED if (1..=TREE_NAME_LEN_MAX).contains(&rest.len()) => {
                std::str::from_utf8(rest).map(TreeTableKey::Named).map_err(|_| TreeEntryDamage)
            }
            DROPPED => {
                let root = u64::from_be_bytes(rest.try_into().map_err(|_| TreeEntryDamage)?);
                is_root(root).then(|| TreeTableKey::Dropped(PoolOffset::new(root))).ok_or(TreeEntryDamage)
            }
            _ => Err(TreeEntryDamage),
        }
    }
}

fn is_root(root: u64) -> bool {
    root != 0 && root.is_multiple_of(LINE)
}

#[cfg(test)]
mod test {
    use super::*;

    const ROOT: PoolOffset = PoolOffset::new(0x4_0040);

    #[test]
    fn entries_round_trip() {
        for (key_type, value_type) in [("", ""), ("u64", "str"), ("(str, i8)", "ü")] {
            let entry = TreeEntry { root: ROOT, key_type, value_type };
            assert_eq!(TreeEntry::decode(&entry.encode()), Ok(entry));
        }
        let long = "x".repeat(TYPE_NAME_LEN_MAX);
        let entry = TreeEntry { root: ROOT, key_type: &long, value_type: &long };
        assert_eq!(TreeEntry::decode(&entry.encode()), Ok(entry));
    }

    #[test]
    fn damaged_entries_are_refused() {
        let bytes = TreeEntry { root: ROOT, key_type: "u64", value_type: "str" }.encode();
        for len in 0..bytes.len() {
            assert_eq!(TreeEntry::decode(&bytes[..len]), Err(TreeEntryDamage), "{len} bytes");
        }
        let with = |at: usize, byte: u8| {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            TreeEntry::decode(&damaged).map(|_| ())
        };
        assert_eq!(TreeEntry::decode(&[&bytes[..], &[0]].concat()), Err(TreeEntryDamage), "longer");
        // The root, the lengths, the reserved bytes, and the text.
        for (at, byte) in
            [(0, 0x41), (8, 4), (8, 2), (9, 5), (10, 4), (12, 1), (15, 1), (16, 0xFF), (19, 0xC3)]
        {
            assert_eq!(with(at, byte), Err(TreeEntryDamage), "byte {at}");
        }
        let null = TreeEntry { root: PoolOffset::NULL, key_type: "", value_type: "" };
        assert_eq!(TreeEntry::decode(&null.encode()), Err(TreeEntryDamage));
    }

    #[test]
    fn table_keys_round_trip() {
        let longest = "n".repeat(TREE_NAME_LEN_MAX);
        for key in [TreeTableKey::Named("a"), TreeTableKey::Named(&longest), TreeTableKey::Dropped(ROOT)] {
            assert_eq!(TreeTableKey::decode(&key.encode()), Ok(key));
        }
        let damaged: [&[u8]; 8] = [
            b"",
            b"\x01",
            b"\x01\xFF",
            b"\x00a",
            b"\x03a",
            b"\x02",
            b"\x02\0\0\0\0\0\0\0\0",
            b"\x02\0\0\0\0\0\0\0\x40\0",
        ];
        for key in damaged {
            assert_eq!(TreeTableKey::decode(key), Err(TreeEntryDamage), "{key:?}");
        }
        let too_long = TreeTableKey::Named(&"n".repeat(TREE_NAME_LEN_MAX + 1)).encode();
        assert_eq!(TreeTableKey::decode(&too_long), Err(TreeEntryDamage));
    }
}
