//! The mark in the header of a pool that Lodestone has open.

use crate::error::ObjError;
use crate::words::store_words;
use lode_layout::{PmdkFeatures, PmdkPartHeader, PoolOffset, StoredPmdkHeader, WORD, store_pmdk_checksum};
use lode_pmem::Medium;

/// Offset of the word with the features that no one may ignore.
const FEATURES: u64 = StoredPmdkHeader::FEATURES_OFF as u64 / WORD * WORD + WORD;

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
    let mut stored = StoredPmdkHeader::new(bytes(medium)?);
    let features = stored.features().when_closed();
    let mark = if is_in_use { PmdkFeatures::IN_USE } else { 0 };
    stored.set_features(PmdkFeatures { incompat: features.incompat | mark, ..features });
    let mut bytes = *stored.bytes();
    store_pmdk_checksum(&mut bytes);
    let words = [FEATURES, StoredPmdkHeader::CHECKSUM_OFF as u64].map(|at| {
        let (words, _) = bytes[at as usize..].as_chunks();
        (PoolOffset::new(at), words.first().copied().map_or(0, u64::from_le_bytes))
    });
    store_words(medium, words)?;
    // ORDER: the mark before the log takes the lanes' place, or after it has left it. Stop here: the pool counts as marked.
    Ok(medium.drain()?)
}

fn bytes<M: Medium>(medium: &M) -> Result<[u8; PmdkPartHeader::LEN], ObjError> {
    let mut bytes = [0; PmdkPartHeader::LEN];
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes))?;
    Ok(bytes)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn features_share_their_word_with_no_others() {
        assert_eq!(FEATURES, 0x10);
    }
}
