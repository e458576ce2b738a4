//! Reads of a transaction that are validated: what they depend on, and how it is compared.
//!
//! - A key that is there depends on the slot that leads to its leaf, and on the value word, if the value may change
//!   in place. The node of the slot guards both. If the leaf has moved to another node, it is looked up again by its
//!   key, so changes of the tree around it are no conflict.
//! - A key that is not there depends on the place that its insertion would change: the slot whose path it would split,
//!   or the node in which it has no child. The keys below a node never change their first bytes, so no other place
//!   matters.
//! - A range depends on each slot that was followed, and on there being none between it and the one before.
//!
//! A node that grows or shrinks is replaced by one of the same depth, with the same bytes before. That is no conflict
//! either: a read of the old node, or of a slot that led to it, goes on with the new one. The transaction is pinned, so
//! the old node still has its children, and the leaves below it have the bytes to compare.
//!
//! A node that a transaction makes is locked by it. So a reader whose snapshot is older than the node meets a number
//! that is too great, however it came to the node.

use crate::attempt::{Attempt, Retry};
use crate::descend::{Descent, Step, Stop, any_leaf, compare_below, descend};
use crate::leaf::{self, Match};
use crate::lookup::Link;
use crate::node::{Node, Symbol};
use crate::verified::{self, Value, VerifiedLeaf};
use crate::view::View;
use lode_heap::{Read, Reread, Version};
use lode_layout::{LEAF_HEADER, META_DEAD, NODE_META, NodeKind, PoolOffset, SlotKind, TreeSlot, WORD};
use lode_pmem::Medium;
use std::ops::{Deref, Range};

impl View for Reread<'_> {
    #[inline]
    fn load8(&self, at: PoolOffset) -> u64 {
        Reread::load8(self, at)
    }

    fn prefetch(&self, at: PoolOffset) {
        self.memory().prefetch_load(at);
    }

    fn read(&self, at: PoolOffset, into: &mut [u8]) {
        Reread::read(self, at, into);
    }

    fn len(&self) -> u64 {
        Deref::deref(self.memory()).len()
    }
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Returns the value of `key`, if it has one, and notes the read.
    pub(crate) fn read_value(&self, key: &[u8]) -> Result<Option<Value>, Retry> {
        let descent = descend(self.view, self.root, key, key.len())?;
        let Descent { step, stop: Stop::Leaf, .. } = descent else {
            self.note_absence(key, &descent)?;
            return Ok(None);
        };
        let version = self.begin_read_of_slot(&step)?;
        match self.read_leaf(&step, |leaf| leaf.has_key(key).then(|| leaf.value()))? {
            Some(value) => {
                self.note_leaf(version, &step)?;
                Ok(Some(value))
            }
            None => {
                self.note_absence(key, &descent)?;
                Ok(None)
            }
        }
    }

    /// Calls `with` with a copy of the leaf of the step.
    fn read_leaf<R>(&self, step: &Step, with: impl Fn(&VerifiedLeaf<'_>) -> R) -> Result<R, Retry> {
        let lookup = self.lookup();
        match verified::read(self.view, step.slot.at(), &with) {
            Ok(read) if lookup.is_allocated_leaf(step.slot.at()) => Ok(read),
            _ => Ok(lookup.read_stable(&Link::from(step), with)?),
        }
    }

    /// Begins a read of the node, which is in the tree.
    fn begin_read(&self, node: &Node) -> Result<Version, Retry> {
        let version = self.tx.read_version(node.at)?;
        if self.view.load8(node.meta_at()) != node.meta() {
            return Err(Retry::Inconsistent(node.at));
        }
        Ok(version)
    }

    /// Begins a read of the step's slot, which still is as it was.
    fn begin_read_of_slot(&self, step: &Step) -> Result<Version, Retry> {
        let version = self.begin_read(&step.parent)?;
        if self.view.load8(step.slot_at) != step.slot.word() {
            return Err(Retry::Conflict);
        }
        Ok(version)
    }

    /// Notes that the step leads to a leaf with this value.
    fn note_leaf(&self, version: Version, step: &Step) -> Result<(), Retry> {
        let value = value_word(self.view, step.slot.at());
        let words = [self.root.get(), step.parent.at.get(), step.slot_at.get(), step.slot.word(), value];
        self.note(version, Read { guard: step.parent.at, words }, is_same_leaf)
    }

    /// Notes that `key`, at the end of whose descent it was not found, is absent.
    pub(crate) fn note_absence(&self, key: &[u8], descent: &Descent) -> Result<(), Retry> {
        let Descent { step, stop, has_prefix } = *descent;
        match stop {
            Stop::Empty => self.note_slot(&step),
            Stop::Leaf => match leaf::compare(self.view, step.slot.at(), key) {
                Match::Equal => Err(Retry::Conflict),
                Match::Differs { at, .. } if at >= step.base => self.note_slot(&step),
                Match::Differs { at, .. } => self.note_slot(&self.fork_above(key, at)?.0),
            },
            Stop::NoChild(node) if !has_prefix => self.note_gap(&node, key),
            Stop::NoChild(node) | Stop::InPrefix(node) => {
                match compare_below(self.view, step.slot, step.base, key)? {
                    Some(Match::Differs { at, .. }) if at < step.base => {
                        self.note_slot(&self.fork_above(key, at)?.0)
                    }
                    Some(Match::Differs { at, .. }) if at < node.depth => self.note_slot(&step),
                    Some(Match::Differs { .. }) if node.depth <= key.len() => self.note_gap(&node, key),
                    _ => Err(Retry::Inconsistent(node.at)),
                }
            }
        }
    }

    /// Notes the content of the step's slot.
    fn note_slot(&self, step: &Step) -> Result<(), Retry> {
        let version = self.begin_read_of_slot(step)?;
        let is_end = step.slot_at == step.parent.end();
        let symbol = if is_end { Symbol::End } else { Symbol::Byte(step.slot.byte()) };
        let [place, root] = [encode_place(&step.parent), self.root.get()];
        let words = [place, root, encode_symbol(symbol), step.slot.word(), 0];
        self.note(version, Read { guard: step.parent.at, words }, is_same_slot)
    }

    /// Notes that the node has no child for `key`.
    fn note_gap(&self, node: &Node, key: &[u8]) -> Result<(), Retry> {
        let version = self.begin_read(node)?;
        let symbol = Symbol::of(key, node.depth);
        if !node.find(self.view, symbol).1.is_empty() {
            return Err(Retry::Conflict);
        }
        let words = [encode_place(node), self.root.get(), encode_symbol(symbol), 0, 0];
        self.note(version, Read { guard: node.at, words }, is_same_gap)
    }

    fn note(&self, version: Version, read: Read, check: lode_heap::ReadCheck) -> Result<(), Retry> {
        self.tx.pin_to_end();
        if self.tx.note_read(version, read, check)? { Ok(()) } else { Err(Retry::Conflict) }
    }
}

/// Returns the word of a value that changes in place; 0 for any other one.
fn value_word(view: &impl View, leaf: PoolOffset) -> u64 {
    let header = leaf::header(view, leaf);
    if (1..=WORD).contains(&header.value_len) { view.load8(leaf.plus(header.value_off())) } else { 0 }
}

pub(crate) fn is_alive(view: &impl View, node: PoolOffset) -> bool {
    view.load8(node.plus(NODE_META)) != META_DEAD
}

/// Returns a number for the node's kind and depth.
fn encode_place(node: &Node) -> u64 {
    let kind = match node.kind {
        None => 0,
        Some(NodeKind::N4) => 1,
        Some(NodeKind::N16) => 2,
        Some(NodeKind::N48) => 3,
        Some(NodeKind::N256) => 4,
    };
    (node.depth as u64) << 3 | kind
}

fn decode_place(at: PoolOffset, place: u64) -> Node {
    let kind = match place & 7 {
        0 => None,
        1 => Some(NodeKind::N4),
        2 => Some(NodeKind::N16),
        3 => Some(NodeKind::N48),
        _ => Some(NodeKind::N256),
    };
    Node { at, kind, depth: (place >> 3) as usize }
}

/// Returns the node of a read whose first words are its place and the tree's root. If the node was replaced, the read
/// is then one of the new node. `None` if there is none.
fn node_of(view: &impl View, read: &mut Read) -> Option<Node> {
    let [place, root, ..] = read.words;
    let node = decode_place(read.guard, place);
    if is_alive(view, node.at) {
        return Some(node);
    }
    let node = successor(view, PoolOffset::new(root), &node)?;
    (read.guard, read.words[0]) = (node.at, encode_place(&node));
    Some(node)
}

/// Returns the node that has taken the place of `node`: the one of its depth on the way to the same keys.
fn successor(view: &impl View, root: PoolOffset, node: &Node) -> Option<Node> {
    let key = first_bytes(view, node)?;
    let Descent { step, stop, .. } = descend(view, root, &key, key.len()).ok()?;
    let found = match stop {
        Stop::NoChild(found) => found,
        _ => step.parent,
    };
    has_first_bytes(view, &found, node.depth, &key).then_some(found)
}

/// Returns the bytes with which all keys below `node` begin, as many as its depth.
fn first_bytes(view: &impl View, node: &Node) -> Option<Vec<u8>> {
    let leaf = any_leaf(view, node.any_child(view)?, node.depth + 1).ok()??;
    let mut key = vec![0; node.depth];
    if (leaf::header(view, leaf).key_len as usize) < key.len() {
        return None;
    }
    view.read(leaf.plus(LEAF_HEADER), &mut key);
    Some(key)
}

/// Returns true if `node` has this depth, and all keys below it begin with `key`.
fn has_first_bytes(view: &impl View, node: &Node, depth: usize, key: &[u8]) -> bool {
    node.kind.is_some() && node.depth == depth && first_bytes(view, node).is_some_and(|bytes| bytes == key)
}

/// Returns true if `slot` of a node leads where `old` led: to the same object, or to a node that has replaced it.
fn leads_to_same(view: &impl View, parent: &Node, old: TreeSlot, slot: TreeSlot) -> bool {
    if old == slot {
        return true;
    }
    let base = if parent.kind.is_some() { parent.depth + 1 } else { 0 };
    let node_below = |slot: TreeSlot| match slot.kind() {
        SlotKind::Node(kind) => {
            Some(Node { at: slot.at(), kind: Some(kind), depth: base + slot.prefix_len() })
        }
        _ => None,
    };
    let (Some(old), Some(new)) = (node_below(old), node_below(slot)) else { return false };
    first_bytes(view, &old).is_some_and(|key| has_first_bytes(view, &new, old.depth, &key))
}

/// A number before those of all symbols, and one after them.
pub(crate) const BEFORE_ALL: u64 = 0;
pub(crate) const AFTER_ALL: u64 = 258;

/// Bits of a number of a symbol.
const SYMBOL_BITS: u32 = 9;

/// Returns a number by which symbols are ordered.
pub(crate) fn encode_symbol(symbol: Symbol) -> u64 {
    match symbol {
        Symbol::End => 1,
        Symbol::Byte(byte) => 2 + u64::from(byte),
    }
}

pub(crate) fn decode_symbol(symbol: u64) -> Symbol {
    symbol.checked_sub(2).map_or(Symbol::End, |byte| Symbol::Byte(byte as u8))
}

/// Returns the read of a child: in `node` of the tree at `root`, the first child after `previous` on the way to `symbol`
/// is that of `symbol`, and its slot is `slot`. An empty slot stands for no child up to and with `symbol`.
pub(crate) fn read_of_child(
    view: &impl View,
    root: PoolOffset,
    node: &Node,
    (previous, symbol): (u64, u64),
    slot: TreeSlot,
) -> Read {
    let value = if slot.kind() == SlotKind::Leaf { value_word(view, slot.at()) } else { 0 };
    let words = [encode_place(node), root.get(), previous << SYMBOL_BITS | symbol, slot.word(), value];
    Read { guard: node.at, words }
}

/// The check of [`read_of_child`].
pub(crate) fn is_child_unchanged(view: &impl View, read: &mut Read) -> bool {
    let Some(node) = node_of(view, read) else { return false };
    let [.., symbols, slot, value] = read.words;
    let (previous, symbol) = (symbols >> SYMBOL_BITS, symbols & ((1 << SYMBOL_BITS) - 1));
    let slot = TreeSlot::from_word(slot);
    let between = previous.min(symbol) + 1..previous.max(symbol);
    let has_other = children_between(view, &node, between);
    let found = match symbol {
        BEFORE_ALL | AFTER_ALL => TreeSlot::EMPTY,
        _ => node.find(view, decode_symbol(symbol)).1,
    };
    let is_same_value = || slot.kind() != SlotKind::Leaf || value_word(view, slot.at()) == value;
    !has_other && leads_to_same(view, &node, slot, found) && is_same_value()
}

/// Returns true if the node has a child whose encoded symbol is in the range.
fn children_between(view: &impl View, node: &Node, symbols: Range<u64>) -> bool {
    if symbols.is_empty() {
        return false;
    }
    let has_end = symbols.contains(&encode_symbol(Symbol::End)) && !node.end_slot(view).is_empty();
    has_end
        || match node.kind {
            Some(NodeKind::N256) => symbols
                .filter_map(|symbol| symbol.checked_sub(2))
                .any(|byte| !node.slot(view, byte as usize).is_empty()),
            _ => {
                node.children(view).any(|child| symbols.contains(&encode_symbol(Symbol::Byte(child.byte()))))
            }
        }
}

pub(crate) fn is_same_child(reread: &Reread<'_>, read: &mut Read) -> bool {
    is_child_unchanged(reread, read)
}

fn is_same_slot(reread: &Reread<'_>, read: &mut Read) -> bool {
    let Some(node) = node_of(reread, read) else { return false };
    let [.., symbol, slot, _] = read.words;
    let found = node.find(reread, decode_symbol(symbol)).1;
    leads_to_same(reread, &node, TreeSlot::from_word(slot), found)
}

fn is_same_gap(reread: &Reread<'_>, read: &mut Read) -> bool {
    let Some(node) = node_of(reread, read) else { return false };
    node.find(reread, decode_symbol(read.words[2])).1.is_empty()
}

fn is_same_leaf(reread: &Reread<'_>, read: &mut Read) -> bool {
    let [root, parent, slot_at, slot, value] = read.words;
    let leaf = TreeSlot::from_word(slot).at();
    let is_in_place =
        is_alive(reread, PoolOffset::new(parent)) && reread.load8(PoolOffset::new(slot_at)) == slot;
    if !is_in_place {
        let Some(step) = find_leaf(reread, PoolOffset::new(root), leaf) else { return false };
        read.guard = step.parent.at;
        read.words = [root, step.parent.at.get(), step.slot_at.get(), step.slot.word(), value];
    }
    value_word(reread, leaf) == value
}

/// Returns the step that leads to `leaf`, if the leaf is still in the tree. The transaction is pinned, so the leaf has
/// its key also if it is not.
fn find_leaf(reread: &Reread<'_>, root: PoolOffset, leaf: PoolOffset) -> Option<Step> {
    let mut key = vec![0; leaf::header(reread, leaf).key_len as usize];
    reread.read(leaf.plus(LEAF_HEADER), &mut key);
    let found = descend(reread, root, &key, key.len()).ok()?;
    (matches!(found.stop, Stop::Leaf) && found.step.slot.at() == leaf).then_some(found.step)
}
