//! Cursors: iteration over the leaves, by ascending or descending keys.
//!
//! A cursor keeps a stack of the slots that it has still to follow, the next one on top. It reads the children of a node
//! in their order, a few at a time if the node is wide, and does not see later changes of those. A node that is replaced
//! meanwhile keeps its content, so the others are read from it. So a scan returns each key that is present all the time
//! exactly once, with a value that it had at some moment of the scan. A key that is added or removed meanwhile may be
//! returned or not.
//!
//! In a transaction, each slot that is followed is noted as a read; see [`validated`](crate::validated). A slot that the
//! cursor has read and not followed yet may have changed since: then the transaction starts again.
//!
//! A node at rest has a child, and its key bytes fit its children. A node that looks otherwise is damaged, unless a
//! writer is at work in it; see [`stability`](crate::stability). After damage a cursor goes on with the slots that it
//! knows.

use crate::children::{Child, Children, Following};
use crate::descend::root_slot;
use crate::direction::Direction;
use crate::error::IndexError;
use crate::leaf::Match;
use crate::lookup::{Link, Lookup};
use crate::node::{Node, Symbol};
use crate::validated::{encode_symbol, is_child_unchanged, is_same_child, read_of_child};
use crate::verified::{self, ChecksumMismatch, VerifiedLeaf};
use crate::view::{ScanView, Source, View};
use lode_heap::Version;
use lode_layout::{KEY_LEN_MAX, LINE, META_DEAD, NodeKind, PoolOffset, SlotKind, TreeSlot, WORD};
use lode_pmem::Medium;

/// Lines of the next leaf that are prefetched: those of a key and a value of together about 200 bytes.
const PREFETCHED_LINES: u64 = 4;

/// Leaves of a node whose first lines are prefetched when the cursor comes to the node: about as many as a node above
/// leaves has.
const LEAVES_PREFETCHED: usize = 8;

/// Room for the steps and levels of most cursors.
const STEPS_USUAL: usize = 32;
const LEVELS_USUAL: usize = 8;

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

/// A step that is still to be taken.
#[derive(Clone, Copy, Debug)]
enum Step {
    Follow(Pending),
    /// Read the children of the node that follow `previous`, an encoded symbol. `level` is the number of nodes above them.
    ReadMore {
        node: Node,
        previous: u64,
        level: usize,
    },
}

/// A position between two leaves.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The tree's root object, from [`begin`](Cursor::begin) on.
    root: PoolOffset,
    /// Length of the pool in bytes.
    pool_len: u64,
    direction: Direction,
    steps: Vec<Step>,
    /// Buffer for the children of a node.
    children: Children,
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

impl Cursor {
    pub(crate) fn new(direction: Direction) -> Cursor {
        Cursor {
            root: PoolOffset::NULL,
            pool_len: 0,
            direction,
            steps: Vec::with_capacity(STEPS_USUAL),
            children: Children::default(),
            path: Vec::with_capacity(LEVELS_USUAL),
            leaf: None,
            nodes_since_leaf: 0,
            begins_early: false,
            bytes_left: None,
        }
    }

    /// Moves before all leaves of the tree at `root`, in the cursor's direction. With `start`, moves before that key,
    /// or at most one leaf earlier. After an error the cursor is anywhere before `start`.
    pub(crate) fn begin<M: Medium>(
        &mut self,
        from: Source<'_, M, impl ScanView<M>>,
        root: PoolOffset,
        start: Option<&[u8]>,
    ) -> Result<(), IndexError> {
        (self.root, self.pool_len) = (root, from.heap.memory().len());
        let parent = Node::root(root);
        let version = from.view.tx().map(|tx| tx.read_version(root)).transpose()?;
        let link = Link { parent: root, slot_at: parent.end(), slot: root_slot(from.view, root) };
        let origin = version.map(|version| self.only(parent, version, Symbol::End));
        let first = Pending { link, symbol: Symbol::End, base: 0, level: 0, origin };
        match start {
            None => self.push(first),
            Some(key) => self.seek(from, first, key).inspect_err(|_| self.begins_early = true),
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
    pub(crate) fn next<M: Medium>(
        &mut self,
        from: Source<'_, M, impl ScanView<M>>,
    ) -> Result<Option<Link>, IndexError> {
        while let Some(step) = self.steps.pop() {
            let next = match step {
                Step::Follow(next) => next,
                Step::ReadMore { node, previous, level } => {
                    self.path.truncate(level);
                    self.push_children(from, &node, Following::more(previous, self.direction), level)?;
                    continue;
                }
            };
            let Pending { link, symbol, base, level, .. } = next;
            if link.slot.kind() != SlotKind::Leaf {
                note(from.view, &next)?;
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
                    if let Some(Step::Follow(after)) = self.steps.last() {
                        // The memory fetches it while the caller reads this leaf.
                        prefetch_start(from.view, after.link.slot.at());
                    }
                    return Ok(Some(link));
                }
                SlotKind::Node(kind) => {
                    let node =
                        Node { at: link.slot.at(), kind: Some(kind), depth: base + link.slot.prefix_len() };
                    self.visit_node(from.view, &node, kind)?;
                    let part = Following::start(self.direction);
                    let pushed = self.push_children(from, &node, part, self.path.len() + 1);
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
        self.bytes_left.get_or_insert(self.pool_len.saturating_mul(2));
    }

    /// Counts `len` bytes that are about to be read. Returns an error when a cursor past damage has read too many.
    pub(crate) fn count_read(&mut self, len: u64, at: PoolOffset) -> Result<(), IndexError> {
        if let Some(bytes_left) = &mut self.bytes_left {
            match bytes_left.checked_sub(len) {
                Some(rest) => *bytes_left = rest,
                None => {
                    self.steps.clear();
                    let what = "one of many slots of the tree that lead to the object";
                    return Err(IndexError::Corrupt { what, at });
                }
            }
        }
        Ok(())
    }

    /// Pushes the slots below `from` that come after `key` in the cursor's direction, and on top the one that may
    /// lead to `key`.
    fn seek<M: Medium>(
        &mut self,
        from: Source<'_, M, impl ScanView<M>>,
        first: Pending,
        key: &[u8],
    ) -> Result<(), IndexError> {
        let (mut next, mut damage) = (first, None);
        while let SlotKind::Node(kind) = next.link.slot.kind() {
            note(from.view, &next)?;
            let Pending { link, base, level, .. } = next;
            let node = Node { at: link.slot.at(), kind: Some(kind), depth: base + link.slot.prefix_len() };
            self.visit_node(from.view, &node, kind)?;
            if link.slot.prefix_len() > 0 {
                match self.compare_below(from, &node, key) {
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
            let symbol = Symbol::of(key, node.depth);
            let part = Following::after(encode_symbol(symbol), self.direction);
            match self.push_children(from, &node, part, self.path.len() + 1) {
                Err(error @ IndexError::Heap(_)) => return Err(error),
                pushed => damage = damage.or(pushed.err()),
            }
            self.path.push((node.depth, symbol));
            let (slot_at, slot) = node.find(from.view, symbol);
            let link = Link { parent: node.at, slot_at, slot };
            let origin = self.children.version.map(|version| self.only(node, version, symbol));
            next = Pending { link, symbol, base: node.depth + 1, level: level + 1, origin };
        }
        self.push(next)?;
        damage.map_or(Ok(()), Err)
    }

    /// Compares `key` with a leaf below `node`. Any leaf there holds the bytes that lead to the node.
    fn compare_below<M: Medium>(
        &mut self,
        from: Source<'_, M, impl ScanView<M>>,
        node: &Node,
        key: &[u8],
    ) -> Result<Match, IndexError> {
        let (mut node, mut path) = (*node, self.path.clone());
        loop {
            // One child is enough, even if others of the node are damaged.
            let result = self.children.read(from, &node, Following::start(self.direction));
            let Some(Child { symbol, link }) = self.children.list.first().copied() else {
                return result.and(Err(corrupt_node(node.at)));
            };
            path.push((node.depth, symbol));
            match link.slot.kind() {
                SlotKind::Leaf => return compare(from, &link, key, &path),
                SlotKind::Node(kind) => {
                    let depth = node.depth + 1 + link.slot.prefix_len();
                    node = Node { at: link.slot.at(), kind: Some(kind), depth };
                    check(from.view, &node, kind)?;
                }
                SlotKind::Empty | SlotKind::Unknown => return Err(corrupt_slot(&link)),
            }
        }
    }

    /// Counts and checks a node on the way to the next leaf. A sound tree has no more nodes there than a key has
    /// bytes.
    fn visit_node(&mut self, view: &impl View, node: &Node, kind: NodeKind) -> Result<(), IndexError> {
        self.count_read(kind.size(), node.at)?;
        self.nodes_since_leaf += 1;
        if self.nodes_since_leaf > 2 * KEY_LEN_MAX + 2 {
            return Err(corrupt_node(node.at));
        }
        check(view, node, kind)
    }

    /// Pushes the children of `node` in `part`, the next one last: at first some of them, and the step that reads the
    /// others. After an error it pushes those that it could read.
    fn push_children<M: Medium>(
        &mut self,
        from: Source<'_, M, impl ScanView<M>>,
        node: &Node,
        part: Following,
        level: usize,
    ) -> Result<(), IndexError> {
        let mut children = std::mem::take(&mut self.children);
        let result = children.read(from, node, part);
        let pushed = self.push_in_order(node, part.previous, level, &children);
        let leaves = children.list.iter().take(LEAVES_PREFETCHED).map(|child| child.link.slot);
        leaves.filter(|slot| slot.kind() == SlotKind::Leaf).for_each(|slot| from.view.prefetch(slot.at()));
        self.children = children;
        result.and(pushed)
    }

    fn push_in_order(
        &mut self,
        node: &Node,
        previous: u64,
        level: usize,
        Children { list, has_more, version }: &Children,
    ) -> Result<(), IndexError> {
        let (root, base) = (self.root, node.depth + 1);
        let symbol_of = |child: &Child| encode_symbol(child.symbol);
        let last = list.last().map_or(previous, symbol_of);
        self.steps.reserve(list.len() + 1);
        let origin = |previous: u64, symbol: u64| {
            version.map(|version| Origin { root, node: *node, version, previous, symbol })
        };
        if *has_more {
            self.steps.push(Step::ReadMore { node: *node, previous: last, level });
        } else if version.is_some() {
            // Comes after all children: there is no other one.
            let (_, after) = self.direction.ends();
            let link = Link { parent: node.at, slot_at: node.end(), slot: TreeSlot::EMPTY };
            let origin = origin(last, after);
            self.push(Pending { link, symbol: Symbol::End, base, level, origin })?;
        }
        list.iter().enumerate().rev().try_for_each(|(index, child)| {
            let previous = index.checked_sub(1).map_or(previous, |before| symbol_of(&list[before]));
            let Child { symbol, link } = *child;
            self.push(Pending { link, symbol, base, level, origin: origin(previous, symbol_of(child)) })
        })
    }

    /// Calls `read` for the leaf that [`next`](Cursor::next) returned last. In a transaction, notes the read.
    pub(crate) fn read_leaf<M: Medium, R>(
        &mut self,
        view: &impl ScanView<M>,
        mut read: impl FnMut(&mut Cursor) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        match self.leaf.take() {
            Some(pending) if pending.origin.is_some() => note_followed(view, &pending, || read(self)),
            _ => read(self),
        }
    }

    fn push(&mut self, pending: Pending) -> Result<(), IndexError> {
        // No more slots can be pending than there are words in the pool.
        if self.steps.len() as u64 > self.pool_len / WORD {
            return Err(corrupt_slot(&pending.link));
        }
        self.steps.push(Step::Follow(pending));
        Ok(())
    }
}

/// Prefetches the first lines of the object at `at`.
fn prefetch_start(view: &impl View, at: PoolOffset) {
    for line in 0..PREFETCHED_LINES {
        view.prefetch(at.plus(line * LINE));
    }
}

/// Checks that the node's meta word agrees with the slot that leads to the node.
fn check(view: &impl View, node: &Node, kind: NodeKind) -> Result<(), IndexError> {
    if node.depth > KEY_LEN_MAX {
        return Err(corrupt_node(node.at));
    }
    let meta = view.load8(node.meta_at());
    // A node that was replaced since keeps its content.
    if meta == kind.meta(node.depth) || meta == META_DEAD { Ok(()) } else { Err(corrupt_node(node.at)) }
}

/// Compares `key` with that of the leaf to which `link` leads. The symbols of `path` lead there, too.
fn compare<M: Medium>(
    from: Source<'_, M, impl ScanView<M>>,
    link: &Link,
    key: &[u8],
    path: &[(usize, Symbol)],
) -> Result<Match, IndexError> {
    let read = |leaf: &VerifiedLeaf<'_>| matches_path(leaf.key(), path).then(|| leaf.compare(key));
    let found = match verified::read(from.view, link.slot.at(), read) {
        Ok(found) => found,
        Err(ChecksumMismatch) => {
            let lookup =
                Lookup { heap: from.heap, view: from.view, memory: from.view.memory(), tx: from.view.tx() };
            lookup.read_stable(link, read)?
        }
    };
    found.ok_or(misplaced_leaf(link.slot.at()))
}

/// Notes, in a transaction, that the slot of `pending` was followed.
fn note<M: Medium>(view: &impl ScanView<M>, pending: &Pending) -> Result<(), IndexError> {
    note_followed(view, pending, || Ok(()))
}

/// Calls `read`. In a transaction, notes that the slot of `pending` was followed, together with what was read.
fn note_followed<M: Medium, R>(
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
