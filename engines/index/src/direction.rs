//! The direction of a scan.

use crate::validated::{AFTER_ALL, BEFORE_ALL};

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// By ascending keys.
    Forward,
    /// By descending keys.
    Backward,
}

impl Direction {
    /// Returns the next item of `items` in this direction.
    pub fn next<I: DoubleEndedIterator>(self, items: &mut I) -> Option<I::Item> {
        match self {
            Direction::Forward => items.next(),
            Direction::Backward => items.next_back(),
        }
    }

    /// Returns the numbers before and after those of all symbols, in this direction.
    pub(crate) fn ends(self) -> (u64, u64) {
        match self {
            Direction::Forward => (BEFORE_ALL, AFTER_ALL),
            Direction::Backward => (AFTER_ALL, BEFORE_ALL),
        }
    }
}
