//! Redo records: the changes of one transaction, as stored in a ring of the log.
#![doc = include_str!("record.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{CoverEntry, PoolOffset, WORD, flip};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// A record's header as it lies on the medium.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RecordHeader {
    crc: u32,
    body: u32,
    sequence: u64,
}

pub(crate) const TABLE: FormatTable = format_table!("record", RecordHeader, [crc, body, sequence]);

/// Words of a record's header.
pub const RECORD_HEADER_WORDS: usize = 2;
/// Words to which records are padded: a cache line.
pub const RECORD_LINE_WORDS: usize = 8;
/// The most words that one [`Entry::Words`] carries.
pub const ENTRY_WORDS_MAX: usize = 0xFFF;

/// Bits by which the checksum of each quarter of a long record is rotated further than the previous one.
const SUM_ROTATION: u32 = 7;

/// Least number of words for which the checksum is computed in four quarters.
pub const RECORD_LONG_WORDS: usize = 16;

/// Position of the length in a record's first word, as a shift.
const BODY_SHIFT: u32 = 32;
const KIND_SHIFT: u32 = 60;
const COUNT_SHIFT: u32 = 48;
const OFFSET_MASK: u64 = (1 << COUNT_SHIFT) - 1;

const WORDS: u64 = 1;
const SET_BITS: u64 = 2;
const CLEAR_BITS: u64 = 3;
const BYTES: u64 = 4;
const ZERO: u64 = 5;
const PAYLOAD: u64 = 6;
const CONTINUE: u64 = 7;
const IMAGE: u64 = 8;
const AT_HOME: u64 = 9;
const SET_WORD_BITS: u64 = 10;
const CLEAR_WORD_BITS: u64 = 11;
const PENDING: u64 = 12;
const SETTLED: u64 = 13;

/// One change that a record carries. Applying it twice has the same effect as applying it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Aligned words that replace those at `at`.
    Words {
        /// Offset of the first word.
        at: PoolOffset,
        /// The words.
        words: &'a [u64],
    },
    /// Bits of a checked word to set.
    SetBits {
        /// Offset of the word.
        at: PoolOffset,
        /// The bits, of the lower 48.
        mask: u64,
    },
    /// Bits of a checked word to clear.
    ClearBits {
        /// Offset of the word.
        at: PoolOffset,
        /// The bits, of the lower 48.
        mask: u64,
    },
    /// Bytes that replace those at `at`.
    Bytes {
        /// Offset of the first byte.
        at: PoolOffset,
        /// Number of bytes in `words` that count.
        len: u64,
        /// The bytes, padded with zeros to whole words, little-endian.
        words: &'a [u64],
    },
    /// A range that becomes zero.
    Zero {
        /// Offset of the first byte.
        at: PoolOffset,
        /// Length in bytes, a multiple of 8.
        len: u64,
    },
    /// A range whose content was written in place before the record, under the same drain.
    Payload {
        /// Offset of the first byte.
        at: PoolOffset,
        /// Length in bytes, a multiple of 8.
        len: u64,
        /// CRC32C of the content.
        crc: u32,
    },
    /// A range outside of the ring in which the entries go on. No entry follows this one in the ring.
    Continue {
        /// Offset of the range.
        at: PoolOffset,
        /// Length in bytes, a multiple of 8.
        len: u64,
        /// CRC32C of the range.
        crc: u32,
    },
    /// A change of memory that programs store to in place.
    Cover(CoverEntry<'a>),
}

/// Reasons why a record's entries can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// An entry of a kind that no version knows.
    UnknownKind {
        /// The entry's first word.
        word: u64,
    },
    /// An entry is longer than the rest of its record.
    Truncated {
        /// The entry's first word.
        word: u64,
    },
}

const fn head(kind: u64, count: u64, at: PoolOffset) -> u64 {
    kind << KIND_SHIFT | count << COUNT_SHIFT | (at.get() & OFFSET_MASK)
}

/// A record that a transaction composes: room for a header, then entries.
#[derive(Clone, Debug)]
pub struct Record {
    /// At least `len` words, and a line of room for padding after them.
    words: Vec<u64>,
    len: usize,
}

impl Record {
    /// Creates a record without entries.
    pub fn new() -> Record {
        Record { words: vec![0; 2 * RECORD_LINE_WORDS], len: RECORD_HEADER_WORDS }
    }

    /// Removes all entries.
    #[inline]
    pub fn clear(&mut self) {
        self.len = RECORD_HEADER_WORDS;
    }

    /// Returns true if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == RECORD_HEADER_WORDS
    }

    /// Returns the number of words of the header and the entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the words of the entries.
    #[inline]
    pub fn body(&self) -> &[u64] {
        &self.words[RECORD_HEADER_WORDS..self.len]
    }

    /// Appends the entry that replaces the word at `at`.
    #[inline]
    pub fn push_word(&mut self, at: PoolOffset, word: u64) {
        self.push_pair(head(WORDS, 1, at), word);
    }

    /// Appends the entries that replace the words from `at` on by `bytes`, which zeros fill up to whole words.
    #[inline]
    pub fn push_bytes_as_words(&mut self, at: PoolOffset, bytes: &[u8]) {
        let mut at = at;
        for part in bytes.chunks(ENTRY_WORDS_MAX * WORD as usize) {
            let count = part.len().div_ceil(WORD as usize);
            let room = self.room(1 + count);
            (room[0], room[count]) = (head(WORDS, count as u64, at), 0);
            room[1..].as_mut_bytes()[..part.len()].copy_from_slice(part);
            at = at.plus(part.len() as u64);
        }
    }

    /// Appends the entry that replaces the bytes from `at` on.
    #[inline]
    pub fn push_bytes(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.push_counted(head(BYTES, 0, at), bytes.len() as u64, bytes);
    }

    /// Appends a [`CoverEntry::AtHome`] of the bytes from `at` on.
    #[inline]
    pub fn push_at_home(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.push_at_home_with(at, bytes.len() as u64, |room| room.copy_from_slice(bytes));
    }

    /// Appends a [`CoverEntry::AtHome`] of `len` bytes from `at` on, which `fill` stores.
    #[inline]
    pub fn push_at_home_with(&mut self, at: PoolOffset, len: u64, fill: impl FnOnce(&mut [u8])) {
        let count = len.div_ceil(WORD) as usize;
        let room = self.room(2 + count);
        room[1 + count] = 0;
        (room[0], room[1]) = (head(AT_HOME, 0, at), len);
        fill(&mut room[2..].as_mut_bytes()[..len as usize]);
    }

    /// Appends a [`CoverEntry::Image`] of the range from `at` on, whose length is a multiple of 8.
    #[inline]
    pub fn push_image(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.push_image_with(at, bytes.len() as u64, |room| room.copy_from_slice(bytes));
    }

    /// Appends a [`CoverEntry::Image`] of `len` bytes from `at` on, a multiple of 8, which `fill` stores.
    #[inline]
    pub fn push_image_with(&mut self, at: PoolOffset, len: u64, fill: impl FnOnce(&mut [u8])) {
        debug_assert!(len.is_multiple_of(WORD), "an image has whole words");
        let count = len / WORD;
        let room = self.room(2 + count as usize);
        (room[0], room[1]) = (head(IMAGE, 0, at), count);
        fill(room[2..].as_mut_bytes());
    }

    /// Appends the entries of another record.
    #[inline]
    pub fn push_entries(&mut self, body: &[u64]) {
        self.extend(body);
    }

    /// Appends an entry of two words and `bytes`, which zeros fill up to whole words.
    #[inline]
    fn push_counted(&mut self, first: u64, second: u64, bytes: &[u8]) {
        let count = bytes.len().div_ceil(WORD as usize);
        let room = self.room(2 + count);
        room[1 + count] = 0;
        (room[0], room[1]) = (first, second);
        room[2..].as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    }

    fn push_cover(&mut self, entry: CoverEntry<'_>) {
        match entry {
            CoverEntry::Image { at, words } => self.push_image(at, words.as_bytes()),
            CoverEntry::AtHome { at, len, words } => {
                self.push_pair(head(AT_HOME, 0, at), len);
                self.extend(words);
            }
            CoverEntry::SetBits { at, mask } => self.push_pair(head(SET_WORD_BITS, 0, at), mask),
            CoverEntry::ClearBits { at, mask } => self.push_pair(head(CLEAR_WORD_BITS, 0, at), mask),
            CoverEntry::Pending { id } => self.push_pair(head(PENDING, 0, PoolOffset::NULL), id),
            CoverEntry::Settled { id } => self.push_pair(head(SETTLED, 0, PoolOffset::NULL), id),
        }
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// Panics for an [`Entry::Words`] of more than [`ENTRY_WORDS_MAX`] words.
    #[inline]
    pub fn push(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Words { at, words } => {
                assert!(words.len() <= ENTRY_WORDS_MAX, "a word entry is too long");
                self.extend(&[head(WORDS, words.len() as u64, at)]);
                self.extend(words);
            }
            Entry::SetBits { at, mask } => self.push_pair(head(SET_BITS, 0, at), mask),
            Entry::ClearBits { at, mask } => self.push_pair(head(CLEAR_BITS, 0, at), mask),
            Entry::Bytes { at, len, words } => {
                self.push_pair(head(BYTES, 0, at), len);
                self.extend(words);
            }
            Entry::Zero { at, len } => self.push_pair(head(ZERO, 0, at), len),
            Entry::Cover(entry) => self.push_cover(entry),
            Entry::Payload { at, len, crc } => self.extend(&[head(PAYLOAD, 0, at), len, u64::from(crc)]),
            Entry::Continue { at, len, crc } => self.extend(&[head(CONTINUE, 0, at), len, u64::from(crc)]),
        }
    }

    #[inline]
    fn push_pair(&mut self, first: u64, second: u64) {
        // Keeps room for the padding, see `finish`.
        if let Some(room) = self.words.get_mut(self.len..self.len + 2 + RECORD_LINE_WORDS) {
            room[..2].copy_from_slice(&[first, second]);
            self.len += 2;
        } else {
            self.extend(&[first, second]);
        }
    }

    #[inline]
    fn extend(&mut self, words: &[u64]) {
        self.room(words.len()).copy_from_slice(words);
    }

    /// Appends `count` words, which the caller fills: older ones show there.
    #[inline]
    fn room(&mut self, count: usize) -> &mut [u64] {
        let (start, end) = (self.len, self.len + count);
        if end + RECORD_LINE_WORDS > self.words.len() {
            self.grow(end + RECORD_LINE_WORDS);
        }
        self.len = end;
        &mut self.words[start..end]
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.words.resize(len.next_power_of_two().next_multiple_of(RECORD_LINE_WORDS), 0);
    }

    /// Returns the number of words of the finished record: a multiple of [`RECORD_LINE_WORDS`].
    #[inline]
    pub fn padded_len(&self) -> usize {
        self.len.next_multiple_of(RECORD_LINE_WORDS)
    }

    /// Writes the header for a record at `ring_off`, in bytes from the start of the ring. Returns the record's words,
    /// padded with zeros. `checksum` is [`record_checksum`] or an equivalent function.
    ///
    /// # Panics
    /// Panics for a record of 32 GiB or more.
    #[inline]
    pub fn finish(
        &mut self,
        checksum_seed: ChecksumSeed,
        sequence: u64,
        ring_off: u64,
        checksum: impl Fn(u32, &[u64]) -> u32,
    ) -> &[u64] {
        checksum_seed.write_header(&mut self.words[..self.len], sequence, ring_off, checksum);
        // Fills a whole line even if less is needed: its length is constant, so the compiler emits no call.
        self.words[self.len..self.len + RECORD_LINE_WORDS].fill(0);
        &self.words[..self.padded_len()]
    }
}

impl Default for Record {
    fn default() -> Record {
        Record::new()
    }
}

/// An iterator over the entries in a record's body, in order. It ends after the first error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u64],
}

impl<'a> Entries<'a> {
    /// Returns the entries in `body`.
    pub const fn new(body: &'a [u64]) -> Entries<'a> {
        Entries { rest: body }
    }

    /// Returns the words of the entries that are still to come.
    pub const fn rest(&self) -> &'a [u64] {
        self.rest
    }

    /// Takes the next entry if it replaces one word. Most entries do.
    #[inline]
    pub fn next_word(&mut self) -> Option<(PoolOffset, u64)> {
        let (pair, rest) = self.rest.split_first_chunk::<2>()?;
        if pair[0] >> COUNT_SHIFT != WORDS << (KIND_SHIFT - COUNT_SHIFT) | 1 {
            return None;
        }
        self.rest = rest;
        Some((PoolOffset::new(pair[0] & OFFSET_MASK), pair[1]))
    }

    /// Takes the next entry if it replaces words, however many.
    #[inline]
    pub fn next_words(&mut self) -> Option<(PoolOffset, &'a [u64])> {
        let (first, rest) = self.rest.split_first()?;
        if first >> KIND_SHIFT != WORDS {
            return None;
        }
        let (words, rest) = rest.split_at_checked((first >> COUNT_SHIFT) as usize & ENTRY_WORDS_MAX)?;
        self.rest = rest;
        Some((PoolOffset::new(first & OFFSET_MASK), words))
    }

    /// Takes the next entry if it changes bits. Returns the offset of the word, the bits to set and the bits to clear.
    #[inline]
    pub fn next_bits(&mut self) -> Option<(PoolOffset, u64, u64)> {
        let ([first, mask], rest) = self.rest.split_first_chunk::<2>()?;
        let (set, clear) = match first >> KIND_SHIFT {
            SET_BITS => (*mask, 0),
            CLEAR_BITS => (0, *mask),
            _ => return None,
        };
        self.rest = rest;
        Some((PoolOffset::new(first & OFFSET_MASK), set, clear))
    }

    /// Passes over the next entry if it is an [`Entry::Payload`], which changes nothing.
    #[inline]
    pub fn skip_payload(&mut self) {
        if let [first, _, _, rest @ ..] = self.rest
            && first >> KIND_SHIFT == PAYLOAD
        {
            self.rest = rest;
        }
    }

    fn parse(&mut self) -> Result<Entry<'a>, EntryError> {
        let word = self.rest[0];
        let at = PoolOffset::new(word & OFFSET_MASK);
        let truncated = EntryError::Truncated { word };
        let operand = |index: usize| self.rest.get(index).copied().ok_or(truncated);
        let counted = |count: u64| {
            let end = usize::try_from(count).ok().and_then(|count| count.checked_add(2)).ok_or(truncated)?;
            Ok((self.rest.get(2..end).ok_or(truncated)?, end))
        };
        let (entry, used) = match word >> KIND_SHIFT {
            WORDS => {
                let count = (word >> COUNT_SHIFT) as usize & ENTRY_WORDS_MAX;
                let words = self.rest.get(1..1 + count).ok_or(truncated)?;
                (Entry::Words { at, words }, 1 + count)
            }
            SET_BITS => (Entry::SetBits { at, mask: operand(1)? }, 2),
            CLEAR_BITS => (Entry::ClearBits { at, mask: operand(1)? }, 2),
            BYTES => {
                let len = operand(1)?;
                let (words, end) = counted(len.div_ceil(WORD))?;
                (Entry::Bytes { at, len, words }, end)
            }
            ZERO => (Entry::Zero { at, len: operand(1)? }, 2),
            PAYLOAD => (Entry::Payload { at, len: operand(1)?, crc: operand(2)? as u32 }, 3),
            CONTINUE => (Entry::Continue { at, len: operand(1)?, crc: operand(2)? as u32 }, 3),
            AT_HOME => {
                let len = operand(1)?;
                let (words, end) = counted(len.div_ceil(WORD))?;
                (Entry::Cover(CoverEntry::AtHome { at, len, words }), end)
            }
            IMAGE => {
                let (words, end) = counted(operand(1)?)?;
                (Entry::Cover(CoverEntry::Image { at, words }), end)
            }
            SET_WORD_BITS => (Entry::Cover(CoverEntry::SetBits { at, mask: operand(1)? }), 2),
            CLEAR_WORD_BITS => (Entry::Cover(CoverEntry::ClearBits { at, mask: operand(1)? }), 2),
            PENDING => (Entry::Cover(CoverEntry::Pending { id: operand(1)? }), 2),
            SETTLED => (Entry::Cover(CoverEntry::Settled { id: operand(1)? }), 2),
            _ => return Err(EntryError::UnknownKind { word }),
        };
        self.rest = &self.rest[used..];
        Ok(entry)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parsed = self.parse();
        if parsed.is_err() {
            self.rest = &[];
        }
        Some(parsed)
    }
}

/// The start value of record checksums: it covers the pool, the epoch of the log, and the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumSeed {
    seed: u32,
}

impl ChecksumSeed {
    /// Returns the seed for ring number `ring` of the pool `uuid` in the log epoch `log_epoch`.
    pub fn new(uuid: &[u8; 16], log_epoch: [u64; 2], ring: u32) -> ChecksumSeed {
        let mut seed = crc32c::crc32c(uuid);
        for part in log_epoch {
            seed = crc32c::crc32c_append(seed, &part.to_le_bytes());
        }
        ChecksumSeed { seed: crc32c::crc32c_append(seed, &ring.to_le_bytes()) }
    }

    #[inline]
    fn write_header(
        self,
        record: &mut [u64],
        sequence: u64,
        ring_off: u64,
        checksum: impl Fn(u32, &[u64]) -> u32,
    ) {
        let body =
            u32::try_from(record.len() - RECORD_HEADER_WORDS).expect("records are shorter than a ring");
        let mut header = RecordHeader { crc: 0, body, sequence };
        record[..RECORD_HEADER_WORDS].copy_from_slice(&words_of(header));
        header.crc = self.crc(record, ring_off, checksum);
        record[..RECORD_HEADER_WORDS].copy_from_slice(&words_of(header));
    }

    /// Returns the number of words and the sequence number of the record at the start of `words`. Returns `None` if the
    /// record does not end inside of `words`, or if its checksum is wrong for the place `ring_off`. `checksum` is
    /// [`record_checksum`] or an equivalent function.
    pub fn verify(
        self,
        words: &[u64],
        ring_off: u64,
        checksum: impl Fn(u32, &[u64]) -> u32,
    ) -> Option<(usize, u64)> {
        let header: RecordHeader = transmute!(*words.first_chunk::<RECORD_HEADER_WORDS>()?);
        let len = RECORD_HEADER_WORDS + header.body as usize;
        let record = words.get(..len)?;
        (self.crc(record, ring_off, checksum) == header.crc).then_some((len, header.sequence))
    }

    /// Finds the single bit that may have flipped since the record at the start of `words` was written at the place
    /// `ring_off`. Returns the index of the word and the bit in it. The result is empty if no single bit makes the
    /// record whole. It has several items, at most one for each quarter, if their flips can't be told apart. Records
    /// have at most `words_max` words.
    ///
    /// # Cost
    /// One checksum, and a cycle or two for each bit of the record.
    pub fn flipped_bits(self, words: &[u64], ring_off: u64, words_max: usize) -> Vec<(usize, u32)> {
        let Some(&first) = words.first() else { return Vec::new() };
        let len_of = |first: u64| RECORD_HEADER_WORDS + (first >> BODY_SHIFT) as usize;
        let whole = |first: u64| words.get(..len_of(first)).filter(|record| record.len() <= words_max);
        let sum = |record: &[u64]| self.crc(record, ring_off, record_checksum);
        let mut found: Vec<(usize, u32)> = (BODY_SHIFT..u64::BITS)
            .filter(|bit| whole(first ^ 1 << bit).is_some_and(|record| sum(record) == first as u32))
            .map(|bit| (0, bit))
            .collect();
        if let Some(record) = whole(first) {
            let difference = first as u32 ^ sum(record);
            if difference.is_power_of_two() {
                found.push((0, difference.trailing_zeros()));
            }
            let before = RECORD_HEADER_WORDS - 1;
            let bits = flipped_in_sum(difference, record.len() - before).into_iter();
            found.extend(
                bits.map(|bit| (before + bit / u64::BITS as usize, (bit % u64::BITS as usize) as u32)),
            );
        }
        found
    }

    #[inline]
    fn crc(self, record: &[u64], ring_off: u64, checksum: impl Fn(u32, &[u64]) -> u32) -> u32 {
        // Different start values always give the same bytes different checksums, so place and length need no bytes of
        // their own. Both are spread over all bits, so that one can't compensate for the other.
        let place = ((ring_off / crate::LINE) as u32).wrapping_mul(0x9E37_79B1);
        let len = (record.len() as u32).wrapping_mul(0x85EB_CA6B);
        checksum(self.seed ^ place ^ len, &record[RECORD_HEADER_WORDS - 1..])
    }
}

/// Returns the checksum of a record's words, from the start value `seed`.
///
/// A long record is split into four quarters, because a CPU computes four CRCs side by side. In a single run each word
/// would wait for the word before it. The four CRCs are rotated before they are combined, see [`rotate_sums`].
///
/// This function is the definition, written for clarity; `lode_pmem::checksum` computes the same value in fewer cycles.
pub fn record_checksum(seed: u32, words: &[u64]) -> u32 {
    let crc = |words: &[u64]| crc32c::crc32c_append(seed, words.as_bytes());
    if words.len() < RECORD_LONG_WORDS {
        return crc(words);
    }
    let (first, second) = words.split_at(words.len() / 2);
    let (one, two) = first.split_at(first.len() / 2);
    let (three, four) = second.split_at(second.len() / 2);
    crc32c::crc32c(rotate_sums([crc(one), crc(two), crc(three), crc(four)]).as_bytes())
}

/// Rotates the checksums of four quarters before they are combined. Without the rotation, a flipped bit in one quarter
/// would change the combined sum like a bit 32 places further in the next quarter. Two such flips would go undetected.
#[inline]
pub fn rotate_sums(sums: [u32; 4]) -> [u32; 4] {
    let [one, two, three, four] = sums;
    [
        one,
        two.rotate_left(SUM_ROTATION),
        three.rotate_left(2 * SUM_ROTATION),
        four.rotate_left(3 * SUM_ROTATION),
    ]
}

/// Returns the bits of `len` words that may have flipped when [`record_checksum`] changed by `difference`.
fn flipped_in_sum(difference: u32, len: usize) -> Vec<usize> {
    const SUM: usize = size_of::<u32>();
    let bits = |words: usize| words * u64::BITS as usize;
    if len < RECORD_LONG_WORDS {
        return flip::flipped_bit(difference, len * size_of::<u64>()).into_iter().collect();
    }
    let quarters = [(0, len / 2 / 2), (len / 2 / 2, len / 2), (len / 2, len / 2 + (len - len / 2) / 2)];
    let quarters = quarters.into_iter().chain([(quarters[2].1, len)]);
    let in_quarter = |((from, to), index)| {
        let sums_after = 4 - index as usize;
        let difference = flip::inner_difference(difference, sums_after * SUM * u8::BITS as usize);
        let difference = difference.rotate_right(SUM_ROTATION * index);
        flip::flipped_bit(difference, (to - from) * size_of::<u64>()).map(|bit| bits(from) + bit)
    };
    quarters.zip(0..4).filter_map(in_quarter).collect()
}

#[inline]
fn words_of(header: RecordHeader) -> [u64; RECORD_HEADER_WORDS] {
    transmute!(header)
}

#[cfg(test)]
mod test {
    use super::*;

    fn sample() -> Vec<u64> {
        let mut record = Record::new();
        all_kinds().into_iter().for_each(|entry| record.push(entry));
        record.words[..record.len].to_vec()
    }

    #[test]
    fn record_grows_and_pads_with_zeros() {
        let mut record = Record::new();
        for word in 0..1000 {
            record.push_word(PoolOffset::new(word * 8), word);
        }
        let mut entries = Entries::new(record.body());
        for word in 0..1000 {
            assert_eq!(entries.next_word(), Some((PoolOffset::new(word * 8), word)));
        }
        assert_eq!((entries.next_word(), entries.next()), (None, None));
        record.clear();
        assert!(record.is_empty());
        record.push(Entry::SetBits { at: PoolOffset::new(8), mask: 1 });
        assert_eq!(Entries::new(record.body()).next_word(), None);
        let checksum_seed = ChecksumSeed::new(&[1; 16], [2, 3], 4);
        let finished = record.finish(checksum_seed, 5, 0, record_checksum).to_vec();
        assert_eq!((finished.len(), &finished[4..]), (8, &[0; 4][..]));
        assert_eq!(checksum_seed.verify(&finished, 0, record_checksum), Some((4, 5)));
    }

    fn all_kinds() -> [Entry<'static>; 11] {
        let at = PoolOffset::new(0x1_2345_6788);
        [
            Entry::Words { at, words: &[1, 2, 3] },
            Entry::SetBits { at, mask: 5 },
            Entry::ClearBits { at, mask: 1 << 47 },
            Entry::Bytes { at, len: 11, words: &[7, 8] },
            Entry::Zero { at, len: 64 },
            Entry::Payload { at, len: 4096, crc: 0xDEAD_BEEF },
            Entry::Continue { at, len: 8, crc: 1 },
            Entry::Cover(CoverEntry::Image { at, words: &[1, 2] }),
            Entry::Cover(CoverEntry::AtHome { at, len: 9, words: &[3, 4] }),
            Entry::Cover(CoverEntry::SetBits { at, mask: u64::MAX }),
            Entry::Cover(CoverEntry::ClearBits { at, mask: 1 << 63 }),
        ]
    }

    #[test]
    fn entries_round_trip() {
        let record = sample();
        let parsed: Result<Vec<_>, _> = Entries::new(&record[RECORD_HEADER_WORDS..]).collect();
        assert_eq!(parsed, Ok(all_kinds().to_vec()));
    }

    #[test]
    fn words_and_bits_are_taken_alone() {
        for entry in all_kinds() {
            let mut record = Record::new();
            record.push(entry);
            let mut entries = Entries::new(record.body());
            let words = entries.next_words().map(|(at, words)| Entry::Words { at, words });
            let bits = entries.next_bits().map(|(at, set, clear)| match clear {
                0 => Entry::SetBits { at, mask: set },
                _ => Entry::ClearBits { at, mask: clear },
            });
            let is_other =
                !matches!(entry, Entry::Words { .. } | Entry::SetBits { .. } | Entry::ClearBits { .. });
            assert_eq!(words.or(bits), (!is_other).then_some(entry));
            assert_eq!(entries.rest().is_empty(), !is_other);
        }
        let cut = [head(WORDS, 2, PoolOffset::NULL), 1];
        assert_eq!(Entries::new(&cut).next_words(), None);
    }

    #[test]
    fn pushed_bytes_are_padded_with_zeros() {
        let (at, bytes) = (PoolOffset::new(0x40), [0xFF; 11]);
        let words = [u64::MAX, 0xFF_FFFF];
        let mut record = Record::new();
        record.push(Entry::Words { at, words: &[u64::MAX; 16] });
        record.clear();
        record.push_bytes_as_words(at, &bytes);
        record.push_bytes(at.plus(1), &bytes);
        record.push_bytes_as_words(at, &[]);
        let pushed: Vec<_> = Entries::new(record.body()).map_while(Result::ok).collect();
        let expected =
            [Entry::Words { at, words: &words }, Entry::Bytes { at: at.plus(1), len: 11, words: &words }];
        assert_eq!(pushed, expected);
        record.clear();
        record.push_bytes_as_words(at, &[1; (ENTRY_WORDS_MAX + 1) * 8]);
        let lens: Vec<_> = Entries::new(record.body())
            .map_while(Result::ok)
            .map(|entry| match entry {
                Entry::Words { at, words } => (at.get(), words.len()),
                _ => (0, 0),
            })
            .collect();
        assert_eq!(lens, [(0x40, ENTRY_WORDS_MAX), (0x40 + ENTRY_WORDS_MAX as u64 * 8, 1)]);
    }

    #[test]
    fn skipped_payload_leaves_other_entries() {
        for entry in all_kinds() {
            let mut record = Record::new();
            record.push(entry);
            record.push_word(PoolOffset::new(8), 5);
            let mut entries = Entries::new(record.body());
            entries.skip_payload();
            let first = match entry {
                Entry::Payload { .. } => Entry::Words { at: PoolOffset::new(8), words: &[5] },
                other => other,
            };
            assert_eq!(entries.next(), Some(Ok(first)));
        }
        let mut cut = Entries::new(&[PAYLOAD << KIND_SHIFT, 8]);
        cut.skip_payload();
        assert!(cut.next().is_some_and(|entry| entry.is_err()));
    }

    #[test]
    fn truncated_body_is_an_error() {
        let record = sample();
        let body = &record[RECORD_HEADER_WORDS..];
        let whole: Vec<usize> =
            (0..=body.len()).filter(|cut| Entries::new(&body[..*cut]).all(|e| e.is_ok())).collect();
        assert_eq!(
            whole,
            [0, 4, 6, 8, 12, 14, 17, 20, 24, 28, 30, 32],
            "only cuts between entries are whole"
        );
        assert_eq!(Entries::new(&[0]).next(), Some(Err(EntryError::UnknownKind { word: 0 })));
        let endless = head(BYTES, 0, PoolOffset::NULL);
        assert!(matches!(Entries::new(&[endless, u64::MAX]).next(), Some(Err(EntryError::Truncated { .. }))));
    }

    #[test]
    fn record_checksum_covers_pool_epoch_ring_and_place() {
        let mut record = sample();
        let checksum_seed = ChecksumSeed::new(&[1; 16], [2, 3], 4);
        checksum_seed.write_header(&mut record, 99, 640, record_checksum);
        assert_eq!(checksum_seed.verify(&record, 640, record_checksum), Some((record.len(), 99)));
        assert_eq!(checksum_seed.verify(&record, 704, record_checksum), None);
        assert_eq!(ChecksumSeed::new(&[2; 16], [2, 3], 4).verify(&record, 640, record_checksum), None);
        assert_eq!(ChecksumSeed::new(&[1; 16], [2, 4], 4).verify(&record, 640, record_checksum), None);
        assert_eq!(ChecksumSeed::new(&[1; 16], [2, 3], 5).verify(&record, 640, record_checksum), None);
        assert_eq!(checksum_seed.verify(&record[..record.len() - 1], 640, record_checksum), None);
    }

    /// The first checksum of long records was the CRC of their quarters' CRCs. The crash explorer found a torn record
    /// that it accepted. Two words were missing and both had been 0x93. Their distance to the ends of their quarters
    /// compensated for the distance of the quarters.
    #[test]
    #[cfg_attr(miri, ignore = "minutes in the interpreter: in `make soak`")]
    fn equal_errors_in_quarters_do_not_cancel() {
        for len in [16, 17, 18, 19, 40, 64] {
            let whole = vec![0x93; len];
            for (first, second) in (0..len).flat_map(|first| (0..first).map(move |second| (first, second))) {
                let mut torn = whole.clone();
                torn[first] = 0;
                torn[second] = 0;
                assert_ne!(
                    record_checksum(7, &torn),
                    record_checksum(7, &whole),
                    "{first} and {second} of {len}"
                );
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of checksums: minutes to hours")]
    fn every_flipped_record_bit_is_found() {
        let mut record = sample();
        let checksum_seed = ChecksumSeed::new(&[1; 16], [2, 3], 0);
        checksum_seed.write_header(&mut record, 99, 0, record_checksum);
        assert!(record.len() > RECORD_LONG_WORDS);
        for bit in 0..record.len() * 64 {
            record[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(checksum_seed.verify(&record, 0, record_checksum), None, "bit {bit}");
            record[bit / 64] ^= 1 << (bit % 64);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of checksums: minutes to hours")]
    fn flipped_bit_is_located_at_any_length() {
        let checksum_seed = ChecksumSeed::new(&[1; 16], [2, 3], 7);
        for len in (3..24).chain([127]) {
            let mut ring: Vec<u64> =
                (0..len + 140u64).map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
            checksum_seed.write_header(&mut ring[..len as usize], 99, 128, record_checksum);
            assert_eq!(checksum_seed.flipped_bits(&ring, 128, 200), [], "it is whole");
            for bit in 0..len as usize * 64 {
                ring[bit / 64] ^= 1 << (bit % 64);
                let found = checksum_seed.flipped_bits(&ring, 128, 200);
                assert!(found.contains(&(bit / 64, bit as u32 % 64)), "bit {bit} of {len} words: {found:?}");
                assert!(found.len() <= 2, "bit {bit} of {len} words: {found:?}");
                ring[bit / 64] ^= 1 << (bit % 64);
            }
            ring[1] ^= 3;
            assert_eq!(checksum_seed.flipped_bits(&ring, 128, 200), [], "two flipped bits");
        }
    }
}
