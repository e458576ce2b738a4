//! Locks of writers: one for each group of blocks.

use crate::bugs;
use lode_pmem::sync::{SpinMutex, SpinMutexGuard};
use lode_pmem::{Medium, hold};

/// Number of locks.
const COUNT: usize = 256;

/// The locks of all blocks.
#[derive(Debug)]
pub(crate) struct Stripes(Box<[SpinMutex<()>]>);

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes((0..COUNT).map(|_| SpinMutex::new(())).collect())
    }

    /// Holds the lock of one block.
    #[inline]
    pub(crate) fn hold_one<M: Medium>(&self, medium: &M, lba: u64) -> Option<SpinMutexGuard<'_, ()>> {
        if bugs::STRIPES_NOT_HELD.is_active() {
            return None;
        }
        Some(hold(&self.0[index_of(lba)], medium))
    }

    /// Holds the locks of some blocks. All callers take them in the same order.
    pub(crate) fn hold<M: Medium>(
        &self,
        medium: &M,
        lbas: impl Iterator<Item = u64>,
    ) -> Vec<SpinMutexGuard<'_, ()>> {
        if bugs::STRIPES_NOT_HELD.is_active() {
            return Vec::new();
        }
        let mut indices: Vec<usize> = lbas.map(index_of).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().map(|index| hold(&self.0[index], medium)).collect()
    }
}

fn index_of(lba: u64) -> usize {
    (lba % COUNT as u64) as usize
}
