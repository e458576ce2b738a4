//! Inner nodes: finding a key's slot, an empty slot, and the children.

use crate::key_bytes::KeyByteMatches;
use crate::view::View;
use lode_layout::{
    LINE, NODE_BODY, NODE_END, NODE_META, NodeKind, PoolOffset, TreeSlot, WORD, align_down, tree_meta,
};

/// A node that a slot led to, or the root object, which acts as a node with an end slot only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: PoolOffset,
    /// Kind of the node; `None` for the root object.
    pub(crate) kind: Option<NodeKind>,
    /// Number of the key byte by which the node branches.
    pub(crate) depth: usize,
}

/// The symbol of a key at a depth: a byte, or the end of the key, which comes before all bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Symbol {
    End,
    Byte(u8),
}

impl Symbol {
    #[inline]
    pub(crate) fn of(key: &[u8], depth: usize) -> Symbol {
        key.get(depth).map_or(Symbol::End, |byte| Symbol::Byte(*byte))
    }

    /// Returns the key byte of a slot for the symbol.
    #[inline]
    pub(crate) fn byte(self) -> u8 {
        match self {
            Symbol::End => 0,
            Symbol::Byte(byte) => byte,
        }
    }
}

impl Node {
    pub(crate) fn root(at: PoolOffset) -> Node {
        Node { at, kind: None, depth: 0 }
    }

    /// Returns the number of key bytes that lead to a child of the node.
    #[inline]
    pub(crate) fn base(&self) -> usize {
        if self.kind.is_some() { self.depth + 1 } else { 0 }
    }

    /// Returns the content of the meta word as long as the node is in the tree.
    #[inline]
    pub(crate) fn meta(&self) -> u64 {
        self.kind.map_or(tree_meta(), |kind| kind.meta(self.depth))
    }

    #[inline]
    pub(crate) fn meta_at(&self) -> PoolOffset {
        self.at.plus(NODE_META)
    }

    /// Returns the offset of the end slot, which is the only slot of the root object.
    #[inline]
    pub(crate) fn end(&self) -> PoolOffset {
        self.at.plus(NODE_END)
    }

    /// Returns the content of the end slot.
    #[inline]
    pub(crate) fn end_slot(&self, view: &impl View) -> TreeSlot {
        TreeSlot::from_word(view.load8(self.end()))
    }

    /// Returns the offset and content of the slot for `symbol`. If there is none, the content is empty and the offset
    /// arbitrary.
    #[inline(always)]
    pub(crate) fn find(&self, view: &impl View, symbol: Symbol) -> (PoolOffset, TreeSlot) {
        match (self.kind, symbol) {
            (Some(kind), Symbol::Byte(byte)) => find(view, self.at, kind, byte),
            _ => (self.end(), self.end_slot(view)),
        }
    }

    /// Returns the offset of an empty slot for a child for `symbol`, which has none yet. `None` if the node is full.
    pub(crate) fn empty_slot_for(&self, view: &impl View, symbol: Symbol) -> Option<PoolOffset> {
        let (Some(kind), Symbol::Byte(byte)) = (self.kind, symbol) else { return Some(self.end()) };
        match kind {
            NodeKind::N256 => Some(slot_offset(self.at, kind, usize::from(byte))),
            NodeKind::N4 => find_in_node4(view, self.at, TreeSlot::is_empty).map(|found| found.0),
            // An empty slot has the key byte 0, as has the slot for the byte 0.
            NodeKind::N16 => {
                find_by_key_byte::<2>(view, self.at, kind, 0, TreeSlot::is_empty).map(|found| found.0)
            }
            NodeKind::N48 => {
                find_by_key_byte::<6>(view, self.at, kind, 0, TreeSlot::is_empty).map(|found| found.0)
            }
        }
    }

    /// Returns the word with the key byte of the slot at `slot`, and the shift of the byte in that word; `None` if the
    /// node has no key bytes.
    pub(crate) fn key_byte_at(&self, slot: PoolOffset) -> Option<(PoolOffset, u32)> {
        let kind = self.kind.filter(|kind| kind.key_byte_words() > 0)?;
        let index = slot.get().checked_sub(self.at.get() + kind.slots_off())? / WORD;
        Some((self.at.plus(NODE_BODY + align_down(index, WORD)), (index % WORD) as u32 * 8))
    }

    /// Returns the words with the key bytes of a node of 16 or 48. A slot without a child has the key byte 0.
    pub(crate) fn key_bytes(&self, view: &impl View) -> impl Iterator<Item = u64> {
        let words = self.kind.map_or(0, NodeKind::key_byte_words);
        (0..words).map(|index| view.load8(self.at.plus(NODE_BODY + index * WORD)))
    }

    /// Returns the offset of slot number `index`, the end slot not counted.
    #[inline]
    pub(crate) fn slot_at(&self, index: usize) -> PoolOffset {
        self.kind.map_or(self.end(), |kind| slot_offset(self.at, kind, index))
    }

    /// Returns the content of slot number `index`, the end slot not counted.
    #[inline]
    pub(crate) fn slot(&self, view: &impl View, index: usize) -> TreeSlot {
        TreeSlot::from_word(view.load8(self.slot_at(index)))
    }

    /// Returns the content of the `N` slots from number `first` on. Past the last one they are empty.
    #[inline]
    pub(crate) fn slots<const N: usize>(&self, view: &impl View, first: usize) -> [TreeSlot; N] {
        let mut words = [0; N];
        let count = N.min(self.capacity() - first);
        view.load_words(self.slot_at(first), &mut words[..count]);
        words.map(TreeSlot::from_word)
    }

    /// Returns the number of slots, the end slot not counted.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.kind.map_or(0, NodeKind::capacity)
    }

    /// Returns all children but the end slot's, in the order of their slots.
    pub(crate) fn children<'v, V: View>(&self, view: &'v V) -> impl Iterator<Item = TreeSlot> + use<'v, V> {
        let node = *self;
        (0..node.capacity()).map(move |index| node.slot(view, index)).filter(|slot| !slot.is_empty())
    }

    /// Returns the first child, the end slot's before all others; `None` if other threads empty the node meanwhile.
    pub(crate) fn any_child(&self, view: &impl View) -> Option<TreeSlot> {
        let end = self.end_slot(view);
        if end.is_empty() { self.children(view).next() } else { Some(end) }
    }
}

/// Returns the offset of slot number `index` in the node at `at`.
#[inline]
fn slot_offset(at: PoolOffset, kind: NodeKind, index: usize) -> PoolOffset {
    at.plus(kind.slots_off() + index as u64 * WORD)
}

/// Returns the offset and content of the slot for `byte` in the node at `at`; as [`Node::find`] if there is none.
#[inline(always)]
pub(crate) fn find(view: &impl View, at: PoolOffset, kind: NodeKind, byte: u8) -> (PoolOffset, TreeSlot) {
    let is_it = |slot: TreeSlot| slot.byte() == byte && !slot.is_empty();
    let found = match kind {
        NodeKind::N4 => find_in_node4(view, at, is_it),
        NodeKind::N16 => {
            prefetch_slots::<{ slot_lines(NodeKind::N16) }>(view, at);
            find_by_key_byte::<2>(view, at, kind, byte, is_it)
        }
        NodeKind::N48 => {
            prefetch_slots::<{ slot_lines(NodeKind::N48) }>(view, at);
            find_by_key_byte::<6>(view, at, kind, byte, is_it)
        }
        NodeKind::N256 => {
            let slot_at = slot_offset(at, kind, usize::from(byte));
            Some((slot_at, TreeSlot::from_word(view.load8(slot_at))))
        }
    };
    found.unwrap_or((PoolOffset::NULL, TreeSlot::EMPTY))
}

/// Returns the number of lines of a node of `kind` after its first one.
const fn slot_lines(kind: NodeKind) -> u64 {
    (kind.size() - 1) / LINE
}

/// Prefetches the `LINES` lines after that of the key bytes. Only the key bytes tell which of them has the slot, but
/// when the key bytes arrive, that line has arrived, too.
#[inline(always)]
fn prefetch_slots<const LINES: u64>(view: &impl View, at: PoolOffset) {
    for line in 0..LINES {
        view.prefetch(at.plus((line + 1) * LINE));
    }
}

/// Returns the first slot that `wanted` accepts in a node of 4.
#[inline(always)]
fn find_in_node4(
    view: &impl View,
    at: PoolOffset,
    wanted: impl Fn(TreeSlot) -> bool,
) -> Option<(PoolOffset, TreeSlot)> {
    for index in 0..NodeKind::N4.capacity() {
        let slot_at = slot_offset(at, NodeKind::N4, index);
        let slot = TreeSlot::from_word(view.load8(slot_at));
        if wanted(slot) {
            return Some((slot_at, slot));
        }
    }
    None
}

/// Returns the first slot with the key byte `byte` that `wanted` accepts, in a node of `kind` with `WORDS` words of
/// key bytes.
#[inline(always)]
fn find_by_key_byte<const WORDS: usize>(
    view: &impl View,
    at: PoolOffset,
    kind: NodeKind,
    byte: u8,
    wanted: impl Fn(TreeSlot) -> bool,
) -> Option<(PoolOffset, TreeSlot)> {
    // ORDER: a key byte is stored before its slot is filled and cleared after it is emptied, so each child has its
    // key byte. A key byte without a child is harmless: the slot's own key byte decides.
    let mut key_bytes = [0; WORDS];
    for (index, word) in key_bytes.iter_mut().enumerate() {
        *word = view.load8(at.plus(NODE_BODY + index as u64 * WORD));
    }
    for index in KeyByteMatches::of(key_bytes, byte) {
        let slot_at = slot_offset(at, kind, index);
        let slot = TreeSlot::from_word(view.load8(slot_at));
        if wanted(slot) {
            return Some((slot_at, slot));
        }
    }
    None
}
