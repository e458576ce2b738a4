//! Many insertions in one transaction, whose keys ascend.
//!
//! The batch is divided into runs: ascending keys that come to lie below one new slot. So they share their first bytes
//! up to the place where they leave the tree, and the tree has none of them. The nodes of a run are built in DRAM, in
//! order, and each is stored once, with all its children:
//!
//! ```text
//!   stack of open nodes, a path      key that shares fewer bytes with the one before     batch ends
//!     root of the run, depth 1   ->    nodes of greater depth are complete:          ->    all are complete;
//!       depth 3                        stored, and their slots go to the node above        one slot leads to the run
//!         depth 7
//! ```
//!
//! Then one slot is put at the insert point of the run's first key, as that of a single leaf would be: with the same
//! locks, and by the same steps. A key of the batch that the tree has gets its new value by itself.
//!
//! The next run begins at the path of the last one. All keys below a node begin with the bytes that lead to it, as long
//! as the node lives. So if two keys share more bytes than lead to a node, the way of both passes it. The path is a hint.
//! As after a descent from the root, the insertion locks the node that it changes, and compares its meta word and slot;
//! see [`attempt`](crate::attempt). If one differs, the next attempt begins at the root. The thread is pinned meanwhile,
//! so no other object comes to lie where one of the path's nodes was.
//!
//! # Cost
//! A key costs its leaf, and its share of the nodes. A batch in an empty tree reads no node. Otherwise each node on the
//! way of the keys is searched about once.

use crate::attempt::{Attempt, Retry};
use crate::descend::{Descent, Step, Stop, descend_visiting, find_child, root_step};
use crate::error::IndexError;
use crate::insert::InsertPoint;
use crate::leaf;
use crate::node::{Node, Symbol};
use crate::tree::{Change, Tree, abort_on_error};
use crate::view::View;
use lode_heap::Tx;
use lode_layout::{KEY_LEN_MAX, NodeKind, PoolOffset, TreeSlot};
use lode_pmem::Medium;
use std::mem;

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

impl<M: Medium> Tree<'_, M> {
    /// Gives each key its value, as [`insert_in`](Tree::insert_in) does for one pair after the other. Returns the number
    /// of keys that had a value before. Keys in any order are right; the fewer of them are less than the one before, the
    /// faster it is.
    ///
    /// # Errors
    /// As [`insert_in`](Tree::insert_in). [`IndexError::KeyTooLong`] comes before any change.
    pub fn insert_sorted_in(&self, tx: &Tx<'_, M>, pairs: &[Pair<'_>]) -> Result<u64, IndexError> {
        if let Some((key, _)) = pairs.iter().find(|(key, _)| key.len() > KEY_LEN_MAX) {
            return Err(IndexError::KeyTooLong { len: key.len() });
        }
        // The path's nodes stay what they are.
        let _pin = self.heap().pin();
        let (mut path, mut rest, mut replaced) = (Path::default(), pairs, 0);
        while let Some(((key, _), _)) = rest.split_first() {
            let done = self.change(tx, key, &mut InsertRun { pairs: rest, path: &mut path })?;
            replaced += u64::from(done.is_replaced);
            rest = &rest[done.count..];
        }
        Ok(replaced)
    }
}

/// The way from the root object to a key, as far as it is known.
#[derive(Debug, Default)]
struct Path {
    key: Vec<u8>,
    /// From the root object's slot on, each in the node to which the one before leads. All lead to nodes.
    steps: Vec<Step>,
}

impl Path {
    /// Returns the insert point for `key`, locked. The path then leads to its node.
    fn find<M: Medium, V: View>(
        &mut self,
        attempt: &Attempt<'_, '_, M, V>,
        key: &[u8],
    ) -> Result<InsertPoint, Retry> {
        let shared = shared_len(&self.key, key);
        let kept = self.steps.partition_point(|step| step.node().is_some_and(|node| node.depth <= shared));
        let next = self.steps.get(kept).copied();
        self.steps.truncate(kept);
        let point = match next {
            // The slot skips the first byte at which the keys differ. The path's key goes on, since no key below a node
            // ends before the node's depth.
            Some(step) if step.base <= shared => {
                attempt.split_point(step, shared, Symbol::of(&self.key, shared))?
            }
            _ => {
                let descent = self.descend(attempt, key)?;
                attempt.insert_point_at(key, descent)?
            }
        };
        let base = point.base();
        let above = self.steps.partition_point(|step| step.node().is_some_and(|node| node.base() <= base));
        self.steps.truncate(above);
        Ok(point)
    }

    /// Descends for `key` from the end of the path on, and adds the steps to it.
    fn descend<M: Medium, V: View>(
        &mut self,
        attempt: &Attempt<'_, '_, M, V>,
        key: &[u8],
    ) -> Result<Descent, IndexError> {
        let (view, steps) = (attempt.view, &mut self.steps);
        let mut next = root_step(view, attempt.root);
        if let Some(step) = steps.last().copied()
            && let Some(node) = step.node()
        {
            let (slot_at, slot) = find_child(view, &node, key);
            if slot.is_empty() {
                // The key begins with the bytes that lead to the node, so no prefix is left to be compared.
                return Ok(Descent { step, stop: Stop::NoChild(node), has_prefix: false });
            }
            next = Step { parent: node, slot_at, slot, base: node.base() };
        }
        let descent = descend_visiting(view, next, key, key.len(), |step| steps.push(step))?;
        if descent.step.node().is_some() {
            steps.push(descent.step);
        }
        Ok(descent)
    }
}

/// Returns the number of first bytes that the keys share.
fn shared_len(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// The insertion of the first run of `pairs`.
struct InsertRun<'a> {
    pairs: &'a [Pair<'a>],
    path: &'a mut Path,
}

/// The result of one insertion.
struct Done {
    /// Number of pairs.
    count: usize,
    /// True if the key, the only one, had a value before.
    is_replaced: bool,
}

impl<M: Medium> Change<M> for InsertRun<'_> {
    type Output = Done;

    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<Done, Retry> {
        let (key, value) = self.pairs[0];
        // After an error, the next attempt begins at the root.
        let mut path = mem::take(self.path);
        let is_hinted = !path.steps.is_empty();
        let point = path.find(attempt, key).map_err(|retry| match retry {
            // The path may be old, which is no damage.
            Retry::Inconsistent(_) if is_hinted => Retry::Conflict,
            other => other,
        })?;
        let run = match point.new_base() {
            Some(base) => &self.pairs[..run_len(self.pairs, base)],
            None => &self.pairs[..1],
        };
        let put = match run {
            [_] => attempt.put(&point, key, value),
            _ => attempt.put_run(&point, run),
        };
        abort_on_error(attempt.tx, put)?;
        let last = run.last().map_or(key, |(key, _)| key);
        path.key.clear();
        path.key.extend_from_slice(last);
        *self.path = path;
        Ok(Done { count: run.len(), is_replaced: point.new_base().is_none() })
    }
}

/// Returns the number of first pairs whose keys ascend and share their first `base` bytes, at least 1.
fn run_len(pairs: &[Pair<'_>], base: usize) -> usize {
    let Some(first) = pairs[0].0.get(..base) else { return 1 };
    let continues = |pair: &[Pair<'_>]| pair[0].0 < pair[1].0 && pair[1].0.starts_with(first);
    1 + pairs.windows(2).take_while(|pair| continues(pair)).count()
}

/// A node whose children are not all known yet.
#[derive(Clone, Copy)]
struct OpenNode {
    depth: usize,
    end: TreeSlot,
    /// Index of its first child.
    first: usize,
}

/// A leaf or a node to which a slot is to lead.
#[derive(Clone, Copy)]
enum Child {
    Leaf(PoolOffset),
    Node(Node, NodeKind),
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Puts the pairs of a run, two at least, at the insert point of the first.
    fn put_run(&self, point: &InsertPoint, run: &[Pair<'_>]) -> Result<(), Retry> {
        let cell = self.lock_cell()?;
        let (top, key) = (self.build(run)?, run[0].0);
        let base = point.new_base().unwrap_or_default();
        self.put_slot(point, key, self.slot_to_child(top, base, key)?)?;
        self.count(cell, run.len() as i64);
        Ok(())
    }

    /// Makes the leaves and nodes of the pairs, whose keys ascend.
    fn build(&self, pairs: &[Pair<'_>]) -> Result<Child, Retry> {
        // The open nodes, each below the one before, and the children of all, in the same order.
        let (mut open, mut children): (Vec<OpenNode>, Vec<TreeSlot>) = (Vec::new(), Vec::new());
        let (mut last, mut last_key) = (Child::Leaf(PoolOffset::NULL), &[][..]);
        for (index, (key, value)) in pairs.iter().enumerate() {
            if index > 0 {
                let shared = shared_len(last_key, key);
                while let Some(node) = open.pop_if(|node| node.depth > shared) {
                    last = self.close(node, &mut children, last, last_key)?;
                }
                if open.last().is_none_or(|node| node.depth < shared) {
                    open.push(OpenNode { depth: shared, end: TreeSlot::EMPTY, first: children.len() });
                }
                if let Some(node) = open.last_mut() {
                    self.add_child(node, &mut children, last, last_key)?;
                }
            }
            (last, last_key) = (Child::Leaf(leaf::alloc(self.tx, key, value)?), key);
        }
        while let Some(node) = open.pop() {
            last = self.close(node, &mut children, last, last_key)?;
        }
        Ok(last)
    }

    /// Adds `child`, to which `key` leads, to the children of `node`, the last open one.
    fn add_child(
        &self,
        node: &mut OpenNode,
        children: &mut Vec<TreeSlot>,
        child: Child,
        key: &[u8],
    ) -> Result<(), Retry> {
        match key.get(node.depth) {
            Some(byte) => {
                children.push(self.slot_to_child(child, node.depth + 1, key)?.with_byte(*byte));
            }
            None => node.end = self.slot_to_child(child, node.depth, key)?,
        }
        Ok(())
    }

    /// Makes `node`, the last open one, with its last child, to which `key` leads. Returns it as a child.
    fn close(
        &self,
        mut node: OpenNode,
        children: &mut Vec<TreeSlot>,
        last: Child,
        key: &[u8],
    ) -> Result<Child, Retry> {
        self.add_child(&mut node, children, last, key)?;
        let count = children.len() - node.first;
        let kinds = [NodeKind::N4, NodeKind::N16, NodeKind::N48];
        let kind = kinds.into_iter().find(|kind| count <= kind.capacity()).unwrap_or(NodeKind::N256);
        let at = self.make_node(kind, node.depth, node.end, children.drain(node.first..))?;
        Ok(Child::Node(Node { at, kind: Some(kind), depth: node.depth }, kind))
    }

    /// Returns a slot that leads to `child`, on the way of `key`, and skips the key's bytes from number `base` on.
    fn slot_to_child(&self, child: Child, base: usize, key: &[u8]) -> Result<TreeSlot, Retry> {
        Ok(match child {
            Child::Leaf(at) => TreeSlot::leaf(0, at),
            Child::Node(node, kind) => self.slot_to(&node, kind, base, key)?,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Finding;
    use crate::descend::NODES_SEARCHED;
    use lode_testing::{heap, memory, seed};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// Batches that follow each other search a node for each run, and batches between older keys each node about once,
    /// whatever the depth of the tree.
    #[test]
    fn sorted_keys_search_few_nodes() {
        let heap = heap::create(Arc::new(memory::volatile(64 << 20)));
        let root = heap.run(Tree::create).unwrap();
        let tree = Tree::open(&heap, root).unwrap();
        let mut random = fastrand::Rng::with_seed(seed(3));
        // Long keys of few different bytes: the tree is deep.
        let mut key = || (0..random.usize(1..40)).map(|_| random.u8(b'a'..b'e')).collect::<Vec<u8>>();
        let keys: BTreeSet<Vec<u8>> = (0..20_000).map(|_| key()).collect();
        let (older, newer): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(index, _)| index % 2 == 0);
        let insert = |keys: &[(usize, &Vec<u8>)]| {
            let before = NODES_SEARCHED.get();
            for batch in keys.chunks(2_500) {
                let pairs: Vec<Pair<'_>> = batch.iter().map(|(_, key)| (key.as_slice(), &[][..])).collect();
                assert_eq!(heap.run(|tx| tree.insert_sorted_in(tx, &pairs)), Ok(0));
            }
            NODES_SEARCHED.get() - before
        };
        let (followed, between, count) = (insert(&older), insert(&newer), keys.len() as u64);
        println!("{count} keys in two halves: {followed} nodes searched, then {between}");
        assert!(followed < 200 && between < count, "{followed} nodes searched, then {between}");
        tree.check(|finding| assert!(matches!(finding, Finding::Object(_)), "{finding:?}"));
        assert_eq!(tree.count(), Ok(count));
        let reader = tree.reader();
        assert!(reader.iter().map(|entry| entry.unwrap().key).eq(keys));
    }
}
