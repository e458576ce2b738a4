//! The changes of a running transaction: the entries of its record, and the content of the pool as the transaction
//! sees it.

use super::overlay::Overlay;
use super::own_spans::{OwnSpans, chunk_parts};
use crate::alloc::space::{LoadWords, Span};
use crate::pending_words::{PendingView, PendingWords};
use lode_layout::{Entries, Entry, PoolOffset, Record, SpanHeaderWords, WORD};
use lode_pmem::{Medium, Readable};
use lode_redo::{DirtyLines, apply_entry};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Maximum number of stores that reads look at one by one. More are looked up in the overlay.
const PENDING_WRITES_MAX: usize = 16;

/// Maximum length in words of a record whose memory is kept for the next transaction.
const RECORD_KEPT_MAX: usize = 1 << 16;

/// A range that the transaction will change.
#[derive(Clone, Copy, Debug)]
struct PendingWrite {
    at: u64,
    len: u64,
    /// Index of its first word in the record's body; `None` for zeros.
    words: Option<usize>,
}

/// Content of a new object that is in place already.
#[derive(Clone, Copy, Debug)]
struct Payload {
    len: u64,
    crc: u32,
}

/// Words of the entry that has the checksum of such content.
const PAYLOAD_WORDS: usize = 3;

/// The parts of a long transaction's changes that are not in the overlay.
#[derive(Debug)]
struct LongWrites {
    /// Bits to set and to clear, by the offset of their word.
    bits: BTreeMap<u64, (u64, u64)>,
    /// Words that the entries of `bits` take in the log.
    bit_words: u64,
    /// Number of changes so far.
    changes: u64,
    /// True if content of new objects was copied to its place, and the record has no checksum of it.
    has_payloads: bool,
    /// Lines of the transaction's own spans that were stored to, in place.
    in_place: DirtyLines,
}

/// The changes of a transaction.
#[derive(Debug)]
pub(crate) struct WriteSet {
    /// The entries of a short transaction. A long one composes its record when it commits.
    record: Record,
    /// Content of a short transaction that was written in place, by offset. Its entries are added at the end, if it
    /// stays as it is.
    payloads: BTreeMap<PoolOffset, Payload>,
    /// Entries below this word of the body are in `pending_writes` or in the overlay. They are collected when the
    /// transaction reads, so a transaction that only writes pays nothing for them.
    collected: usize,
    /// Empty once the overlay has them.
    pending_writes: Vec<PendingWrite>,
    overlay: Overlay,
    own_spans: OwnSpans,
    long: Option<LongWrites>,
    /// Words of other transactions that lie under the changes, not in memory yet; see
    /// [`pending_words`](crate::pending_words).
    pending: Option<PendingView>,
    /// True if the transaction is long, or sees pending words.
    is_layered: bool,
    /// Number of pending writes that reads have looked at.
    #[cfg(test)]
    visits: u64,
}

/// The words of the pool as a transaction sees them without its own changes.
pub(crate) struct WordsBelow<'a> {
    writes: &'a WriteSet,
    memory: &'a Readable,
}

impl LoadWords for WordsBelow<'_> {
    #[inline]
    fn load8(&self, at: PoolOffset) -> u64 {
        self.writes.load8_below(self.memory, at)
    }
}

impl WriteSet {
    pub(crate) fn new() -> WriteSet {
        WriteSet {
            record: Record::new(),
            payloads: BTreeMap::new(),
            collected: 0,
            pending_writes: Vec::new(),
            overlay: Overlay::default(),
            own_spans: OwnSpans::default(),
            long: None,
            pending: None,
            is_layered: false,
            #[cfg(test)]
            visits: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.record.clear();
        if self.record.len() > RECORD_KEPT_MAX {
            self.record = Record::new();
        }
        if !self.payloads.is_empty() {
            self.payloads = BTreeMap::new();
        }
        self.own_spans.clear();
        if self.collected > 0 || self.long.is_some() {
            self.collected = 0;
            self.pending_writes.clear();
            self.overlay.clear();
            self.long = None;
        }
        if self.is_layered {
            self.pending = None;
            self.is_layered = false;
        }
    }

    /// Lays the changes over words of other transactions that are not in memory yet.
    pub(crate) fn see_pending(&mut self, words: &Arc<PendingWords>) {
        self.pending = Some(PendingView::new(Arc::clone(words)));
        self.is_layered = true;
    }

    /// Returns the greatest sequence number of a transaction of which a pending word was seen, or 0.
    pub(crate) fn seen_pending(&self) -> u64 {
        self.pending.as_ref().map_or(0, PendingView::seen)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.record.is_empty() && self.long.is_none()
    }

    /// Returns the number of words that the changes take in the log so far.
    #[inline]
    pub(crate) fn log_words(&self) -> u64 {
        match &self.long {
            None => (self.record.len() + PAYLOAD_WORDS * self.payloads.len()) as u64,
            Some(long) => self.overlay.log_words() + long.bit_words,
        }
    }

    /// Returns a number that grows with each change.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.long.as_ref().map_or_else(|| self.log_words(), |long| long.changes)
    }

    /// Returns true if the transaction is short, and its record has at most `words_max` words with `more` added.
    #[inline]
    pub(crate) fn fits_in_record(&self, words_max: u64, more: u64) -> bool {
        self.long.is_none() && self.log_words() + more <= words_max
    }

    /// Returns true if the transaction is long, and a store to `at` takes no space in the log.
    pub(crate) fn stores_in_place(&self, at: PoolOffset) -> bool {
        self.long.is_some() && self.own_spans.hold(at)
    }

    /// Returns the record of a short transaction.
    #[inline]
    pub(crate) fn record(&mut self) -> &mut Record {
        debug_assert!(self.long.is_none(), "a long transaction composes its record when it commits");
        &mut self.record
    }

    /// Returns the number of chunks that the transaction has taken.
    pub(crate) fn own_chunks(&self) -> u64 {
        self.own_spans.chunks()
    }

    /// Notes a span that the transaction has taken from free chunks.
    pub(crate) fn add_own_span(&mut self, span: Span) {
        self.own_spans.add(span);
    }

    #[inline]
    pub(crate) fn store8<M: Medium>(&mut self, medium: &M, at: PoolOffset, word: u64) {
        if self.long.is_some() {
            return self.store_long(medium, at, word.as_bytes());
        }
        self.record.push_word(at, word);
    }

    #[inline]
    pub(crate) fn store_words<M: Medium>(&mut self, medium: &M, at: PoolOffset, words: &[u64]) {
        if self.long.is_some() {
            return self.store_long(medium, at, words.as_bytes());
        }
        self.record.push_bytes_as_words(at, words.as_bytes());
    }

    #[inline]
    pub(crate) fn store_bytes<M: Medium>(&mut self, medium: &M, at: PoolOffset, bytes: &[u8]) {
        if self.long.is_some() {
            return self.store_long(medium, at, bytes);
        }
        if at.get().is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD as usize) {
            self.record.push_bytes_as_words(at, bytes);
        } else {
            self.record.push_bytes(at, bytes);
        }
    }

    /// Stores bytes to an aligned place, and zeros after them up to the next word.
    #[inline]
    pub(crate) fn store_padded<M: Medium>(&mut self, medium: &M, at: PoolOffset, bytes: &[u8]) {
        if self.long.is_some() {
            let mut padded = bytes.to_vec();
            padded.resize(bytes.len().next_multiple_of(WORD as usize), 0);
            return self.store_long(medium, at, &padded);
        }
        self.record.push_bytes_as_words(at, bytes);
    }

    pub(crate) fn zero<M: Medium>(&mut self, medium: &M, at: PoolOffset, len: u64) {
        if self.long.is_some() {
            return self.zero_long(medium, at, len);
        }
        self.record.push(Entry::Zero { at, len });
    }

    #[inline]
    pub(crate) fn set_bits<M: Medium>(&mut self, medium: &M, at: PoolOffset, mask: u64) {
        self.change_bits(medium, at, Entry::SetBits { at, mask });
    }

    #[inline]
    pub(crate) fn clear_bits<M: Medium>(&mut self, medium: &M, at: PoolOffset, mask: u64) {
        self.change_bits(medium, at, Entry::ClearBits { at, mask });
    }

    /// Notes that the range holds, in place, content with this checksum.
    pub(crate) fn payload(&mut self, at: PoolOffset, len: u64, crc: u32) {
        match &mut self.long {
            None => _ = self.payloads.insert(at, Payload { len, crc }),
            Some(long) => {
                long.has_payloads = true;
                long.changes += 1;
            }
        }
    }

    /// Returns true if content was written in place whose checksum the record will have.
    #[inline]
    pub(crate) fn has_payloads(&self) -> bool {
        !self.payloads.is_empty()
    }

    /// Moves content that was written in place, and that the range touches, into the record. The transaction is about
    /// to change that content, and recovery would drop a transaction whose checksum no longer fits. If the record would
    /// get more than `words_max` words, the content stays in place, and the transaction becomes a long one.
    #[cold]
    pub(crate) fn log_payloads<M: Medium>(
        &mut self,
        medium: &M,
        memory: &Readable,
        at: PoolOffset,
        len: u64,
        words_max: u64,
    ) {
        // Payloads are disjoint, so those that end after `at` are the last ones.
        let before_end = self.payloads.range(..at.plus(len)).rev();
        let touched: Vec<_> = before_end
            .take_while(|(start, payload)| start.plus(payload.len) > at)
            .map(|(start, payload)| (*start, payload.len))
            .collect();
        if !self.fits_in_record(words_max, touched.iter().map(|(_, len)| len / WORD).sum()) {
            return self.make_long(medium);
        }
        for (start, len) in touched {
            self.payloads.remove(&start);
            let mut words = vec![0u64; (len / WORD) as usize];
            memory.read(start, words.as_mut_bytes());
            self.store_words(medium, start, &words);
        }
    }

    /// Adds the entries that have the checksums of content in place.
    #[inline]
    pub(crate) fn push_payload_checksums(&mut self) {
        while let Some((at, Payload { len, crc })) = self.payloads.pop_first() {
            self.record.push(Entry::Payload { at, len, crc });
        }
    }

    /// Stores a span header and the words after it, in one entry.
    pub(crate) fn store_header<M: Medium>(
        &mut self,
        medium: &M,
        at: PoolOffset,
        header: &SpanHeaderWords,
        after: &[u64],
    ) {
        let words: Vec<u64> = header.iter().chain(after).copied().collect();
        self.store_words(medium, at, &words);
    }

    /// Returns the word at `at` as the transaction sees it.
    #[inline]
    pub(crate) fn load8(&mut self, memory: &Readable, at: PoolOffset) -> u64 {
        if self.is_layered {
            if self.pending.is_some() {
                return self.load8_over_pending(memory, at);
            }
            return self.overlay.load8(memory, at);
        }
        if self.record.is_empty() {
            return memory.load8(at);
        }
        self.collect_pending();
        if self.pending_writes.is_empty() {
            return self.overlay.load8(memory, at);
        }
        let mut word = [0; 8];
        self.read(memory, at, &mut word);
        u64::from_le_bytes(word)
    }

    #[cold]
    fn load8_over_pending(&mut self, memory: &Readable, at: PoolOffset) -> u64 {
        if self.is_empty() {
            return self.load8_below(memory, at);
        }
        let mut word = [0; WORD as usize];
        self.read(memory, at, &mut word);
        u64::from_le_bytes(word)
    }

    /// Returns the word at `at` without the transaction's own changes.
    #[inline]
    pub(crate) fn load8_below(&self, memory: &Readable, at: PoolOffset) -> u64 {
        self.pending.as_ref().map_or_else(|| memory.load8(at), |pending| pending.load8(memory, at))
    }

    /// Returns the words of the pool without the transaction's own changes.
    #[inline]
    pub(crate) fn below<'a>(&'a self, memory: &'a Readable) -> WordsBelow<'a> {
        WordsBelow { writes: self, memory }
    }

    /// Reads the range from `at` without the transaction's own changes.
    #[inline]
    pub(crate) fn read_below(&self, memory: &Readable, at: PoolOffset, into: &mut [u8]) {
        match &self.pending {
            None => memory.read(at, into),
            Some(pending) => pending.read(memory, at, into),
        }
    }

    /// Loads the words from `at` on as the transaction sees them. Each is loaded at once, as by
    /// [`load8`](WriteSet::load8).
    #[inline]
    pub(crate) fn load_words(&mut self, memory: &Readable, at: PoolOffset, words: &mut [u64]) {
        for (index, word) in (0..).zip(words.iter_mut()) {
            *word = self.load8_below(memory, at.plus(index * WORD));
        }
        if !self.is_empty() {
            self.lay_over(at, words.as_mut_bytes());
        }
    }

    /// Reads the range from `at` as the transaction sees it.
    #[inline]
    pub(crate) fn read(&mut self, memory: &Readable, at: PoolOffset, into: &mut [u8]) {
        self.read_below(memory, at, into);
        if !self.is_empty() {
            self.lay_over(at, into);
        }
    }

    /// Lays the changes of the range from `at` over `into`, which holds what is below them.
    fn lay_over(&mut self, at: PoolOffset, into: &mut [u8]) {
        self.collect_pending();
        #[cfg(test)]
        {
            self.visits += self.pending_writes.len() as u64;
        }
        if self.pending_writes.is_empty() {
            return self.overlay.lay_over(at, into);
        }
        for pending in &self.pending_writes {
            pending.copy_to(self.record.body(), at.get(), into);
        }
    }

    /// Makes the entries that were added since the last call known to reads.
    #[inline]
    fn collect_pending(&mut self) {
        if self.collected < self.record.body().len() {
            self.collect_entries();
        }
    }

    fn collect_entries(&mut self) {
        let body = self.record.body();
        let mut word = self.collected;
        for entry in Entries::new(&body[self.collected..]).map_while(Result::ok) {
            let (pending, used) = match entry {
                Entry::Words { at, words } => {
                    let len = words.len() as u64 * WORD;
                    (Some(PendingWrite { at: at.get(), len, words: Some(word + 1) }), 1 + words.len())
                }
                Entry::Bytes { at, len, words } => {
                    (Some(PendingWrite { at: at.get(), len, words: Some(word + 2) }), 2 + words.len())
                }
                Entry::Zero { at, len } => (Some(PendingWrite { at: at.get(), len, words: None }), 2),
                Entry::SetBits { .. } | Entry::ClearBits { .. } => (None, 2),
                Entry::Payload { .. } | Entry::Continue { .. } => (None, 3),
                Entry::Cover(_) => unreachable!("the heap covers no memory"),
            };
            word += used;
            self.pending_writes.extend(pending);
            if self.pending_writes.len() > PENDING_WRITES_MAX || !self.overlay.is_empty() {
                for pending in self.pending_writes.drain(..) {
                    pending.store_to(&mut self.overlay, body);
                }
            }
        }
        self.collected = word;
    }

    /// Makes the transaction a long one. Its changes so far go to the overlay, or to their place in its own spans.
    #[cold]
    pub(crate) fn make_long<M: Medium>(&mut self, medium: &M) {
        if self.long.is_some() {
            return;
        }
        let changes = self.log_words() + 1;
        self.collect_entries();
        for pending in self.pending_writes.drain(..) {
            pending.store_to(&mut self.overlay, self.record.body());
        }
        let mut long = LongWrites {
            bits: BTreeMap::new(),
            bit_words: 0,
            changes,
            has_payloads: !self.payloads.is_empty(),
            in_place: DirtyLines::new(),
        };
        let WriteSet { overlay, own_spans, .. } = self;
        overlay.extract(|at| own_spans.hold(at), |entry| long.apply_in_place(medium, entry));
        // After the header of a new superblock, which the overlay had.
        for entry in Entries::new(self.record.body()).map_while(Result::ok) {
            if let Entry::SetBits { at, .. } | Entry::ClearBits { at, .. } = entry {
                long.change_bits(medium, at, entry, self.own_spans.hold(at));
            }
        }
        self.record.clear();
        self.collected = 0;
        self.payloads.clear();
        self.long = Some(long);
        self.is_layered = true;
    }

    /// Stores bytes, as a long transaction: in place in its own spans.
    #[cold]
    fn store_long<M: Medium>(&mut self, medium: &M, at: PoolOffset, bytes: &[u8]) {
        let WriteSet { overlay, own_spans, long: Some(long), .. } = self else { return };
        let mut rest = bytes;
        for (at, len) in chunk_parts(at, bytes.len() as u64) {
            let (part, after) = rest.split_at(len as usize);
            if own_spans.hold(at) {
                medium.store(at, part);
                long.in_place.add(at, len);
            } else {
                overlay.store(at, part);
            }
            rest = after;
        }
        long.changes += 1;
    }

    /// Makes a range zero, as a long transaction.
    #[cold]
    fn zero_long<M: Medium>(&mut self, medium: &M, at: PoolOffset, len: u64) {
        let WriteSet { overlay, own_spans, long: Some(long), .. } = self else { return };
        for (at, len) in chunk_parts(at, len) {
            if own_spans.hold(at) {
                long.apply_in_place(medium, Entry::Zero { at, len });
            } else {
                overlay.zero(at, len);
            }
        }
        long.changes += 1;
    }

    /// Adds an entry that changes bits at `at`.
    #[inline]
    fn change_bits<M: Medium>(&mut self, medium: &M, at: PoolOffset, entry: Entry<'_>) {
        match &mut self.long {
            None => self.record.push(entry),
            Some(long) => {
                long.change_bits(medium, at, entry, self.own_spans.hold(at));
                long.changes += 1;
            }
        }
    }

    /// Passes the changes of a long transaction to `push`, as entries of a record. The changes in its own spans are in
    /// place.
    pub(super) fn for_each_entry(&self, mut push: impl FnMut(Entry<'_>)) {
        self.overlay.for_each_entry(&mut push);
        for (at, (set, clear)) in self.long.iter().flat_map(|long| &long.bits) {
            let at = PoolOffset::new(*at);
            if *set != 0 {
                push(Entry::SetBits { at, mask: *set });
            }
            if *clear != 0 {
                push(Entry::ClearBits { at, mask: *clear });
            }
        }
    }

    /// Starts the write-back of the lines that a long transaction stored in place. Returns true if there is any content
    /// in place that the next drain makes durable.
    pub(super) fn flush_in_place<M: Medium>(&self, medium: &M) -> bool {
        let Some(long) = &self.long else { return false };
        let mut any = long.has_payloads;
        for (at, len) in long.in_place.ranges() {
            medium.flush(at, len);
            any = true;
        }
        any
    }
}

impl LongWrites {
    /// Applies an entry in a span of the transaction, which no other thread looks at.
    fn apply_in_place<M: Medium>(&mut self, medium: &M, entry: Entry<'_>) {
        let apply = |memory: &Readable| apply_entry(medium, memory, entry, true);
        let (at, len) = medium.memory().reading_in_scope(apply);
        self.in_place.add(at, len);
    }

    /// Adds an entry that changes bits at `at`, which lies in a span of the transaction if it `is_own`. A later change of
    /// a bit takes the place of an earlier one.
    fn change_bits<M: Medium>(&mut self, medium: &M, at: PoolOffset, entry: Entry<'_>, is_own: bool) {
        if is_own {
            return self.apply_in_place(medium, entry);
        }
        let (to_set, to_clear) = self.bits.entry(at.get()).or_default();
        let words = |set: u64, clear: u64| 2 * (u64::from(set != 0) + u64::from(clear != 0));
        let words_before = words(*to_set, *to_clear);
        match entry {
            Entry::SetBits { mask, .. } => (*to_set, *to_clear) = (*to_set | mask, *to_clear & !mask),
            Entry::ClearBits { mask, .. } => (*to_set, *to_clear) = (*to_set & !mask, *to_clear | mask),
            _ => unreachable!("an entry that changes bits"),
        }
        self.bit_words = self.bit_words - words_before + words(*to_set, *to_clear);
    }
}

impl PendingWrite {
    /// Copies the part of the write that is in the range from `start` to `into`, which holds that range.
    fn copy_to(&self, body: &[u64], start: u64, into: &mut [u8]) {
        let from = self.at.max(start);
        let to = (self.at + self.len).min(start + into.len() as u64);
        if from >= to {
            return;
        }
        let target = &mut into[(from - start) as usize..(to - start) as usize];
        match self.words {
            None => target.fill(0),
            Some(words) => {
                let source = &body[words..].as_bytes()[(from - self.at) as usize..];
                target.copy_from_slice(&source[..target.len()]);
            }
        }
    }

    /// Makes the write a part of `overlay`.
    fn store_to(&self, overlay: &mut Overlay, body: &[u64]) {
        let at = PoolOffset::new(self.at);
        match self.words {
            None => overlay.zero(at, self.len),
            Some(words) => overlay.store(at, &body[words..].as_bytes()[..self.len as usize]),
        }
    }
}

#[cfg(test)]
mod test;
