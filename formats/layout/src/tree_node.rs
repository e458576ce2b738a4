//! Inner nodes of the radix tree, and its root object.
//!
//! Four kinds of nodes, by the maximum number of their children:
#![doc = include_str!("node4.md")]
#![doc = include_str!("node16.md")]
#![doc = include_str!("node48.md")]
#![doc = include_str!("node256.md")]
#![doc = include_str!("tree.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::tree_slot::NodeKind;
use crate::word::checked;
use crate::{LINE, WORD};

/// Offset of the meta word, in bytes from the start of a node or of the root object.
pub const NODE_META: u64 = 0;
/// Offset of the slot for the key that ends at a node. In the root object, the slot leads to the top of the tree.
pub const NODE_END: u64 = 8;
/// Offset of the key bytes in a node of 16 or 48, or of the slots in a node of 4 or 256.
pub const NODE_BODY: u64 = 16;

/// The meta word of a replaced node. A thread that still sees the node must look up its replacement.
pub const META_DEAD: u64 = 0;

/// Number of cells that count keys. With several cells, threads do not contend for one counter.
pub const TREE_CELLS: u64 = 16;
/// Offset of the cells in the root object. Each cell has its own cache line.
pub const TREE_CELLS_OFF: u64 = LINE;

/// Type number of a tree's root object.
pub const TYPE_TREE: u64 = u64::from_le_bytes(*b"LdTree\0\0");
/// Type number of a leaf.
pub const TYPE_LEAF: u64 = u64::from_le_bytes(*b"LdTrLeaf");

const META_TREE: u64 = 0xFF;

#[repr(C)]
struct Node4 {
    meta: u64,
    end: u64,
    slots: [u64; 4],
}

#[repr(C)]
struct Node16 {
    meta: u64,
    end: u64,
    key_bytes: [u8; 16],
    slots: [u64; 16],
}

#[repr(C)]
struct Node48 {
    meta: u64,
    end: u64,
    key_bytes: [u8; 48],
    slots: [u64; 48],
}

#[repr(C)]
struct Node256 {
    meta: u64,
    end: u64,
    slots: [u64; 256],
}

#[repr(C)]
struct TreeRoot {
    meta: u64,
    slot: u64,
    load_crc: u32,
    load_mode: u32,
    load_offset: u64,
    load_lines: u64,
    load_hash: [u64; 2],
    load_begun: u64,
    cells: [[u64; 8]; TREE_CELLS as usize],
}

pub(crate) const TABLE_4: FormatTable = format_table!("node4", Node4, [meta, end, slots]);
pub(crate) const TABLE_16: FormatTable = format_table!("node16", Node16, [meta, end, key_bytes, slots]);
pub(crate) const TABLE_48: FormatTable = format_table!("node48", Node48, [meta, end, key_bytes, slots]);
pub(crate) const TABLE_256: FormatTable = format_table!("node256", Node256, [meta, end, slots]);
pub(crate) const TABLE_TREE: FormatTable = format_table!(
    "tree",
    TreeRoot,
    [meta, slot, load_crc, load_mode, load_offset, load_lines, load_hash, load_begun, cells]
);

const _: () = assert!(core::mem::offset_of!(TreeRoot, cells) as u64 == TREE_CELLS_OFF);
const _: () = assert!(core::mem::offset_of!(TreeRoot, slot) as u64 == NODE_END);
const _: () = assert!(core::mem::offset_of!(Node48, slots) as u64 == LINE);

/// Bytes of a tree's root object.
pub const TREE_SIZE: u64 = size_of::<TreeRoot>() as u64;

/// Returns the meta word of a tree's root object.
pub const fn tree_meta() -> u64 {
    checked(META_TREE)
}

impl NodeKind {
    /// Every kind, ascending.
    pub const ALL: [NodeKind; 4] = [NodeKind::N4, NodeKind::N16, NodeKind::N48, NodeKind::N256];

    /// Returns the maximum number of children of a node of this kind.
    #[inline]
    pub const fn capacity(self) -> usize {
        match self {
            NodeKind::N4 => 4,
            NodeKind::N16 => 16,
            NodeKind::N48 => 48,
            NodeKind::N256 => 256,
        }
    }

    /// Returns the number of words of key bytes: one byte for each slot.
    #[inline]
    pub const fn key_byte_words(self) -> u64 {
        match self {
            NodeKind::N4 | NodeKind::N256 => 0,
            NodeKind::N16 => 2,
            NodeKind::N48 => 6,
        }
    }

    /// Returns the offset of the slots, in bytes from the start of the node.
    #[inline]
    pub const fn slots_off(self) -> u64 {
        NODE_BODY + self.key_byte_words() * WORD
    }

    /// Returns the size of a node in bytes.
    #[inline]
    pub const fn size(self) -> u64 {
        self.slots_off() + self.capacity() as u64 * WORD
    }

    /// Returns the type number of the nodes of this kind.
    pub const fn type_number(self) -> u64 {
        u64::from_le_bytes(match self {
            NodeKind::N4 => *b"LdTrN4\0\0",
            NodeKind::N16 => *b"LdTrN16\0",
            NodeKind::N48 => *b"LdTrN48\0",
            NodeKind::N256 => *b"LdTrN256",
        })
    }

    /// Returns the meta word of a node that branches by key byte number `depth`. Kind and depth never change while it
    /// lives.
    #[inline]
    pub const fn meta(self, depth: usize) -> u64 {
        checked((depth as u64) << 8 | self.capacity() as u64 >> 2)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn node_sizes_match_their_tables() {
        for (kind, size) in [
            (NodeKind::N4, size_of::<Node4>()),
            (NodeKind::N16, size_of::<Node16>()),
            (NodeKind::N48, size_of::<Node48>()),
            (NodeKind::N256, size_of::<Node256>()),
        ] {
            assert_eq!(kind.size(), size as u64);
        }
    }

    #[test]
    fn flipped_bit_makes_no_other_meta_word() {
        let all: Vec<u64> = NodeKind::ALL
            .iter()
            .flat_map(|kind| [0, 1, 1023, 65_536].map(|depth| kind.meta(depth)))
            .chain([tree_meta(), META_DEAD])
            .collect();
        for (index, word) in all.iter().enumerate() {
            for (other_index, other) in all.iter().enumerate() {
                assert!(index == other_index || (word ^ other).count_ones() > 1);
            }
        }
    }
}
