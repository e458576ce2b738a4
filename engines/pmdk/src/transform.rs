//! The change of a set into another one: replicas that come or go, or the headers of all parts but the first.
//!
//! New parts are made under hidden names first, and parts that stay are not written until these are durable: see `set_change.rs`, whose
//! description lies beside the new set file. So a change that is killed at any moment, or loses power, leaves the old set, the new one,
//! or such that the same call makes the rest. Headers that come or go move the content of the other parts, which are
//! made anew for that: there has to be room for a second copy of them.

use crate::error::PmdkError;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::PoolSet;
use crate::replica_content::{SourcePart, Sources, ranges};
use crate::replica_error::{ReplicaError, ReplicaFault};
use crate::replica_options::ReplicaOptions;
use crate::replica_rebuild::Rebuild;
use crate::replica_repair::{check_folders, check_set_file, read_set, settle, small_part};
use crate::replica_uuids::{Uuids, new_uuid, uuids};
use crate::seen::Seen;
use crate::set_change::{finish_left, is_left};
use crate::set_comparison::{Operation, SetComparison};
use crate::set_health::{PartHealth, ReplicaHealth, SetHealth, pool_size};
use lode_layout::{PmdkKind, PmdkUuidField};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// Changes the set of the set file `source` into that of the set file `target`, as pmempool_transform(3) does: adds replicas, removes
/// replicas, or adds or removes the headers of all parts but the first of each replica.
///
/// An interrupted change into `target` is finished, and is then the whole change.
///
/// # Errors
/// [`ReplicaError`]. Nothing was changed, or the same call makes the rest.
///
/// # Durability
/// Durable on return. A crash before that leaves the old set, the new one, or such that the same call, a repair of the new set, or an
/// open of it for writing makes the rest.
///
/// # Cost
/// Reads the headers of all parts. Allocates and writes the parts that come; for headers also all parts but the first of each replica.
pub fn transform(source: &Path, target: &Path, options: &ReplicaOptions) -> Result<(), ReplicaError> {
    check_set_file(source, "source ")?;
    check_set_file(target, "destination ")?;
    let _locks = lock_sets(source, target)?;
    let mut old = read_set(source, "source", options)?;
    let new = read_set(target, "destination", options)?;
    if is_left(target) {
        if !options.is_dry_run {
            finish_left(&new, options.program)?;
        }
        // The change is made, unless the old set was opened since its description: then that was removed.
        if options.is_dry_run || SetHealth::examine(&new, options).is_ok_and(|health| health.is_healthy()) {
            return Ok(());
        }
    }
    check_kind(&old)?;
    check_sets(&old, &new, options)?;
    if !settle(&mut old, options)? {
        return Ok(());
    }
    let health = SetHealth::examine(&old, options).map_err(|error| match error {
        error @ ReplicaError::Pool(PmdkError::InUse { .. }) => error,
        error => ReplicaError::Source(Box::new(error)),
    })?;
    let refused = ReplicaError::set(target);
    if !health.is_healthy() {
        return Err(ReplicaError::set(source)(ReplicaFault::SourceBroken));
    }
    let comparison = SetComparison::of(&old, &new).map_err(&refused)?;
    let operation = comparison.operation().map_err(&refused)?;
    let replicas = match operation {
        Operation::Add | Operation::Remove => kept(&new, &comparison, &health)?,
        Operation::AddHeaders | Operation::RemoveHeaders => headed(&new, &health).map_err(&refused)?,
    };
    if options.is_dry_run {
        return Ok(());
    }
    let change = Change { old: &old, new: &new, health: &health, comparison: &comparison };
    change.run(operation, &SetHealth::of(replicas), options)
}

/// Locks both set files, which may be one.
fn lock_sets(source: &Path, target: &Path) -> Result<Vec<Option<LockedPart>>, ReplicaError> {
    let number = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let mut locks = vec![LockedPart::look(source, PmdkAccess::CopyOnWrite)?];
    if number(source) != number(target) {
        locks.push(LockedPart::look(target, PmdkAccess::CopyOnWrite)?);
    }
    Ok(locks)
}

/// Refuses a pool that is none of objects.
fn check_kind(set: &PoolSet) -> Result<(), ReplicaError> {
    let mut signature = [0; 8];
    let first = set.replicas.first().and_then(|replica| replica.parts.first());
    let read = first.map(|part| {
        let file = fs::File::open(&part.path)?;
        // A node has no calls of the kernel; its header is looked at with the others.
        if part.device_align.is_some() {
            signature = PmdkKind::Objects.signature();
            return Ok(());
        }
        file.read_exact_at(&mut signature, 0)
    });
    let kind = match PmdkKind::of_signature(&signature).filter(|_| matches!(read, Some(Ok(())))) {
        Some(PmdkKind::Objects) => return Ok(()),
        Some(PmdkKind::Blocks) => "pmemblk",
        Some(PmdkKind::Log) => "pmemlog",
        None => "unknown",
    };
    // Sets in folders that have no part yet are refused by name.
    if set.is_in_directories && first.is_none() {
        return Err(ReplicaError::set(&set.path)(ReplicaFault::Directories));
    }
    Err(ReplicaError::set(&set.path)(ReplicaFault::PoolType(kind)))
}

/// Checks the sets alone, in PMDK's order.
fn check_sets(old: &PoolSet, new: &PoolSet, options: &ReplicaOptions) -> Result<(), ReplicaError> {
    let refused = ReplicaError::set(&new.path);
    if old.is_in_directories {
        return Err(ReplicaError::set(&old.path)(ReplicaFault::Directories));
    }
    if new.is_in_directories || small_part(new).is_some() {
        return Err(refused(ReplicaFault::PartSizes));
    }
    let mut seen = Seen::default();
    for (part, _) in new.all_parts() {
        if !seen.insert(&part.path, fs::metadata(&part.path).ok().as_ref()) {
            return Err(refused(ReplicaFault::PartTwice(part.path.clone())));
        }
    }
    check_folders(new)?;
    let Some(first) = old.replicas.first().and_then(|replica| replica.parts.first()) else { return Ok(()) };
    let lock = match LockedPart::of_set(first, PmdkAccess::ReadWrite, options.program, false) {
        Err(error @ PmdkError::InUse { .. }) => return Err(error.into()),
        Err(_) => return Err(ReplicaError::set(&old.path)(ReplicaFault::MasterSize)),
        Ok(lock) => lock,
    };
    // A damaged descriptor is found with the other damage.
    match pool_size(&lock) {
        Ok(Some(size)) if new.net_size()? < size => Err(refused(ReplicaFault::TargetTooSmall)),
        _ => Ok(()),
    }
}

/// Returns the health of the new set: replicas that stay as they are, and others that are to be made.
fn kept(
    new: &PoolSet,
    comparison: &SetComparison,
    health: &SetHealth,
) -> Result<Vec<ReplicaHealth>, ReplicaError> {
    let mut replicas = Vec::new();
    for (replica, kept) in new.replicas.iter().zip(&comparison.of_new) {
        let count = new.header_count(replica);
        let Some(kept) = kept else {
            let is_there = |path: &Path| path.symlink_metadata().is_ok();
            let there = replica.parts.iter().find(|part| part.device_align.is_none() && is_there(&part.path));
            if let Some(part) = there {
                return Err(ReplicaError::set(&new.path)(ReplicaFault::PartExists(part.path.clone())));
            }
            let parts = replica.parts.iter().map(|_| PartHealth::missing()).collect();
            replicas.push(ReplicaHealth::of(parts, count, 0));
            continue;
        };
        let kept = &health.replicas[*kept];
        replicas.push(ReplicaHealth::of(kept.parts.clone(), count, kept.pool_size));
    }
    Ok(replicas)
}

/// Returns the health of the new set: the first part of each replica stays, and the others are to be made.
fn headed(new: &PoolSet, health: &SetHealth) -> Result<Vec<ReplicaHealth>, ReplicaFault> {
    let mut replicas = Vec::new();
    for (replica, old) in new.replicas.iter().zip(&health.replicas) {
        if replica.parts.len() > 1 && replica.parts.iter().any(|part| part.device_align.is_some()) {
            return Err(ReplicaFault::NodeHeaders);
        }
        let first = old.parts.iter().take(1).cloned();
        let parts = first.chain(replica.parts.iter().skip(1).map(|_| PartHealth::missing())).collect();
        replicas.push(ReplicaHealth::of(parts, new.header_count(replica), old.pool_size));
    }
    Ok(replicas)
}

/// A change that was checked.
#[derive(Debug)]
struct Change<'a> {
    old: &'a PoolSet,
    new: &'a PoolSet,
    /// The health of the old set.
    health: &'a SetHealth,
    comparison: &'a SetComparison,
}

impl Change<'_> {
    /// Makes the change. `health` is that of the new set.
    fn run(
        &self,
        operation: Operation,
        health: &SetHealth,
        options: &ReplicaOptions,
    ) -> Result<(), ReplicaError> {
        let refused = ReplicaError::set(&self.new.path);
        let has_headers = matches!(operation, Operation::AddHeaders | Operation::RemoveHeaders);
        let number =
            if has_headers { Some(0) } else { self.comparison.of_new.iter().flatten().next().copied() };
        let source = number.map(|number| &self.health.replicas[number]);
        let header = source.and_then(|source| source.sound_header(0));
        let first = source.and_then(|source| source.parts[0].lock.clone());
        let (Some(number), Some(source), Some(header), Some(first)) = (number, source, header, first) else {
            return Err(refused(ReplicaFault::NoHealthyReplica));
        };
        let counts: Vec<usize> =
            self.new.replicas.iter().map(|replica| self.new.header_count(replica)).collect();
        let (uuids, sources) = if has_headers {
            let sources = (0..self.new.replicas.len()).map(|number| self.source(number));
            (self.uuids_of_headers(&counts), sources.collect())
        } else {
            let sources = vec![self.source(number); self.new.replicas.len()];
            (uuids(health, &counts, true).map_err(&refused)?, sources)
        };
        let gone =
            self.health.replicas.iter().zip(&self.comparison.of_old).filter(|(_, kept)| kept.is_none());
        let removed = gone.flat_map(|(replica, _)| replica.parts.iter().filter_map(|part| part.lock.clone()));
        let rebuild = Rebuild {
            set: self.new,
            health,
            uuids,
            header: header.clone(),
            first,
            sources,
            size: source.pool_size,
            removed: removed.collect(),
            keeps_modes: has_headers,
        };
        rebuild.run(options)
    }

    /// Returns the content of a replica of the old set.
    fn source(&self, number: usize) -> Sources {
        let places = ranges(self.old, &self.old.replicas[number]);
        let parts =
            places.into_iter().zip(&self.health.replicas[number].parts).filter_map(|(place, part)| {
                let lock = Arc::clone(part.lock.as_ref()?);
                Some(SourcePart { lock, place, lost: Vec::new() })
            });
        Sources { replicas: vec![parts.collect()] }
    }

    /// Returns the UUIDs of first parts, and new ones for the others.
    fn uuids_of_headers(&self, counts: &[usize]) -> Vec<Uuids> {
        let of = |(count, replica): (&usize, &ReplicaHealth)| {
            let first =
                replica.sound_header(0).map_or_else(new_uuid, |header| header.uuid(PmdkUuidField::Part));
            std::iter::once(first).chain((1..*count).map(|_| new_uuid())).collect()
        };
        counts.iter().zip(&self.health.replicas).map(of).collect()
    }
}
