//! Building inner nodes: forks in the path, and replacements for nodes that have become too small or too large.

use crate::attempt::{Attempt, Miss};
use crate::descend::Step;
use crate::node::{Node, Symbol};
use crate::view::View;
use lode_heap::HeapError;
use lode_layout::{NODE_BODY, NodeKind, PoolOffset, SKIP_MAX, TreeSlot, WORD};
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
        if kind.hint_words() > 0 {
            words.as_mut_bytes()[NODE_BODY as usize + index] = child.byte();
        }
    }
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Allocates a node. Even a large node goes through the log whole, because the same transaction may change it
    /// again.
    fn make_node(
        &self,
        kind: NodeKind,
        depth: usize,
        end: TreeSlot,
        children: impl Iterator<Item = TreeSlot>,
    ) -> Result<PoolOffset, HeapError> {
        let at = self.tx.alloc(kind.size(), 1, kind.type_number())?;
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
    /// locks of `node` and of the holder of the step's slot.
    pub(crate) fn replace(
        &self,
        step: &Step,
        node: &Node,
        kind: NodeKind,
        end: TreeSlot,
        children: impl Iterator<Item = TreeSlot>,
    ) -> Result<(), Miss> {
        let new = self.make_node(kind, node.depth, end, children)?;
        self.set(step.place, TreeSlot::node(step.slot.byte(), kind, step.slot.skip(), new));
        self.bury(node)
    }

    /// Replaces `node`, which is full, by a larger node with one more child.
    #[cold]
    pub(crate) fn grow(&self, step: &Step, node: &Node, child: TreeSlot) -> Result<(), Miss> {
        let kind = node.kind.map_or(NodeKind::N4, larger);
        let children = node.children(self.view).chain([child]);
        self.replace(step, node, kind, node.end_slot(self.view), children)
    }

    /// Makes a fork at key byte number `at`, which the step's slot skips or which comes after the last node. The
    /// symbol `theirs` leads where the slot led. The other symbol leads to the leaf `new` of `key`.
    pub(crate) fn branch(
        &self,
        step: &Step,
        key: &[u8],
        at: usize,
        theirs: Symbol,
        new: PoolOffset,
    ) -> Result<(), Miss> {
        // A slot skips at most `SKIP_MAX` bytes. A longer path gets nodes with a single child first.
        let mut base = step.base;
        let mut links = Vec::new();
        while at - base > SKIP_MAX {
            links.push(base + SKIP_MAX);
            base += SKIP_MAX + 1;
        }
        let rest = (step.base + step.slot.skip()).saturating_sub(at + 1);
        let old = step.slot.with_byte(theirs.byte()).with_skip(rest);
        let mine = Symbol::of(key, at);
        let new = TreeSlot::leaf(mine.byte(), new);
        let fork = match (mine, theirs) {
            (Symbol::End, _) => self.make_node(NodeKind::N4, at, new, [old].into_iter())?,
            (_, Symbol::End) => self.make_node(NodeKind::N4, at, old, [new].into_iter())?,
            _ => self.make_node(NodeKind::N4, at, TreeSlot::EMPTY, [old, new].into_iter())?,
        };
        let mut slot = TreeSlot::node(0, NodeKind::N4, at - base, fork);
        for depth in links.into_iter().rev() {
            let child = slot.with_byte(key[depth]);
            let link = self.make_node(NodeKind::N4, depth, TreeSlot::EMPTY, [child].into_iter())?;
            slot = TreeSlot::node(0, NodeKind::N4, SKIP_MAX, link);
        }
        self.set(step.place, slot.with_byte(step.slot.byte()));
        Ok(())
    }
}
