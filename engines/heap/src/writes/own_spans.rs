//! Spans that a transaction takes from free chunks.

use crate::alloc::space::Span;
use hashbrown::HashMap;
use lode_layout::{CHUNK, LINE, PoolOffset, align_down};
use std::collections::BTreeMap;

/// Maximum number of chunks of a span that are entered one by one. No superblock has more.
const SINGLE_CHUNKS_MAX: u64 = 16;
/// Lines of a chunk.
const CHUNK_LINES: u64 = CHUNK / LINE;

/// The dirty lines of a chunk, one bit each.
type ChunkLines = [u64; (CHUNK_LINES / 64) as usize];
/// The index of a chunk to which nothing was stored.
const NO_LINES: u32 = u32::MAX;

/// Returns the parts of a range that lie in one chunk each.
pub(super) fn chunk_parts(at: PoolOffset, len: u64) -> impl Iterator<Item = (PoolOffset, u64)> {
    let end = at.get() + len;
    let mut from = at.get();
    std::iter::from_fn(move || {
        let part = from..end.min(align_down(from, CHUNK) + CHUNK);
        from = part.end;
        (part.start < end).then(|| (PoolOffset::new(part.start), part.end - part.start))
    })
}

/// The spans that a transaction has taken from free chunks, by chunk, and the lines in them to which it has stored in
/// place. Until the transaction's record is durable, no other thread and no needed record knows these chunks.
#[derive(Debug, Default)]
pub(crate) struct OwnSpans {
    /// Indices of `lines`, by the chunk's number in the pool. The chunks of a long span are entered when they are
    /// stored to.
    chunks: HashMap<u64, u32>,
    /// Long spans: the number of the first chunk, and that after the last.
    long: BTreeMap<u64, u64>,
    /// The chunk's number and its dirty lines, in the order of the first store to each.
    lines: Vec<(u64, ChunkLines)>,
}

impl OwnSpans {
    /// Adds a span that was just taken.
    pub(crate) fn add(&mut self, span: Span) {
        let first = span.start.get() / CHUNK;
        if span.chunks > SINGLE_CHUNKS_MAX {
            self.long.insert(first, first + span.chunks);
            return;
        }
        for chunk in first..first + span.chunks {
            self.chunks.insert(chunk, NO_LINES);
        }
    }

    /// Returns true if `at` lies in one of the spans.
    #[inline]
    pub(crate) fn hold(&self, at: PoolOffset) -> bool {
        let chunk = at.get() / CHUNK;
        let before = || self.long.range(..=chunk).next_back();
        !self.chunks.is_empty() && self.chunks.contains_key(&chunk)
            || !self.long.is_empty() && before().is_some_and(|(_, end)| chunk < *end)
    }

    /// Notes that a range was stored to. It lies in one chunk, which is in one of the spans.
    pub(crate) fn add_dirty(&mut self, at: PoolOffset, len: u64) {
        if len == 0 {
            return;
        }
        let chunk = at.get() / CHUNK;
        let index = self.chunks.entry(chunk).or_insert(NO_LINES);
        if *index == NO_LINES {
            *index = u32::try_from(self.lines.len()).expect("chunks fit in a pool");
            self.lines.push((chunk, ChunkLines::default()));
        }
        let lines = &mut self.lines[*index as usize].1;
        for line in at.line()..=at.plus(len - 1).line() {
            lines[(line % CHUNK_LINES / 64) as usize] |= 1 << (line % 64);
        }
    }

    /// Returns the ranges that were stored to, in whole lines.
    pub(crate) fn dirty_ranges(&self) -> impl Iterator<Item = (PoolOffset, u64)> {
        self.lines.iter().flat_map(|(chunk, lines)| {
            lines.iter().zip(0..).flat_map(move |(word, index)| {
                let first = chunk * CHUNK_LINES + index * 64;
                let mut rest = *word;
                std::iter::from_fn(move || {
                    let start = (rest != 0).then(|| rest.trailing_zeros())?;
                    let count = (rest >> start).trailing_ones();
                    rest &= u64::MAX.checked_shl(start + count).unwrap_or(0);
                    let at = PoolOffset::new((first + u64::from(start)) * LINE);
                    Some((at, u64::from(count) * LINE))
                })
            })
        })
    }

    /// Removes all spans.
    pub(crate) fn clear(&mut self) {
        if !self.chunks.is_empty() || !self.long.is_empty() {
            *self = OwnSpans::default();
        }
    }
}
