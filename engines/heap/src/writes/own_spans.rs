//! Spans that a transaction takes from free chunks.

use crate::alloc::space::Span;
use hashbrown::HashMap;
use lode_layout::{CHUNK, PoolOffset, align_down};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Maximum number of chunks of a span that are entered one by one. No superblock has more.
const SINGLE_CHUNKS_MAX: u64 = 16;
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

/// The spans that a transaction has taken from free chunks, by chunk. Until the transaction's record is durable, no other thread and no needed record knows these chunks.
#[derive(Debug, Default)]
pub(crate) struct OwnSpans {
    /// The chunks of short spans: a bit for each, by their number in the pool, and 64 to a word.
    chunks: HashMap<u64, u64>,
    /// The word that was looked up last, and its number.
    last: Cell<Option<(u64, u64)>>,
    /// Long spans: the number of the first chunk, and that after the last.
    long: BTreeMap<u64, u64>,
    /// Number of chunks of all.
    count: u64,
}

impl OwnSpans {
    /// Adds a span that was just taken.
    pub(crate) fn add(&mut self, span: Span) {
        let first = span.start.get() / CHUNK;
        self.count += span.chunks;
        if span.chunks > SINGLE_CHUNKS_MAX {
            self.long.insert(first, first + span.chunks);
        } else {
            for chunk in first..first + span.chunks {
                *self.chunks.entry(chunk / 64).or_default() |= 1 << (chunk % 64);
            }
            self.last.take();
        }
    }

    /// Returns the number of their chunks.
    pub(crate) fn chunks(&self) -> u64 {
        self.count
    }

    /// Returns true if `at` lies in one of the spans.
    #[inline]
    pub(crate) fn hold(&self, at: PoolOffset) -> bool {
        let chunk = at.get() / CHUNK;
        let before = || self.long.range(..=chunk).next_back();
        !self.chunks.is_empty() && self.word(chunk / 64) >> (chunk % 64) & 1 != 0
            || !self.long.is_empty() && before().is_some_and(|(_, end)| chunk < *end)
    }

    /// Returns a word of the chunks of short spans.
    #[inline]
    fn word(&self, number: u64) -> u64 {
        if let Some((last, word)) = self.last.get()
            && last == number
        {
            return word;
        }
        let word = self.chunks.get(&number).copied().unwrap_or(0);
        self.last.set(Some((number, word)));
        word
    }

    /// Removes all spans.
    pub(crate) fn clear(&mut self) {
        if !self.chunks.is_empty() || !self.long.is_empty() {
            *self = OwnSpans::default();
        }
    }
}
