//! Changes of a pool's features, in all of its headers or in none.
//!
//! ```text
//! 1  the headers of all parts but the first of the master, each durable
//! 2  the header of the first part: from here on the pool has the new features
//! ```
//!
//! | stops after                | on the medium                              | the next change, query or open for writing   |
//! |----------------------------|--------------------------------------------|----------------------------------------------|
//! | some of 1                  | headers whose features differ              | takes the features of the first part for all |
//! | a part of a header's lines | the checksum fits with one feature turned  | turns it: the header is the old or new one   |
//! | a part of the state's clearing | no such feature, and a shutdown state  | clears it                                    |
//! | 2                          | the new features                           | nothing to do                                |
//!
//! The checksum and the features are in different lines, so a power cut may keep one of them alone. Then the header with that
//! one feature turned has the checksum that is stored: it is the header before the change, or the one after it. PMDK's programs
//! refuse such a pool until then.

use crate::error::PmdkError;
use crate::locked_part::LockedPart;
use crate::pool_set::PoolSet;
use crate::stops;
use crate::unchecked_pool::{UncheckedPool, read_headers};
use lode_layout::{PmdkFeatures, PmdkShutdownRecord, PmdkUuidField, StoredPmdkHeader};
use std::path::PathBuf;
use std::sync::Arc;

/// A feature that can be turned on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkFeature {
    /// CKSUM_2K: the checksum leaves out the second half of the header.
    ShortChecksum,
    /// SHUTDOWN_STATE: stores that modules lost are found at open.
    ShutdownState,
    /// CHECK_BAD_BLOCKS: lost memory is looked for at open.
    CheckBadBlocks,
}

impl PmdkFeature {
    /// All of them.
    pub const ALL: [PmdkFeature; 3] =
        [PmdkFeature::ShortChecksum, PmdkFeature::ShutdownState, PmdkFeature::CheckBadBlocks];

    /// Returns the features with this one turned on or off.
    #[must_use]
    pub fn set_in(self, mut features: PmdkFeatures, is_on: bool) -> PmdkFeatures {
        let (word, bit) = match self {
            PmdkFeature::ShortChecksum => (&mut features.incompat, PmdkFeatures::SHORT_CHECKSUM),
            PmdkFeature::ShutdownState => (&mut features.incompat, PmdkFeatures::SHUTDOWN_STATE),
            PmdkFeature::CheckBadBlocks => (&mut features.compat, PmdkFeatures::CHECK_BAD_BLOCKS),
        };
        *word = if is_on { *word | bit } else { *word & !bit };
        features
    }

    /// Returns true if the features have this one.
    pub fn is_in(self, features: PmdkFeatures) -> bool {
        match self {
            PmdkFeature::ShortChecksum => features.has_short_checksum(),
            PmdkFeature::ShutdownState => features.has_shutdown_state(),
            PmdkFeature::CheckBadBlocks => features.checks_bad_blocks(),
        }
    }
}

/// The reason why the features of a pool could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureError {
    /// The pool could not be read or written.
    #[error(transparent)]
    Pool(#[from] PmdkError),
    /// A part has features that are unknown.
    #[error(
        "{}: invalid features detected: compat {:#x}, incompat {:#x}, ro_compat {:#x} are unknown; use a newer version",
        .path.display(), .unknown.compat, .unknown.incompat, .unknown.ro_compat
    )]
    Unknown {
        /// The part.
        path: PathBuf,
        /// The unknown bits.
        unknown: PmdkFeatures,
    },
    /// The features of a part are not those of the first one, and no interrupted change explains it.
    #[error("{}: features mismatch detected: they are not those of the first part; restore the part", .path.display())]
    Differ {
        /// The part.
        path: PathBuf,
        /// Number of its replica.
        replica: usize,
        /// Number of the part in it.
        part: usize,
    },
    /// A header is damaged: a change would give it a sound checksum.
    #[error(
        "{}: incorrect pool header: it is damaged, so its features are in doubt; run 'pmempool check --repair' first",
        .path.display()
    )]
    Damaged {
        /// The part.
        path: PathBuf,
    },
}

impl UncheckedPool {
    /// Returns the features of the pool, as they are once an interrupted change is settled. A damaged header counts as it is.
    ///
    /// # Errors
    /// [`FeatureError`], but not [`FeatureError::Damaged`].
    pub fn features(&self) -> Result<PmdkFeatures, FeatureError> {
        let stored = self.read_headers()?;
        Ok(self
            .settled(&stored)?
            .first()
            .and_then(|headers| headers.first())
            .map_or(PmdkFeatures::NONE, |header| header.features()))
    }

    /// Gives all headers these features: all of them, or none.
    ///
    /// # Errors
    /// [`FeatureError`]. Nothing was changed, or the next change settles it.
    ///
    /// # Durability
    /// Durable on return. The head of this file has the table of what is left before that.
    ///
    /// # Cost
    /// A read and a durable write for each header.
    pub fn set_features(&self, features: PmdkFeatures) -> Result<(), FeatureError> {
        let stored = self.read_headers()?;
        let mut headers = self.settled(&stored)?;
        for (replica, part, header) in places(&headers) {
            if !header.is_intact() {
                return Err(FeatureError::Damaged { path: self.path_of(replica, part) });
            }
        }
        for header in headers.iter_mut().flatten() {
            change(header, features);
        }
        Ok(write_changed(self.locks(), &stored, &headers)?)
    }

    /// Returns the headers as they are once an interrupted change is settled: with the features of the first part.
    fn settled(&self, stored: &[Vec<StoredPmdkHeader>]) -> Result<Vec<Vec<StoredPmdkHeader>>, FeatureError> {
        let headers = settled(stored);
        let mut first = None;
        for (replica, part, header) in places(&headers) {
            let features = header.features();
            match first {
                None => {
                    let unknown = features.unknown();
                    if unknown != PmdkFeatures::NONE {
                        return Err(FeatureError::Unknown { path: self.path_of(replica, part), unknown });
                    }
                    first = Some(features);
                }
                Some(first) if first != features => {
                    let path = self.path_of(replica, part);
                    return Err(FeatureError::Differ { path, replica, part });
                }
                Some(_) => {}
            }
        }
        Ok(headers)
    }

    fn path_of(&self, replica: usize, part: usize) -> PathBuf {
        self.set().replicas[replica].parts[part].path.clone()
    }
}

/// Settles an interrupted change in the headers of an open set: before they are compared. The rest of a state that belongs to no feature
/// stays, since it hinders no program.
pub(crate) fn complete(set: &PoolSet, locks: &[Vec<Arc<LockedPart>>]) -> Result<(), PmdkError> {
    let stored = read_headers(set, locks)?;
    let mut headers = settled(&stored);
    for (header, stored) in headers.iter_mut().flatten().zip(stored.iter().flatten()) {
        if stored.is_intact() && stored.features() == header.features() {
            *header = stored.clone();
        }
    }
    write_changed(locks, &stored, &headers)
}

/// Returns the headers without an interrupted change. Headers that it does not explain stay as they are.
fn settled(stored: &[Vec<StoredPmdkHeader>]) -> Vec<Vec<StoredPmdkHeader>> {
    let mut headers: Vec<Vec<StoredPmdkHeader>> =
        stored.iter().map(|headers| headers.iter().map(turned).collect()).collect();
    let pool = |header: &StoredPmdkHeader| (header.kind(), header.uuid(PmdkUuidField::PoolSet));
    let first = headers.first().and_then(|headers| headers.first()).filter(|header| header.is_intact());
    let Some((first_pool, first)) = first
        .map(|header| (pool(header), header.features()))
        .filter(|(_, features)| features.unknown() == PmdkFeatures::NONE)
    else {
        return headers;
    };
    let is_ours = |header: &StoredPmdkHeader| header.is_intact() && pool(header) == first_pool;
    for header in headers.iter_mut().flatten().filter(|header| is_ours(header)) {
        let is_one_apart =
            PmdkFeature::ALL.iter().any(|feature| toggled(*feature, header.features()) == first);
        if is_one_apart || header.features() == first && has_left_state(header) {
            change(header, first);
        }
    }
    headers
}

/// Returns the header, with one feature turned if it is intact then alone. One with features that are unknown is not turned:
/// only a newer version may write it.
fn turned(stored: &StoredPmdkHeader) -> StoredPmdkHeader {
    if stored.is_intact() || stored.features().unknown() != PmdkFeatures::NONE {
        return stored.clone();
    }
    let candidates = PmdkFeature::ALL.iter().map(|feature| {
        let mut header = stored.clone();
        header.set_features(toggled(*feature, header.features()));
        header
    });
    candidates.into_iter().find(StoredPmdkHeader::is_intact).unwrap_or_else(|| stored.clone())
}

fn toggled(feature: PmdkFeature, features: PmdkFeatures) -> PmdkFeatures {
    feature.set_in(features, !feature.is_in(features))
}

/// Returns true if the header has the rest of a state that belongs to no feature, which a short checksum does not count.
fn has_left_state(header: &StoredPmdkHeader) -> bool {
    let features = header.features();
    features.has_short_checksum()
        && !features.has_shutdown_state()
        && header.shutdown() != PmdkShutdownRecord::Empty
}

/// Gives a header these features.
fn change(header: &mut StoredPmdkHeader, features: PmdkFeatures) {
    if !features.has_shutdown_state() {
        header.clear_shutdown();
    }
    header.set_features(features);
    header.store_checksum();
}

/// Returns the headers with their places.
fn places(
    headers: &[Vec<StoredPmdkHeader>],
) -> impl DoubleEndedIterator<Item = (usize, usize, &StoredPmdkHeader)> {
    headers.iter().enumerate().flat_map(|(replica, headers)| {
        headers.iter().enumerate().map(move |(part, header)| (replica, part, header))
    })
}

/// Writes the headers that have changed, the first one last.
fn write_changed(
    locks: &[Vec<Arc<LockedPart>>],
    stored: &[Vec<StoredPmdkHeader>],
    headers: &[Vec<StoredPmdkHeader>],
) -> Result<(), PmdkError> {
    for (replica, part, header) in places(headers).rev() {
        if *header != stored[replica][part] {
            stops::step()?;
            // The call is durable: the first header, which decides, is written after all others are. Stop here: rows 1 and 2.
            locks[replica][part].write_header(0, header.bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{PmdkHeader, PmdkKind, PmdkShutdown};
    use uuid::Uuid;

    /// A header with these features, and with the state of an open pool if it keeps one.
    fn header(features: PmdkFeatures) -> StoredPmdkHeader {
        let header = PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 3);
        let mut bytes = header.encode();
        let at = PmdkShutdown::OFF as usize;
        let state = PmdkShutdown { shutdowns: 5, devices: 6, is_dirty: true };
        bytes[at..at + PmdkShutdown::LEN].copy_from_slice(&state.encode());
        let mut header = StoredPmdkHeader::new(bytes);
        change(&mut header, features);
        header
    }

    /// All features that a pool can have: no shutdown state without a short checksum.
    fn all() -> impl Iterator<Item = PmdkFeatures> {
        (0..8_u32)
            .map(|bits| PmdkFeatures { compat: bits & 1, incompat: bits & 6, ro_compat: 0 })
            .filter(|features| features.has_short_checksum() || !features.has_shutdown_state())
    }

    #[test]
    fn half_changed_header_is_the_old_or_the_new_one() {
        for old in all() {
            for feature in PmdkFeature::ALL {
                let new = toggled(feature, old);
                if !all().any(|features| features == new) {
                    continue;
                }
                let (before, mut after) = (header(old), header(old));
                change(&mut after, new);
                assert!(before.is_intact() && after.is_intact());
                let lines: Vec<usize> = (0..64)
                    .filter(|line| before.bytes()[line * 64..][..64] != after.bytes()[line * 64..][..64])
                    .collect();
                for kept in 0..1_u32 << lines.len() {
                    let mut bytes = *before.bytes();
                    for (_, line) in lines.iter().enumerate().filter(|(index, _)| kept >> index & 1 == 1) {
                        bytes[line * 64..][..64].copy_from_slice(&after.bytes()[line * 64..][..64]);
                    }
                    let settled = settled(&[vec![StoredPmdkHeader::new(bytes)]]);
                    let found = &settled[0][0];
                    // Turning the shutdown state on stores no state, so that the rest of an old one can't come back.
                    assert!(found.is_intact(), "{old:?} {feature:?} {kept:#b}");
                    assert!(found.features() == old || found.features() == new);
                    assert!(!has_left_state(found));
                    assert_eq!(&super::settled(&settled), &settled, "settled once is settled");
                }
            }
        }
    }

    #[test]
    fn first_part_decides() {
        let old = header(PmdkFeatures::DEFAULT);
        let new = header(toggled(PmdkFeature::CheckBadBlocks, PmdkFeatures::DEFAULT));
        let is = |headers: &[&StoredPmdkHeader], want: &StoredPmdkHeader| {
            let stored = vec![headers.iter().map(|header| (*header).clone()).collect()];
            settled(&stored)[0].iter().all(|header| header == want)
        };
        assert!(is(&[&old, &new, &new], &old) && is(&[&old, &old, &new], &old) && is(&[&new, &new], &new));
    }

    #[test]
    fn damaged_header_with_unknown_features_is_left() {
        let default = PmdkFeatures::DEFAULT;
        for unknown in [
            PmdkFeatures { ro_compat: 1, ..default },
            PmdkFeatures { compat: default.compat | 2, ..default },
            PmdkFeatures { incompat: default.incompat | 8, ..default },
        ] {
            let mut half = header(unknown);
            half.set_features(toggled(PmdkFeature::CheckBadBlocks, unknown));
            assert!(!half.is_intact());
            let stored = vec![vec![half]];
            assert_eq!(settled(&stored), stored);
        }
    }

    #[test]
    fn damage_and_foreign_features_are_left() {
        let mut damaged = header(PmdkFeatures::DEFAULT).bytes().to_owned();
        damaged[0x20] ^= 1;
        let damaged = StoredPmdkHeader::new(damaged);
        let far = PmdkFeatures::NONE;
        let mut foreign = header(toggled(PmdkFeature::CheckBadBlocks, PmdkFeatures::DEFAULT));
        foreign.set_uuid(PmdkUuidField::PoolSet, [9; 16]);
        foreign.store_checksum();
        for other in
            [damaged, foreign, header(far), header(PmdkFeatures { ro_compat: 1, ..PmdkFeatures::DEFAULT })]
        {
            let stored = vec![vec![header(PmdkFeatures::DEFAULT), other]];
            assert_eq!(settled(&stored), stored);
        }
    }
}
