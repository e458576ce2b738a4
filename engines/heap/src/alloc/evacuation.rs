//! Evacuation: the spans whose objects move before a pool shrinks. The heap hands out none of their space.
//!
//! ```text
//!   compaction:  of each kind of blocks, the emptiest superblocks, as far as the others have room for their blocks
//!   cut:         all spans from the least offset on below which there are enough free chunks,
//!                and long superblocks whose blocks need fewer chunks
//! ```
//!
//! A compaction needs no free chunk, and makes some. The superblocks that it leaves are nearly full.
//!
//! # Cost
//! Planning reads the spans once, and sorts the superblocks.

use super::class::Class;
use super::space::{Span, SpanKind};
use lode_layout::{CHUNK, PoolOffset, Superblock};
use lode_pmem::sync::Mutex;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::PoisonError;

/// An evacuation moves objects only if it gains more than this part of the chunks in use.
const GAIN_SHARE: u64 = 64;
/// Share of the chunks that a cut needs, by which more have to be free: spans of several chunks do not fit everywhere.
const SPARE_SHARE: u64 = 32;

/// The size of blocks, and their type number.
type Kind = (u64, u64);

/// A span, and the number of used blocks if it is a superblock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) span: Span,
    pub(crate) kind: SpanKind,
    pub(crate) used: u64,
}

/// The spans whose objects move.
#[derive(Debug, Default)]
pub(crate) struct Evacuation {
    /// Superblocks before `limit`, by offset.
    spans: Vec<Span>,
    /// All spans from here on; the end of offsets if there is none.
    limit: u64,
    /// Number of blocks in new superblocks that the moved objects need.
    wanted: Mutex<BTreeMap<Kind, u64>>,
}

impl Evacuation {
    /// Plans an evacuation of a heap with these spans, in the order of their offsets. A cut leaves `spare` more chunks free.
    /// Returns `None` if it would gain too little.
    pub(crate) fn plan(spans: &[Filled], spare: u64) -> Option<Evacuation> {
        let cut = |shortened: &_| cut(spans, shortened, spare);
        compaction(spans).or_else(|| cut(&shortened(spans))).or_else(|| cut(&BTreeMap::new()))
    }

    /// Returns true if the space at `at` is evacuated.
    pub(crate) fn holds(&self, at: PoolOffset) -> bool {
        let after = self.spans.partition_point(|span| span.start <= at);
        at.get() >= self.limit
            || after
                .checked_sub(1)
                .is_some_and(|last| at < self.spans[last].start.plus(self.spans[last].len()))
    }

    /// Returns the length in chunks of the next superblock for blocks of a class.
    pub(crate) fn superblock_len(&self, class: Class, type_number: u64) -> u64 {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = wanted.get(&(class.block_size(), type_number)).copied().unwrap_or(0);
        superblock_len(class, blocks)
    }

    /// Subtracts the blocks of a superblock that was made.
    pub(crate) fn made(&self, shape: &Superblock) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(blocks) = wanted.get_mut(&kind_of(shape)) {
            *blocks = blocks.saturating_sub(shape.block_count);
        }
    }
}

fn kind_of(shape: &Superblock) -> Kind {
    (shape.block_size, shape.type_number)
}

/// Returns the number of blocks of a superblock of `chunks` chunks.
fn block_count(class: Class, chunks: u64) -> u64 {
    Superblock::plan(chunks * CHUNK, class.block_size(), class.align(), 0).block_count
}

/// Returns the length in chunks of a superblock for `blocks` blocks: the greatest that they fill, or else the least.
fn superblock_len(class: Class, blocks: u64) -> u64 {
    let mut lengths = class.span_lengths();
    let filled = lengths.find(|chunks| block_count(class, *chunks) <= blocks);
    filled.or_else(|| class.span_lengths().last()).unwrap_or(1)
}

/// Returns the number of chunks of the superblocks that are made for `blocks` blocks.
fn chunks_for(block_size: u64, mut blocks: u64) -> u64 {
    let Some(class) = Class::of_block_size(block_size) else { return 0 };
    let mut chunks = 0;
    while blocks > 0 {
        let len = superblock_len(class, blocks);
        let count = (blocks / block_count(class, len)).max(1);
        chunks += count * len;
        blocks = blocks.saturating_sub(count * block_count(class, len));
    }
    chunks
}

/// Returns the number of chunks in use.
pub(crate) fn used_chunks(spans: &[Filled]) -> u64 {
    spans.iter().filter(|filled| filled.kind != SpanKind::Free).map(|filled| filled.span.chunks).sum()
}

/// Returns the end of the last span in use.
pub(crate) fn used_end(spans: &[Filled]) -> PoolOffset {
    let last = spans.iter().rfind(|filled| filled.kind != SpanKind::Free);
    last.map_or(PoolOffset::NULL, |Filled { span, .. }| span.start.plus(span.len()))
}

/// Chooses superblocks whose blocks have room in others of their kind: the emptiest ones.
fn compaction(spans: &[Filled]) -> Option<Evacuation> {
    let mut kinds: BTreeMap<Kind, Vec<(u64, Span, u64)>> = BTreeMap::new();
    for filled in spans {
        if let SpanKind::Superblock(shape) = filled.kind {
            let of_kind = kinds.entry(kind_of(&shape)).or_default();
            of_kind.push((filled.used, filled.span, shape.block_count));
        }
    }
    let mut evacuated = Vec::new();
    for superblocks in kinds.values_mut() {
        superblocks.sort_unstable_by_key(|(used, span, _)| (*used, u64::MAX - span.start.get()));
        let mut free: u64 = superblocks.iter().map(|(used, _, blocks)| blocks - used).sum();
        for (_, span, blocks) in superblocks {
            if free < *blocks {
                break;
            }
            free -= *blocks;
            evacuated.push(*span);
        }
    }
    let gain: u64 = evacuated.iter().map(|span| span.chunks).sum();
    evacuated.sort_unstable_by_key(|span| span.start);
    (gain * GAIN_SHARE > used_chunks(spans)).then(|| Evacuation {
        spans: evacuated,
        limit: u64::MAX,
        wanted: Mutex::default(),
    })
}

/// Returns the superblocks whose used blocks fit in fewer chunks.
fn shortened(spans: &[Filled]) -> BTreeMap<PoolOffset, &Filled> {
    spans
        .iter()
        .filter(|filled| spared_chunks(filled) > 0)
        .map(|filled| (filled.span.start, filled))
        .collect()
}

/// Returns the number of chunks by which the used blocks of a superblock need fewer than it has.
fn spared_chunks(filled: &Filled) -> u64 {
    match filled.kind {
        SpanKind::Superblock(shape) => {
            filled.span.chunks.saturating_sub(chunks_for(shape.block_size, filled.used))
        }
        SpanKind::Free | SpanKind::Huge(_) => 0,
    }
}

/// The blocks of one kind, as a limit moves down.
#[derive(Debug, Default)]
struct Blocks {
    moved: u64,
    free_below: u64,
}

impl Blocks {
    /// Returns the number of moved blocks for which there is no free one below.
    fn wanted(&self) -> u64 {
        self.moved.saturating_sub(self.free_below)
    }
}

/// The room that a cut needs and finds.
#[derive(Debug, Default)]
struct Room {
    blocks: BTreeMap<Kind, Blocks>,
    /// Chunks that the moved objects need.
    wanted: u64,
    free_below: u64,
}

impl Room {
    fn change(&mut self, shape: &Superblock, change: impl FnOnce(&mut Blocks)) {
        let blocks = self.blocks.entry(kind_of(shape)).or_default();
        self.wanted -= chunks_for(shape.block_size, blocks.wanted());
        change(blocks);
        self.wanted += chunks_for(shape.block_size, blocks.wanted());
    }

    /// Returns the room below the end of all spans, where `shortened` are evacuated.
    fn of(spans: &[Filled], shortened: &BTreeMap<PoolOffset, &Filled>) -> Room {
        let mut room = Room::default();
        for filled in spans {
            match filled.kind {
                SpanKind::Free => room.free_below += filled.span.chunks,
                SpanKind::Superblock(shape) if shortened.contains_key(&filled.span.start) => {
                    room.change(&shape, |blocks| blocks.moved += filled.used);
                }
                SpanKind::Superblock(shape) => {
                    room.change(&shape, |blocks| blocks.free_below += shape.block_count - filled.used);
                }
                SpanKind::Huge(_) => {}
            }
        }
        room
    }

    /// Returns the room below span number `limit`.
    fn at(spans: &[Filled], shortened: &BTreeMap<PoolOffset, &Filled>, limit: usize) -> Room {
        let mut room = Room::of(spans, shortened);
        let moved = spans[limit..].iter().filter(|filled| !shortened.contains_key(&filled.span.start));
        moved.for_each(|filled| room.lower(filled));
        room
    }

    /// Moves the limit to the start of a span.
    fn lower(&mut self, filled: &Filled) {
        match filled.kind {
            SpanKind::Free => self.free_below -= filled.span.chunks,
            SpanKind::Superblock(shape) => self.change(&shape, |blocks| {
                blocks.free_below -= shape.block_count - filled.used;
                blocks.moved += filled.used;
            }),
            SpanKind::Huge(_) => self.wanted += filled.span.chunks,
        }
    }

    /// Returns the blocks in new superblocks.
    fn wanted_blocks(&self) -> BTreeMap<Kind, u64> {
        self.blocks.iter().map(|(kind, blocks)| (*kind, blocks.wanted())).collect()
    }

    fn is_enough(&self, spare: u64) -> bool {
        self.wanted + self.wanted / SPARE_SHARE + spare <= self.free_below
    }
}

/// Chooses the least offset below which there is room for all that lies from there on, and for `shortened`.
fn cut(spans: &[Filled], shortened: &BTreeMap<PoolOffset, &Filled>, spare: u64) -> Option<Evacuation> {
    let mut room = Room::of(spans, shortened);
    let mut limit = spans.len();
    let mut has_room = room.is_enough(spare);
    while has_room && limit > 0 {
        let filled = &spans[limit - 1];
        if !shortened.contains_key(&filled.span.start) {
            room.lower(filled);
        }
        has_room = room.is_enough(spare);
        limit -= usize::from(has_room);
    }
    // Spans of several chunks need more than a sum.
    let mut step = 1;
    let wanted = loop {
        let room = Room::at(spans, shortened, limit);
        if room.is_enough(spare) && has_long_runs(&spans[..limit], &spans[limit..], &room.wanted_blocks()) {
            break room.wanted_blocks();
        }
        if limit == spans.len() {
            return None;
        }
        limit = (limit + step).min(spans.len());
        step *= 2;
    };
    let is_moved = spans[limit..].iter().any(|filled| filled.kind != SpanKind::Free);
    let limit = spans.get(limit).map_or(u64::MAX, |filled| filled.span.start.get());
    let lowered = if is_moved { used_end(spans).get().saturating_sub(limit) / CHUNK } else { 0 };
    let spared: u64 = shortened.values().map(|filled| spared_chunks(filled)).sum();
    ((lowered + spared) * GAIN_SHARE > used_chunks(spans)).then(|| Evacuation {
        spans: shortened.values().map(|filled| filled.span).collect(),
        limit,
        wanted: Mutex::new(wanted),
    })
}

/// Returns true if the free chunks `below` a limit have room for the spans of several chunks that move there: huge objects
/// of `above`, and the shortest superblocks for the blocks that are `wanted`.
fn has_long_runs(below: &[Filled], above: &[Filled], wanted: &BTreeMap<Kind, u64>) -> bool {
    let mut lengths: Vec<u64> = above
        .iter()
        .filter(|filled| matches!(filled.kind, SpanKind::Huge(_)))
        .map(|filled| filled.span.chunks)
        .collect();
    for ((block_size, _), blocks) in wanted {
        let Some(class) = Class::of_block_size(*block_size) else { continue };
        let shortest = superblock_len(class, 0);
        lengths.extend((0..blocks.div_ceil(block_count(class, shortest))).map(|_| shortest));
    }
    let (mut runs, mut end) = (BinaryHeap::new(), PoolOffset::NULL);
    let mut run = 0;
    for Filled { span, kind, .. } in below {
        if *kind != SpanKind::Free || span.start != end {
            runs.push(run);
            run = 0;
        }
        if *kind == SpanKind::Free {
            run += span.chunks;
        }
        end = span.start.plus(span.len());
    }
    runs.push(run);
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.into_iter().all(|len| {
        let longest: u64 = runs.pop().unwrap_or(0);
        runs.push(longest.saturating_sub(len));
        longest >= len
    })
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;

    /// A superblock for blocks of `size` bytes, of which `used` are used, or a free span for size 0.
    fn spans(of: &[(u64, u64, u64)]) -> Vec<Filled> {
        let mut at = CHUNK;
        of.iter()
            .map(|(chunks, size, used)| {
                let span = Span { start: PoolOffset::new(at), chunks: *chunks };
                at += span.len();
                let kind = match Class::of_block_size(*size) {
                    Some(class) => {
                        SpanKind::Superblock(Superblock::plan(span.len(), *size, class.align(), 7))
                    }
                    None => SpanKind::Free,
                };
                Filled { span, kind, used: *used }
            })
            .collect()
    }

    /// Returns the number of each span that is evacuated.
    fn evacuated(of: &[(u64, u64, u64)]) -> Option<Vec<usize>> {
        let spans = spans(of);
        let plan = Evacuation::plan(&spans, 0)?;
        let last = |span: &Span| span.start.plus(span.len() - 1);
        assert!(spans.iter().all(|filled| plan.holds(filled.span.start) == plan.holds(last(&filled.span))));
        let numbers = spans.iter().enumerate().filter(|(_, filled)| plan.holds(filled.span.start));
        Some(numbers.map(|(number, _)| number).collect())
    }

    #[test]
    fn emptiest_superblocks_are_compacted() {
        let blocks = block_count(Class::of(1024, 1).unwrap(), 1);
        assert_eq!(evacuated(&[(1, 1024, 3), (1, 1024, 2), (1, 1024, blocks)]), Some(vec![1]));
        assert_eq!(evacuated(&[(1, 1024, 1), (1, 512, 1)]), None, "blocks of two kinds");
        assert_eq!(evacuated(&[(1, 1024, 2), (1, 1024, 2), (1, 1024, 2)]), Some(vec![1, 2]));
        assert_eq!(evacuated(&[(1, 1024, 0), (1, 512, 1)]), Some(vec![0]), "an empty one");
    }

    #[test]
    fn full_superblocks_move_to_free_chunks() {
        let blocks = block_count(Class::of(1024, 1).unwrap(), 1);
        let full = (1, 1024, blocks);
        assert_eq!(evacuated(&[full, (3, 0, 0), full, full]), Some(vec![2, 3]));
        assert_eq!(evacuated(&[full, (1, 0, 0), full, full]), Some(vec![3]), "one chunk is free");
        assert_eq!(evacuated(&[full, full, (9, 0, 0)]), None, "free chunks at the end need no move");
        assert_eq!(evacuated(&[(9, 0, 0)]), None);
    }

    #[test]
    fn long_superblocks_are_shortened() {
        let class = Class::of(5120, 1).unwrap();
        assert_eq!(class.span_chunks(), 16);
        let last_is_cut = Some(vec![0, 2]);
        assert_eq!(evacuated(&[(16, 5120, 2), (1, 0, 0), (1, 0, 0)]), last_is_cut, "one chunk is needed");
        assert_eq!(evacuated(&[(16, 5120, 2)]), None, "no free chunk");
        let plan = Evacuation::plan(&spans(&[(16, 5120, 2), (2, 0, 0)]), 0).unwrap();
        assert_eq!(plan.superblock_len(class, 7), 1);
        assert_eq!((chunks_for(5120, 3), chunks_for(5120, 4), chunks_for(5120, 51 + 12)), (1, 2, 20));
    }
}
