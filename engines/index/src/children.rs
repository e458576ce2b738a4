//! The children of a node, in the order of a cursor.

use crate::direction::Direction;
use crate::error::IndexError;
use crate::lookup::Link;
use crate::node::{Node, Symbol};
use crate::stability::{StabilityWait, read_versioned};
use crate::validated::{decode_symbol, encode_symbol, is_alive};
use crate::view::{ScanView, Source, View};
use lode_heap::{Tx, Version};
use lode_layout::{NodeKind, PoolOffset, TreeSlot};
use lode_pmem::Medium;
use std::sync::atomic::{Ordering, fence};

/// Maximum number of children of a node of 256 that are read when a cursor comes to the node, and later. A short scan
/// comes to a few of them only.
const AT_FIRST: usize = 4;
const AT_ONCE: usize = 16;
/// Number of slots of a node of 256 that are loaded together: about a line.
const SLOTS: usize = 8;
/// Words of key bytes of a node of 48, which has the most.
const KEY_BYTE_WORDS_MAX: usize = NodeKind::N48.key_byte_words() as usize;

/// A child of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) symbol: Symbol,
    pub(crate) link: Link,
}

/// Children of a node that follow each other, in the order of a cursor.
#[derive(Debug, Default)]
pub(crate) struct Children {
    pub(crate) list: Vec<Child>,
    /// True if others of the node may follow.
    pub(crate) has_more: bool,
    /// The version of the node's lock, in a transaction.
    pub(crate) version: Option<Version>,
}

/// The part of a node's children that is read: those that follow `previous`, an encoded symbol, in a direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Following {
    pub(crate) previous: u64,
    direction: Direction,
    /// Maximum number of children.
    most: usize,
}

impl Following {
    /// The first children.
    pub(crate) fn start(direction: Direction) -> Following {
        Following::after(direction.ends().0, direction)
    }

    /// The first children after `previous`.
    pub(crate) fn after(previous: u64, direction: Direction) -> Following {
        Following { previous, direction, most: AT_FIRST }
    }

    /// The children after `previous`, which was read before.
    pub(crate) fn more(previous: u64, direction: Direction) -> Following {
        Following { previous, direction, most: AT_ONCE }
    }

    fn includes(&self, symbol: Symbol) -> bool {
        match self.direction {
            Direction::Forward => encode_symbol(symbol) > self.previous,
            Direction::Backward => encode_symbol(symbol) < self.previous,
        }
    }
}

impl Children {
    /// Reads children of `node`. Waits for a writer that is about to change them. Returns an error if they can't be
    /// those of a node; what could be read is in the list then.
    pub(crate) fn read<M: Medium, V: ScanView<M>>(
        &mut self,
        from: Source<'_, M, V>,
        node: &Node,
        part: Following,
    ) -> Result<(), IndexError> {
        self.version = None;
        if let Some(tx) = from.view.tx() {
            return self.read_in(tx, from, node, part);
        }
        if self.read_once(from.view, node, part) {
            return Ok(());
        }
        let memory = from.view.memory();
        let mut wait = StabilityWait::default();
        for round in 0.. {
            let (is_sound, is_stable) =
                read_versioned(from.heap, node.at, || self.read_once(from.view, node, part));
            if let Some(fault) = memory.fault() {
                return Err(fault.into());
            }
            if is_sound {
                return Ok(());
            }
            if is_stable || V::IS_FIXED {
                return Err(corrupt_children(node.at));
            }
            wait.wait_until_stable(from.heap, memory, corrupt_children(node.at))?;
            from.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    /// Reads children of `node`, with the version of its lock.
    fn read_in<M: Medium>(
        &mut self,
        tx: &Tx<'_, M>,
        from: Source<'_, M, impl ScanView<M>>,
        node: &Node,
        part: Following,
    ) -> Result<(), IndexError> {
        let view = from.view;
        for round in 0.. {
            let version = tx.read_version(node.at)?;
            let is_sound = self.read_once(view, node, part);
            let is_in_tree = is_alive(view, node.at);
            // ORDER: the children are loaded before the version is loaded again.
            fence(Ordering::Acquire);
            if let Some(fault) = view.memory().fault() {
                return Err(fault.into());
            }
            let is_stable = tx.heap().lock_version(node.at) == version;
            if is_stable && !is_in_tree {
                // The slot that led here was followed before it changed.
                return Err(tx.restart().into());
            }
            if is_stable && !is_sound {
                return Err(corrupt_children(node.at));
            }
            if is_stable {
                self.version = Some(version);
                return Ok(());
            }
            from.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    /// Reads children of `node`. Returns true if each is there once and has its key byte, and the node is not empty.
    fn read_once(&mut self, view: &impl View, node: &Node, part: Following) -> bool {
        self.list.clear();
        self.list.reserve(node.capacity().min(part.most) + 1);
        self.has_more = false;
        let is_sound = match node.kind {
            Some(NodeKind::N256) => self.read_from_node256(view, node, part),
            _ => return self.read_from_small_node(view, node, part),
        };
        let is_whole = part.previous == part.direction.ends().0 && !self.has_more;
        is_sound && !(is_whole && self.list.is_empty())
    }

    fn read_from_node256(&mut self, view: &impl View, node: &Node, part: Following) -> bool {
        let (_, after) = part.direction.ends();
        let (mut encoded, mut is_sound) = (part.previous, true);
        let (mut first, mut slots) = (usize::MAX, [TreeSlot::EMPTY; SLOTS]);
        loop {
            match part.direction {
                Direction::Forward => encoded += 1,
                Direction::Backward => encoded -= 1,
            }
            if encoded == after {
                return is_sound;
            }
            if self.list.len() == part.most {
                self.has_more = true;
                return is_sound;
            }
            let symbol = decode_symbol(encoded);
            let (slot_at, slot) = match symbol {
                Symbol::End => (node.end(), node.end_slot(view)),
                Symbol::Byte(byte) => {
                    let index = usize::from(byte);
                    if index / SLOTS != first / SLOTS {
                        first = index / SLOTS * SLOTS;
                        slots = node.slots(view, first);
                    }
                    (node.slot_at(index), slots[index - first])
                }
            };
            if !slot.is_empty() {
                is_sound &= symbol == Symbol::End || symbol == Symbol::Byte(slot.byte());
                self.push(node, symbol, slot_at, slot);
            }
        }
    }

    fn read_from_small_node(&mut self, view: &impl View, node: &Node, part: Following) -> bool {
        let end = node.end_slot(view);
        if !end.is_empty() {
            self.push(node, Symbol::End, node.end(), end);
        }
        let mut key_bytes = [0u64; KEY_BYTE_WORDS_MAX];
        let words = node.kind.map_or(0, NodeKind::key_byte_words) as usize;
        key_bytes.iter_mut().zip(node.key_bytes(view)).for_each(|(word, found)| *word = found);
        let mut is_sound = true;
        for index in 0..node.capacity() {
            let (slot_at, slot) = (node.slot_at(index), node.slot(view, index));
            is_sound &= words == 0 || key_bytes[index / 8].to_le_bytes()[index % 8] == slot.byte();
            if !slot.is_empty() {
                self.push(node, Symbol::Byte(slot.byte()), slot_at, slot);
            }
        }
        self.list.sort_unstable_by_key(|child| child.symbol);
        is_sound &= !self.list.is_empty() && self.list.is_sorted_by(|a, b| a.symbol < b.symbol);
        self.list.retain(|child| part.includes(child.symbol));
        if part.direction == Direction::Backward {
            self.list.reverse();
        }
        is_sound
    }

    fn push(&mut self, node: &Node, symbol: Symbol, slot_at: PoolOffset, slot: TreeSlot) {
        self.list.push(Child { symbol, link: Link { parent: node.at, slot_at, slot } });
    }
}

fn corrupt_children(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the children of the node of the tree", at }
}
