//! Survey of a damaged store: its table, its trees, and the leaves to which nothing leads. The trees are not changed.
//!
//! The table is salvaged first, because its leaves say themselves that they are entries: each leads to the root object
//! of a tree. A tree to which no entry leads has lost its name. A pass over each tree finds the losses. It marks objects and
//! stores nothing but corrected leaves, so a repair that is killed finds the same again.

use crate::check::read_limit;
use crate::losses::Losses;
use crate::node::Node;
use crate::salvage_pass::{Reached, SalvagePass, sound_key, sound_value};
use lode_fsck::DamagedPool;
use lode_heap::check::SpaceMap;
use lode_layout::{
    LEAF_HEADER, PoolOffset, SlotKind, TREE_SIZE, TYPE_LEAF, TYPE_TREE, TreeEntry, TreeTableKey, tree_meta,
};
use lode_pmem::{FaultScope, Medium, Memory, Readable};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A leaf to which no slot leads, and its key.
pub(super) type LooseLeaf = (PoolOffset, Vec<u8>);

/// A tree of a damaged store.
#[derive(Debug)]
pub(super) struct SurveyedTree {
    /// Offset of the root object.
    pub(super) root: PoolOffset,
    /// The key and the entry in the table; `None` if they are lost.
    pub(super) entry: Option<(Vec<u8>, Vec<u8>)>,
    /// True if the key and the entry are not in the table, but in a leaf to which no slot leads.
    pub(super) is_entry_loose: bool,
    /// True if there is a root object.
    pub(super) has_root: bool,
    /// The losses of the tree.
    pub(super) losses: Losses,
}

/// The trees and leaves of a damaged store.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Keys of the table whose entries no program stores.
    pub(super) invalid: Vec<Vec<u8>>,
    /// The trees.
    pub(super) trees: Vec<SurveyedTree>,
    /// The sound leaves to which nothing leads, sorted by their keys.
    pub(super) leaves: Vec<LooseLeaf>,
    /// The damaged leaves to which nothing leads.
    pub(super) unsound: Vec<PoolOffset>,
    /// Upper limit of the number of leaves in the pool.
    pub(super) leaves_max: u64,
    /// Number of words that were stored.
    pub(super) stored: u64,
}

impl SurveyedTree {
    /// Returns the name of the tree, unless it is lost or was dropped.
    pub(super) fn name(&self) -> Option<&str> {
        match TreeTableKey::decode(&self.entry.as_ref()?.0) {
            Ok(TreeTableKey::Named(name)) => Some(name),
            _ => None,
        }
    }

    /// Returns true if the tree was dropped.
    pub(super) fn was_dropped(&self) -> bool {
        self.entry.is_some() && self.name().is_none()
    }
}

impl Survey {
    /// Surveys the trees of the store whose table is at `table`, or was lost, and marks their objects. A pass has made
    /// the table sound.
    pub(super) fn make<M: Medium>(
        damaged: &DamagedPool<'_, M>,
        table: Option<PoolOffset>,
        reached: &mut Reached,
    ) -> Survey {
        let scope = FaultScope::open();
        let memory = scope.memory(damaged.medium.memory());
        let mut survey = Survey { leaves_max: memory.len() / LEAF_HEADER, ..Survey::default() };
        let mut roots: HashSet<PoolOffset> = table.into_iter().collect();
        let entries = table.map(|table| entries(memory, &reached.map, table));
        for (key, value) in entries.unwrap_or_default() {
            let root = root_of_entry(&key, &value).filter(|root| {
                // The space of a dropped tree without a root object can't be given back by its keys.
                (key[0] == TreeTableKey::NAMED_PREFIX[0] || is_tree(&reached.map, *root))
                    && !reached.map.is_marked(*root)
                    && roots.insert(*root)
            });
            match root {
                Some(root) => survey.add(damaged, memory, reached, root, Some((key, value))),
                None => survey.invalid.push(key),
            }
        }
        for (at, object_size) in unmarked(memory, &reached.map, TYPE_LEAF) {
            let Some((key, value)) = sound_leaf(memory, at, object_size) else { continue };
            let root = root_of_entry(&key, &value).filter(|root| is_tree(&reached.map, *root));
            let has_key = |tree: &SurveyedTree| tree.entry.as_ref().is_some_and(|entry| entry.0 == key);
            let is_taken = survey.trees.iter().any(has_key);
            let is_free = |root: &PoolOffset| !is_taken && !reached.map.is_marked(*root);
            if let Some(root) = root.filter(|root| is_free(root) && roots.insert(*root)) {
                reached.map.mark(memory, at);
                survey.add(damaged, memory, reached, root, Some((key, value)));
                survey.trees.last_mut().expect("it was added").is_entry_loose = true;
            }
        }
        for (root, _) in unmarked(memory, &reached.map, TYPE_TREE) {
            if roots.insert(root) {
                survey.add(damaged, memory, reached, root, None);
                let is_tree = memory.load8(Node::root(root).meta_at()) == tree_meta();
                // An empty tree without a name holds nothing to keep.
                survey.trees.pop_if(|tree| tree.losses.leaves == 0 && !(is_tree && tree.losses.counted > 0));
            }
        }
        for (at, object_size) in unmarked(memory, &reached.map, TYPE_LEAF) {
            match sound_key(memory, at, object_size) {
                Some(key) => survey.leaves.push((at, key)),
                None => survey.unsound.push(at),
            }
        }
        survey.leaves.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        // Lost bytes read as zeros, so what lies there is not sound.
        let _ = scope.close();
        survey
    }

    fn add<M: Medium>(
        &mut self,
        damaged: &DamagedPool<'_, M>,
        memory: &Readable,
        reached: &mut Reached,
        root: PoolOffset,
        entry: Option<(Vec<u8>, Vec<u8>)>,
    ) {
        let has_root = is_tree(&reached.map, root);
        let mut losses = Losses::default();
        if has_root {
            let mut pass = SalvagePass::new(&**damaged.medium, memory, reached).surveying();
            pass.run(root);
            self.stored += pass.stored;
            losses = pass.losses;
        }
        self.trees.push(SurveyedTree { root, entry, is_entry_loose: false, has_root, losses });
    }
}

/// Returns the keys and values of the sound leaves of the table at `table`.
fn entries(memory: &Readable, map: &SpaceMap, table: PoolOffset) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    visit_leaves(memory, map, table, |key, value| {
        entries.push((key, value));
        ControlFlow::Continue(())
    });
    entries
}

/// Returns the root objects of the table at `table`, and of the trees to which its sound entries lead, but of none that `map` marks;
/// none if no table is there.
pub(super) fn unmarked_roots(memory: &Readable, map: &SpaceMap, table: PoolOffset) -> Vec<PoolOffset> {
    if !is_tree(map, table) {
        return Vec::new();
    }
    let of_entries =
        entries(memory, map, table).into_iter().filter_map(|(key, value)| root_of_entry(&key, &value));
    let all = [table].into_iter().chain(of_entries);
    let mut seen = HashSet::new();
    all.filter(|root| is_tree(map, *root) && !map.is_marked(*root) && seen.insert(*root)).collect()
}

/// Returns true if the tree at `root` has an entry of the table of trees that leads to a tree.
pub(super) fn is_table(memory: &Readable, map: &SpaceMap, root: PoolOffset) -> bool {
    let mut found = false;
    visit_leaves(memory, map, root, |key, value| {
        found = root_of_entry(&key, &value).is_some_and(|root| is_tree(map, root));
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found
}

/// Returns the root object to which an entry of the table leads; `None` if no program stores such an entry.
pub(crate) fn root_of_entry(key: &[u8], value: &[u8]) -> Option<PoolOffset> {
    match TreeTableKey::decode(key).ok()? {
        TreeTableKey::Named(_) => TreeEntry::decode(value).ok().map(|entry| entry.root),
        TreeTableKey::Dropped(root) => value.is_empty().then_some(root),
    }
}

pub(super) fn is_tree(map: &SpaceMap, root: PoolOffset) -> bool {
    map.object(root).is_some_and(|(size, found)| found == TYPE_TREE && size >= TREE_SIZE)
}

/// Returns the allocated objects of a type that no pass has reached, and their sizes.
fn unmarked(memory: &Readable, map: &SpaceMap, type_number: u64) -> Vec<(PoolOffset, u64)> {
    let mut all = Vec::new();
    map.visit_unmarked(memory, |at| {
        if let Some((size, found)) = map.object(at)
            && found == type_number
        {
            all.push((at, size));
        }
    });
    all
}

fn sound_leaf(memory: &Memory, at: PoolOffset, object_size: u64) -> Option<(Vec<u8>, Vec<u8>)> {
    let key = sound_key(memory, at, object_size)?;
    Some((key, sound_value(memory, at).ok()?))
}

/// Calls `visit` with each sound leaf below the root object at `root`, its key and its value, in any order, until
/// `visit` breaks. Parts that are not sound are left out.
fn visit_leaves(
    memory: &Readable,
    map: &SpaceMap,
    root: PoolOffset,
    mut visit: impl FnMut(Vec<u8>, Vec<u8>) -> ControlFlow<()>,
) {
    let mut bytes_left = read_limit(memory);
    let mut nodes = HashSet::new();
    let mut pending = vec![Node::root(root).end_slot(memory)];
    while let Some(slot) = pending.pop() {
        let Some((size, found)) = map.object(slot.at()) else { continue };
        match slot.kind() {
            SlotKind::Leaf if found == TYPE_LEAF => {
                let Some(left) = bytes_left.checked_sub(size) else { return };
                bytes_left = left;
                if let Some((key, value)) = sound_leaf(memory, slot.at(), size)
                    && visit(key, value).is_break()
                {
                    return;
                }
            }
            SlotKind::Node(kind)
                if found == kind.type_number() && size >= kind.size() && nodes.insert(slot.at()) =>
            {
                let node = Node { at: slot.at(), kind: Some(kind), depth: 0 };
                pending.push(node.end_slot(memory));
                pending.extend((0..node.capacity()).map(|index| node.slot(memory, index)));
            }
            _ => {}
        }
    }
}
