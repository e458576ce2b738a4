//! The mark in the header of a pool that Lodestone has open.

use crate::error::ObjError;
use crate::words::store_words;
use lode_layout::{PmdkPartHeader, PoolOffset, StoredPmdkHeader};
use lode_pmem::Medium;

/// Returns the header of the first part.
///
/// # Errors
/// [`ObjError::Header`], [`ObjError::Memory`].
pub(super) fn header<M: Medium>(medium: &M) -> Result<PmdkPartHeader, ObjError> {
    PmdkPartHeader::decode(&bytes(medium)?).map_err(ObjError::Header)
}

/// Returns true if the pool is marked as in use. One whose header can't be decoded is not.
///
/// # Errors
/// [`ObjError::Memory`].
pub(crate) fn is_in_use<M: Medium>(medium: &M) -> Result<bool, ObjError> {
    Ok(PmdkPartHeader::decode(&bytes(medium)?).is_ok_and(|header| header.features.is_in_use()))
}

/// Marks the pool as in use, or takes the mark away.
///
/// # Errors
/// [`ObjError::Memory`], [`ObjError::InDoubt`].
///
/// # Durability
/// Durable on return. After a crash before that, one of two words may be the new one, which counts as a mark.
pub(super) fn store<M: Medium>(medium: &M, is_in_use: bool) -> Result<(), ObjError> {
    store_words(medium, StoredPmdkHeader::new(bytes(medium)?).in_use_words(is_in_use))?;
    // ORDER: the mark before the log takes the lanes' place, or after it has left it. Stop here: the pool counts as marked.
    Ok(medium.drain()?)
}

fn bytes<M: Medium>(medium: &M) -> Result<[u8; PmdkPartHeader::LEN], ObjError> {
    let mut bytes = [0; PmdkPartHeader::LEN];
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes))?;
    Ok(bytes)
}
