//! Building inner nodes: splits of a path, and replacements for nodes that have become too small or too large.

use crate::attempt::{Attempt, Retry};
use crate::descend::Step;
use crate::node::{Node, Symbol};
use crate::view::View;
use lode_heap::HeapError;
use lode_layout::{NODE_BODY, NodeKind, PREFIX_LEN_MAX, PoolOffset, TreeSlot, WORD};
use lode_pmem::Medium;
use zerocopy::IntoBytes;

/// Words of a node of 48. Larger nodes are rare and are built in allocated memory.
const SMALL_WORDS: usize = (NodeKind::N48.size() / WORD) as usize;

/// Returns the kind that replaces a full node of `kind`. A node of 256 is never full.
fn larger(kind: NodeKind) -> NodeKind {
    match kind {
        NodeKind::N4 => NodeKind::N16,
        NodeKind::N16 => NodeKind::N48,
        NodeKind::N48 | NodeKind::N256 => NodeKind::N256,
    }
}

/// Encodes a node into `words`, which hold zeros and are as many as the node has.
fn encode(
    kind: NodeKind,
    depth: usize,
    end: TreeSlot,
    children: impl Iterator<Item = TreeSlot>,
    words: &mut [u64],
) {
    words[0] = kind.meta(depth);
    words[1] = end.word();
    let first = (kind.slots_off() / WORD) as usize;
    for (index, child) in children.enumerate() {
        debug_assert!(kind == NodeKind::N256 || index < kind.capacity(), "a node has room for its children");
        let index = if kind == NodeKind::N256 { usize::from(child.byte()) } else { index };
        words[first + index] = child.word();
        if kind.key_byte_words() > 0 {
            words.as_mut_bytes()[NODE_BODY as usize + index] = child.byte();
        }
    }
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Allocates a node and locks it: what a reader finds in it is as new as the transaction. Even a large node goes
    /// through the log whole, because the same transaction may change it again.
    pub(crate) fn make_node(
        &self,
        kind: NodeKind,
        depth: usize,
        end: TreeSlot,
        children: impl Iterator<Item = TreeSlot>,
    ) -> Result<PoolOffset, HeapError> {
        let at = self.tx.alloc(kind.size(), 1, kind.type_number())?;
        self.tx.lock(at)?;
        let len = (kind.size() / WORD) as usize;
        if len <= SMALL_WORDS {
            let mut words = [0; SMALL_WORDS];
            encode(kind, depth, end, children, &mut words[..len]);
            self.tx.store_words(at, &words[..len]);
        } else {
            let mut words = vec![0; len];
            encode(kind, depth, end, children, &mut words);
            self.tx.store_words(at, &words);
        }
        Ok(at)
    }

    /// Replaces `node`, to which `step` leads, by a node of another kind with these children. The caller holds the
    /// locks of `node` and of its parent.
    pub(crate) fn replace(
        &self,
        step: &Step,
        node: &Node,
        kind: NodeKind,
        end: TreeSlot,
        children: impl Iterator<Item = TreeSlot>,
    ) -> Result<(), Retry> {
        let new = self.make_node(kind, node.depth, end, children)?;
        self.store_slot(step.slot_at, TreeSlot::node(step.slot.byte(), kind, step.slot.prefix_len(), new));
        self.retire(node)
    }

    /// Replaces `node`, which is full, by a larger node with one more child.
    #[cold]
    pub(crate) fn grow(&self, step: &Step, node: &Node, child: TreeSlot) -> Result<(), Retry> {
        let kind = node.kind.map_or(NodeKind::N4, larger);
        let children = node.children(self.view).chain([child]);
        self.replace(step, node, kind, node.end_slot(self.view), children)
    }

    /// Splits the path at key byte number `at`, which the step's slot skips or which comes after the last node. The
    /// symbol `theirs` leads where the slot led. The symbol of `key` leads where `new` does.
    pub(crate) fn split_path(
        &self,
        step: &Step,
        key: &[u8],
        at: usize,
        theirs: Symbol,
        new: TreeSlot,
    ) -> Result<(), Retry> {
        let rest = (step.base + step.slot.prefix_len()).saturating_sub(at + 1);
        let old = step.slot.with_byte(theirs.byte()).with_prefix_len(rest);
        let mine = Symbol::of(key, at);
        let new = new.with_byte(mine.byte());
        let branch = match (mine, theirs) {
            (Symbol::End, _) => self.make_node(NodeKind::N4, at, new, [old].into_iter())?,
            (_, Symbol::End) => self.make_node(NodeKind::N4, at, old, [new].into_iter())?,
            _ => self.make_node(NodeKind::N4, at, TreeSlot::EMPTY, [old, new].into_iter())?,
        };
        let branch = Node { at: branch, kind: Some(NodeKind::N4), depth: at };
        let slot = self.slot_to(&branch, NodeKind::N4, step.base, key)?;
        self.store_slot(step.slot_at, slot.with_byte(step.slot.byte()));
        Ok(())
    }

    /// Returns a slot that leads to `node`, of `kind`, on the way of `key`, and skips the key's bytes from number `base`
    /// on.
    pub(crate) fn slot_to(
        &self,
        node: &Node,
        kind: NodeKind,
        base: usize,
        key: &[u8],
    ) -> Result<TreeSlot, HeapError> {
        // A slot skips at most `PREFIX_LEN_MAX` bytes. A longer path gets nodes with a single child first.
        let mut base = base;
        let mut links = Vec::new();
        while node.depth - base > PREFIX_LEN_MAX {
            links.push(base + PREFIX_LEN_MAX);
            base += PREFIX_LEN_MAX + 1;
        }
        let mut slot = TreeSlot::node(0, kind, node.depth - base, node.at);
        for depth in links.into_iter().rev() {
            let child = slot.with_byte(key[depth]);
            let link = self.make_node(NodeKind::N4, depth, TreeSlot::EMPTY, [child].into_iter())?;
            slot = TreeSlot::node(0, NodeKind::N4, PREFIX_LEN_MAX, link);
        }
        Ok(slot)
    }
}
