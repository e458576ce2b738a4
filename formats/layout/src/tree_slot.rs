//! Slot words of the radix tree: one atomic word holds all that a step down the tree needs.
//!
//! ```text
//!   63                            21 20        11 10    8 7        0
//!   +-------------------------------+------------+-------+----------+
//!   | offset / 16                   | prefix len | kind  | key byte |
//!   +-------------------------------+------------+-------+----------+
//! ```
//!
//! A zero word is an empty slot. The prefix length is the number of key bytes between the slot and the byte by which
//! the node below branches. Path compression leaves these bytes out; only the leaves store them.

use crate::PoolOffset;

/// The most key bytes that one slot can skip.
pub const PREFIX_LEN_MAX: usize = (1 << PREFIX_BITS) - 1;
/// Upper limit of offsets in slots: 128 TiB.
pub const SLOT_REACH: u64 = 1 << 47;

const KIND_SHIFT: u32 = 8;
const KIND_BITS: u32 = 3;
const PREFIX_SHIFT: u32 = KIND_SHIFT + KIND_BITS;
const PREFIX_BITS: u32 = 10;
const OFFSET_SHIFT: u32 = PREFIX_SHIFT + PREFIX_BITS;
/// Bits below an offset's unit: objects lie at multiples of 16 bytes.
const OFFSET_UNIT_BITS: u32 = 4;

/// The capacity of an inner node in children, not counting the key that ends in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// Up to 4 children.
    N4,
    /// Up to 16 children.
    N16,
    /// Up to 48 children.
    N48,
    /// A slot for every byte.
    N256,
}

/// The kind of object to which a slot leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// No object.
    Empty,
    /// A leaf.
    Leaf,
    /// An inner node.
    Node(NodeKind),
    /// A kind that no version stores.
    Unknown,
}

/// A slot word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TreeSlot(u64);

impl TreeSlot {
    /// The empty slot.
    pub const EMPTY: TreeSlot = TreeSlot(0);

    /// Returns the slot stored as `word`.
    #[inline]
    pub const fn from_word(word: u64) -> TreeSlot {
        TreeSlot(word)
    }

    /// Returns a slot for the key byte `byte` that leads to the leaf at `at`.
    #[inline]
    pub const fn leaf(byte: u8, at: PoolOffset) -> TreeSlot {
        TreeSlot(at.get() >> OFFSET_UNIT_BITS << OFFSET_SHIFT | 1 << KIND_SHIFT | byte as u64)
    }

    /// Returns a slot for the key byte `byte` that leads to the node at `at` and skips `prefix_len` key bytes, at most
    /// [`PREFIX_LEN_MAX`].
    #[inline]
    pub const fn node(byte: u8, kind: NodeKind, prefix_len: usize, at: PoolOffset) -> TreeSlot {
        debug_assert!(prefix_len <= PREFIX_LEN_MAX);
        let kind = match kind {
            NodeKind::N4 => 2,
            NodeKind::N16 => 3,
            NodeKind::N48 => 4,
            NodeKind::N256 => 5,
        };
        let low = (prefix_len as u64) << PREFIX_SHIFT | kind << KIND_SHIFT | byte as u64;
        TreeSlot(at.get() >> OFFSET_UNIT_BITS << OFFSET_SHIFT | low)
    }

    /// Returns the word as stored.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns true if the slot is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the key byte of the slot; 0 where a key ends, and in the root.
    #[inline]
    pub const fn byte(self) -> u8 {
        self.0 as u8
    }

    /// Returns the kind of object to which the slot leads.
    #[inline]
    pub const fn kind(self) -> SlotKind {
        match self.0 >> KIND_SHIFT & ((1 << KIND_BITS) - 1) {
            1 => SlotKind::Leaf,
            2 => SlotKind::Node(NodeKind::N4),
            3 => SlotKind::Node(NodeKind::N16),
            4 => SlotKind::Node(NodeKind::N48),
            5 => SlotKind::Node(NodeKind::N256),
            _ if self.0 == 0 => SlotKind::Empty,
            _ => SlotKind::Unknown,
        }
    }

    /// Returns the number of key bytes that the slot skips.
    #[inline]
    pub const fn prefix_len(self) -> usize {
        (self.0 >> PREFIX_SHIFT) as usize & PREFIX_LEN_MAX
    }

    /// Returns the offset of the object to which the slot leads.
    #[inline]
    pub const fn at(self) -> PoolOffset {
        PoolOffset::new(self.0 >> OFFSET_SHIFT << OFFSET_UNIT_BITS)
    }

    /// Returns the same slot for another key byte.
    #[inline]
    pub const fn with_byte(self, byte: u8) -> TreeSlot {
        TreeSlot(self.0 & !0xFF | byte as u64)
    }

    /// Returns the same slot with another prefix length, at most [`PREFIX_LEN_MAX`].
    #[inline]
    pub const fn with_prefix_len(self, prefix_len: usize) -> TreeSlot {
        debug_assert!(prefix_len <= PREFIX_LEN_MAX);
        TreeSlot(self.0 & !((PREFIX_LEN_MAX as u64) << PREFIX_SHIFT) | (prefix_len as u64) << PREFIX_SHIFT)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn slots_round_trip() {
        let kinds = [NodeKind::N4, NodeKind::N16, NodeKind::N48, NodeKind::N256];
        for at in [16, 0x8040, SLOT_REACH - 16].map(PoolOffset::new) {
            for byte in [0, 1, 127, 128, 255] {
                let leaf = TreeSlot::leaf(byte, at);
                assert_eq!(
                    (leaf.byte(), leaf.kind(), leaf.prefix_len(), leaf.at()),
                    (byte, SlotKind::Leaf, 0, at)
                );
                for kind in kinds {
                    for prefix_len in [0, 1, PREFIX_LEN_MAX - 1, PREFIX_LEN_MAX] {
                        let node = TreeSlot::node(byte, kind, prefix_len, at);
                        assert_eq!((node.byte(), node.prefix_len(), node.at()), (byte, prefix_len, at));
                        assert_eq!(node.kind(), SlotKind::Node(kind));
                        let moved = node.with_byte(7).with_prefix_len(9);
                        assert_eq!(moved, TreeSlot::node(7, kind, 9, at));
                        assert!(!node.is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn other_words_are_unknown() {
        assert_eq!(TreeSlot::EMPTY.kind(), SlotKind::Empty);
        for kind in [0u64, 6, 7] {
            assert_eq!(TreeSlot::from_word(kind << KIND_SHIFT | 1).kind(), SlotKind::Unknown);
        }
        assert_eq!(TreeSlot::from_word(1 << 40).kind(), SlotKind::Unknown);
    }
}
