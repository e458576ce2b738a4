//! Checking a tree: everything that is stored is compared with the rules of the tree.
//!
//! The shape of the tree makes three promises about the keys a < b of neighbouring leaves. They first differ at the
//! depth of the lowest node above both. There each has the byte of its slot. Each key also has the bytes of its slots
//! at all nodes between that node and its leaf. Together with the checksum of each leaf, the promises expose every
//! wrong bit of a slot.

use crate::count;
use crate::error::IndexError;
use crate::leaf::{self, Match};
use crate::node::{Node, Symbol};
use crate::tree::Tree;
use lode_heap::{Heap, HeapError, Object};
use lode_layout::{
    KEY_LEN_MAX, KV_LOAD_OFF, KvLoad, LINE, NODE_BODY, NodeKind, PoolOffset, SlotKind, TREE_CELLS_OFF,
    TREE_SIZE, TYPE_LEAF, TYPE_TREE, TreeSlot, WORD,
};
use lode_pmem::{FaultScope, Medium, Memory, Readable};
use std::collections::HashSet;

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An object that belongs to the tree. It is reported twice if two slots lead to it.
    Object(Object),
    /// Something that can't be right. Objects below it are not checked.
    Damage(IndexError),
}

/// A part of a tree that a check has found.
pub(crate) enum Part<'a> {
    /// An object that belongs to the tree. The answer says if it is to be read.
    Object(Object),
    /// An entry, whose leaf is sound.
    Entry { leaf: PoolOffset, key: &'a [u8], value: &'a dyn Fn() -> Vec<u8> },
    /// Something that can't be right.
    Damage(IndexError),
}

/// A slot that is still to be followed.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: TreeSlot,
    symbol: Symbol,
    /// Offset of the slot.
    slot_at: PoolOffset,
    /// Number of key bytes before those that the slot skips.
    base: usize,
    /// Number of nodes above it.
    level: usize,
    /// Depth at which the keys below differ from those before; `None` at the first leaf and after damage.
    branch_depth: Option<usize>,
}

/// Returns the limit for the bytes of objects that a pass over a tree reads: twice the pool's length. Objects of a
/// sound tree do not overlap, so they need at most half of it.
pub(crate) fn read_limit(memory: &Memory) -> u64 {
    memory.len().saturating_mul(2)
}

/// The check of one tree.
struct Check<'a, M: Medium, F> {
    heap: &'a Heap<M>,
    scope: &'a FaultScope,
    memory: &'a Readable,
    visit: F,
    pending: Vec<Pending>,
    /// Depths and symbols of the slots above the current one.
    path: Vec<(usize, Symbol)>,
    nodes: HashSet<PoolOffset>,
    /// Bytes of objects that may still be read.
    bytes_left: u64,
    last_key: Option<Vec<u8>>,
    leaves: u64,
    /// True if `visit` has refused an object.
    is_partial: bool,
}

impl<M: Medium> Tree<'_, M> {
    /// Passes every object of the tree, and every damage, to `visit`. Returns the number of leaves. No thread may
    /// write to the tree meanwhile.
    ///
    /// Objects of the heap that belong to no tree are not looked for. A caller that knows all trees compares what
    /// they report with [`Heap::objects`].
    ///
    /// # Cost
    /// Each node and leaf is read once; memory for the offsets of all inner nodes. These limits hold for damaged
    /// pools, too. A node that is reached again is damage, so no path is a circle or longer than a key. If many slots
    /// lead to one leaf, the check ends after it has read twice as many bytes as the pool has.
    pub fn check(&self, mut visit: impl FnMut(Finding)) -> u64 {
        self.check_parts(|part| {
            match part {
                Part::Object(object) => visit(Finding::Object(object)),
                Part::Damage(damage) => visit(Finding::Damage(damage)),
                Part::Entry { .. } => {}
            }
            true
        })
    }

    /// Does what [`check`](Tree::check) does. Passes all entries, too, and does not read an object for which `visit` returns false.
    pub(crate) fn check_parts(&self, visit: impl FnMut(Part<'_>) -> bool) -> u64 {
        let heap = self.heap();
        let scope = FaultScope::open();
        let mut check = Check {
            heap,
            scope: &scope,
            memory: scope.memory(heap.memory()),
            visit,
            pending: Vec::new(),
            path: Vec::new(),
            nodes: HashSet::new(),
            bytes_left: read_limit(heap.memory()),
            last_key: None,
            leaves: 0,
            is_partial: false,
        };
        if self.root().is_null() {
            return 0;
        }
        check.root(self.root());
        while let Some(pending) = check.pending.pop() {
            check.follow(&pending);
        }
        let sum = count::sum(check.memory, self.root());
        if sum != check.leaves && !check.is_partial {
            check.damage("the count of the tree", self.root().plus(TREE_CELLS_OFF));
        }
        check.check_readable();
        check.leaves
    }
}

impl<M: Medium, F: FnMut(Part<'_>) -> bool> Check<'_, M, F> {
    fn damage(&mut self, what: &'static str, at: PoolOffset) {
        (self.visit)(Part::Damage(IndexError::Corrupt { what, at }));
    }

    /// Returns true if all loads since the last call succeeded.
    fn check_readable(&mut self) -> bool {
        let fault = self.scope.fault();
        if let Some(fault) = fault {
            self.scope.clear();
            (self.visit)(Part::Damage(fault.into()));
        }
        fault.is_none()
    }

    /// Returns the allocated object at `at`, if it is of this type and holds `len` bytes.
    fn object(&mut self, at: PoolOffset, type_number: u64, len: u64) -> Option<Object> {
        match self.heap.object(at) {
            Ok(object) if object.type_number == type_number && object.size >= len => {
                if let Some(bytes_left) = self.bytes_left.checked_sub(object.size) {
                    self.bytes_left = bytes_left;
                    let is_read = (self.visit)(Part::Object(object));
                    self.is_partial |= !is_read;
                    return is_read.then_some(object);
                }
                self.pending.clear();
                self.damage("one of many slots of the tree that lead to the object", at);
            }
            Ok(_) | Err(HeapError::NoObject { .. }) => {
                self.damage("the slot of the tree that leads to the object", at)
            }
            Err(error) => drop((self.visit)(Part::Damage(error.into()))),
        }
        None
    }

    fn root(&mut self, root: PoolOffset) {
        if self.object(root, TYPE_TREE, TREE_SIZE).is_none() {
            return;
        }
        let node = Node::root(root);
        // The words between the slot and the cells are the progress of a load.
        let used = |off: u64| off < TREE_CELLS_OFF || off.is_multiple_of(LINE);
        let load = std::array::from_fn(|word| self.memory.load8(root.plus(KV_LOAD_OFF + word as u64 * WORD)));
        let unused = (0..TREE_SIZE).step_by(WORD as usize).filter(|off| !used(*off));
        let is_clean = unused.fold(true, |clean, off| clean & (self.memory.load8(root.plus(off)) == 0));
        if self.memory.load8(node.meta_at()) != node.meta() || !is_clean || KvLoad::decode(&load).is_err() {
            self.damage("the root of the tree", root);
        }
        let slot = node.end_slot(self.memory);
        self.push(slot, Symbol::End, node.end(), 0, 0, None);
    }

    fn push(
        &mut self,
        slot: TreeSlot,
        symbol: Symbol,
        slot_at: PoolOffset,
        base: usize,
        level: usize,
        branch_depth: Option<usize>,
    ) {
        self.pending.push(Pending { slot, symbol, slot_at, base, level, branch_depth });
    }

    fn follow(&mut self, pending: &Pending) {
        let Pending { slot, symbol, slot_at, base, level, .. } = *pending;
        self.path.truncate(level);
        if level > 0 {
            self.path[level - 1] = (base - 1, symbol);
        }
        let wrong_byte = slot.byte() != symbol.byte();
        match slot.kind() {
            SlotKind::Empty if level == 0 => {}
            SlotKind::Leaf if !wrong_byte && slot.prefix_len() == 0 => self.leaf(pending),
            SlotKind::Node(kind) if !wrong_byte && (symbol != Symbol::End || level == 0) => {
                self.node(
                    pending,
                    Node { at: slot.at(), kind: Some(kind), depth: base + slot.prefix_len() },
                    kind,
                );
            }
            _ => {
                self.damage("the slot of the tree", slot_at);
                self.forget_last_key();
            }
        }
    }

    /// Forgets the last key: after damage it is not the one right before the next.
    fn forget_last_key(&mut self) {
        self.last_key = None;
    }

    fn node(&mut self, pending: &Pending, node: Node, kind: NodeKind) {
        let known = self.nodes.contains(&node.at);
        let is_sound = node.depth <= KEY_LEN_MAX
            && !known
            && self.object(node.at, kind.type_number(), kind.size()).is_some()
            && self.memory.load8(node.meta_at()) == node.meta();
        if !self.check_readable() || !is_sound {
            self.damage("the node of the tree that the slot leads to", pending.slot_at);
            return self.forget_last_key();
        }
        self.nodes.insert(node.at);
        let children = self.children(&node, kind);
        if children.is_empty() {
            self.damage("the children of the node of the tree", node.at);
            return self.forget_last_key();
        }
        let level = pending.level + 1;
        self.path.push((node.depth, Symbol::End));
        for (index, (symbol, slot, slot_at)) in children.iter().enumerate().rev() {
            let branch_depth = if index == 0 { pending.branch_depth } else { Some(node.depth) };
            self.push(*slot, *symbol, *slot_at, node.depth + 1, level, branch_depth);
        }
    }

    /// Returns the children of a node in the order of their symbols.
    fn children(&mut self, node: &Node, kind: NodeKind) -> Vec<(Symbol, TreeSlot, PoolOffset)> {
        let mut children = Vec::new();
        let mut is_sound = true;
        for index in 0..node.capacity() {
            let slot = node.slot(self.memory, index);
            let slot_at = node.at.plus(kind.slots_off() + index as u64 * WORD);
            if let Some((at, shift)) = node.key_byte_at(slot_at) {
                is_sound &= (self.memory.load8(at) >> shift) as u8 == slot.byte();
            }
            is_sound &= kind != NodeKind::N256 || slot.is_empty() || usize::from(slot.byte()) == index;
            if !slot.is_empty() {
                children.push((Symbol::Byte(slot.byte()), slot, slot_at));
            }
        }
        let end = node.end_slot(self.memory);
        if !end.is_empty() {
            children.push((Symbol::End, end, node.end()));
        }
        children.sort_unstable_by_key(|child| child.0);
        is_sound &= children.is_sorted_by(|a, b| a.0 < b.0);
        if !is_sound {
            self.damage("the key bytes in the node of the tree", node.at.plus(NODE_BODY));
        }
        children
    }

    fn leaf(&mut self, pending: &Pending) {
        let at = pending.slot.at();
        let header = leaf::header(self.memory, at);
        let len = header.leaf_len().filter(|_| header.key_len as usize <= KEY_LEN_MAX);
        let found = self.object(at, TYPE_LEAF, len.unwrap_or(u64::MAX)).is_some();
        if !self.check_readable() || !found {
            self.damage("the leaf that the slot of the tree leads to", pending.slot_at);
            return self.forget_last_key();
        }
        self.leaves += 1;
        let mut key = vec![0; header.key_len as usize];
        self.memory.read(at.plus(lode_layout::LEAF_HEADER), &mut key);
        if !leaf::has_valid_checksum(self.memory, at, &header) || !self.check_readable() {
            self.damage("the checksum of the leaf", at);
            return self.forget_last_key();
        }
        if !self.matches_path(pending, &key) {
            self.damage("the way to the leaf of the tree", at);
            return self.forget_last_key();
        }
        let (memory, scope) = (self.memory, self.scope);
        let value = || {
            let mut value = vec![0; header.value_len as usize];
            memory.read(at.plus(header.value_off()), &mut value);
            // The leaf was read as a whole before.
            scope.clear();
            value
        };
        (self.visit)(Part::Entry { leaf: at, key: &key, value: &value });
        self.last_key = Some(key);
    }

    /// Returns true if the key is the one that the slots above and the key before promise.
    fn matches_path(&self, pending: &Pending, key: &[u8]) -> bool {
        let at = pending.slot.at();
        let shared = match (&self.last_key, pending.branch_depth) {
            (Some(last), Some(branch_depth)) => match leaf::compare(self.memory, at, last) {
                Match::Differs { at, theirs } if at == branch_depth && theirs > Symbol::of(last, at) => {
                    branch_depth
                }
                _ => return false,
            },
            _ => 0,
        };
        // Up to depth `shared`, the key before has proved the path, which is the same.
        let from = self.path.partition_point(|(depth, _)| *depth < shared);
        self.path[from..]
            .iter()
            .all(|(depth, symbol)| *depth <= key.len() && Symbol::of(key, *depth) == *symbol)
    }
}
