//! Ranges of zeros.

use crate::PoolError;
use lode_layout::PoolOffset;
use lode_pmem::{FaultScope, Medium};

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Writes zeros over the range, past the cache; both ends are multiples of 8. Durable after the next drain.
///
/// It writes even where zeros can be read: they may come from a cache over a medium that holds other bytes.
///
/// # Errors
/// [`PoolError::Memory`] when the medium could not store them.
pub(crate) fn zero_range<M: Medium>(medium: &M, at: PoolOffset, len: u64) -> Result<(), PoolError> {
    let zero = || {
        let mut done = 0;
        while done < len {
            let step = (len - done).min(ZEROS.len() as u64);
            medium.copy(at.plus(done), &ZEROS[..step as usize]);
            done += step;
        }
    };
    FaultScope::run(zero).map_err(|fault| PoolError::Memory { fault })
}
