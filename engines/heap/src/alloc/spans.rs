//! Free spans of chunks, by address.

use super::space::Span;
use lode_layout::{CHUNK, PoolOffset, align_up};
use std::collections::BTreeMap;

/// Free spans; neighbours are merged.
#[derive(Debug, Default)]
pub(super) struct FreeSpans {
    /// Length in chunks of each free span, by its start.
    by_start: BTreeMap<u64, u64>,
    chunks: u64,
}

impl FreeSpans {
    /// Returns the number of free chunks.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns the length in chunks of the longest free span.
    pub(super) fn longest(&self) -> u64 {
        self.by_start.values().copied().max().unwrap_or(0)
    }

    /// Returns the length in chunks of the free span that ends at `end`; 0 if none does.
    pub(super) fn ending_at(&self, end: PoolOffset) -> u64 {
        let before = self.by_start.range(..end.get()).next_back();
        before
            .filter(|(start, chunks)| *start + *chunks * CHUNK == end.get())
            .map_or(0, |(_, chunks)| *chunks)
    }

    pub(super) fn release(&mut self, span: Span) {
        let (mut start, mut chunks) = (span.start.get(), span.chunks);
        self.chunks += chunks;
        if let Some((before, len)) = self.by_start.range(..start).next_back().map(|(s, c)| (*s, *c))
            && before + len * CHUNK == start
        {
            self.by_start.remove(&before);
            (start, chunks) = (before, chunks + len);
        }
        if let Some(after) = self.by_start.remove(&(start + chunks * CHUNK)) {
            chunks += after;
        }
        self.by_start.insert(start, chunks);
    }

    /// Takes the first `chunks` free chunks that begin at a multiple of `align` chunks in their extent. `base_of`
    /// returns the start of the extent.
    pub(super) fn take(
        &mut self,
        chunks: u64,
        align: u64,
        base_of: impl Fn(PoolOffset) -> u64,
    ) -> Option<Span> {
        let fits = |start: u64, len: u64| {
            let base = base_of(PoolOffset::new(start));
            let at = base + align_up(start - base, align * CHUNK);
            (at + chunks * CHUNK <= start + len * CHUNK).then_some((start, len, at))
        };
        let (start, len, at) = self.by_start.iter().find_map(|(start, len)| fits(*start, *len))?;
        self.by_start.remove(&start);
        self.chunks -= len;
        let end = at + chunks * CHUNK;
        for (rest, rest_len) in [(start, (at - start) / CHUNK), (end, (start + len * CHUNK - end) / CHUNK)] {
            if rest_len > 0 {
                self.by_start.insert(rest, rest_len);
                self.chunks += rest_len;
            }
        }
        Some(Span { start: PoolOffset::new(at), chunks })
    }

    /// Takes the longest free span, at most `chunks_max` of it.
    pub(super) fn take_longest(&mut self, chunks_max: u64) -> Option<Span> {
        let longest = self.longest();
        if longest == 0 { None } else { self.take(longest.min(chunks_max), 1, |_| 0) }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn span(chunk: u64, chunks: u64) -> Span {
        Span { start: PoolOffset::new(chunk * CHUNK), chunks }
    }

    #[test]
    fn adjacent_spans_merge() {
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let mut free = FreeSpans::default();
            for chunk in order {
                free.release(span(chunk * 2, 2));
            }
            assert_eq!((free.chunks(), free.longest()), (6, 6));
            assert_eq!([5, 6, 7].map(|end| free.ending_at(PoolOffset::new(end * CHUNK))), [0, 6, 0]);
            assert_eq!(free.take(6, 1, |_| 0), Some(span(0, 6)));
            assert_eq!((free.chunks(), free.longest()), (0, 0));
        }
    }

    #[test]
    fn aligned_take_splits_span() {
        let mut free = FreeSpans::default();
        free.release(span(3, 10));
        assert_eq!(free.take(4, 4, |_| 0), Some(span(4, 4)));
        assert_eq!(free.chunks(), 6);
        assert_eq!(free.take(1, 1, |_| 0), Some(span(3, 1)));
        assert_eq!(free.take(5, 1, |_| 0), Some(span(8, 5)));
        assert_eq!(free.take(1, 1, |_| 0), None);
    }

    #[test]
    fn alignment_is_relative_to_extent() {
        let mut free = FreeSpans::default();
        free.release(span(3, 10));
        assert_eq!(free.take(4, 4, |_| 3 * CHUNK), Some(span(3, 4)));
    }
}
