//! The outcome of a repair.

use crate::typed::TypedRepair;
use lode_heap::HeapError;
use lode_heap::check::Report;
use lode_pool::{DirtyShutdown, PoolError};
use std::error::Error;

/// A range of keys between two others. Some keys in it may have been lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRange {
    /// The name of the tree whose keys they are, or the way to the map in typed data; `None` if the pool has one tree, or if the tree
    /// is unknown.
    pub tree: Option<String>,
    /// The last key that is present before the range; `None` if there is none.
    pub after: Option<Vec<u8>>,
    /// The first key that is present after the range; `None` if there is none.
    pub before: Option<Vec<u8>>,
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repair {
    /// Number of header copies, slots, records and words that were rewritten.
    pub repaired: u64,
    /// Number of keys that no slot led to and that were inserted again.
    pub reinserted: u64,
    /// Ranges in which keys were lost.
    pub lost: Vec<LostRange>,
    /// Ranges of names in which names of trees were lost.
    pub lost_names: Vec<LostRange>,
    /// Names that were given to trees whose own names are lost.
    pub found_trees: Vec<String>,
    /// Number of keys whose tree is unknown. They are in trees of their own now.
    pub unplaced: u64,
    /// True if an acknowledged transaction was lost. Keys anywhere may then be missing or have old values.
    pub lost_transactions: bool,
    /// True if objects were left as they are because their layout is unknown, or the root or the types of typed data are lost.
    pub unknown_layout: bool,
    /// The objects of a pool of typed data that were lost, allocated again, or freed.
    pub typed: TypedRepair,
    /// The dirty shutdown of the memory modules that happened while a writer had the pool open. Data stored since
    /// that opening may be missing or old without a trace. The remaining data is sound, and the pool can be opened
    /// again.
    pub dirty_shutdown: Option<DirtyShutdown>,
    /// Findings of a check of the repaired pool.
    pub after: Report,
}

impl LostRange {
    /// Returns true if `key` lies between the two keys.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| after < key)
            && self.before.as_deref().is_none_or(|before| key < before)
    }
}

impl Repair {
    /// Returns true if data was lost, or may have been: modules do not tell what they lost. A lost name is a loss, too.
    pub fn has_losses(&self) -> bool {
        let is_incomplete = !self.lost.is_empty() || !self.lost_names.is_empty();
        let is_misplaced = !self.found_trees.is_empty() || self.unplaced > 0;
        let is_reduced = is_incomplete || is_misplaced || self.typed.has_losses();
        self.dirty_shutdown.is_some() || self.lost_transactions || is_reduced
    }
}

/// Reason why a pool can't be repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// No copy of the header can be used, or the pool is longer than the medium. The place of every structure is
    /// unknown.
    #[error(transparent)]
    Pool(PoolError),
    /// The medium refused a store, or the heap can't be read.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The layout could not insert an object again to which nothing led.
    #[error(transparent)]
    Layout(Box<dyn Error + Send + Sync>),
}

impl From<PoolError> for RepairError {
    fn from(error: PoolError) -> RepairError {
        RepairError::Pool(error)
    }
}
