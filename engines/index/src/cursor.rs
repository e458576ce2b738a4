//! Cursors: iteration over the leaves, by ascending or descending keys.
//!
//! A cursor keeps a stack of the slots that it has still to follow, the next one on top. It reads all children of a
//! node at once and does not see later changes of them. So a scan returns each key that is present all the time
//! exactly once, with a value that it had at some moment of the scan. A key that is added or removed meanwhile may be
//! returned or not.
//!
//! In a transaction, each slot that is followed is noted as a read; see [`validated`](crate::validated). A slot that the
//! cursor has read and not followed yet may have changed since: then the transaction starts again.
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
use crate::validated::{
    AFTER_ALL, BEFORE_ALL, encode_symbol, is_alive, is_child_unchanged, is_same_child, read_of_child,
};
use crate::verified::{self, ChecksumMismatch, VerifiedLeaf};
use crate::view::ScanView;
use lode_heap::{Heap, Tx, Version};
use lode_layout::{KEY_LEN_MAX, META_DEAD, NodeKind, PoolOffset, SlotKind, TreeSlot};
use lode_pmem::Medium;
use std::sync::atomic::{Ordering, fence};

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
    /// In a transaction, the read that the slot is a part of.
    origin: Option<Origin>,
}

/// The read behind a slot that is to be followed: from `previous` on, the slot's node has no child before the slot's, in
/// the cursor's direction.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// The tree's root object.
    root: PoolOffset,
    /// The node.
    node: Node,
    /// The version of its lock when its children were read.
    version: Version,
    /// The symbol before, encoded.
    previous: u64,
    /// The slot's symbol, encoded; the greatest or least number of all if no child follows.
    symbol: u64,
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
    /// The tree's root object, from [`begin`](Cursor::begin) on.
    root: PoolOffset,
    direction: Direction,
    pending: Vec<Pending>,
    /// Buffer for the children of a node.
    children: Vec<Child>,
    /// Depths and symbols of the slots that lead to the last leaf.
    path: Vec<(usize, Symbol)>,
    /// The slot of the last leaf, until the leaf is read.
    leaf: Option<Pending>,
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
            root: PoolOffset::NULL,
            direction,
            pending,
            children,
            path,
            leaf: None,
            nodes_since_leaf: 0,
            begins_early: false,
            bytes_left: None,
        }
    }

    /// Moves before all leaves of the tree at `root`, in the cursor's direction. With `start`, moves before that key,
    /// or at most one leaf earlier. After an error the cursor is anywhere before `start`.
    pub(crate) fn begin(
        &mut self,
        view: &impl ScanView<M>,
        root: PoolOffset,
        start: Option<&[u8]>,
    ) -> Result<(), IndexError> {
        self.root = root;
        let parent = Node::root(root);
        let version = view.tx().map(|tx| tx.read_version(root)).transpose()?;
        let link = Link { parent: root, slot_at: parent.end(), slot: root_slot(view, root) };
        let origin = version.map(|version| self.only(parent, version, Symbol::End));
        let from = Pending { link, symbol: Symbol::End, base: 0, level: 0, origin };
        match start {
            None => self.push(from),
            Some(key) => self.seek(view, from, key).inspect_err(|_| self.begins_early = true),
        }
    }

    /// Returns the origin of the slot for `symbol` alone, whether there is a child or not.
    fn only(&self, node: Node, version: Version, symbol: Symbol) -> Origin {
        let symbol = encode_symbol(symbol);
        let previous = match self.direction {
            Direction::Forward => symbol - 1,
            Direction::Backward => symbol + 1,
        };
        Origin { root: self.root, node, version, previous, symbol }
    }

    /// Returns the link to the next leaf. After an error the next call goes on after the damage.
    pub(crate) fn next(&mut self, view: &impl ScanView<M>) -> Result<Option<Link>, IndexError> {
        while let Some(next) = self.pending.pop() {
            let Pending { link, symbol, base, level, .. } = next;
            if link.slot.kind() != SlotKind::Leaf {
                self.note(view, &next)?;
            } else {
                self.leaf = Some(next);
            }
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
                    self.visit_node(view, &node, kind)?;
                    let (before, _) = ends(self.direction);
                    let pushed = self.push_children(view, &node, before, |_| true).map(drop);
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
    fn seek(&mut self, view: &impl ScanView<M>, from: Pending, key: &[u8]) -> Result<(), IndexError> {
        let (mut next, mut damage) = (from, None);
        while let SlotKind::Node(kind) = next.link.slot.kind() {
            self.note(view, &next)?;
            let Pending { link, base, level, .. } = next;
            let node = Node { at: link.slot.at(), kind: Some(kind), depth: base + link.slot.prefix_len() };
            self.visit_node(view, &node, kind)?;
            if link.slot.prefix_len() > 0 {
                match self.compare_below(view, &node, key) {
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
            let is_wanted = |theirs| is_after(direction, theirs, symbol);
            let version = match self.push_children(view, &node, encode_symbol(symbol), is_wanted) {
                Ok(version) => version,
                Err(error @ IndexError::Heap(_)) => return Err(error),
                Err(error) => {
                    damage.get_or_insert(error);
                    None
                }
            };
            self.path.push((node.depth, symbol));
            let (slot_at, slot) = node.find(view, symbol);
            let link = Link { parent: node.at, slot_at, slot };
            let origin = version.map(|version| self.only(node, version, symbol));
            next = Pending { link, symbol, base: node.depth + 1, level: level + 1, origin };
        }
        self.push(next)?;
        damage.map_or(Ok(()), Err)
    }

    /// Compares `key` with a leaf below `node`. Any leaf there holds the bytes that lead to the node.
    fn compare_below(&self, view: &impl ScanView<M>, node: &Node, key: &[u8]) -> Result<Match, IndexError> {
        let (mut node, mut path, mut children) = (*node, self.path.clone(), Vec::new());
        loop {
            // One child is enough, even if others of the node are damaged.
            let result = self.read_stable_children(view, &node, &mut children);
            let Some(Child { symbol, link }) = children.first().copied() else {
                return result.and(Err(corrupt_node(node.at)));
            };
            path.push((node.depth, symbol));
            match link.slot.kind() {
                SlotKind::Leaf => return self.compare(view, &link, key, &path),
                SlotKind::Node(kind) => {
                    let depth = node.depth + 1 + link.slot.prefix_len();
                    node = Node { at: link.slot.at(), kind: Some(kind), depth };
                    self.check(view, &node, kind)?;
                }
                SlotKind::Empty | SlotKind::Unknown => return Err(corrupt_slot(&link)),
            }
        }
    }

    fn compare(
        &self,
        view: &impl ScanView<M>,
        link: &Link,
        key: &[u8],
        path: &[(usize, Symbol)],
    ) -> Result<Match, IndexError> {
        let read = |leaf: &VerifiedLeaf<'_>| matches_path(leaf.key(), path).then(|| leaf.compare(key));
        let found = match verified::read(view, link.slot.at(), read) {
            Ok(found) => found,
            Err(ChecksumMismatch) => self.lookup(view).read_stable(link, read)?,
        };
        found.ok_or(misplaced_leaf(link.slot.at()))
    }

    /// Counts and checks a node on the way to the next leaf. A sound tree has no more nodes there than a key has
    /// bytes.
    fn visit_node(&mut self, view: &impl ScanView<M>, node: &Node, kind: NodeKind) -> Result<(), IndexError> {
        self.count_read(kind.size(), node.at)?;
        self.nodes_since_leaf += 1;
        if self.nodes_since_leaf > 2 * KEY_LEN_MAX + 2 {
            return Err(corrupt_node(node.at));
        }
        self.check(view, node, kind)
    }

    /// Checks that the node's meta word agrees with the slot that leads to the node.
    fn check(&self, view: &impl ScanView<M>, node: &Node, kind: NodeKind) -> Result<(), IndexError> {
        if node.depth > KEY_LEN_MAX {
            return Err(corrupt_node(node.at));
        }
        let meta = view.load8(node.meta_at());
        // A node that was replaced since keeps its content.
        if meta == kind.meta(node.depth) || meta == META_DEAD { Ok(()) } else { Err(corrupt_node(node.at)) }
    }

    /// Pushes the children of `node` whose symbols `wanted` accepts, which follow `previous`, the next one last. After
    /// an error it pushes those that it could read. Returns the version of the node's lock, in a transaction.
    fn push_children(
        &mut self,
        view: &impl ScanView<M>,
        node: &Node,
        previous: u64,
        wanted: impl Fn(Symbol) -> bool,
    ) -> Result<Option<Version>, IndexError> {
        let mut children = std::mem::take(&mut self.children);
        let result = self.read_stable_children(view, node, &mut children);
        children.retain(|child| wanted(child.symbol));
        if self.direction == Direction::Forward {
            children.reverse();
        }
        let (base, level) = (node.depth + 1, self.path.len() + 1);
        let pushed =
            self.push_in_order(node, previous, base, level, &children, *result.as_ref().unwrap_or(&None));
        self.children = children;
        let version = result?;
        pushed.map(|()| version)
    }

    /// Pushes the slots of `children`, the last of which comes next.
    fn push_in_order(
        &mut self,
        node: &Node,
        previous: u64,
        base: usize,
        level: usize,
        children: &[Child],
        version: Option<Version>,
    ) -> Result<(), IndexError> {
        let root = self.root;
        let origin = |index: usize, symbol: u64| {
            let previous = children.get(index).map_or(previous, |child| encode_symbol(child.symbol));
            version.map(|version| Origin { root, node: *node, version, previous, symbol })
        };
        if version.is_some() {
            // Comes after all children: there is no other one.
            let (_, after) = ends(self.direction);
            let link = Link { parent: node.at, slot_at: node.end(), slot: TreeSlot::EMPTY };
            self.push(Pending { link, symbol: Symbol::End, base, level, origin: origin(0, after) })?;
        }
        children.iter().enumerate().try_for_each(|(index, Child { symbol, link })| {
            let origin = origin(index + 1, encode_symbol(*symbol));
            self.push(Pending { link: *link, symbol: *symbol, base, level, origin })
        })
    }

    /// Notes, in a transaction, that the slot of `pending` was followed.
    fn note(&self, view: &impl ScanView<M>, pending: &Pending) -> Result<(), IndexError> {
        Cursor::note_followed(view, pending, || Ok(()))
    }

    /// Calls `read`. In a transaction, notes that the slot of `pending` was followed, together with what was read.
    fn note_followed<R>(
        view: &impl ScanView<M>,
        pending: &Pending,
        mut read: impl FnMut() -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        let (Some(tx), Some(origin)) = (view.tx(), pending.origin) else { return read() };
        let Origin { root, node, previous, symbol, .. } = origin;
        for round in 0.. {
            let version = tx.read_version(node.at)?;
            let mut noted = read_of_child(view, root, &node, (previous, symbol), pending.link.slot);
            let is_as_read = version == origin.version || is_child_unchanged(view, &mut noted);
            // A node that was replaced on the way is met too seldom to go on in the new one.
            if !is_as_read || noted.guard != node.at {
                return Err(tx.restart().into());
            }
            let result = read()?;
            tx.pin_to_end();
            if tx.note_read(version, noted, is_same_child)? {
                return Ok(result);
            }
            tx.heap().medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    fn lookup<'a, V: ScanView<M>>(&self, view: &'a V) -> Lookup<'a, 'a, M, V>
    where
        'r: 'a,
    {
        Lookup { heap: self.heap, view, memory: view.memory(), tx: None }
    }

    /// Calls `read` for the leaf that [`next`](Cursor::next) returned last. In a transaction, notes the read.
    pub(crate) fn read_leaf<R>(
        &mut self,
        view: &impl ScanView<M>,
        read: impl Fn(&mut Cursor<'r, M>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        match self.leaf.take() {
            Some(pending) if pending.origin.is_some() => {
                let cursor = std::cell::RefCell::new(self);
                let read = || read(&mut cursor.borrow_mut());
                Cursor::note_followed(view, &pending, read)
            }
            _ => read(self),
        }
    }

    /// Reads the children of `node`. Waits for a writer that is about to change them. Returns an error if they can't
    /// be those of a node; else the version of the node's lock, in a transaction.
    fn read_stable_children<V: ScanView<M>>(
        &self,
        view: &V,
        node: &Node,
        children: &mut Vec<Child>,
    ) -> Result<Option<Version>, IndexError> {
        if let Some(tx) = view.tx() {
            return self.read_children_in(tx, view, node, children);
        }
        if self.read_children(view, node, children) {
            return Ok(None);
        }
        let memory = view.memory();
        let mut wait = StabilityWait::default();
        for round in 0.. {
            let (is_sound, is_stable) =
                read_versioned(self.heap, node.at, || self.read_children(view, node, children));
            if let Some(fault) = memory.fault() {
                return Err(fault.into());
            }
            if is_sound {
                return Ok(None);
            }
            if is_stable || V::IS_FIXED {
                return Err(corrupt_children(node.at));
            }
            wait.wait_until_stable(self.heap, memory, corrupt_children(node.at))?;
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    /// Reads the children of `node`, with the version of its lock.
    fn read_children_in(
        &self,
        tx: &Tx<'_, M>,
        view: &impl ScanView<M>,
        node: &Node,
        children: &mut Vec<Child>,
    ) -> Result<Option<Version>, IndexError> {
        for round in 0.. {
            let version = tx.read_version(node.at)?;
            let is_sound = self.read_children(view, node, children);
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
                return Ok(Some(version));
            }
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    /// Reads the children of `node` in the order of their symbols. Returns true if there are any, each once and with
    /// its key byte.
    fn read_children(&self, view: &impl ScanView<M>, node: &Node, children: &mut Vec<Child>) -> bool {
        children.clear();
        let mut child = |symbol: Symbol, slot_at: PoolOffset, slot: TreeSlot| {
            if !slot.is_empty() {
                children.push(Child { symbol, link: Link { parent: node.at, slot_at, slot } });
            }
        };
        child(Symbol::End, node.end(), node.end_slot(view));
        let mut is_sound = true;
        for index in 0..node.capacity() {
            let (slot_at, slot) = (node.slot_at(index), node.slot(view, index));
            let key_byte = match node.kind {
                Some(NodeKind::N256) if !slot.is_empty() => index as u8,
                _ => node
                    .key_byte_at(slot_at)
                    .map_or(slot.byte(), |(at, shift)| (view.load8(at) >> shift) as u8),
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

fn corrupt_children(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the children of the node of the tree", at }
}

/// Returns the numbers before and after those of all symbols, in a direction.
fn ends(direction: Direction) -> (u64, u64) {
    match direction {
        Direction::Forward => (BEFORE_ALL, AFTER_ALL),
        Direction::Backward => (AFTER_ALL, BEFORE_ALL),
    }
}

fn corrupt_node(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the node of the tree", at }
}

fn corrupt_slot(link: &Link) -> IndexError {
    IndexError::Corrupt { what: "the slot of the tree", at: link.slot_at }
}
