//! Media on top of other media.

use crate::{Durability, Event, Medium, Memory, SyncError};
use lode_layout::PoolOffset;
use std::sync::Arc;

/// Implements each method of [`Medium`] by the same method of another trait for another value.
macro_rules! forward {
    ($self:ident => $to:ident($medium:expr)) => {
        /// As [`Medium::memory`].
        #[inline]
        fn memory(&$self) -> &Memory {
            $to::memory($medium)
        }
        /// As [`Medium::durability`].
        #[inline]
        fn durability(&$self) -> Durability {
            $to::durability($medium)
        }
        /// As [`Medium::log_block`].
        #[inline]
        fn log_block(&$self) -> u64 {
            $to::log_block($medium)
        }
        /// As [`Medium::store8`].
        #[inline]
        fn store8(&$self, at: PoolOffset, value: u64) {
            $to::store8($medium, at, value);
        }
        /// As [`Medium::store`].
        #[inline]
        fn store(&$self, at: PoolOffset, bytes: &[u8]) {
            $to::store($medium, at, bytes);
        }
        /// As [`Medium::compare_exchange8`].
        ///
        /// # Errors
        /// Returns the value found if it was not `current`.
        #[inline]
        fn compare_exchange8(&$self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
            $to::compare_exchange8($medium, at, current, new)
        }
        /// As [`Medium::copy`].
        #[inline]
        fn copy(&$self, at: PoolOffset, bytes: &[u8]) {
            $to::copy($medium, at, bytes);
        }
        /// As [`Medium::flush`].
        #[inline]
        fn flush(&$self, at: PoolOffset, len: u64) {
            $to::flush($medium, at, len);
        }
        /// As [`Medium::drain`].
        ///
        /// # Errors
        /// Fails if the kernel reports an error of the sync.
        #[inline]
        fn drain(&$self) -> Result<(), SyncError> {
            $to::drain($medium)
        }
        /// As [`Medium::log_write`].
        ///
        /// # Errors
        /// Fails if the kernel reports an error of the write or its sync.
        #[inline]
        fn log_write(&$self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
            $to::log_write($medium, at, bytes)
        }
        /// As [`Medium::keeps_order_in_lines`].
        #[inline]
        fn keeps_order_in_lines(&$self) -> bool {
            $to::keeps_order_in_lines($medium)
        }
        /// As [`Medium::dirty_shutdowns`].
        #[inline]
        fn dirty_shutdowns(&$self) -> Option<u64> {
            $to::dirty_shutdowns($medium)
        }
        /// As [`Medium::relax`].
        #[inline]
        fn relax(&$self, round: u32) {
            $to::relax($medium, round);
        }
        /// As [`Medium::wait_while`].
        #[inline]
        fn wait_while(&$self, event: &Event, blocked: &mut dyn FnMut() -> bool) {
            $to::wait_while($medium, event, blocked);
        }
    };
}

/// A medium on top of an inner one. It implements only the methods that it changes; the others forward to the inner
/// medium. Every layer is a [`Medium`].
///
/// The two traits have methods of the same names. So import `Medium` alone and write `impl lode_pmem::Layer for ...`.
/// Inside of that implementation, where both traits are in scope, a call needs the name of the trait if the inner
/// medium is a layer, too: `Medium::store8(self.inner(), at, value)`.
pub trait Layer: Send + Sync {
    /// The type of the inner medium.
    type Inner: Medium + ?Sized;

    /// Returns the inner medium.
    fn inner(&self) -> &Self::Inner;

    forward!(self => Medium(self.inner()));
}

impl<L: Layer> Medium for L {
    forward!(self => Layer(self));
}

impl<M: Medium + ?Sized> Layer for &M {
    type Inner = M;

    #[inline]
    fn inner(&self) -> &M {
        self
    }
}

impl<M: Medium + ?Sized> Layer for Arc<M> {
    type Inner = M;

    #[inline]
    fn inner(&self) -> &M {
        self
    }
}
