//! Redo records: what one transaction changes, as it stands in a ring of the log.
#![doc = include_str!("record.md")]

use crate::PoolOffset;
use crate::drawing::{Drawing, drawing};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// A record's header as it lies on the medium.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RecordHeader {
    crc: u32,
    body: u32,
    sequence: u64,
}

pub(crate) const DRAWING: Drawing = drawing!("record", RecordHeader, [crc, body, sequence]);

/// Words of a record's header.
pub const RECORD_HEADER_WORDS: usize = 2;
/// Words to which records are padded: a cache line.
pub const RECORD_LINE_WORDS: usize = 8;
/// The most words that one [`Entry::Words`] carries.
pub const ENTRY_WORDS_MAX: usize = 0xFFF;

/// Words from which on a checksum is made of four.
const LONG_WORDS: usize = 16;

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

/// One change that a record carries. Applying it twice is applying it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Aligned words that replace those at `at`.
    Words {
        /// Where.
        at: PoolOffset,
        /// The words.
        words: &'a [u64],
    },
    /// Bits of a checked word to set.
    SetBits {
        /// Where.
        at: PoolOffset,
        /// The bits, of the lower 48.
        mask: u64,
    },
    /// Bits of a checked word to clear.
    ClearBits {
        /// Where.
        at: PoolOffset,
        /// The bits, of the lower 48.
        mask: u64,
    },
    /// Bytes that replace those at `at`.
    Bytes {
        /// Where.
        at: PoolOffset,
        /// How many of the bytes in `words` count.
        len: u64,
        /// The bytes, padded with zeros to whole words, little-endian.
        words: &'a [u64],
    },
    /// A range that becomes zero.
    Zero {
        /// Where.
        at: PoolOffset,
        /// Bytes, a multiple of 8.
        len: u64,
    },
    /// A range whose content was written in place before the record, under the same drain.
    Payload {
        /// Where.
        at: PoolOffset,
        /// Bytes, a multiple of 8.
        len: u64,
        /// CRC32C of the content.
        crc: u32,
    },
    /// The entries go on in a range outside of the ring, and nothing follows here.
    Continue {
        /// Where.
        at: PoolOffset,
        /// Bytes, a multiple of 8.
        len: u64,
        /// CRC32C of the range.
        crc: u32,
    },
}

/// Why a record's entries can't be read.
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

impl Entry<'_> {
    /// Appends the entry to `into`.
    ///
    /// # Panics
    /// A [`Entry::Words`] of more than [`ENTRY_WORDS_MAX`] words.
    #[inline]
    pub fn encode(&self, into: &mut Vec<u64>) {
        match *self {
            Entry::Words { at, words: [word] } => into.extend_from_slice(&[head(WORDS, 1, at), *word]),
            Entry::Words { at, words } => {
                assert!(words.len() <= ENTRY_WORDS_MAX, "a word entry is too long");
                into.push(head(WORDS, words.len() as u64, at));
                into.extend_from_slice(words);
            }
            Entry::SetBits { at, mask } => into.extend_from_slice(&[head(SET_BITS, 0, at), mask]),
            Entry::ClearBits { at, mask } => into.extend_from_slice(&[head(CLEAR_BITS, 0, at), mask]),
            Entry::Bytes { at, len, words } => {
                into.extend_from_slice(&[head(BYTES, 0, at), len]);
                into.extend_from_slice(words);
            }
            Entry::Zero { at, len } => into.extend_from_slice(&[head(ZERO, 0, at), len]),
            Entry::Payload { at, len, crc } => {
                into.extend_from_slice(&[head(PAYLOAD, 0, at), len, u64::from(crc)]);
            }
            Entry::Continue { at, len, crc } => {
                into.extend_from_slice(&[head(CONTINUE, 0, at), len, u64::from(crc)]);
            }
        }
    }
}

/// The entries in the words of a record's body, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u64],
}

impl<'a> Entries<'a> {
    /// The entries in `body`.
    pub const fn new(body: &'a [u64]) -> Entries<'a> {
        Entries { rest: body }
    }

    fn parse(&mut self) -> Result<Entry<'a>, EntryError> {
        let word = self.rest[0];
        let at = PoolOffset::new(word & OFFSET_MASK);
        let truncated = EntryError::Truncated { word };
        let operand = |index: usize| self.rest.get(index).copied().ok_or(truncated);
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
                let count = usize::try_from(len.div_ceil(8)).map_err(|_| truncated)?;
                let end = count.checked_add(2).ok_or(truncated)?;
                (Entry::Bytes { at, len, words: self.rest.get(2..end).ok_or(truncated)? }, end)
            }
            ZERO => (Entry::Zero { at, len: operand(1)? }, 2),
            PAYLOAD => (Entry::Payload { at, len: operand(1)?, crc: operand(2)? as u32 }, 3),
            CONTINUE => (Entry::Continue { at, len: operand(1)?, crc: operand(2)? as u32 }, 3),
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

/// What a record's checksum covers beside the record: its pool, the life of the log, and its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSeal {
    seed: u32,
}

impl RecordSeal {
    /// The seal of ring number `ring` of the pool `uuid` in the life `life`.
    pub fn new(uuid: &[u8; 16], life: [u64; 2], ring: u32) -> RecordSeal {
        let mut seed = crc32c::crc32c(uuid);
        for part in life {
            seed = crc32c::crc32c_append(seed, &part.to_le_bytes());
        }
        RecordSeal { seed: crc32c::crc32c_append(seed, &ring.to_le_bytes()) }
    }

    /// Writes the header of `record`, whose body begins at [`RECORD_HEADER_WORDS`] and has no padding yet,
    /// for the place `ring_off` (bytes from the start of the ring).
    ///
    /// # Panics
    /// A record of 32 GiB or more.
    #[inline]
    pub fn close(self, record: &mut [u64], sequence: u64, ring_off: u64) {
        let body =
            u32::try_from(record.len() - RECORD_HEADER_WORDS).expect("records are shorter than a ring");
        let mut header = RecordHeader { crc: 0, body, sequence };
        record[..RECORD_HEADER_WORDS].copy_from_slice(&words_of(header));
        header.crc = self.crc(record, ring_off);
        record[..RECORD_HEADER_WORDS].copy_from_slice(&words_of(header));
    }

    /// The number of words and the sequence number of the record that begins `words`, if one does: its checksum
    /// is right for the place `ring_off` and it ends inside of `words`.
    pub fn open(self, words: &[u64], ring_off: u64) -> Option<(usize, u64)> {
        let header: RecordHeader = transmute!(*words.first_chunk::<RECORD_HEADER_WORDS>()?);
        let len = RECORD_HEADER_WORDS + header.body as usize;
        let record = words.get(..len)?;
        (self.crc(record, ring_off) == header.crc).then_some((len, header.sequence))
    }

    #[inline]
    fn crc(self, record: &[u64], ring_off: u64) -> u32 {
        // The same bytes give another checksum from another start value in every case, so the place and the length
        // need no bytes of their own; they are spread over all bits, so that neither makes up for the other.
        let place = ((ring_off / crate::LINE) as u32).wrapping_mul(0x9E37_79B1);
        let len = (record.len() as u32).wrapping_mul(0x85EB_CA6B);
        crc_of(self.seed ^ place ^ len, &record[RECORD_HEADER_WORDS - 1..])
    }
}

/// The checksum of words. Long runs are four runs whose checksums are summed up in turn: a CPU computes them
/// side by side, where one run waits for itself at each word.
#[inline]
fn crc_of(seed: u32, words: &[u64]) -> u32 {
    if words.len() < LONG_WORDS {
        return crc32c::crc32c_append(seed, words.as_bytes());
    }
    let (first, second) = words.split_at(words.len() / 2);
    let quarters = [first, second].map(|half| half.split_at(half.len() / 2));
    let crc = |quarter: &[u64]| crc32c::crc32c_append(seed, quarter.as_bytes());
    let crcs = [crc(quarters[0].0), crc(quarters[0].1), crc(quarters[1].0), crc(quarters[1].1)];
    crc32c::crc32c(crcs.as_bytes())
}

#[inline]
fn words_of(header: RecordHeader) -> [u64; RECORD_HEADER_WORDS] {
    transmute!(header)
}

#[cfg(test)]
mod test {
    use super::*;

    fn sample() -> Vec<u64> {
        let mut record = vec![0; RECORD_HEADER_WORDS];
        for entry in all_kinds() {
            entry.encode(&mut record);
        }
        record
    }

    fn all_kinds() -> [Entry<'static>; 7] {
        let at = PoolOffset::new(0x1_2345_6788);
        [
            Entry::Words { at, words: &[1, 2, 3] },
            Entry::SetBits { at, mask: 5 },
            Entry::ClearBits { at, mask: 1 << 47 },
            Entry::Bytes { at, len: 11, words: &[7, 8] },
            Entry::Zero { at, len: 64 },
            Entry::Payload { at, len: 4096, crc: 0xDEAD_BEEF },
            Entry::Continue { at, len: 8, crc: 1 },
        ]
    }

    #[test]
    fn entries_come_back() {
        let record = sample();
        let parsed: Result<Vec<_>, _> = Entries::new(&record[RECORD_HEADER_WORDS..]).collect();
        assert_eq!(parsed, Ok(all_kinds().to_vec()));
    }

    #[test]
    fn a_cut_body_is_an_error_and_ends() {
        let record = sample();
        let body = &record[RECORD_HEADER_WORDS..];
        let whole: Vec<usize> =
            (0..=body.len()).filter(|cut| Entries::new(&body[..*cut]).all(|e| e.is_ok())).collect();
        assert_eq!(whole, [0, 4, 6, 8, 12, 14, 17, 20], "only cuts between entries are whole");
        assert_eq!(Entries::new(&[0]).next(), Some(Err(EntryError::UnknownKind { word: 0 })));
        let endless = head(BYTES, 0, PoolOffset::NULL);
        assert!(matches!(Entries::new(&[endless, u64::MAX]).next(), Some(Err(EntryError::Truncated { .. }))));
    }

    #[test]
    fn a_seal_fits_one_pool_life_ring_and_place() {
        let mut record = sample();
        let seal = RecordSeal::new(&[1; 16], [2, 3], 4);
        seal.close(&mut record, 99, 640);
        assert_eq!(seal.open(&record, 640), Some((record.len(), 99)));
        assert_eq!(seal.open(&record, 704), None);
        assert_eq!(RecordSeal::new(&[2; 16], [2, 3], 4).open(&record, 640), None);
        assert_eq!(RecordSeal::new(&[1; 16], [2, 4], 4).open(&record, 640), None);
        assert_eq!(RecordSeal::new(&[1; 16], [2, 3], 5).open(&record, 640), None);
        assert_eq!(seal.open(&record[..record.len() - 1], 640), None);
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_found() {
        let mut record = sample();
        let seal = RecordSeal::new(&[1; 16], [2, 3], 0);
        seal.close(&mut record, 99, 0);
        assert!(record.len() > LONG_WORDS);
        for bit in 0..record.len() * 64 {
            record[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(seal.open(&record, 0), None, "bit {bit}");
            record[bit / 64] ^= 1 << (bit % 64);
        }
    }
}
