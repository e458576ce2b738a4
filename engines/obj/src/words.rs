//! Words that are stored at home, and random numbers.

use crate::error::ObjError;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{FaultScope, Medium};

/// Stores words, and starts their write-back.
///
/// # Errors
/// [`ObjError::Memory`] if one can't be stored.
///
/// # Durability
/// After the next drain.
pub(crate) fn store_words<M: Medium>(
    medium: &M,
    words: impl IntoIterator<Item = (PoolOffset, u64)>,
) -> Result<(), ObjError> {
    let stored = FaultScope::run(|| {
        for (at, value) in words {
            medium.store8(at, value);
            medium.flush(at, WORD);
        }
    });
    Ok(stored?)
}

/// Returns a random number of a log epoch, or of a spill.
///
/// # Errors
/// [`ObjError::Random`].
pub(crate) fn random() -> Result<[u64; 2], ObjError> {
    lode_redo::random_log_epoch().map_err(|error| ObjError::Random { errno: error.raw_os_error() })
}
