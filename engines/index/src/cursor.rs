//! Cursors: iteration over the leaves, by ascending or descending keys.
//!
//! A cursor keeps a stack of the slots that it has still to follow, the next one on top. It reads all children of a
//! node at once and does not see later changes of them. So a scan returns each key that is present all the time
//! exactly once, with a value that it had at some moment of the scan. A key that is added or removed meanwhile may be
//! returned or not.
//!
//! A node at rest has a child, and its key bytes fit its children. A node that looks otherwise is damaged, unless a
//! writer is at work in it; see [`stability`](crate::stability). After damage a cursor goes on with the slots that it
//! knows.

use crate::descend::root_slot;
use crate::error::IndexError;
use crate::leaf::Match;
use crate::lookup::{Link, Lookup};
use crate::node::{Node, Symbol};
use crate::stability::{StabilityWait, read_versioned};
use crate::verified::{self, ChecksumMismatch, VerifiedLeaf};
use lode_heap::Heap;
use lode_layout::{KEY_LEN_MAX, META_DEAD, NodeKind, PoolOffset, SlotKind, TreeSlot};
use lode_pmem::{Medium, Readable};

/// Direction of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// A slot that is still to be followed.
#[derive(Clone, Copy, Debug)]
struct Pending {
    link: Link,
    symbol: Symbol,
    /// Number of key bytes before those that the slot skips.
    base: usize,
    /// Number of nodes above it.
    level: usize,
}

/// A child of a node.
#[derive(Clone, Copy, Debug)]
struct Child {
    symbol: Symbol,
    link: Link,
}

/// A position between two leaves.
#[derive(Debug)]
pub(crate) struct Cursor<'r, M: Medium> {
    heap: &'r Heap<M>,
    direction: Direction,
    pending: Vec<Pending>,
    /// Buffer for the children of a node.
    children: Vec<Child>,
    /// Depths and symbols of the slots that lead to the last leaf.
    path: Vec<(usize, Symbol)>,
    /// Number of nodes that were passed since the last leaf.
    nodes_since_leaf: usize,
    /// True if the cursor may begin anywhere before its start, because the path there is damaged.
    pub(crate) begins_early: bool,
    /// After damage, bytes that may still be read: slots may lead to the same nodes and leaves again and again.
    bytes_left: Option<u64>,
}

impl<'r, M: Medium> Cursor<'r, M> {
    pub(crate) fn new(heap: &'r Heap<M>, direction: Direction) -> Cursor<'r, M> {
        let (pending, children, path) = (Vec::new(), Vec::new(), Vec::new());
        Cursor {
            heap,
            direction,
            pending,
            children,
            path,
            nodes_since_leaf: 0,
            begins_early: false,
            bytes_left: None,
        }
    }

    /// Moves before all leaves of the tree at `root`, in the cursor's direction. With `start`, moves before that key,
    /// or at most one leaf earlier. After an error the cursor is anywhere before `start`.
    pub(crate) fn begin(
        &mut self,
        memory: &Readable,
        root: PoolOffset,
        start: Option<&[u8]>,
    ) -> Result<(), IndexError> {
        let parent = Node::root(root);
        let link = Link { parent: root, slot_at: parent.end(), slot: root_slot(memory, root) };
        let from = Pending { link, symbol: Symbol::End, base: 0, level: 0 };
        match start {
            None => self.push(from),
            Some(key) => self.seek(memory, from, key).inspect_err(|_| self.begins_early = true),
        }
    }

    /// Returns the link to the next leaf. After an error the next call goes on after the damage.
    pub(crate) fn next(&mut self, memory: &Readable) -> Result<Option<Link>, IndexError> {
        while let Some(Pending { link, symbol, base, level }) = self.pending.pop() {
            self.path.truncate(level);
            if let Some(last) = self.path.last_mut() {
                *last = (base - 1, symbol);
            }
            match link.slot.kind() {
                SlotKind::Leaf => {
                    self.nodes_since_leaf = 0;
                    return Ok(Some(link));
                }
                SlotKind::Node(kind) => {
                    let node =
                        Node { at: link.slot.at(), kind: Some(kind), depth: base + link.slot.prefix_len() };
                    self.visit_node(memory, &node, kind)?;
                    let pushed = self.push_children(memory, &node, |_| true);
                    self.path.push((node.depth, Symbol::End));
                    pushed?;
                }
                SlotKind::Empty => {}
                SlotKind::Unknown => return Err(corrupt_slot(&link)),
            }
        }
        Ok(None)
    }

    /// Returns true if the slots above the last leaf are those of `key`.
    pub(crate) fn path_matches(&self, key: &[u8]) -> bool {
        matches_path(key, &self.path)
    }

    /// Records that there is damage, which limits the bytes that are read from now on.
    pub(crate) fn record_damage(&mut self) {
        // Objects of a sound tree do not overlap, so they fit the pool's length. As much again is for damage.
        self.bytes_left.get_or_insert(self.heap.memory().len().saturating_mul(2));
    }

    /// Counts `len` bytes that are about to be read. Returns an error when a cursor past damage has read too many.
    pub(crate) fn count_read(&mut self, len: u64, at: PoolOffset) -> Result<(), IndexError> {
        if let Some(bytes_left) = &mut self.bytes_left {
            match bytes_left.checked_sub(len) {
                Some(rest) => *bytes_left = rest,
                None => {
                    self.pending.clear();
                    let what = "one of many slots of the tree that lead to the object";
                    return Err(IndexError::Corrupt { what, at });
                }
            }
        }
        Ok(())
    }

    /// Pushes the slots below `from` that come after `key` in the cursor's direction, and on top the one that may
    /// lead to `key`.
    fn seek(&mut self, memory: &Readable, from: Pending, key: &[u8]) -> Result<(), IndexError> {
        let (mut next, mut damage) = (from, None);
        while let SlotKind::Node(kind) = next.link.slot.kind() {
            let Pending { link, base, level, .. } = next;
            let node = Node { at: link.slot.at(), kind: Some(kind), depth: base + link.slot.prefix_len() };
            self.visit_node(memory, &node, kind)?;
            if link.slot.prefix_len() > 0 {
                match self.compare_below(memory, &node, key) {
                    Ok(Match::Differs { at, theirs }) if at < node.depth => {
                        // All keys below come after `key`, or all come before it.
                        if is_after(self.direction, theirs, Symbol::of(key, at)) {
                            self.push(next)?;
                        }
                        return damage.map_or(Ok(()), Err);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.push(next)?;
                        return Err(error);
                    }
                }
            }
            let (symbol, direction) = (Symbol::of(key, node.depth), self.direction);
            if let Err(error) =
                self.push_children(memory, &node, |theirs| is_after(direction, theirs, symbol))
            {
                damage.get_or_insert(error);
            }
            self.path.push((node.depth, symbol));
            let (slot_at, slot) = node.find(memory, symbol);
            let link = Link { parent: node.at, slot_at, slot };
            next = Pending { link, symbol, base: node.depth + 1, level: level + 1 };
        }
        self.push(next)?;
        damage.map_or(Ok(()), Err)
    }

    /// Compares `key` with a leaf below `node`. Any leaf there holds the bytes that lead to the node.
    fn compare_below(&self, memory: &Readable, node: &Node, key: &[u8]) -> Result<Match, IndexError> {
        let (mut node, mut path, mut children) = (*node, self.path.clone(), Vec::new());
        loop {
            // One child is enough, even if others of the node are damaged.
            let result = self.read_stable_children(memory, &node, &mut children);
            let Some(Child { symbol, link }) = children.first().copied() else {
                return result.and(Err(corrupt_node(node.at)));
            };
            path.push((node.depth, symbol));
            match link.slot.kind() {
                SlotKind::Leaf => return self.compare(memory, &link, key, &path),
                SlotKind::Node(kind) => {
                    let depth = node.depth + 1 + link.slot.prefix_len();
                    node = Node { at: link.slot.at(), kind: Some(kind), depth };
                    self.check(memory, &node, kind)?;
                }
                SlotKind::Empty | SlotKind::Unknown => return Err(corrupt_slot(&link)),
            }
        }
    }

    fn compare(
        &self,
        memory: &Readable,
        link: &Link,
        key: &[u8],
        path: &[(usize, Symbol)],
    ) -> Result<Match, IndexError> {
        let read = |leaf: &VerifiedLeaf<'_>| matches_path(leaf.key(), path).then(|| leaf.compare(key));
        let found = match verified::read(memory, link.slot.at(), read) {
            Ok(found) => found,
            Err(ChecksumMismatch) => {
                Lookup { heap: self.heap, view: memory, memory, tx: None }.read_stable(link, read)?
            }
        };
        found.ok_or(misplaced_leaf(link.slot.at()))
    }

    /// Counts and checks a node on the way to the next leaf. A sound tree has no more nodes there than a key has
    /// bytes.
    fn visit_node(&mut self, memory: &Readable, node: &Node, kind: NodeKind) -> Result<(), IndexError> {
        self.count_read(kind.size(), node.at)?;
        self.nodes_since_leaf += 1;
        if self.nodes_since_leaf > 2 * KEY_LEN_MAX + 2 {
            return Err(corrupt_node(node.at));
        }
        self.check(memory, node, kind)
    }

    /// Checks that the node's meta word agrees with the slot that leads to the node.
    fn check(&self, memory: &Readable, node: &Node, kind: NodeKind) -> Result<(), IndexError> {
        if node.depth > KEY_LEN_MAX {
            return Err(corrupt_node(node.at));
        }
        let meta = memory.load8(node.meta_at());
        // A node that was replaced since keeps its content.
        if meta == kind.meta(node.depth) || meta == META_DEAD { Ok(()) } else { Err(corrupt_node(node.at)) }
    }

    /// Pushes the children of `node` whose symbols `wanted` accepts, the next one last. After an error it pushes
    /// those that it could read.
    fn push_children(
        &mut self,
        memory: &Readable,
        node: &Node,
        wanted: impl Fn(Symbol) -> bool,
    ) -> Result<(), IndexError> {
        let mut children = std::mem::take(&mut self.children);
        let result = self.read_stable_children(memory, node, &mut children);
        if self.direction == Direction::Forward {
            children.reverse();
        }
        let (base, level) = (node.depth + 1, self.path.len() + 1);
        let mut wanted = children.iter().filter(|child| wanted(child.symbol));
        let pushed = wanted.try_for_each(|Child { symbol, link }| {
            self.push(Pending { link: *link, symbol: *symbol, base, level })
        });
        self.children = children;
        result.and(pushed)
    }

    /// Reads the children of `node`. Waits for a writer that is about to change them. Returns an error if they can't
    /// be those of a node.
    fn read_stable_children(
        &self,
        memory: &Readable,
        node: &Node,
        children: &mut Vec<Child>,
    ) -> Result<(), IndexError> {
        if self.read_children(memory, node, children) {
            return Ok(());
        }
        let mut wait = StabilityWait::default();
        for round in 0.. {
            let (is_sound, is_stable) =
                read_versioned(self.heap, node.at, || self.read_children(memory, node, children));
            if let Some(fault) = memory.fault() {
                return Err(fault.into());
            }
            if is_sound {
                return Ok(());
            }
            let damage = IndexError::Corrupt { what: "the children of the node of the tree", at: node.at };
            if is_stable {
                return Err(damage);
            }
            wait.wait_until_stable(self.heap, memory, damage)?;
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    /// Reads the children of `node` in the order of their symbols. Returns true if there are any, each once and with
    /// its key byte.
    fn read_children(&self, memory: &Readable, node: &Node, children: &mut Vec<Child>) -> bool {
        children.clear();
        let mut child = |symbol: Symbol, slot_at: PoolOffset, slot: TreeSlot| {
            if !slot.is_empty() {
                children.push(Child { symbol, link: Link { parent: node.at, slot_at, slot } });
            }
        };
        child(Symbol::End, node.end(), node.end_slot(memory));
        let mut is_sound = true;
        for index in 0..node.capacity() {
            let (slot_at, slot) = (node.slot_at(index), node.slot(memory, index));
            let key_byte = match node.kind {
                Some(NodeKind::N256) if !slot.is_empty() => index as u8,
                _ => node
                    .key_byte_at(slot_at)
                    .map_or(slot.byte(), |(at, shift)| (memory.load8(at) >> shift) as u8),
            };
            is_sound &= key_byte == slot.byte();
            child(Symbol::Byte(slot.byte()), slot_at, slot);
        }
        if node.kind != Some(NodeKind::N256) {
            children.sort_unstable_by_key(|child| child.symbol);
        }
        is_sound && !children.is_empty() && children.is_sorted_by(|a, b| a.symbol < b.symbol)
    }

    fn push(&mut self, pending: Pending) -> Result<(), IndexError> {
        // No more slots can be pending than there are words in the pool.
        if self.pending.len() as u64 > self.heap.memory().len() / 8 {
            return Err(corrupt_slot(&pending.link));
        }
        self.pending.push(pending);
        Ok(())
    }
}

fn is_after(direction: Direction, theirs: Symbol, ours: Symbol) -> bool {
    match direction {
        Direction::Forward => theirs > ours,
        Direction::Backward => theirs < ours,
    }
}

fn matches_path(key: &[u8], path: &[(usize, Symbol)]) -> bool {
    path.iter().all(|(depth, symbol)| *depth <= key.len() && Symbol::of(key, *depth) == *symbol)
}

/// Returns the error for a leaf that is not in its place.
pub(crate) fn misplaced_leaf(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the way to the leaf of the tree", at }
}

fn corrupt_node(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the node of the tree", at }
}

fn corrupt_slot(link: &Link) -> IndexError {
    IndexError::Corrupt { what: "the slot of the tree", at: link.slot_at }
}
