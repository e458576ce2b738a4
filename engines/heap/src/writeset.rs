//! The changes of a running transaction: the entries of its record, and the content of the pool as the transaction
//! sees it.

use lode_layout::{ENTRY_WORDS_MAX, Entries, Entry, PoolOffset, Record, SpanHeaderWords, WORD, align_down};
use lode_pmem::Readable;
use std::collections::HashMap;
use zerocopy::IntoBytes;

/// Number of patches above which they are looked up by their place instead of one by one.
const INDEX_MIN: usize = 16;
/// Length in bytes of the places by which patches are looked up.
const INDEX_GRANULE: u64 = 256;

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
    at: PoolOffset,
    len: u64,
    crc: u32,
}

/// Words of the entry that has the checksum of such content.
const PAYLOAD_WORDS: usize = 3;

/// The changes of a transaction.
#[derive(Debug)]
pub(crate) struct WriteSet {
    record: Record,
    /// Content that was written in place. Its entries are added at the end, if it stays as it is.
    payloads: Vec<Payload>,
    /// Entries below this word of the body have been made into patches. Patches are made when the transaction reads,
    /// so a transaction that only writes pays nothing for them.
    collected: usize,
    pending_writes: Vec<PendingWrite>,
    /// Patches by the places that they touch, if there are many.
    index: HashMap<u64, Vec<u32>>,
    /// Number of patches that are in the index.
    indexed: usize,
}

impl WriteSet {
    pub(crate) fn new() -> WriteSet {
        WriteSet {
            record: Record::new(),
            payloads: Vec::new(),
            collected: 0,
            pending_writes: Vec::new(),
            index: HashMap::new(),
            indexed: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.record.clear();
        self.payloads.clear();
        if self.collected > 0 {
            self.collected = 0;
            self.pending_writes.clear();
            self.indexed = 0;
            self.index.clear();
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.record.is_empty()
    }

    /// Returns the length of the record so far in words, header included.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.record.len() + PAYLOAD_WORDS * self.payloads.len()
    }

    #[inline]
    pub(crate) fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    #[inline]
    pub(crate) fn store8(&mut self, at: PoolOffset, word: u64) {
        self.record.push_word(at, word);
    }

    #[inline]
    pub(crate) fn store_words(&mut self, at: PoolOffset, words: &[u64]) {
        let mut at = at;
        for part in words.chunks(ENTRY_WORDS_MAX) {
            self.record.push(Entry::Words { at, words: part });
            at = at.plus(part.len() as u64 * WORD);
        }
    }

    pub(crate) fn store_bytes(&mut self, at: PoolOffset, bytes: &[u8]) {
        if at.get().is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD as usize) {
            let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            self.store_words(at, &words);
            return;
        }
        let mut words = vec![0u64; bytes.len().div_ceil(WORD as usize)];
        words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        self.record.push(Entry::Bytes { at, len: bytes.len() as u64, words: &words });
    }

    pub(crate) fn zero(&mut self, at: PoolOffset, len: u64) {
        self.record.push(Entry::Zero { at, len });
    }

    #[inline]
    pub(crate) fn set_bits(&mut self, at: PoolOffset, mask: u64) {
        self.record.push(Entry::SetBits { at, mask });
    }

    #[inline]
    pub(crate) fn clear_bits(&mut self, at: PoolOffset, mask: u64) {
        self.record.push(Entry::ClearBits { at, mask });
    }

    /// Notes that the range holds, in place, content with this checksum.
    pub(crate) fn payload(&mut self, at: PoolOffset, len: u64, crc: u32) {
        self.payloads.push(Payload { at, len, crc });
    }

    /// Returns true if content was written in place.
    #[inline]
    pub(crate) fn has_payloads(&self) -> bool {
        !self.payloads.is_empty()
    }

    /// Moves content that was written in place, and that the range touches, into the record. The transaction is about
    /// to change that content, and recovery would drop a transaction whose checksum no longer fits.
    #[cold]
    pub(crate) fn log_payloads(&mut self, memory: &Readable, at: PoolOffset, len: u64) {
        let touched = |payload: &mut Payload| at < payload.at.plus(payload.len) && payload.at < at.plus(len);
        for payload in self.payloads.extract_if(.., touched).collect::<Vec<_>>() {
            let mut words = vec![0u64; (payload.len / WORD) as usize];
            memory.read(payload.at, words.as_mut_bytes());
            self.store_words(payload.at, &words);
        }
    }

    /// Adds the entries that have the checksums of content in place.
    #[cold]
    pub(crate) fn push_payload_checksums(&mut self) {
        for Payload { at, len, crc } in self.payloads.drain(..) {
            self.record.push(Entry::Payload { at, len, crc });
        }
    }

    /// Stores a span header and the words after it, in one entry.
    pub(crate) fn store_header(&mut self, at: PoolOffset, header: &SpanHeaderWords, after: &[u64]) {
        let words: Vec<u64> = header.iter().chain(after).copied().collect();
        self.store_words(at, &words);
    }

    /// Returns the word at `at` as the transaction sees it.
    #[inline]
    pub(crate) fn load8(&mut self, memory: &Readable, at: PoolOffset) -> u64 {
        if self.is_empty() {
            return memory.load8(at);
        }
        let mut word = [0; 8];
        self.read(memory, at, &mut word);
        u64::from_le_bytes(word)
    }

    /// Reads the range from `at` as the transaction sees it.
    pub(crate) fn read(&mut self, memory: &Readable, at: PoolOffset, into: &mut [u8]) {
        self.collect_pending();
        memory.read(at, into);
        let range = at.get()..at.get() + into.len() as u64;
        if self.index.is_empty() {
            for pending in &self.pending_writes {
                pending.copy_to(self.record.body(), range.start, into);
            }
            return;
        }
        let mut places: Vec<u32> = (align_down(range.start, INDEX_GRANULE)..range.end)
            .step_by(INDEX_GRANULE as usize)
            .filter_map(|place| self.index.get(&place))
            .flatten()
            .copied()
            .collect();
        places.sort_unstable();
        places.dedup();
        for number in places {
            self.pending_writes[number as usize].copy_to(self.record.body(), range.start, into);
        }
    }

    /// Makes patches of the entries that were added since the last call.
    fn collect_pending(&mut self) {
        let mut word = self.collected;
        for entry in Entries::new(&self.record.body()[self.collected..]).map_while(Result::ok) {
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
            };
            word += used;
            self.pending_writes.extend(pending);
        }
        self.collected = word;
        self.index_pending();
    }

    fn index_pending(&mut self) {
        if self.pending_writes.len() <= INDEX_MIN {
            return;
        }
        for (number, pending) in self.pending_writes.iter().enumerate().skip(self.indexed) {
            let end = pending.at + pending.len;
            for place in (align_down(pending.at, INDEX_GRANULE)..end).step_by(INDEX_GRANULE as usize) {
                self.index.entry(place).or_default().push(number as u32);
            }
        }
        self.indexed = self.pending_writes.len();
    }
}

impl PendingWrite {
    /// Copies the part of the patch that is in the range from `start` to `into`, which holds that range.
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
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_pmem::Memory;

    /// A transaction sees what applying its entries in order to a copy would give.
    #[test]
    fn transaction_reads_its_writes() {
        const LEN: usize = 4096;
        let memory = Memory::anonymous(LEN as u64).expect("memory");
        let mut model = [0u8; LEN];
        let mut writes = WriteSet::new();
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for step in 0..400u64 {
            let len = 1 + draw(80) as usize;
            let at = draw((LEN - len) as u64) as usize;
            match draw(3) {
                0 => {
                    let bytes: Vec<u8> = (0..len).map(|i| (step as usize + i) as u8).collect();
                    writes.store_bytes(PoolOffset::new(at as u64), &bytes);
                    model[at..at + len].copy_from_slice(&bytes);
                }
                1 => {
                    let at = at & !7;
                    writes.store_words(PoolOffset::new(at as u64), &[step]);
                    model[at..at + 8].copy_from_slice(&step.to_le_bytes());
                }
                _ => {
                    writes.zero(PoolOffset::new(at as u64), len as u64);
                    model[at..at + len].fill(0);
                }
            }
            let (from, len) = (draw(LEN as u64 - 300) as usize, 1 + draw(300) as usize);
            let mut seen = vec![0; len];
            memory
                .reading(|memory| writes.read(memory, PoolOffset::new(from as u64), &mut seen))
                .expect("no fault");
            assert_eq!(seen, model[from..from + len], "step {step}");
        }
        writes.clear();
        assert_eq!(memory.reading(|memory| writes.load8(memory, PoolOffset::new(0))), Ok(0));
    }
}
