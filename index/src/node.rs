//! Inner nodes: where a key's slot is in them, where there is room, and what they hold.

use crate::hints::Candidates;
use crate::view::View;
use lode_layout::{
    LINE, NODE_BODY, NODE_END, NODE_META, NodeKind, PoolOffset, TreeSlot, WORD, align_down, tree_meta,
};

/// A node that a slot led to, or the root object, which is like a node that has an end slot only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: PoolOffset,
    /// `None` for the root object.
    pub(crate) kind: Option<NodeKind>,
    /// The number of the key byte by which it branches.
    pub(crate) depth: usize,
}

/// What a key says at a depth: a byte, or that it has ended, which comes before all bytes.
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

    /// The key byte of a slot for it.
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

    /// What the meta word says for as long as the node is in the tree.
    #[inline]
    pub(crate) fn meta(&self) -> u64 {
        self.kind.map_or(tree_meta(), |kind| kind.meta(self.depth))
    }

    #[inline]
    pub(crate) fn meta_at(&self) -> PoolOffset {
        self.at.plus(NODE_META)
    }

    /// Where the end slot is; in the root object the only one.
    #[inline]
    pub(crate) fn end(&self) -> PoolOffset {
        self.at.plus(NODE_END)
    }

    /// What the end slot holds.
    #[inline]
    pub(crate) fn end_slot(&self, view: &impl View) -> TreeSlot {
        TreeSlot::from_word(view.load8(self.end()))
    }

    /// Where the slot for `symbol` is, and what it holds: empty, and anywhere, if there is none.
    #[inline(always)]
    pub(crate) fn find(&self, view: &impl View, symbol: Symbol) -> (PoolOffset, TreeSlot) {
        match (self.kind, symbol) {
            (Some(kind), Symbol::Byte(byte)) => find(view, self.at, kind, byte),
            _ => (self.end(), self.end_slot(view)),
        }
    }

    /// Where an empty slot is that can take a child for `symbol`, for which the node has none.
    pub(crate) fn room(&self, view: &impl View, symbol: Symbol) -> Option<PoolOffset> {
        let (Some(kind), Symbol::Byte(byte)) = (self.kind, symbol) else { return Some(self.end()) };
        match kind {
            NodeKind::N256 => Some(slot_at(self.at, kind, usize::from(byte))),
            NodeKind::N4 => few(view, self.at, TreeSlot::is_empty).map(|found| found.0),
            // Empty slots have the hint 0, as has the one for the byte 0.
            NodeKind::N16 => hinted::<2>(view, self.at, kind, 0, TreeSlot::is_empty).map(|found| found.0),
            NodeKind::N48 => hinted::<6>(view, self.at, kind, 0, TreeSlot::is_empty).map(|found| found.0),
        }
    }

    /// The hint word for the slot at `slot`, and the shift of its byte in it, in a node that has hints.
    pub(crate) fn hint_of(&self, slot: PoolOffset) -> Option<(PoolOffset, u32)> {
        let kind = self.kind.filter(|kind| kind.hint_words() > 0)?;
        let index = slot.get().checked_sub(self.at.get() + kind.slots_off())? / WORD;
        Some((self.at.plus(NODE_BODY + align_down(index, WORD)), (index % WORD) as u32 * 8))
    }

    /// Where slot number `index` is, the end slot not counted.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> PoolOffset {
        self.kind.map_or(self.end(), |kind| slot_at(self.at, kind, index))
    }

    /// What slot number `index` holds, the end slot not counted.
    #[inline]
    pub(crate) fn slot(&self, view: &impl View, index: usize) -> TreeSlot {
        TreeSlot::from_word(view.load8(self.place(index)))
    }

    /// Slots, the end slot not counted.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.kind.map_or(0, NodeKind::capacity)
    }

    /// All children, the end slot's not counted, in the order of their slots.
    pub(crate) fn children<'v, V: View>(&self, view: &'v V) -> impl Iterator<Item = TreeSlot> + use<'v, V> {
        let node = *self;
        (0..node.capacity()).map(move |index| node.slot(view, index)).filter(|slot| !slot.is_empty())
    }

    /// The first child there is, the end slot's before all others; `None` if others empty the node meanwhile.
    pub(crate) fn any_child(&self, view: &impl View) -> Option<TreeSlot> {
        let end = self.end_slot(view);
        if end.is_empty() { self.children(view).next() } else { Some(end) }
    }
}

/// Where slot number `index` is in the node at `at`.
#[inline]
fn slot_at(at: PoolOffset, kind: NodeKind, index: usize) -> PoolOffset {
    at.plus(kind.slots_off() + index as u64 * WORD)
}

/// Where the slot for `byte` is in the node at `at`, and what it holds; empty, and anywhere, if there is none.
#[inline(always)]
pub(crate) fn find(view: &impl View, at: PoolOffset, kind: NodeKind, byte: u8) -> (PoolOffset, TreeSlot) {
    let is_it = |slot: TreeSlot| slot.byte() == byte && !slot.is_empty();
    let found = match kind {
        NodeKind::N4 => few(view, at, is_it),
        NodeKind::N16 => {
            prefetch_slots::<{ slot_lines(NodeKind::N16) }>(view, at);
            hinted::<2>(view, at, kind, byte, is_it)
        }
        NodeKind::N48 => {
            prefetch_slots::<{ slot_lines(NodeKind::N48) }>(view, at);
            hinted::<6>(view, at, kind, byte, is_it)
        }
        NodeKind::N256 => {
            let place = slot_at(at, kind, usize::from(byte));
            Some((place, TreeSlot::from_word(view.load8(place))))
        }
    };
    found.unwrap_or((PoolOffset::NULL, TreeSlot::EMPTY))
}

/// Lines of a node of `kind` after its first one.
const fn slot_lines(kind: NodeKind) -> u64 {
    (kind.size() - 1) / LINE
}

/// Brings the `LINES` lines after that of the hints near: which of them has the slot is known only when the hints are
/// here, and by then it is, too.
#[inline(always)]
fn prefetch_slots<const LINES: u64>(view: &impl View, at: PoolOffset) {
    for line in 0..LINES {
        view.prefetch(at.plus((line + 1) * LINE));
    }
}

/// The first slot that `wanted` accepts in a node of 4.
#[inline(always)]
fn few(
    view: &impl View,
    at: PoolOffset,
    wanted: impl Fn(TreeSlot) -> bool,
) -> Option<(PoolOffset, TreeSlot)> {
    for index in 0..NodeKind::N4.capacity() {
        let place = slot_at(at, NodeKind::N4, index);
        let slot = TreeSlot::from_word(view.load8(place));
        if wanted(slot) {
            return Some((place, slot));
        }
    }
    None
}

/// The first slot with the hint `byte` that `wanted` accepts, in a node of `kind` with `WORDS` words of hints.
#[inline(always)]
fn hinted<const WORDS: usize>(
    view: &impl View,
    at: PoolOffset,
    kind: NodeKind,
    byte: u8,
    wanted: impl Fn(TreeSlot) -> bool,
) -> Option<(PoolOffset, TreeSlot)> {
    // ORDER: a hint is stored before its slot is filled and cleared after it, so each child that is there has
    // its hint. Hints without their child are harmless: the slot's own key byte decides.
    let mut hints = [0; WORDS];
    for (index, word) in hints.iter_mut().enumerate() {
        *word = view.load8(at.plus(NODE_BODY + index as u64 * WORD));
    }
    for index in Candidates::of(hints, byte) {
        let place = slot_at(at, kind, index);
        let slot = TreeSlot::from_word(view.load8(place));
        if wanted(slot) {
            return Some((place, slot));
        }
    }
    None
}
