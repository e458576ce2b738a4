//! Reservations, and the actions that a publication makes durable together.

use lode_layout::PoolOffset;

/// Space that is reserved for an object. No other thread gets it before it is cancelled; a crash or a close gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Offset of its data in the pool.
    pub at: PoolOffset,
    /// Bytes of data that it has room for.
    pub usable_size: u64,
    /// Index of its zone.
    pub(crate) zone: u32,
    /// Index of its first chunk in the zone, or of its run's.
    pub(crate) chunk: u32,
    /// The first of its blocks in the run; `u32::MAX` if it has chunks for itself.
    pub(crate) unit: u32,
    /// Number of its blocks in the run, or of its chunks.
    pub(crate) count: u32,
}

/// A change that a publication makes durable together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes reserved space an object.
    Allocate(Reservation),
    /// Frees the object whose data begins at the offset.
    Free(PoolOffset),
    /// Stores a word.
    Store {
        /// Its offset, a multiple of 8.
        at: PoolOffset,
        /// Its value.
        value: u64,
    },
}

impl Action {
    /// Returns the place and the value of a word to store.
    pub(crate) fn word(&self) -> Option<(PoolOffset, u64)> {
        match self {
            Action::Store { at, value } => Some((*at, *value)),
            Action::Allocate(_) | Action::Free(_) => None,
        }
    }
}

impl Reservation {
    /// Words of a reservation in a program's memory.
    pub const WORDS: usize = 4;

    /// Returns the reservation as words, which a program keeps.
    pub fn encode(&self) -> [u64; Reservation::WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [self.at.get(), self.usable_size, pair(self.zone, self.chunk), pair(self.unit, self.count)]
    }

    /// Returns the reservation with these words, which a program may have changed: a publication checks it.
    pub fn decode(words: [u64; Reservation::WORDS]) -> Reservation {
        let [at, usable_size, block, units] = words;
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((zone, chunk), (unit, count)) = (halves(block), halves(units));
        Reservation { at: PoolOffset::new(at), usable_size, zone, chunk, unit, count }
    }
}
