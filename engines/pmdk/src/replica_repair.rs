//! The repair of a set with replicas: broken parts are made anew from a replica that is whole.
//!
//! Nothing that the pool can be read from is written before all new parts are durable under hidden names. So a repair that is killed at
//! any moment, or loses power, leaves the set as damaged as it was, or such that the next repair makes the rest: see `set_change.rs`.

use crate::error::PmdkError;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_parts::{OpenOptions, complete_creation};
use crate::pool_set::{PoolSet, begins_as_set};
use crate::recovery_file::RecoveryFiles;
use crate::replica_content::{SourcePart, Sources, ranges};
use crate::replica_error::{ReplicaError, ReplicaFault};
use crate::replica_options::ReplicaOptions;
use crate::replica_rebuild::Rebuild;
use crate::replica_uuids::uuids;
use crate::seen::Seen;
use crate::set_change::{finish_left, is_left};
use crate::set_file::{SetFault, SetFileError};
use crate::set_health::SetHealth;
use crate::set_size::size_min;
use lode_layout::PmdkKind;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// Repairs the replicas of the set file at `path`: parts that are missing or damaged are made anew from a replica that is whole, as
/// pmempool_sync(3) does.
///
/// An interrupted repair or change of the set is finished first, and so is an interrupted creation of it.
///
/// # Errors
/// [`ReplicaError`]. A part that is in use is none that is damaged: [`PmdkError::InUse`].
///
/// # Durability
/// Durable on return. A crash before that leaves the set as it was, or such that the next repair, or open for writing, makes the rest.
///
/// # Cost
/// Reads the headers of all parts. Allocates each part that is made anew, and writes its content.
pub fn repair_replicas(path: &Path, options: &ReplicaOptions) -> Result<(), ReplicaError> {
    check_set_file(path, "")?;
    let _lock = LockedPart::look(path, PmdkAccess::CopyOnWrite)?;
    let mut set = read_set(path, "input", options)?;
    if set.replicas.len() == 1 {
        return Err(ReplicaError::set(path)(ReplicaFault::NoReplica));
    }
    set.add_missing_parts();
    if set.replicas.iter().any(|replica| replica.parts.is_empty()) {
        return Err(ReplicaError::set(path)(ReplicaFault::NoHealthyReplica));
    }
    if let Some((replica, part)) = small_part(&set) {
        return Err(ReplicaError::set(path)(ReplicaFault::PartTooSmall { replica, part }));
    }
    check_folders(&set)?;
    if !settle(&mut set, options)? {
        return Ok(());
    }
    let health = SetHealth::examine(&set, options)?;
    if health.is_healthy() {
        return Ok(());
    }
    let refused = ReplicaError::set(path);
    let source = health.source().ok_or_else(|| refused(ReplicaFault::NoHealthyReplica))?;
    check_apart(&set)?;
    if options.is_dry_run {
        return Ok(());
    }
    let counts: Vec<usize> = set.replicas.iter().map(|replica| set.header_count(replica)).collect();
    let replica = &health.replicas[source];
    let (Some(header), Some(first)) = (replica.sound_header(0), &replica.parts[0].lock) else {
        return Err(refused(ReplicaFault::NoHealthyReplica));
    };
    let rebuild = Rebuild {
        set: &set,
        health: &health,
        uuids: uuids(&health, &counts, false).map_err(&refused)?,
        header: header.clone(),
        first: Arc::clone(first),
        sources: (0..set.replicas.len()).map(|number| sources(&set, &health, source, number)).collect(),
        size: replica.pool_size,
        removed: Vec::new(),
        keeps_modes: false,
    };
    rebuild.run(options)?;
    if options.fixes_bad_blocks {
        RecoveryFiles::find(&set).remove()?;
    }
    Ok(())
}

/// Refuses a part in two places of the set, which would be made twice.
fn check_apart(set: &PoolSet) -> Result<(), ReplicaError> {
    let mut seen = Seen::default();
    for (part, _) in set.all_parts() {
        if !seen.insert(&part.path, fs::metadata(&part.path).ok().as_ref()) {
            return Err(ReplicaError::set(&set.path)(ReplicaFault::PartTwice(part.path.clone())));
        }
    }
    Ok(())
}

/// Finishes what was interrupted. Returns false if a dry run must not, and can look no further.
pub(crate) fn settle(set: &mut PoolSet, options: &ReplicaOptions) -> Result<bool, ReplicaError> {
    if options.is_dry_run {
        return Ok(!is_left(&set.path));
    }
    finish_left(set, options.program)?;
    let open = OpenOptions {
        program: options.program,
        sysfs: options.sysfs.clone(),
        ..OpenOptions::new(PmdkKind::Objects, PmdkAccess::ReadWrite)
    };
    // A first part that is missing, or in use, is found again with the others.
    let _ = complete_creation(set, &open);
    Ok(true)
}

/// Returns the replicas that content of replica `number` is read from: itself, if it has only lost ranges, the source, and the others.
fn sources(set: &PoolSet, health: &SetHealth, source: usize, number: usize) -> Sources {
    let others = (0..set.replicas.len()).filter(|other| *other != number && *other != source);
    let order = [number, source].into_iter().take(if number == source { 1 } else { 2 }).chain(others);
    let parts = |number: usize| -> Vec<SourcePart> {
        let places = ranges(set, &set.replicas[number]);
        let replica = &health.replicas[number];
        let part = |(index, place): (usize, _)| {
            let part = &replica.parts[index];
            let lock = part.lock.clone().filter(|_| !replica.is_part_broken(index))?;
            Some(SourcePart { lock, place, lost: part.lost.clone() })
        };
        places.into_iter().enumerate().filter_map(part).collect()
    };
    Sources { replicas: order.map(parts).collect() }
}

/// Refuses a file that is no set file. `which` is its name in the message: empty, `source ` or `destination `.
///
/// # Errors
/// [`ReplicaError::NotASet`].
pub fn check_set_file(path: &Path, which: &'static str) -> Result<(), ReplicaError> {
    let refused = |errno| ReplicaError::NotASet { which, path: path.to_owned(), errno };
    let io = |error: std::io::Error| refused(error.raw_os_error().unwrap_or(0));
    // Looked at before it is opened: the open of a pipe waits.
    let found = fs::metadata(path).map_err(io)?;
    if !found.is_file() {
        return Err(refused(if found.is_dir() { Errno::ISDIR.raw_os_error() } else { 0 }));
    }
    let file = File::open(path).map_err(io)?;
    if begins_as_set(&file).map_err(io)? {
        return Ok(());
    }
    // A part that is in use is told of by its errno, as PMDK does.
    let is_in_use = flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::AGAIN);
    Err(refused(if is_in_use { Errno::AGAIN.raw_os_error() } else { 0 }))
}

/// Reads a set file. `which` is its name in the message.
pub(crate) fn read_set(
    path: &Path,
    which: &'static str,
    options: &ReplicaOptions,
) -> Result<PoolSet, ReplicaError> {
    PoolSet::read(path, &options.sysfs).map_err(|error| match error {
        PmdkError::SetFile { error: SetFileError { fault: SetFault::Remote { .. }, .. }, .. } => {
            ReplicaError::Remote { error }
        }
        error => ReplicaError::Parse { which, error },
    })
}

/// Returns the first part that is smaller than the least pool of objects: PMDK's rule for sets that it repairs and changes.
pub(crate) fn small_part(set: &PoolSet) -> Option<(usize, usize)> {
    let min = size_min(PmdkKind::Objects);
    set.replicas
        .iter()
        .enumerate()
        .find_map(|(number, replica)| Some((number, replica.parts.iter().position(|part| part.size < min)?)))
}

/// Refuses a set of which a folder of parts is missing.
pub(crate) fn check_folders(set: &PoolSet) -> Result<(), ReplicaError> {
    for (replica, parts) in set.replicas.iter().enumerate() {
        for (part, path) in parts.parts.iter().map(|part| &part.path).enumerate() {
            let Some(folder) = path.parent() else { continue };
            let errno = match fs::metadata(folder) {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => 0,
                Err(error) => error.raw_os_error().unwrap_or(0),
            };
            return Err(ReplicaError::Folder { folder: folder.to_owned(), replica, part, errno });
        }
    }
    Ok(())
}
