//! The salvage pass over a damaged tree: sound parts stay, the others are unlinked, step by step and in place.
//!
//! Each leaf has its key and a checksum, so each leaf proves the path that leads to it. A slot that leads elsewhere,
//! or to no object, is cleared. A leaf that is unlinked only because of its path is still allocated, and the repair
//! inserts it again. Every store is of one word and leaves a tree that has less damage than before. So the pass
//! can be stopped at any moment and begun again.

use crate::check::read_limit;
use crate::count;
use crate::leaf;
use crate::losses::{Losses, MisdirectedSlot};
use crate::node::{Node, Symbol};
use lode_fsck::LostRange;
use lode_heap::check::{MarkResult, Report, SpaceMap};
use lode_layout::{
    Geometry, KEY_LEN_MAX, KV_LOAD_OFF, KV_LOAD_WORDS, LEAF_HEADER, LINE, LeafHeader, NodeKind,
    PREFIX_LEN_MAX, PoolOffset, SlotKind, TREE_CELLS, TREE_CELLS_OFF, TREE_SIZE, TYPE_LEAF, TreeSlot, WORD,
    flipped_bit_of, leaf_crc, unchecked,
};
use lode_pmem::{Fault, Medium, Memory, Readable};
use std::collections::HashSet;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// Greatest length of a leaf, in bytes, in which one flipped bit is corrected. In a longer leaf, greater damage looks
/// like a flipped bit too often.
const REPAIRED_LEN_MAX: u64 = 4096;

/// A slot to be examined, and the symbol that it is for.
#[derive(Clone, Copy, Debug)]
struct Child {
    symbol: Symbol,
    slot: TreeSlot,
    slot_at: PoolOffset,
}

/// A node whose children are being examined.
#[derive(Debug)]
struct Frame {
    node: Node,
    kind: NodeKind,
    /// The slot that leads to the node.
    from: Child,
    children: Vec<Child>,
    next: usize,
    kept: Vec<TreeSlot>,
    /// Depth at which the node's keys differ from those before it.
    branch_depth: Option<usize>,
    /// The last key before those of the node.
    key_before: Option<Rc<Vec<u8>>>,
}

/// A range of keys, some of them perhaps lost, whose end is not known yet.
#[derive(Debug)]
struct OpenRange {
    after: Option<Rc<Vec<u8>>>,
    /// The range ends with the first key that is found when so many nodes are open, or fewer.
    level: usize,
    unlinked: Unlinked,
}

/// A part of the tree that was unlinked, and whose keys may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unlinked {
    /// A damaged leaf.
    Damaged,
    /// A slot that led to the sound leaf of another key, or to a free block: the slot is damaged, or the leaf was
    /// overwritten. Holds the leaf or block if it can't be the one that the slot was for.
    Misdirected(Option<PoolOffset>),
    /// Anything else.
    Unknown,
}

/// The decision on a slot.
enum SlotDecision {
    /// The slot stays, with this content.
    Keep(TreeSlot),
    /// The slot leads to a node. Its children are next.
    Descend,
    /// The slot is cleared.
    Clear,
}

/// The objects that passes have reached: those of one tree, or of all trees of a pool.
#[derive(Debug)]
pub(crate) struct Reached {
    /// The objects of the heap, with marks.
    pub(crate) map: SpaceMap,
    nodes: HashSet<PoolOffset>,
    /// Bytes of leaves that may still be examined. Once they are used up, all further leaves are unlinked, and the
    /// repair inserts them again.
    bytes_left: u64,
}

impl Reached {
    /// Reads the map of the heap. No object is marked.
    pub(crate) fn read(memory: &Memory, geometry: &Geometry) -> Reached {
        Reached::with(SpaceMap::read(memory, geometry, &mut Report::default()), memory)
    }

    /// Begins with the marks of `map`.
    pub(crate) fn with(map: SpaceMap, memory: &Memory) -> Reached {
        Reached { map, nodes: HashSet::new(), bytes_left: read_limit(memory) }
    }

    /// Returns true if one flipped bit in a slot that leads to `at` leads to an allocated sound leaf of this key to which no
    /// other slot leads.
    fn has_leaf_one_bit_away(&self, memory: &Readable, at: PoolOffset, key: &[u8]) -> bool {
        (0..u64::BITS).map(|bit| PoolOffset::new(at.get() ^ 1 << bit)).any(|other| {
            let leaf = self.map.object(other).filter(|(_, found)| *found == TYPE_LEAF);
            leaf.is_some_and(|(size, _)| {
                self.map.is_allocated(memory, other) == Some(true)
                    && !self.map.is_marked(other)
                    && sound_key(memory, other, size).is_some_and(|found| found == key)
            })
        })
    }
}

/// One pass over a tree.
pub(crate) struct SalvagePass<'a, M: Medium> {
    medium: &'a M,
    memory: &'a Readable,
    reached: &'a mut Reached,
    /// True if only leaves are corrected, and no slot is cleared.
    is_survey: bool,
    stack: Vec<Frame>,
    last_key: Option<Rc<Vec<u8>>>,
    open: Vec<OpenRange>,
    /// Number of words that were stored.
    pub(crate) stored: u64,
    /// The parts that the pass unlinked, or would.
    pub(crate) losses: Losses,
}

impl<'a, M: Medium> SalvagePass<'a, M> {
    /// Begins a pass over a tree on `medium`, whose memory is `memory`.
    pub(crate) fn new(medium: &'a M, memory: &'a Readable, reached: &'a mut Reached) -> SalvagePass<'a, M> {
        SalvagePass {
            medium,
            memory,
            reached,
            is_survey: false,
            stack: Vec::new(),
            last_key: None,
            stored: 0,
            losses: Losses::default(),
            open: Vec::new(),
        }
    }

    /// Makes it a survey: it marks and finds the same, but corrects flipped bits of leaves only.
    pub(crate) fn surveying(self) -> SalvagePass<'a, M> {
        SalvagePass { is_survey: true, ..self }
    }

    /// Examines the whole tree whose root object is at `root`.
    pub(crate) fn run(&mut self, root: PoolOffset) {
        self.losses.counted = count::sum(self.memory, root);
        self.reached.map.mark(self.memory, root);
        let parent = Node::root(root);
        self.repair_word(parent.meta_at(), parent.meta());
        // The progress of a load lies between slot and cells. It can't be derived from the keys, so it stays as it is.
        for off in (TREE_CELLS_OFF..TREE_SIZE).step_by(WORD as usize) {
            if !off.is_multiple_of(LINE) {
                self.repair_word(root.plus(off), 0);
            }
        }
        let top = Child { symbol: Symbol::End, slot: parent.end_slot(self.memory), slot_at: parent.end() };
        let decision = self.examine(top, 0, None);
        self.apply(top, decision);
        while let Some(frame) = self.stack.last_mut() {
            let depth = frame.node.depth;
            match frame.children.get(frame.next).copied() {
                Some(child) => {
                    frame.next += 1;
                    let branch_depth = if frame.kept.is_empty() { frame.branch_depth } else { Some(depth) };
                    let decision = self.examine(child, depth + 1, branch_depth);
                    self.apply(child, decision);
                }
                None => self.close_node(),
            }
        }
        self.end_ranges(None);
    }

    /// Clears the progress of a load.
    pub(crate) fn clear_load(&mut self, root: PoolOffset) {
        for word in 0..KV_LOAD_WORDS as u64 {
            self.repair_word(root.plus(KV_LOAD_OFF + word * WORD), 0);
        }
    }

    /// Corrects the counts of the tree, unless their sum is right.
    pub(crate) fn repair_count(&mut self, root: PoolOffset) {
        if self.losses.counted == self.losses.leaves {
            return;
        }
        for cell in 0..TREE_CELLS {
            self.repair_word(
                root.plus(TREE_CELLS_OFF + cell * LINE),
                if cell == 0 { self.losses.leaves } else { 0 },
            );
        }
    }

    /// Stores `word`, unless the pass is a survey.
    fn repair_word(&mut self, at: PoolOffset, word: u64) {
        if !self.is_survey {
            self.correct_word(at, word);
        }
    }

    fn correct_word(&mut self, at: PoolOffset, word: u64) {
        if self.memory.load8(at) != word {
            self.medium.store8(at, word);
            self.medium.flush(at, WORD);
            self.stored += 1;
        }
    }

    /// Carries out the decision on a slot, and adds the slot to its node if it stays.
    fn apply(&mut self, child: Child, decision: SlotDecision) {
        let slot = match decision {
            SlotDecision::Descend => return,
            SlotDecision::Keep(slot) => slot,
            SlotDecision::Clear => TreeSlot::EMPTY,
        };
        self.repair_word(child.slot_at, slot.word());
        if let Some(frame) = self.stack.last_mut()
            && !slot.is_empty()
        {
            frame.kept.push(slot);
        }
    }

    fn examine(&mut self, child: Child, base: usize, branch_depth: Option<usize>) -> SlotDecision {
        let slot = child.slot.with_byte(child.symbol.byte());
        match child.slot.kind() {
            SlotKind::Empty => SlotDecision::Clear,
            SlotKind::Leaf => match self.leaf(slot.at(), branch_depth) {
                Ok(()) => SlotDecision::Keep(TreeSlot::leaf(child.symbol.byte(), slot.at())),
                Err(unlinked) => {
                    if unlinked == Unlinked::Damaged {
                        self.losses.lost_leaves.insert(slot.at());
                    } else {
                        self.losses.cleared = self.losses.cleared.map(|cleared| cleared + 1);
                    }
                    self.clear_slot(unlinked)
                }
            },
            SlotKind::Node(kind) if child.symbol != Symbol::End || self.stack.is_empty() => {
                self.node(Child { slot, ..child }, kind, base, branch_depth)
            }
            SlotKind::Node(_) | SlotKind::Unknown => self.clear_subtree(),
        }
    }

    /// Clears a slot that may have led to any number of leaves.
    fn clear_subtree(&mut self) -> SlotDecision {
        self.losses.cleared = None;
        self.clear_slot(Unlinked::Unknown)
    }

    /// Clears a slot, and opens the range of keys that may be lost with it.
    fn clear_slot(&mut self, unlinked: Unlinked) -> SlotDecision {
        let (level, after) = self.lost_range_start();
        self.open.push(OpenRange { after, level, unlinked });
        SlotDecision::Clear
    }

    /// Returns the start of the range of keys to which the current slot may have led: its level, and the last key
    /// before it. If two sources agree on the slot's byte, the range lies between the slot's neighbours. Otherwise it
    /// covers the whole node. The same holds for the node's own slot, and so on upwards.
    fn lost_range_start(&self) -> (usize, Option<Rc<Vec<u8>>>) {
        let mut start = (self.stack.len(), self.last_key.clone());
        for (level, frame) in self.stack.iter().enumerate().rev() {
            let slot = frame.child();
            if !frame.has_confirmed_byte(self.memory, &slot) {
                start = (level, frame.key_before.clone());
            }
            if !frame.kept.is_empty() {
                // Keys that were found in the node prove that the node itself is in its place.
                break;
            }
        }
        start
    }

    /// Ends the ranges that end with this key, or all ranges for `None`.
    fn end_ranges(&mut self, key: Option<&Rc<Vec<u8>>>) {
        let level = self.stack.len();
        let ended: Vec<OpenRange> = match key {
            Some(_) => self.open.extract_if(.., |open| open.level >= level).collect(),
            None => std::mem::take(&mut self.open),
        };
        for OpenRange { after, unlinked, .. } in ended {
            let own = |key: &Rc<Vec<u8>>| key.to_vec();
            let range = LostRange { tree: None, after: after.as_ref().map(own), before: key.map(own) };
            match unlinked {
                Unlinked::Damaged => push_unless_last(&mut self.losses.lost, range),
                Unlinked::Unknown => push_unless_last(&mut self.losses.suspect, range),
                Unlinked::Misdirected(other) => {
                    MisdirectedSlot { range, other }.add_to(&mut self.losses.misdirected)
                }
            }
        }
    }

    fn node(
        &mut self,
        from: Child,
        kind: NodeKind,
        base: usize,
        branch_depth: Option<usize>,
    ) -> SlotDecision {
        let at = from.slot.at();
        let fits = |(size, found): (u64, u64)| size >= kind.size() && found == kind.type_number();
        let is_there = self.reached.map.object(at).is_some_and(fits);
        self.losses.is_dangling |= !is_there;
        if !is_there || !self.reached.nodes.insert(at) {
            return self.clear_subtree();
        }
        let stored = unchecked(self.memory.load8(at)).map(|meta| (meta >> 8) as usize);
        // The node itself has its depth, unless it is damaged. A slot with another prefix length is then wrong.
        let prefix_len = stored.and_then(|depth| depth.checked_sub(base)).filter(|prefix_len| {
            *prefix_len <= PREFIX_LEN_MAX && self.memory.load8(at) == kind.meta(base + prefix_len)
        });
        let slot = from.slot.with_prefix_len(prefix_len.unwrap_or(from.slot.prefix_len()));
        let node = Node { at, kind: Some(kind), depth: base + slot.prefix_len() };
        if node.depth > KEY_LEN_MAX {
            return self.clear_subtree();
        }
        let children = children(self.memory, &node, kind);
        let from = Child { slot, ..from };
        let key_before = self.last_key.clone();
        self.stack.push(Frame {
            node,
            kind,
            from,
            children,
            next: 0,
            kept: Vec::new(),
            branch_depth,
            key_before,
        });
        SlotDecision::Descend
    }

    /// Closes the innermost open node. A node without children is dropped, and a single leaf takes the place of its
    /// node.
    fn close_node(&mut self) {
        let Some(frame) = self.stack.pop() else { return };
        let Frame { node, kind, from, kept, .. } = frame;
        let decision = match kept[..] {
            [] => SlotDecision::Clear,
            [only] if only.kind() == SlotKind::Leaf => SlotDecision::Keep(only.with_byte(from.symbol.byte())),
            _ => {
                self.reached.map.mark(self.memory, node.at);
                self.repair_word(node.meta_at(), node.meta());
                self.repair_key_bytes(&node, kind);
                SlotDecision::Keep(from.slot)
            }
        };
        self.apply(from, decision);
    }

    fn repair_key_bytes(&mut self, node: &Node, kind: NodeKind) {
        let at = node.at.plus(lode_layout::NODE_BODY);
        for word in 0..kind.key_byte_words() {
            let bytes = std::array::from_fn(|byte| {
                let slot = node.slot(self.memory, word as usize * WORD as usize + byte);
                if slot.is_empty() { 0 } else { slot.byte() }
            });
            self.repair_word(at.plus(word * WORD), u64::from_le_bytes(bytes));
        }
    }

    /// Keeps the leaf at `at` if it belongs where it was found.
    fn leaf(&mut self, at: PoolOffset, branch_depth: Option<usize>) -> Result<(), Unlinked> {
        let object_size =
            self.reached.map.object(at).filter(|(_, found)| *found == TYPE_LEAF).map(|(size, _)| size);
        self.losses.is_dangling |= object_size.is_none();
        let object_size = object_size.ok_or(Unlinked::Unknown)?;
        self.reached.bytes_left =
            self.reached.bytes_left.checked_sub(object_size).ok_or(Unlinked::Unknown)?;
        // A sound leaf in a free block: the bitmap is wrong, and the leaf stays; or the slot is, and the leaf is an older one.
        let is_free = self.reached.map.is_allocated(self.memory, at) == Some(false);
        let key = match sound_key(self.memory, at, object_size) {
            Some(key) if is_free && self.reached.has_leaf_one_bit_away(self.memory, at, &key) => {
                return Err(Unlinked::Misdirected(Some(at)));
            }
            Some(key) => key,
            None if is_free => return Err(Unlinked::Misdirected(Some(at))),
            None => {
                let flip = find_flipped_bit(self.memory, at, object_size).ok_or(Unlinked::Damaged)?;
                self.correct_word(flip.0, self.memory.load8(flip.0) ^ flip.1);
                sound_key(self.memory, at, object_size).ok_or(Unlinked::Damaged)?
            }
        };
        let is_on = |frame: &Frame| {
            let (depth, symbol) = (frame.node.depth, frame.child().symbol);
            depth <= key.len() && Symbol::of(&key, depth) == symbol
        };
        let mismatches: Vec<&Frame> = self.stack.iter().filter(|frame| !is_on(frame)).collect();
        let follows = match (&self.last_key, branch_depth) {
            (Some(last), Some(branch_depth)) => {
                let shared = last.iter().zip(key.iter()).take_while(|(a, b)| a == b).count();
                shared == branch_depth && Symbol::of(last, branch_depth) < Symbol::of(&key, branch_depth)
            }
            _ => true,
        };
        if !mismatches.is_empty()
            || !follows
            || self.reached.map.mark(self.memory, at) == MarkResult::AlreadyMarked
        {
            // One wrong byte in a slot explains this. Two wrong bytes are less likely than a leaf that another one
            // overwrote.
            let may_be_own = match mismatches[..] {
                [] => true,
                [frame] => !frame.has_confirmed_byte(self.memory, &frame.child()),
                _ => false,
            };
            return Err(Unlinked::Misdirected((!may_be_own).then_some(at)));
        }
        let key = Rc::new(key);
        self.end_ranges(Some(&key));
        self.losses.leaves += 1;
        self.last_key = Some(key);
        Ok(())
    }
}

impl Frame {
    /// Returns the slot that is being examined.
    fn child(&self) -> Child {
        self.children[self.next - 1]
    }

    /// Returns true if the index of a slot, or its key byte, confirms the byte that it is for.
    fn has_confirmed_byte(&self, memory: &Readable, child: &Child) -> bool {
        match self.kind {
            NodeKind::N4 => child.symbol == Symbol::End,
            NodeKind::N256 => child.symbol == Symbol::End || Symbol::Byte(child.slot.byte()) == child.symbol,
            NodeKind::N16 | NodeKind::N48 => self
                .node
                .key_byte_at(child.slot_at)
                .is_none_or(|(at, shift)| Symbol::Byte((memory.load8(at) >> shift) as u8) == child.symbol),
        }
    }
}

/// Adds `range` to `all`, unless it is the last one there.
fn push_unless_last(all: &mut Vec<LostRange>, range: LostRange) {
    if all.last() != Some(&range) {
        all.push(range);
    }
}

/// Returns the children of a node in the order of their symbols.
fn children(memory: &Readable, node: &Node, kind: NodeKind) -> Vec<Child> {
    let slots = (0..node.capacity()).map(|index| {
        let slot_at = node.at.plus(kind.slots_off() + index as u64 * WORD);
        let slot = node.slot(memory, index);
        let byte = if kind == NodeKind::N256 { index as u8 } else { slot.byte() };
        Child { symbol: Symbol::Byte(byte), slot, slot_at }
    });
    let end = Child { symbol: Symbol::End, slot: node.end_slot(memory), slot_at: node.end() };
    let mut children: Vec<Child> = slots.chain([end]).filter(|child| !child.slot.is_empty()).collect();
    children.sort_by_key(|child| child.symbol);
    children
}

/// Returns the words of the leaf at `at`, as many as its header says, if an object of `object_size` bytes holds them
/// and they can be read.
fn words(memory: &Memory, at: PoolOffset, header: &LeafHeader, object_size: u64) -> Option<Vec<u64>> {
    let len =
        header.leaf_len().filter(|len| *len <= object_size && header.key_len as usize <= KEY_LEN_MAX)?;
    let mut words = vec![0u64; (len / WORD) as usize];
    memory.reading(|memory| memory.read(at, words.as_mut_bytes())).ok().map(|()| words)
}

/// Returns the key of the leaf at `at` in an object of `object_size` bytes, if its checksum is right.
pub(crate) fn sound_key(memory: &Memory, at: PoolOffset, object_size: u64) -> Option<Vec<u8>> {
    let header = memory.reading(|memory| leaf::header(memory, at)).ok()?;
    let words = words(memory, at, &header, object_size)?;
    let key = words.as_bytes().get(LEAF_HEADER as usize..)?.get(..header.key_len as usize)?.to_vec();
    (leaf_crc(&words) == header.crc).then_some(key)
}

/// Returns the value of a leaf whose checksum is right.
pub(crate) fn sound_value(memory: &Memory, at: PoolOffset) -> Result<Vec<u8>, Fault> {
    memory.reading(|memory| {
        let header = leaf::header(memory, at);
        let mut value = vec![0; header.value_len as usize];
        memory.read(at.plus(header.value_off()), &mut value);
        value
    })
}

/// Returns the word, and the bit in it, whose flip makes the checksum of a leaf right.
fn find_flipped_bit(memory: &Readable, at: PoolOffset, object_size: u64) -> Option<(PoolOffset, u64)> {
    let object_size = object_size.min(REPAIRED_LEN_MAX);
    let head = [memory.load8(at), memory.load8(at.plus(WORD))];
    // A wrong length leaves the end of the leaf unknown, so each bit of the lengths is tried.
    let in_len = (32..128usize).find(|bit| {
        let mut flipped = head;
        flipped[bit / 64] ^= 1 << (bit % 64);
        let header = LeafHeader::from_words(flipped);
        words(memory, at, &header, object_size).is_some_and(|mut words| {
            words[..2].copy_from_slice(&flipped);
            leaf_crc(&words) == header.crc
        })
    });
    let header = LeafHeader::from_words(head);
    let in_rest = || {
        let words = words(memory, at, &header, object_size)?;
        let difference = leaf_crc(&words) ^ header.crc;
        if difference.is_power_of_two() {
            return Some(difference.trailing_zeros() as usize);
        }
        flipped_bit_of(header.crc, &words.as_bytes()[size_of::<u32>()..]).map(|bit| bit + 32)
    };
    in_len.or_else(in_rest).map(|bit| (at.plus(bit as u64 / 64 * WORD), 1 << (bit % 64)))
}
