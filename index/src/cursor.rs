//! One-way traffic through the leaves, in the order of their keys or against it.
//!
//! A cursor keeps the slots that it has still to follow, the next one on top. It takes all children of a node at
//! once; what others change there afterwards it does not see. So a scan yields each key that was there all the
//! time, once, with a value that it had at some moment of the scan; keys that come or go meanwhile, perhaps.

use crate::descend::{any_leaf, root_slot};
use crate::error::IndexError;
use crate::leaf::{self, Match};
use crate::node::{Node, Symbol};
use lode_layout::{KEY_LEN_MAX, PoolOffset, SlotKind, TreeSlot};
use lode_pmem::Memory;

/// Attempts to find a leaf below a node that others change.
const LEAF_ATTEMPTS: u32 = 1000;

/// Where a cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// A slot that is still to be followed.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: TreeSlot,
    /// Key bytes that come before those that it skips.
    base: usize,
}

/// A place between two leaves.
#[derive(Debug)]
pub(crate) struct Cursor<'r> {
    memory: &'r Memory,
    way: Way,
    pending: Vec<Pending>,
    /// Nodes that were passed since the last leaf.
    passed: usize,
}

impl<'r> Cursor<'r> {
    /// Before all leaves of the tree at `root`, as seen by one who goes `way`; before `start` if there is one, or
    /// at most one leaf before that.
    pub(crate) fn new(
        memory: &'r Memory,
        root: PoolOffset,
        way: Way,
        start: Option<&[u8]>,
    ) -> Result<Cursor<'r>, IndexError> {
        let slot = root_slot(memory, root);
        let mut cursor = Cursor { memory, way, pending: Vec::new(), passed: 0 };
        match start {
            None => cursor.push(slot, 0)?,
            Some(key) => cursor.seek(slot, key)?,
        }
        Ok(cursor)
    }

    /// The next leaf.
    pub(crate) fn next(&mut self) -> Result<Option<PoolOffset>, IndexError> {
        while let Some(Pending { slot, base }) = self.pending.pop() {
            match slot.kind() {
                SlotKind::Leaf => {
                    self.passed = 0;
                    return Ok(Some(slot.at()));
                }
                SlotKind::Node(kind) => {
                    let node = Node { at: slot.at(), kind: Some(kind), depth: base + slot.skip() };
                    self.pass(&node)?;
                    self.push_children(&node, |_| true)?;
                }
                SlotKind::Empty => {}
                SlotKind::Unknown => return Err(damaged(slot.at())),
            }
        }
        Ok(None)
    }

    /// Puts on top what comes after `key`, on the way, below `slot`; and at last the one leaf that may have it.
    fn seek(&mut self, mut slot: TreeSlot, key: &[u8]) -> Result<(), IndexError> {
        let mut base = 0;
        while let SlotKind::Node(kind) = slot.kind() {
            let node = Node { at: slot.at(), kind: Some(kind), depth: base + slot.skip() };
            self.pass(&node)?;
            if slot.skip() > 0
                && let Match::Differs { at, theirs } = self.compare_below(slot, base, key)?
                && at < node.depth
            {
                // All keys below come after `key`, or all before it.
                if self.is_after(theirs, Symbol::of(key, at)) {
                    self.push(slot, base)?;
                }
                return Ok(());
            }
            let symbol = Symbol::of(key, node.depth);
            let way = self.way;
            self.push_children(&node, |theirs| is_after(way, theirs, symbol))?;
            slot = node.find(self.memory, symbol).1;
            base = node.depth + 1;
        }
        self.push(slot, base)
    }

    fn is_after(&self, theirs: Symbol, ours: Symbol) -> bool {
        is_after(self.way, theirs, ours)
    }

    fn compare_below(&self, slot: TreeSlot, base: usize, key: &[u8]) -> Result<Match, IndexError> {
        for _ in 0..LEAF_ATTEMPTS {
            if let Some(leaf) = any_leaf(self.memory, slot, base)? {
                return Ok(leaf::compare(self.memory, leaf, key));
            }
        }
        Err(damaged(slot.at()))
    }

    /// A tree that has a leaf below each node leads to one past no more nodes than a key has bytes.
    fn pass(&mut self, node: &Node) -> Result<(), IndexError> {
        self.passed += 1;
        if node.depth > KEY_LEN_MAX || self.passed > 2 * KEY_LEN_MAX + 2 {
            return Err(damaged(node.at));
        }
        Ok(())
    }

    /// Puts those children of `node` on top whose symbols `wanted` accepts, the next one last.
    fn push_children(&mut self, node: &Node, wanted: impl Fn(Symbol) -> bool) -> Result<(), IndexError> {
        let end = Some(node.end_slot(self.memory)).filter(|slot| !slot.is_empty() && wanted(Symbol::End));
        let base = node.depth + 1;
        if self.way == Way::Down {
            end.map_or(Ok(()), |slot| self.push(slot, base))?;
        }
        let first = self.pending.len();
        for slot in node.children(self.memory).filter(|slot| wanted(Symbol::Byte(slot.byte()))) {
            self.push(slot, base)?;
        }
        match self.way {
            Way::Up => self.pending[first..].sort_unstable_by_key(|pending| !pending.slot.byte()),
            Way::Down => self.pending[first..].sort_unstable_by_key(|pending| pending.slot.byte()),
        }
        if self.way == Way::Up {
            end.map_or(Ok(()), |slot| self.push(slot, base))?;
        }
        Ok(())
    }

    fn push(&mut self, slot: TreeSlot, base: usize) -> Result<(), IndexError> {
        // No more slots can wait than there are words in the pool.
        if self.pending.len() as u64 > self.memory.len() / 8 {
            return Err(damaged(slot.at()));
        }
        self.pending.push(Pending { slot, base });
        Ok(())
    }
}

fn is_after(way: Way, theirs: Symbol, ours: Symbol) -> bool {
    match way {
        Way::Up => theirs > ours,
        Way::Down => theirs < ours,
    }
}

fn damaged(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the node of the tree", at }
}
