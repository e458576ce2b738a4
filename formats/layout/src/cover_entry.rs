//! Entries of a record for memory that programs store to in place.

use crate::{PoolOffset, WORD};

/// A change that a record carries for memory that programs store to in place. The log *covers* a unit of that memory once it
/// has an image of it: recovery then rewrites the unit to its last logged content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoverEntry<'a> {
    /// Content of units that are covered from now on. Recovery stores all images before it applies any entry of another kind,
    /// those of earlier records included.
    Image {
        /// Offset of the first byte.
        at: PoolOffset,
        /// The words of the units.
        words: &'a [u64],
    },
    /// Bytes that the writer has stored at `at` itself. Recovery stores them again.
    AtHome {
        /// Offset of the first byte.
        at: PoolOffset,
        /// Number of bytes in `words` that count.
        len: u64,
        /// The bytes, padded with zeros to whole words, little-endian.
        words: &'a [u64],
    },
    /// Bits to set of a word without a check.
    SetBits {
        /// Offset of the word.
        at: PoolOffset,
        /// The bits.
        mask: u64,
    },
    /// Bits to clear of a word without a check.
    ClearBits {
        /// Offset of the word.
        at: PoolOffset,
        /// The bits.
        mask: u64,
    },
    /// The entries after this one, to the end of the record, count only if no record has a [`Settled`](CoverEntry::Settled) entry
    /// with the same number: until then a program may not rely on the bytes at home.
    Pending {
        /// A number that a log epoch gives once.
        id: u64,
    },
    /// The [`Pending`](CoverEntry::Pending) entries of this number restore nothing: the bytes at home count.
    Settled {
        /// The number of those entries.
        id: u64,
    },
}

impl CoverEntry<'_> {
    /// Returns the range that the entry changes: offset and length in bytes. An empty one if it changes none.
    pub const fn range(&self) -> (PoolOffset, u64) {
        match self {
            CoverEntry::Image { at, words } => (*at, words.len() as u64 * WORD),
            CoverEntry::AtHome { at, len, .. } => (*at, *len),
            CoverEntry::SetBits { at, .. } | CoverEntry::ClearBits { at, .. } => (*at, WORD),
            CoverEntry::Pending { .. } | CoverEntry::Settled { .. } => (PoolOffset::NULL, 0),
        }
    }
}
