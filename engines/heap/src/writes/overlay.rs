//! The bytes that a transaction has stored, by cache line.

use super::own_spans::chunk_parts;
use hashbrown::HashTable;
use lode_layout::{Entry, LINE, PoolOffset, WORD, align_down, align_up};
use lode_pmem::Readable;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Words of a cache line.
const LINE_WORDS: usize = (LINE / WORD) as usize;
/// Length of a range in bytes from which it is kept as one range of zeros, and not as lines.
const ZERO_RANGE_MIN: u64 = 4 * LINE;

/// A cache line, and the bytes of it that were stored.
#[derive(Clone, Debug)]
struct OverlayLine {
    number: u64,
    /// A bit for each byte that was stored.
    mask: u64,
    words: [u64; LINE_WORDS],
}

/// The result of looking up a line.
#[derive(Clone, Copy, Debug)]
struct LastLine {
    number: u64,
    /// Its index; [`NO_LINE`] if there is no such line.
    index: u32,
}

/// More than the index of any line.
const NO_LINE: u32 = u32::MAX;

impl Default for LastLine {
    /// Returns that of a line past the end of any pool.
    fn default() -> LastLine {
        LastLine { number: u64::MAX, index: NO_LINE }
    }
}

/// The content of the pool that a transaction has changed. Lines lie over ranges of zeros, and those over memory.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// In the order of their first store.
    lines: Vec<OverlayLine>,
    /// Indices of `lines`, by line number.
    index: HashTable<u32>,
    /// The line that was looked up last. Readers look at the words of a node one after the other.
    last: Cell<LastLine>,
    /// Words that the entries of `lines` take in a log.
    line_words: u64,
    /// Disjoint ranges that became zero: start and end. Each was added when no line stored to it.
    zeros: BTreeMap<u64, u64>,
    /// Number of lines that reads have looked up.
    #[cfg(test)]
    pub(super) lookups: Cell<u64>,
}

impl OverlayLine {
    /// Returns the number of words that the line's entries take in a log: one for each whole word and one for each run
    /// of those, and three for each run of bytes in another word.
    fn log_words(&self) -> u64 {
        /// The lowest bit of each word's byte mask.
        const LOW_BITS: u64 = 0x0101_0101_0101_0101;
        let pairs = self.mask & self.mask >> 1;
        let fours = pairs & pairs >> 2;
        let whole = fours & fours >> 4 & LOW_BITS;
        let whole_runs = whole & !(whole << 8);
        let bytes = self.mask & !(whole * 0xFF);
        let byte_runs = bytes & !(bytes << 1 & !LOW_BITS);
        u64::from(whole.count_ones() + whole_runs.count_ones() + 3 * byte_runs.count_ones())
    }

    fn store(&mut self, off: usize, bytes: &[u8]) {
        self.words.as_mut_bytes()[off..off + bytes.len()].copy_from_slice(bytes);
        self.mask |= mask_of(off, bytes.len());
    }

    /// Copies the bytes from `off` that were stored to `into`.
    fn copy_to(&self, off: usize, into: &mut [u8]) {
        let mut rest = self.mask & mask_of(off, into.len());
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let len = (rest >> first).trailing_ones() as usize;
            into[first - off..][..len].copy_from_slice(&self.words.as_bytes()[first..][..len]);
            rest &= !mask_of(first, len);
        }
    }

    /// Passes the stored bytes to `push`: runs of whole words, and runs of bytes in other words.
    fn for_each_entry(&self, push: &mut impl FnMut(Entry<'_>)) {
        let start = self.number * LINE;
        let whole = |word: usize| self.mask >> (word * 8) & 0xFF == 0xFF;
        let mut word = 0;
        while word < self.words.len() {
            let count = self.words[word..].iter().zip(word..).take_while(|(_, word)| whole(*word)).count();
            let at = PoolOffset::new(start + word as u64 * WORD);
            if count > 0 {
                push(Entry::Words { at, words: &self.words[word..word + count] });
                word += count;
                continue;
            }
            let mut rest = self.mask >> (word * 8) & 0xFF;
            while rest != 0 {
                let (first, len) = (rest.trailing_zeros(), (rest >> rest.trailing_zeros()).trailing_ones());
                let bytes = [self.words[word] >> (first * 8) & ((1 << (len * 8)) - 1)];
                push(Entry::Bytes { at: at.plus(u64::from(first)), len: u64::from(len), words: &bytes });
                rest &= !(((1 << len) - 1) << first);
            }
            word += 1;
        }
    }
}

/// Returns the mask of `len` bytes of a line from number `off`.
#[inline]
fn mask_of(off: usize, len: usize) -> u64 {
    if len == LINE as usize { u64::MAX } else { ((1 << len) - 1) << off }
}

/// Returns the hash of a line's number.
#[inline]
fn hash(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 32
}

/// Returns the parts of a range that lie in one line each: the line's number and the range of bytes from its start.
fn parts(at: u64, len: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = at + len;
    (at / LINE..end.div_ceil(LINE)).map(move |number| {
        let start = number * LINE;
        (number, at.max(start) as usize - start as usize..(end.min(start + LINE) - start) as usize)
    })
}

impl Overlay {
    /// Returns true if nothing was stored.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.zeros.is_empty()
    }

    /// Removes everything. Keeps memory for a short transaction only.
    pub(crate) fn clear(&mut self) {
        const KEPT: usize = 1024;
        self.zeros.clear();
        if self.lines.capacity() > KEPT {
            *self = Overlay::default();
        } else {
            self.lines.clear();
            self.index.clear();
            self.last.take();
            self.line_words = 0;
        }
    }

    /// Returns the number of words that the entries of [`for_each_entry`](Overlay::for_each_entry) take in a log.
    pub(crate) fn log_words(&self) -> u64 {
        self.line_words + self.zeros.len() as u64 * 2
    }

    #[inline]
    fn find(&self, number: u64) -> Option<&OverlayLine> {
        let mut last = self.last.get();
        if last.number != number {
            let is_it = |index: &u32| self.lines[*index as usize].number == number;
            let found = self.index.find(hash(number), is_it);
            last = LastLine { number, index: found.copied().unwrap_or(NO_LINE) };
            self.last.set(last);
            #[cfg(test)]
            self.lookups.set(self.lookups.get() + 1);
        }
        self.lines.get(last.index as usize)
    }

    fn find_or_add(&mut self, number: u64) -> &mut OverlayLine {
        let last = self.last.get();
        if last.number == number && last.index != NO_LINE {
            return &mut self.lines[last.index as usize];
        }
        let lines = &mut self.lines;
        let entry = self.index.entry(
            hash(number),
            |index| lines[*index as usize].number == number,
            |index| hash(lines[*index as usize].number),
        );
        let index = *entry.or_insert_with(|| u32::try_from(lines.len()).expect("lines fit in memory")).get();
        if index as usize == lines.len() {
            lines.push(OverlayLine { number, mask: 0, words: [0; LINE_WORDS] });
        }
        self.last.set(LastLine { number, index });
        &mut lines[index as usize]
    }

    /// Stores bytes.
    pub(crate) fn store(&mut self, at: PoolOffset, bytes: &[u8]) {
        let mut rest = bytes;
        for (number, range) in parts(at.get(), bytes.len() as u64) {
            let (part, after) = rest.split_at(range.len());
            let line = self.find_or_add(number);
            rest = after;
            let mask = mask_of(range.start, part.len());
            if line.mask & mask == mask {
                line.store(range.start, part);
                continue;
            }
            let words_before = line.log_words();
            line.store(range.start, part);
            let words = line.log_words();
            self.line_words = self.line_words - words_before + words;
        }
    }

    /// Makes a range zero.
    pub(crate) fn zero(&mut self, at: PoolOffset, len: u64) {
        if len < ZERO_RANGE_MIN {
            return self.store(at, &[0; ZERO_RANGE_MIN as usize][..len as usize]);
        }
        let (start, end) = (at.get(), at.get() + len);
        let range = align_down(start, LINE) / LINE..align_up(end, LINE) / LINE;
        let Overlay { lines, index, line_words, .. } = self;
        let mut forget = |line: &mut OverlayLine| {
            let line_start = line.number * LINE;
            let (from, to) = (start.max(line_start), end.min(line_start + LINE));
            *line_words -= line.log_words();
            line.mask &= !mask_of((from - line_start) as usize, (to - from) as usize);
            *line_words += line.log_words();
        };
        if range.end - range.start > lines.len() as u64 {
            lines.iter_mut().filter(|line| range.contains(&line.number)).for_each(forget);
        } else {
            for number in range {
                if let Some(found) = index.find(hash(number), |index| lines[*index as usize].number == number)
                {
                    forget(&mut lines[*found as usize]);
                }
            }
        }
        self.add_zeros(start, end);
    }

    /// Adds a range of zeros. Ranges that it overlaps become one with it.
    fn add_zeros(&mut self, start: u64, end: u64) {
        let (mut from, mut to) = (start, end);
        while let Some((s, e)) = self.zeros.range(..=to).next_back().map(|(s, e)| (*s, *e))
            && e >= from
        {
            self.zeros.remove(&s);
            (from, to) = (from.min(s), to.max(e));
        }
        self.zeros.insert(from, to);
    }

    /// Returns the word at `at` as the transaction sees it.
    #[inline]
    pub(crate) fn load8(&self, memory: &Readable, at: PoolOffset) -> u64 {
        let off = (at.get() % LINE) as usize;
        match self.find(at.get() / LINE) {
            Some(line) if line.mask >> off & 0xFF == 0xFF => return line.words[off / 8],
            Some(line) if line.mask >> off & 0xFF != 0 => {}
            _ => {
                if let Some(word) = self.load8_below(memory, at) {
                    return word;
                }
            }
        }
        let mut word = memory.load8(at);
        self.lay_over(at, word.as_mut_bytes());
        word
    }

    /// Returns the word at `at`, over which no line lies; `None` if a part of it is zeroed.
    #[inline]
    fn load8_below(&self, memory: &Readable, at: PoolOffset) -> Option<u64> {
        let (start, end) = (at.get(), at.get() + 8);
        match self.zeros.range(..end).next_back() {
            Some((from, to)) if *to > start => (*from <= start && end <= *to).then_some(0),
            _ => Some(memory.load8(at)),
        }
    }

    /// Lays what was stored over `into`, the bytes of the range from `at`.
    pub(crate) fn lay_over(&self, at: PoolOffset, into: &mut [u8]) {
        let (start, end) = (at.get(), at.get() + into.len() as u64);
        if !self.zeros.is_empty() {
            for (from, to) in self.zeros.range(..end).rev().take_while(|(_, to)| **to > start) {
                let (from, to) = (start.max(*from), end.min(*to));
                into[(from - start) as usize..(to - start) as usize].fill(0);
            }
        }
        let mut rest = into;
        for (number, range) in parts(start, end - start) {
            let (part, after) = rest.split_at_mut(range.len());
            if let Some(line) = self.find(number) {
                line.copy_to(range.start, part);
            }
            rest = after;
        }
    }

    /// Passes the changes to `push`, as entries of a record: first the zeros, then the lines over them.
    pub(crate) fn for_each_entry(&self, mut push: impl FnMut(Entry<'_>)) {
        for (start, end) in &self.zeros {
            push(Entry::Zero { at: PoolOffset::new(*start), len: end - start });
        }
        for line in &self.lines {
            line.for_each_entry(&mut push);
        }
    }

    /// Removes what lies in chunks for which `is_moved` returns true, and passes it to `push`. Each entry lies in one
    /// chunk.
    pub(crate) fn extract(&mut self, is_moved: impl Fn(PoolOffset) -> bool, mut push: impl FnMut(Entry<'_>)) {
        for (start, end) in mem::take(&mut self.zeros) {
            for (at, len) in chunk_parts(PoolOffset::new(start), end - start) {
                if is_moved(at) {
                    push(Entry::Zero { at, len });
                } else {
                    self.add_zeros(at.get(), at.get() + len);
                }
            }
        }
        for line in self.lines.extract_if(.., |line| is_moved(PoolOffset::new(line.number * LINE))) {
            line.for_each_entry(&mut push);
        }
        self.index.clear();
        self.last.take();
        self.line_words = self.lines.iter().map(OverlayLine::log_words).sum();
        for (index, line) in (0..).zip(&self.lines) {
            let rehash = |index: &u32| hash(self.lines[*index as usize].number);
            self.index.insert_unique(hash(line.number), index, rehash);
        }
    }
}
