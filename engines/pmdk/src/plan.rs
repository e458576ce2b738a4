//! The plan of a new pool: its options, the checks of them in PMDK's order, and what an interrupted creation has left.

use crate::error::{PmdkError, SetError};
use crate::file_kind;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_parts::complete_others;
use crate::pool_set::PoolSet;
use crate::set_change::refuse_left;
use crate::set_file::{SetFault, SetFileError};
use crate::set_size::size_min;
use crate::staged_part::{is_free, remove_hidden};
use lode_layout::{Durability, PmdkFeatures, PmdkKind, PmdkPartHeader};
use lode_pmem::{ByAddress, Sysfs};
use std::path::Path;

/// The options for a new pool.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The library of the pool.
    pub kind: PmdkKind,
    /// Its features. SINGLEHDR follows from the set file.
    pub features: PmdkFeatures,
    /// Permissions of new files; `None` for reading and writing by all that the process's mask allows.
    pub mode: Option<u32>,
    /// As [`OpenOptions::durability`](crate::OpenOptions::durability).
    pub durability: Option<Durability>,
    /// As [`OpenOptions::program`](crate::OpenOptions::program).
    pub program: Option<ByAddress>,
    /// As [`OpenOptions::sysfs`](crate::OpenOptions::sysfs).
    pub sysfs: Sysfs,
}

impl CreateOptions {
    /// Returns options for a pool of `kind` with PMDK's own features.
    pub fn new(kind: PmdkKind) -> CreateOptions {
        let (features, sysfs) = (PmdkFeatures::DEFAULT, Sysfs::default());
        CreateOptions { kind, features, mode: None, durability: None, program: None, sysfs }
    }
}

/// Refuses features that no open would take, or that spoil each other.
pub(crate) fn check_features(path: &Path, features: PmdkFeatures) -> Result<(), PmdkError> {
    // The shutdown state is stored in place: a checksum that counts it is wrong then.
    let is_spoiled = features.has_shutdown_state() && !features.has_short_checksum();
    if features.unknown() != PmdkFeatures::NONE || is_spoiled {
        return Err(PmdkError::Features { path: path.to_owned(), features });
    }
    Ok(())
}

/// Describes the new pool, and checks its sizes, in PMDK's order. Returns the lock on the set file, if there is one: creations
/// of one set exclude each other.
pub(crate) fn plan(
    path: &Path,
    size: Option<u64>,
    options: &CreateOptions,
) -> Result<(PoolSet, Option<LockedPart>), PmdkError> {
    if let Some(size) = size {
        if file_kind::exists(path)? {
            return Err(PmdkError::Exists { path: path.to_owned() });
        }
        let set = PoolSet::of_new_file(path, size);
        return check_sizes(set, options.kind).map(|set| (set, None));
    }
    let lock = LockedPart::look(path, PmdkAccess::CopyOnWrite)?;
    let set = PoolSet::read(path, &options.sysfs).map_err(|error| match error {
        // As PMDK: no matter where the replica is.
        PmdkError::SetFile { path, error: SetFileError { fault: SetFault::Remote { .. }, .. } }
            if options.kind != PmdkKind::Objects =>
        {
            PmdkError::set(&path)(SetError::Replication)
        }
        error => error,
    })?;
    let (found, min) = (set.net_size()?, size_min(options.kind));
    if !set.is_set && found < min {
        let found = set.replicas[0].parts[0].size;
        return Err(PmdkError::FileTooSmall { path: path.to_owned(), found, min });
    }
    // The lock of a single file is that of its part.
    let lock = lock.filter(|_| set.is_set);
    check_sizes(set, options.kind).map(|set| (set, lock))
}

/// Checks the options and sizes of a new pool, and adds the first part in folders that have none.
fn check_sizes(mut set: PoolSet, kind: PmdkKind) -> Result<PoolSet, PmdkError> {
    let (path, min) = (set.path.clone(), size_min(kind));
    let refused = |error| Err(PmdkError::set(&set.path)(error));
    if set.has_no_headers {
        return refused(SetError::NoHeaders);
    }
    if set.is_in_directories && !set.has_single_header {
        return refused(SetError::DirectoryHeaders);
    }
    let reserved = if set.is_in_directories { set.reserved()? } else { set.net_size()? };
    if reserved < min {
        return Err(PmdkError::ReservedTooLittle { path, found: reserved, min });
    }
    // Where another replica has parts, `prepare` tells a pool from files of zeros.
    set.add_first_parts(|_| Some(min));
    let found = set.net_size()?;
    if found < min {
        return Err(PmdkError::TooSmall { path, found, min });
    }
    if set.replicas.len() > 1 && kind != PmdkKind::Objects {
        return Err(PmdkError::set(&set.path)(SetError::Replication));
    }
    set.check_reserved()?;
    Ok(set)
}

/// Completes or takes back an interrupted creation. Parts that can't be used are left to [`NewParts::stage`](crate::NewParts::stage).
pub(crate) fn prepare(set: &mut PoolSet, program: Option<ByAddress>) -> Result<(), PmdkError> {
    let mut used = None;
    for (index, (part, has_header)) in set.all_parts().enumerate() {
        if !has_header || part.path.symlink_metadata().is_err() {
            continue;
        }
        let Ok(lock) = LockedPart::open(&part.path, PmdkAccess::ReadWrite, program) else { continue };
        let bytes = lock.read_header()?;
        if !is_free(&bytes) {
            used = Some((index, lock, bytes));
            break;
        }
    }
    // The lock on the part is kept while the others are completed.
    if let Some((index, _lock, bytes)) = used {
        if let (0, Ok(header)) = (index, PmdkPartHeader::decode(&bytes)) {
            complete_others(set, &header, program)?;
        }
        return Ok(());
    }
    refuse_left(&set.path)?;
    set.all_parts().try_for_each(|(part, _)| remove_hidden(part))
}
