//! The shutdown state: how PMDK finds that modules lost stores in flight while a pool was open.
//!
//! The header of each replica's first part holds two sums over the devices of its parts, the unsafe shutdowns that
//! their modules have counted and the checksums of their names, and whether the pool is open. Both sums are 0 without a module, as
//! below an ordinary file.
//!
//! | stored at open                            | verdict                                            |
//! |-------------------------------------------|----------------------------------------------------|
//! | zeros, or a wrong checksum                | stored anew: never open, or stopped in open, close |
//! | the sums of now                           | nothing was lost                                   |
//! | other sums, and the pool was closed       | stored anew                                        |
//! | other sums, and the pool was open         | refused                                            |
//!
//! A growth in directories stores the sums with those of the new part. One that was stopped before that has left the sums without
//! the last part, in a pool that is marked as in use: nothing was lost then, either.

use crate::error::PmdkError;
use crate::locked_part::LockedPart;
use lode_layout::{PmdkFeatures, PmdkShutdown, PmdkShutdownRecord, PoolOffset, fletcher64};
use lode_pmem::{FaultScope, Medium, ProgramBacking, Sysfs};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// The state of each replica; `None` for one that keeps none.
pub(crate) type States = Vec<Option<PmdkShutdown>>;

/// Returns true if pools with these features keep a state. One whose checksum counts the state would be damaged by each store.
pub(crate) fn is_kept(features: PmdkFeatures) -> bool {
    features.has_shutdown_state() && features.has_short_checksum()
}

/// Returns the sums over the devices of the parts, as a state of a closed pool.
pub(crate) fn current(parts: &[Arc<LockedPart>], sysfs: &Sysfs) -> Result<PmdkShutdown, PmdkError> {
    let mut sums = PmdkShutdown::default();
    for part in parts {
        let metadata = part.file().metadata().map_err(PmdkError::io("stat", part.path()))?;
        let backing = match metadata.file_type().is_char_device() {
            true => ProgramBacking::of_node(sysfs, metadata.rdev()),
            false => ProgramBacking::of_file(sysfs, metadata.dev()),
        };
        sums.shutdowns = sums.shutdowns.wrapping_add(backing.dirty_shutdowns().unwrap_or(0));
        sums.devices = sums.devices.wrapping_add(backing.module_ids().map_or(0, |ids| checksum(&ids)));
    }
    Ok(sums)
}

/// Returns the checksum of the names of a device's modules: with their final zero, and one to four more up to whole words.
fn checksum(ids: &str) -> u64 {
    let len = ids.len() + 1;
    let mut bytes = ids.as_bytes().to_vec();
    bytes.resize(len + 4 - len % 4, 0);
    fletcher64(&bytes)
}

/// Returns the state of a pool that gets a part more.
pub(crate) fn with_part(
    state: PmdkShutdown,
    part: &Arc<LockedPart>,
    sysfs: &Sysfs,
) -> Result<PmdkShutdown, PmdkError> {
    let added = current(std::slice::from_ref(part), sysfs)?;
    let shutdowns = state.shutdowns.wrapping_add(added.shutdowns);
    Ok(PmdkShutdown { shutdowns, devices: state.devices.wrapping_add(added.devices), ..state })
}

/// Returns true unless the modules lost stores to the pool.
pub(crate) fn is_sound(current: PmdkShutdown, stored: PmdkShutdownRecord) -> bool {
    match stored {
        PmdkShutdownRecord::Empty | PmdkShutdownRecord::Torn => true,
        PmdkShutdownRecord::Stored(PmdkShutdown { shutdowns, devices, is_dirty }) => {
            !is_dirty || (shutdowns, devices) == (current.shutdowns, current.devices)
        }
    }
}

/// Stores the state in a replica, whose first bytes are the header.
pub(crate) fn store<M: Medium>(medium: &M, state: PmdkShutdown, path: &Path) -> Result<(), PmdkError> {
    let at = PoolOffset::new(PmdkShutdown::OFF);
    let stored = FaultScope::run(|| {
        medium.store(at, &state.encode());
        medium.flush(at, PmdkShutdown::LEN as u64);
    });
    stored.map_err(PmdkError::memory(path))?;
    // ORDER: at open, the mark before the first store to the pool. Stop here: a torn state, and nothing of the pool was
    // stored. At close, the caller has drained all stores. Stop here: open or closed or torn, and nothing is in flight. In a growth, the
    // sums of the new part before its first use. Stop here: the sums with or without that part,
    // which are sound, or a torn state: stores that the modules lose at that moment are not noticed then.
    medium.drain().map_err(PmdkError::drain(path))
}

#[cfg(test)]
mod test {
    use super::*;

    fn state(shutdowns: u64, devices: u64, is_dirty: bool) -> PmdkShutdown {
        PmdkShutdown { shutdowns, devices, is_dirty }
    }

    #[test]
    fn only_an_open_pool_on_other_sums_is_refused() {
        let now = state(5, 6, false);
        for record in [PmdkShutdownRecord::Empty, PmdkShutdownRecord::Torn] {
            assert!(is_sound(now, record));
        }
        for (shutdowns, devices, is_dirty, is_accepted) in [
            (5, 6, false, true),
            (5, 6, true, true),
            (4, 6, false, true),
            (5, 7, false, true),
            (4, 6, true, false),
            (5, 7, true, false),
        ] {
            let stored = PmdkShutdownRecord::Stored(state(shutdowns, devices, is_dirty));
            assert_eq!(is_sound(now, stored), is_accepted, "{stored:?}");
        }
    }

    /// The final zero and the padding count: Fletcher-64 sums its sums on over zeros.
    #[test]
    fn names_are_padded_to_whole_words() {
        assert_eq!(checksum("abc"), fletcher64(b"abc\0\0\0\0\0"));
        assert_eq!(checksum("ab"), fletcher64(b"ab\0\0"));
        assert_eq!(checksum("abcd"), fletcher64(b"abcd\0\0\0\0"));
        assert_eq!(checksum(""), 0);
    }
}
