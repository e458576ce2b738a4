//! The two headers of a raw volume on its medium.

use crate::error::VolumeError;
use lode_layout::{PoolOffset, RawVolume, WORD};
use lode_pmem::{FaultScope, Medium};

/// Stores both copies of the header of a raw volume.
///
/// # Errors
/// Fails if the medium can't be stored to, or if its sync fails.
///
/// # Durability
/// The copies are durable on return.
pub(crate) fn store_headers<M: Medium>(medium: &M, header: &RawVolume) -> Result<(), VolumeError> {
    header.copies().into_iter().try_for_each(|at| store_header(medium, at, header))
}

/// Stores a copy of the header of a raw volume at `at`.
///
/// # Errors
/// As [`store_headers`].
///
/// # Durability
/// The copy is durable on return.
pub(crate) fn store_header<M: Medium>(medium: &M, at: u64, header: &RawVolume) -> Result<(), VolumeError> {
    let (at, mut bytes) = (PoolOffset::new(at), header.encode());
    let signature = bytes[..WORD as usize].try_into().map(u64::from_le_bytes).expect("a word");
    bytes[..WORD as usize].fill(0);
    let stored = FaultScope::run(|| medium.copy(at, &bytes));
    stored.map_err(|fault| VolumeError::Format { error: fault.into() })?;
    // ORDER: the rest of the copy is durable before its signature. Stop here: the copy is absent, and no torn one.
    medium.drain()?;
    FaultScope::run(|| medium.store8(at, signature))
        .map_err(|fault| VolumeError::Format { error: fault.into() })?;
    medium.flush(at, WORD);
    // ORDER: the copy is durable before the other one is touched, and before a new file has its name. Stop here: the copy that is
    // there serves.
    Ok(medium.drain()?)
}

/// Zeros the place of the old last copy, which becomes a part of a block.
pub(crate) fn clear_last_copy<M: Medium>(
    medium: &M,
    header: &RawVolume,
    grown: &RawVolume,
) -> Result<(), VolumeError> {
    let (old, new) = (header.copies()[1], grown.copies()[1]);
    if old == new {
        return Ok(());
    }
    FaultScope::run(|| medium.copy(PoolOffset::new(old), &[0; RawVolume::LEN]))
        .map_err(|fault| VolumeError::Format { error: fault.into() })?;
    // ORDER: zeros before a header counts the block. Stop here: the first copy has the old size, and the new last copy is its
    // second.
    Ok(medium.drain()?)
}

/// Stores the headers of a volume that is open, in a file that is long enough and has zeros past the old last copy.
///
/// # Durability
/// The new size is durable on return. After a crash before that, the volume has its old size or the new one.
pub(crate) fn grow_headers<M: Medium>(
    medium: &M,
    header: &RawVolume,
    grown: &RawVolume,
) -> Result<(), VolumeError> {
    store_header(medium, grown.copies()[1], grown)?;
    clear_last_copy(medium, header, grown)?;
    store_header(medium, grown.copies()[0], grown)
}
