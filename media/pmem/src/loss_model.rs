//! Simulated losses of memory.

use std::fmt::Debug;
use std::ops::Range;

/// A model of memory that loses bytes, for [`Memory::anonymous_with_losses`](crate::Memory::anonymous_with_losses).
pub trait LossModel: Debug + Send + Sync {
    /// Returns the lost range that an access to `range` meets. The access then raises a fault with it, as for poisoned
    /// memory: a load gets zeros, and a store is dropped.
    fn on_access(&self, range: Range<u64>) -> Option<Range<u64>>;
}
