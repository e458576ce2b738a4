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
    /// Returns the numbers before and after those of all symbols, in this direction.
    pub(crate) fn ends(self) -> (u64, u64) {
        match self {
            Direction::Forward => (BEFORE_ALL, AFTER_ALL),
            Direction::Backward => (AFTER_ALL, BEFORE_ALL),
        }
    }
}
