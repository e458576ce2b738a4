//! The records in a ring, and the gaps between them.
//!
//! A writer puts each record directly after the one before it, or at the start of the ring. In a ring with one writer
//! at a time it does so only when the record before is durable. So after a power cut such a ring shows a chain of
//! sound records, and after its end at most one record that was written in part. For a record that is not sound this
//! means:
//!
//! | what the ring shows                                        | then it was                  | open                 |
//! |------------------------------------------------------------|------------------------------|----------------------|
//! | a sound record above the checkpoint that follows no other  | durable, now damaged         | refuses              |
//! | such a record, after one that a flipped bit makes whole    | durable, now damaged         | refuses              |
//! | at the end of the chain one that a flipped bit makes whole | torn, or durable and damaged | drops it, reports it |
//! | at the end of the chain anything else                      | torn, or never there         | drops it             |
//!
//! The third row can't be decided. A record that lacks one word looks the same if the word's old and new content
//! differ in one bit. Accepting the record would be right in both cases, but wrong in another one: a torn record of
//! `n` bits looks like one with a flipped bit once in 2^32 / n times. That is rare compared with a flipped bit
//! anywhere. It is not rare compared with a flipped bit in just this record, since hardware corrects or reports nearly
//! all flipped bits. So open drops the record and `check` reports it. `repair` corrects the bit.
//!
//! If group commits share a ring, a whole batch is written at once, or its records are stored one after the other and synced
//! together; a power cut leaves any part of it. A gap is then damage only if a later batch is there. Padding between two records shows that if no other record was between
//! them: if their numbers are adjacent.
//!
//! A record of a batch may follow from earlier ones of the same batch, whose locks were handed on to it. So if a record is
//! missing, and no later batch is there, the records after it are dropped, too: none of them was acknowledged.

use crate::bugs;
use lode_layout::{ChecksumSeed, LINE, PoolOffset, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, WORD, align_up};
use lode_pmem::{Readable, checksum};
use std::ops::Range;
use zerocopy::IntoBytes;

/// Words that the search for records may checksum in vain, as a multiple of the ring's words. The search looks at lines
/// inside of records that are damaged or of an earlier log epoch. Most of these lines show at once that they begin no record
/// of this epoch, by their length or number.
const FAILED_CHECKSUM_FACTOR: u64 = 64;
/// Block sizes in bytes to which media pad batches, ascending.
const BLOCKS: [u64; 4] = [512, 1024, 2048, 4096];
/// Maximum distance of a sequence number above the checkpoint.
const SEQUENCE_DISTANCE_MAX: u64 = crate::log::SEQUENCE_GAP;

/// A ring of the log epoch that the newest slot names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    pub(crate) memory: &'a Readable,
    pub(crate) start: PoolOffset,
    /// Its length in bytes.
    pub(crate) len: u64,
    pub(crate) checksum_seed: ChecksumSeed,
    /// True if the log has only this ring. Batches of group commits may then be in it.
    pub(crate) shared: bool,
    /// Sequence number up to which records are not needed.
    pub(crate) checkpoint: u64,
}

/// A record whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    /// Bytes from the start of the ring.
    pub(crate) offset: u64,
    /// Length in words, header included.
    pub(crate) words: u64,
    pub(crate) sequence: u64,
}

impl RecordPosition {
    /// Returns the offset of the next record if it fits in the ring.
    pub(crate) fn end(&self) -> u64 {
        self.offset + align_up(self.words, RECORD_LINE_WORDS as u64) * WORD
    }

    /// Returns true if `next` was written after this record became durable: it has the next number, but does not lie
    /// directly after this record. A record between the two that a power cut tore would have a number between theirs.
    fn is_padded_before(&self, next: &RecordPosition) -> bool {
        next.sequence == self.sequence + 1 && next.offset != self.end()
    }
}

/// A flipped bit that makes something whole when it is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitFlip {
    /// Offset of the word.
    pub at: PoolOffset,
    /// Mask of the bit in the word.
    pub mask: u64,
}

/// A record that should be in a ring and is not sound.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    /// Offset at which it should begin.
    pub(crate) at: PoolOffset,
    /// True if it was durable, because something later is there. Otherwise a power cut may have torn it.
    pub(crate) proven: bool,
    /// Candidate flips: each alone makes the record whole.
    pub(crate) flips: Vec<BitFlip>,
}

/// The needed records of a ring, and the gaps between them.
#[derive(Debug, Default)]
pub(crate) struct RingScan {
    /// Sound records above the checkpoint, by their numbers.
    pub(crate) needed: Vec<RecordPosition>,
    /// Number of the needed records, the first ones, that became durable before a later one was written.
    pub(crate) proven: usize,
    pub(crate) gaps: Vec<Gap>,
    /// True if the search ended early: more looked like records than there can be.
    pub(crate) too_many_records: bool,
}

impl Ring<'_> {
    /// Finds the records and the gaps between them.
    pub(crate) fn scan(&self) -> RingScan {
        let (mut sound, too_many_records) = self.valid_records();
        sound.sort_unstable_by_key(|position| position.sequence);
        let old = sound.partition_point(|position| position.sequence <= self.checkpoint);
        let needed = sound.split_off(old);
        let mut scan = RingScan { needed, proven: 0, gaps: Vec::new(), too_many_records };
        let mut before = sound.last().copied();
        let mut end = scan.needed.len();
        let newest = scan.needed.last().map_or(0, RecordPosition::end);
        let last_padded = scan.needed.windows(2).rposition(|pair| pair[0].is_padded_before(&pair[1]));
        for index in 0..scan.needed.len() {
            let next = scan.needed[index];
            // A batch after that of this record is there.
            let is_followed = last_padded.is_some_and(|last| last >= index);
            let gap = match before {
                Some(before) => self.gap_between(before, next, newest, is_followed),
                None => self.gap_before(next, is_followed),
            };
            let is_proven = gap.as_ref().is_some_and(|gap| gap.proven);
            scan.gaps.extend(gap);
            if self.misses_record(before.map_or(0, |before| before.sequence), next)
                && !is_proven
                && !is_followed
                && !bugs::REPLAY_AFTER_GAP.is_active()
            {
                end = end.min(index);
            }
            before = Some(next);
        }
        scan.gaps.extend(self.gap_after(before));
        scan.needed.truncate(end);
        // A ring of one writer at a time has one record a drain. In a shared one, padding ends a batch.
        let followed = scan.needed.len().saturating_sub(1);
        scan.proven =
            if self.shared { last_padded.map_or(0, |last| last + 1).min(followed) } else { followed };
        scan
    }

    /// Returns every sound record, needed or not, and true if the search ended early.
    fn valid_records(&self) -> (Vec<RecordPosition>, bool) {
        let mut sound = Vec::new();
        let mut buffer = Vec::new();
        let mut wasted = 0;
        let mut offset = 0;
        while offset < self.len && wasted <= self.len / WORD * FAILED_CHECKSUM_FACTOR {
            let words = self.words_at(offset);
            match self.record(offset, words, &mut buffer) {
                Some(position) => {
                    offset = position.end();
                    sound.push(position);
                }
                None => {
                    wasted += if self.may_begin(offset, words) { words } else { 1 };
                    offset += LINE;
                }
            }
        }
        (sound, offset < self.len)
    }

    /// Returns the length in words that the header at `offset` states.
    fn words_at(&self, offset: u64) -> u64 {
        RECORD_HEADER_WORDS as u64 + (self.memory.load8(self.start.plus(offset)) >> 32)
    }

    fn sequence_at(&self, offset: u64) -> u64 {
        self.memory.load8(self.start.plus(offset + WORD))
    }

    /// Returns the maximum length in words of a record at `offset`.
    fn words_max(&self, offset: u64) -> u64 {
        ((self.len - offset) / WORD).min(self.len / 4 / WORD)
    }

    fn load(&self, offset: u64, words: u64) -> Vec<u64> {
        let mut record = Vec::new();
        self.load_into(&mut record, offset, words);
        record
    }

    fn load_into(&self, buffer: &mut Vec<u64>, offset: u64, words: u64) {
        buffer.resize(words as usize, 0);
        self.memory.read(self.start.plus(offset), buffer.as_mut_bytes());
    }

    /// Returns false if no record of this log epoch with `words` words begins at `offset`.
    ///
    /// Most of a new ring is zeros, and no record has the number 0. Most of an old one are entries of earlier epochs, whose
    /// words are larger than any number.
    fn may_begin(&self, offset: u64, words: u64) -> bool {
        // The records of a shared ring have numbers that follow each other.
        let first = if self.shared { self.checkpoint.saturating_sub(SEQUENCE_DISTANCE_MAX) } else { 0 };
        let last = self.checkpoint.saturating_add(SEQUENCE_DISTANCE_MAX);
        words <= self.words_max(offset) && (first.max(1)..=last).contains(&self.sequence_at(offset))
    }

    /// Returns the record at `offset` with `words` words, if it is sound. `buffer` is a buffer for its bytes.
    fn record(&self, offset: u64, words: u64, buffer: &mut Vec<u64>) -> Option<RecordPosition> {
        if !self.may_begin(offset, words) {
            return None;
        }
        self.load_into(buffer, offset, words);
        let record = buffer.as_slice();
        if bugs::TORN_RECORD.is_active() && record[1] > self.checkpoint {
            return Some(RecordPosition { offset, words, sequence: record[1] });
        }
        let (_, sequence) = self.checksum_seed.verify(record, offset, checksum)?;
        Some(RecordPosition { offset, words, sequence })
    }

    /// Returns the words of a sound record's entries.
    pub(crate) fn body(&self, position: &RecordPosition) -> Vec<u64> {
        let mut record = self.load(position.offset, position.words);
        record.drain(..RECORD_HEADER_WORDS);
        record
    }

    /// Returns the record at `offset` that one flipped bit makes whole, and the candidate flips. Its number is in
    /// `sequences`, and it ends at `end` or before.
    ///
    /// # Cost
    /// A checksum of all words up to `end`. So the time for a torn batch with many holes grows with its length alone.
    fn find_bit_flip(
        &self,
        offset: u64,
        end: u64,
        sequences: &Range<u64>,
    ) -> Option<(RecordPosition, Vec<BitFlip>)> {
        let words_max = self.words_max(offset).min((end - offset) / WORD);
        let (first, sequence) = (self.memory.load8(self.start.plus(offset)), self.sequence_at(offset));
        // Most places hold zeros, or old records that no single bit turns into a wanted one.
        let as_it_is = sequences.contains(&sequence);
        let near = as_it_is || (0..u64::BITS).any(|bit| sequences.contains(&(sequence ^ 1 << bit)));
        let header_words = self.words_at(offset);
        if first | sequence == 0 || !near || !as_it_is && header_words > words_max {
            return None;
        }
        let words = self.load(offset, if as_it_is { words_max } else { header_words });
        if words.len() < RECORD_HEADER_WORDS {
            return None;
        }
        let mut found = None;
        for (word, bit) in self.checksum_seed.flipped_bits(&words, offset, words_max as usize) {
            let mask = 1u64 << bit;
            let [first, sequence] = [0, 1].map(|index| words[index] ^ if index == word { mask } else { 0 });
            if sequences.contains(&sequence) {
                let position =
                    RecordPosition { offset, words: RECORD_HEADER_WORDS as u64 + (first >> 32), sequence };
                let flips = &mut found.get_or_insert((position, Vec::new())).1;
                flips.push(BitFlip { at: self.start.plus(offset + word as u64 * WORD), mask });
            }
        }
        found
    }

    /// Returns the offsets at which the record after `before` may begin, apart from the start of the ring.
    fn next_offsets(&self, before: &RecordPosition) -> impl Iterator<Item = u64> {
        let end = before.end();
        // A batch is padded to the block of the medium that it was written on.
        let padded = BLOCKS.map(|block| align_up(end, block));
        let mut starts: Vec<u64> =
            [end].into_iter().chain(padded.into_iter().filter(|_| self.shared)).collect();
        starts.dedup();
        starts.into_iter().filter(|offset| *offset < self.len)
    }

    /// Returns the gap between two sound records, if there is one. The last record of the ring ends at `newest`.
    /// `is_followed`: a batch after that of `next` is there.
    fn gap_between(
        &self,
        before: RecordPosition,
        next: RecordPosition,
        newest: u64,
        is_followed: bool,
    ) -> Option<Gap> {
        let mut before = before;
        // Records that are not needed may be damaged; the chain goes on after them.
        loop {
            if next.offset == before.end() {
                return None;
            }
            let starts = self.next_offsets(&before).chain((next.offset != 0).then_some(0));
            let sequences = before.sequence + 1..next.sequence;
            let found = starts
                .filter(|start| *start != next.offset)
                .find_map(|start| self.find_bit_flip(start, self.end_before(start, &next), &sequences));
            match found {
                Some((position, _)) if position.sequence <= self.checkpoint => before = position,
                Some((position, flips)) => {
                    let proven = !self.shared || position.is_padded_before(&next) || is_followed;
                    return Some(Gap { at: self.start.plus(position.offset), proven, flips });
                }
                None => break,
            }
        }
        let follows = next.offset == 0 || self.next_offsets(&before).any(|offset| offset == next.offset);
        // All numbers are in a shared ring, so a missing one is a missing record, wherever the next one lies.
        let is_missed = self.misses_record(before.sequence, next);
        let certain = if before.sequence > self.checkpoint || is_missed {
            !self.shared || is_followed
        } else {
            !self.shared && !self.may_be_overwritten(next.offset, newest)
        };
        if follows && !is_missed {
            return None;
        }
        if !certain {
            // The record lies between the two, unless the ring's end does.
            let from = if before.end() <= next.offset { before.end() } else { 0 };
            return self.gap_ending_at(next, from, self.checkpoint + 1..next.sequence);
        }
        Some(Gap { at: self.start.plus(before.end() % self.len), proven: true, flips: Vec::new() })
    }

    /// Returns the greatest end of a record at `start` that comes before `next` in the ring.
    fn end_before(&self, start: u64, next: &RecordPosition) -> u64 {
        if start < next.offset { next.offset } else { self.len }
    }

    /// Returns true if records before the oldest needed one, at `oldest`, may have been overwritten since. That is so
    /// if the needed ones, up to `newest`, and one more record reach close to `oldest` around the ring.
    fn may_be_overwritten(&self, oldest: u64, newest: u64) -> bool {
        let left = if newest > oldest { self.len - newest + oldest } else { oldest - newest };
        left < self.len / 4 * 3
    }

    /// Returns true if records between the number `known` and `next` are needed, and are not there.
    fn misses_record(&self, known: u64, next: RecordPosition) -> bool {
        self.shared && next.sequence != known.max(self.checkpoint) + 1
    }

    /// Returns the gap before `next` when no sound record is older. `is_followed`: a batch after that of `next` is there.
    fn gap_before(&self, next: RecordPosition, is_followed: bool) -> Option<Gap> {
        if self.misses_record(0, next) && is_followed {
            let end = self.end_before(0, &next);
            let flips = self.find_bit_flip(0, end, &(self.checkpoint + 1..next.sequence));
            let (at, flips) = flips.map_or((0, Vec::new()), |(position, flips)| (position.offset, flips));
            return Some(Gap { at: self.start.plus(at), proven: true, flips });
        }
        if next.offset == 0 {
            return None;
        }
        let sequences = self.checkpoint + 1..next.sequence;
        if let Some((position, flips)) = self.find_bit_flip(0, next.offset, &sequences) {
            return Some(Gap { at: self.start.plus(position.offset), proven: !self.shared, flips });
        }
        self.gap_ending_at(next, 0, sequences)
    }

    /// Returns the gap of a record that begins at `from` or later, ends at `next`, and that a flipped bit makes whole.
    fn gap_ending_at(&self, next: RecordPosition, from: u64, sequences: Range<u64>) -> Option<Gap> {
        let lines = (1..=next.offset / LINE).map(|back| next.offset - back * LINE);
        let fits = |offset: &u64| {
            let lines = (next.offset - offset) / LINE;
            let header = self.memory.load8(self.start.plus(*offset)) >> 32;
            let of_len =
                |body: u64| (body + RECORD_HEADER_WORDS as u64).div_ceil(RECORD_LINE_WORDS as u64) == lines;
            of_len(header) || (0..32).any(|bit| of_len(header ^ 1 << bit))
        };
        let is_near = |offset: &u64| *offset >= from && next.offset - offset <= self.len / 4;
        let mut near = lines.take_while(is_near).filter(fits);
        let (position, flips) =
            near.find_map(|offset| self.find_bit_flip(offset, next.offset, &sequences))?;
        (position.end() == next.offset).then(|| Gap {
            at: self.start.plus(position.offset),
            proven: !self.shared,
            flips,
        })
    }

    /// Returns the gap after the last sound record `last`, if there is one.
    fn gap_after(&self, last: Option<RecordPosition>) -> Option<Gap> {
        let mut last = last;
        loop {
            let known = last.map_or(0, |last| last.sequence);
            let sequences = known + 1..self.checkpoint.max(known).saturating_add(SEQUENCE_DISTANCE_MAX);
            let starts = last.iter().flat_map(|last| self.next_offsets(last)).chain([0]);
            let (position, flips) =
                starts.filter_map(|start| self.find_bit_flip(start, self.len, &sequences)).next()?;
            if position.sequence > self.checkpoint {
                return Some(Gap { at: self.start.plus(position.offset), proven: false, flips });
            }
            last = Some(position);
        }
    }
}

#[cfg(test)]
mod test;
