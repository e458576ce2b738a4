//! The health of a set: which parts are missing or damaged, found in PMDK's order of checks.
//!
//! A part that can't be opened, or has another size, is broken; and so is one with a damaged header. A replica is broken as a whole if
//! its first part can't be opened, lost memory while it was open, or has a damaged descriptor. Links that contradict each other
//! are no damage that can be repaired: they are errors, since a part may be one of another pool.

use crate::bad_blocks::{self};
use crate::error::PmdkError;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::{Part, PoolSet};
use crate::recovery_file::RecoveryFiles;
use crate::replica_error::{ReplicaError, ReplicaFault};
use crate::replica_options::ReplicaOptions;
use crate::set_size::size_min;
use crate::shutdown_state;
use lode_layout::{BLOCK, PmdkFeatures, PmdkObj, PmdkObjState, PmdkUuidField, StoredPmdkHeader};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// The health of a set. The parts that could be opened are locked.
#[derive(Debug)]
pub(crate) struct SetHealth {
    pub(crate) replicas: Vec<ReplicaHealth>,
    /// The error of the last part that could not be opened.
    refusal: Option<PmdkError>,
}

/// The health of a replica.
#[derive(Debug, Default)]
pub(crate) struct ReplicaHealth {
    /// True if all of it is broken.
    pub(crate) is_broken: bool,
    pub(crate) parts: Vec<PartHealth>,
    /// Number of parts with a header.
    header_count: usize,
    /// Bytes of the pool, as its descriptor says; 0 if that was not read.
    pub(crate) pool_size: u64,
}

/// The health of a part.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartHealth {
    is_broken: bool,
    /// The part, if it could be opened.
    pub(crate) lock: Option<Arc<LockedPart>>,
    /// Its header, if it was opened and has one.
    pub(crate) header: Option<StoredPmdkHeader>,
    /// Its ranges that are lost.
    pub(crate) lost: Vec<Range<u64>>,
}

impl PartHealth {
    /// A part that is to be made.
    pub(crate) fn missing() -> PartHealth {
        PartHealth { is_broken: true, ..PartHealth::default() }
    }

    fn has_lost_header(&self) -> bool {
        self.lost.iter().any(|lost| lost.start < BLOCK)
    }
}

impl ReplicaHealth {
    /// A replica that has these parts.
    pub(crate) fn of(parts: Vec<PartHealth>, header_count: usize, pool_size: u64) -> ReplicaHealth {
        ReplicaHealth { is_broken: false, parts, header_count, pool_size }
    }

    pub(crate) fn is_part_broken(&self, part: usize) -> bool {
        self.is_broken || self.parts[part % self.parts.len()].is_broken
    }

    fn is_any_broken(&self) -> bool {
        (0..self.parts.len()).any(|part| self.is_part_broken(part))
    }

    fn has_lost(&self) -> bool {
        self.parts.iter().any(|part| !part.lost.is_empty())
    }

    pub(crate) fn is_healthy(&self) -> bool {
        !self.is_any_broken() && !self.has_lost()
    }

    fn has_healthy_header(&self) -> bool {
        !self.is_any_broken() && !self.parts.first().is_some_and(PartHealth::has_lost_header)
    }

    /// Returns the header of a part that is not broken, in a circle.
    pub(crate) fn sound_header(&self, part: usize) -> Option<&StoredPmdkHeader> {
        let index = part.checked_rem(self.header_count)?;
        self.parts[index].header.as_ref().filter(|_| !self.is_part_broken(index))
    }

    /// Returns the first sound header, and the number of its part.
    fn first_sound(&self) -> Option<(usize, &StoredPmdkHeader)> {
        (0..self.header_count).find_map(|part| Some((part, self.sound_header(part)?)))
    }

    /// Returns the UUID of the replica, that of its first part, as far as its parts know it.
    fn uuid(&self) -> Option<[u8; 16]> {
        let last = self.header_count.checked_sub(1)?;
        if let Some(first) = self.sound_header(0) {
            return Some(first.uuid(PmdkUuidField::Part));
        }
        if last == 0 {
            return None;
        }
        let second = self.sound_header(1).map(|header| header.uuid(PmdkUuidField::PrevPart));
        second.or_else(|| Some(self.sound_header(last)?.uuid(PmdkUuidField::NextPart)))
    }
}

impl SetHealth {
    /// Opens, locks and examines the parts of a set.
    pub(crate) fn examine(set: &PoolSet, options: &ReplicaOptions) -> Result<SetHealth, ReplicaError> {
        let mut health = SetHealth::open(set, options)?;
        let mut features = None;
        if !options.fixes_bad_blocks {
            features = Some(health.features(set, options)?);
        }
        health.find_lost(set, features.is_some_and(PmdkFeatures::checks_bad_blocks), options)?;
        let features = features.map_or_else(|| health.features(set, options), Ok)?;
        health.check_headers(set);
        if features.has_shutdown_state() {
            health.check_shutdowns(options)?;
        }
        health.check_parts(set)?;
        health.check_pool_uuids(set)?;
        health.check_neighbours(set)?;
        health.check_cycles(set)?;
        health.check_sizes(set)?;
        Ok(health)
    }

    /// Opens and locks the parts, and reads their headers.
    fn open(set: &PoolSet, options: &ReplicaOptions) -> Result<SetHealth, ReplicaError> {
        let (mut replicas, mut refusal) = (Vec::new(), None);
        let mut locks: Vec<Arc<LockedPart>> = Vec::new();
        for replica in &set.replicas {
            let count = set.header_count(replica);
            let mut parts = Vec::new();
            for (index, part) in replica.parts.iter().enumerate() {
                let mut found = PartHealth::default();
                let locked = LockedPart::of_set(part, PmdkAccess::ReadWrite, options.program, false);
                // A set that names a file twice is told of by its headers.
                let locked = locked.map(Arc::new).or_else(|error| match error {
                    PmdkError::InUse { .. } => same_file(&locks, part).ok_or(error),
                    error => Err(error),
                });
                match locked {
                    Ok(lock) => {
                        found.header = match index < count {
                            true => lock.read_header().ok().map(StoredPmdkHeader::new),
                            false => None,
                        };
                        found.is_broken = index < count && found.header.is_none();
                        locks.push(Arc::clone(&lock));
                        found.lock = Some(lock);
                    }
                    // PMDK takes it for damaged, and makes it anew below the program that has it open.
                    Err(error @ PmdkError::InUse { .. }) => return Err(error.into()),
                    Err(error) if part.device_align.is_some() => return Err(error.into()),
                    Err(error) => {
                        found.is_broken = true;
                        refusal = Some(error);
                    }
                }
                parts.push(found);
            }
            replicas.push(ReplicaHealth::of(parts, if set.has_no_headers { 0 } else { count }, 0));
        }
        Ok(SetHealth { replicas, refusal })
    }

    /// Health of a set whose parts are known.
    pub(crate) fn of(replicas: Vec<ReplicaHealth>) -> SetHealth {
        SetHealth { replicas, refusal: None }
    }

    /// Returns the features in the header of the first part that can be opened, damaged or not, also if it has another size.
    fn features(&mut self, set: &PoolSet, options: &ReplicaOptions) -> Result<PmdkFeatures, ReplicaError> {
        let health = self.replicas.iter().flat_map(|replica| &replica.parts);
        for ((part, _), health) in set.all_parts().zip(health) {
            let lock = match &health.lock {
                Some(lock) => Some(Arc::clone(lock)),
                None => {
                    LockedPart::open(&part.path, PmdkAccess::ReadWrite, options.program).ok().map(Arc::new)
                }
            };
            if let Some(lock) = lock {
                return Ok(StoredPmdkHeader::new(lock.read_header()?).features());
            }
        }
        Err(match self.refusal.take() {
            Some(error) => ReplicaError::NoPart { error },
            None => ReplicaError::set(&set.path)(ReplicaFault::NoHealthyReplica),
        })
    }

    /// Finds the ranges that are lost: those that the kernel knows, or that an interrupted repair of PMDK has cleared.
    fn find_lost(
        &mut self,
        set: &PoolSet,
        is_checked: bool,
        options: &ReplicaOptions,
    ) -> Result<(), ReplicaError> {
        let refused = ReplicaError::set(&set.path);
        let files = RecoveryFiles::find(set);
        if files.is_any() && !options.fixes_bad_blocks {
            return Err(refused(ReplicaFault::RecoveryFile));
        }
        if !is_checked && !options.fixes_bad_blocks {
            return Ok(());
        }
        let cleared = files.read(set)?;
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            for (index, part) in replica.parts.iter_mut().enumerate() {
                let Some(lock) = &part.lock else { continue };
                part.lost = match &cleared {
                    Some(cleared) => cleared[number][index].clone(),
                    None => bad_blocks::lost_ranges(lock, &options.sysfs)?,
                };
                if part.lost.is_empty() {
                    continue;
                }
                if !options.fixes_bad_blocks {
                    return Err(refused(ReplicaFault::BadBlocks));
                }
                if set.replicas[number].parts[index].device_align.is_some() {
                    bad_blocks::check(lock, Some(&set.path), &options.sysfs)?;
                }
                part.is_broken = part.is_broken || part.has_lost_header() && part.header.is_some();
            }
        }
        Ok(())
    }

    /// Checks each header by itself.
    fn check_headers(&mut self, set: &PoolSet) {
        for part in self.replicas.iter_mut().flat_map(|replica| &mut replica.parts) {
            let is_sound = |header: &StoredPmdkHeader| {
                header.is_intact()
                    && header.kind().is_some()
                    && header.features().has_single_header() == set.has_single_header
            };
            part.is_broken = part.is_broken || !part.header.as_ref().is_none_or(is_sound);
        }
    }

    /// Checks that the modules have kept all stores to each replica.
    fn check_shutdowns(&mut self, options: &ReplicaOptions) -> Result<(), ReplicaError> {
        for replica in &mut self.replicas {
            let Some(header) = replica.parts.first().and_then(|part| part.header.as_ref()) else {
                replica.is_broken = true;
                continue;
            };
            let stored = header.shutdown();
            let locks: Vec<_> = replica.parts.iter().filter_map(|part| part.lock.clone()).collect();
            let current = shutdown_state::current(&locks, &options.sysfs)?;
            replica.is_broken = replica.is_broken || !shutdown_state::is_sound(current, stored);
        }
        Ok(())
    }

    /// Checks the links between the parts of each replica.
    fn check_parts(&self, set: &PoolSet) -> Result<(), ReplicaError> {
        let refused = ReplicaError::set(&set.path);
        for (number, replica) in self.replicas.iter().enumerate() {
            let Some((part, first)) = replica.first_sound() else { continue };
            let sound = || {
                (part..replica.header_count).filter_map(|other| Some((other, replica.sound_header(other)?)))
            };
            let differs = |header: &StoredPmdkHeader, field| header.uuid(field) != first.uuid(field);
            if let Some((other, _)) = sound().find(|(_, header)| differs(header, PmdkUuidField::PoolSet)) {
                return Err(refused(ReplicaFault::PartsOfPools { replica: number, part, other }));
            }
            let is_elsewhere = |header: &StoredPmdkHeader| {
                differs(header, PmdkUuidField::PrevReplica) || differs(header, PmdkUuidField::NextReplica)
            };
            if let Some((other, _)) = sound().find(|(_, header)| is_elsewhere(header)) {
                return Err(refused(ReplicaFault::Adjacent { replica: number, part, other }));
            }
            for (part, header) in sound() {
                let Some(next) = replica.sound_header(part + 1).filter(|_| !replica.is_part_broken(part + 1))
                else {
                    continue;
                };
                let is_linked = next.uuid(PmdkUuidField::PrevPart) == header.uuid(PmdkUuidField::Part)
                    && header.uuid(PmdkUuidField::NextPart) == next.uuid(PmdkUuidField::Part);
                if !is_linked {
                    return Err(refused(ReplicaFault::Unlinked { replica: number, part }));
                }
            }
        }
        Ok(())
    }

    /// Checks that all replicas are those of one pool.
    fn check_pool_uuids(&self, set: &PoolSet) -> Result<(), ReplicaError> {
        let refused = ReplicaError::set(&set.path);
        let healthy = self.replicas.iter().position(ReplicaHealth::has_healthy_header);
        let found = healthy.and_then(|number| Some((number, self.replicas[number].sound_header(0)?)));
        let (replica, healthy) = found.ok_or_else(|| refused(ReplicaFault::NoHealthyReplica))?;
        let pool = healthy.uuid(PmdkUuidField::PoolSet);
        for (other, health) in self.replicas.iter().enumerate() {
            if health.first_sound().is_some_and(|(_, header)| header.uuid(PmdkUuidField::PoolSet) != pool) {
                return Err(refused(ReplicaFault::ReplicasOfPools { replica, other }));
            }
        }
        Ok(())
    }

    /// Checks the links between the replicas.
    fn check_neighbours(&self, set: &PoolSet) -> Result<(), ReplicaError> {
        let refused = ReplicaError::set(&set.path);
        let count = self.replicas.len();
        for (number, replica) in self.replicas.iter().enumerate() {
            let other = (number + 1) % count;
            let next = &self.replicas[other];
            let (first, first_of_next) = (replica.first_sound(), next.first_sound());
            let is_other = |uuid: Option<[u8; 16]>, header: Option<(_, &StoredPmdkHeader)>, field| {
                uuid.zip(header)
                    .is_some_and(|(uuid, (_, header)): (_, (usize, _))| header.uuid(field) != uuid)
            };
            if is_other(replica.uuid(), first_of_next, PmdkUuidField::PrevReplica)
                || is_other(next.uuid(), first, PmdkUuidField::NextReplica)
            {
                return Err(refused(ReplicaFault::Neighbours { replica: number, other }));
            }
            let after = self.replicas[(other + 1) % count].first_sound();
            if let (true, true, Some((_, first)), Some((_, after))) =
                (count > 1, next.is_any_broken(), first, after)
                && first.uuid(PmdkUuidField::NextReplica) != after.uuid(PmdkUuidField::PrevReplica)
            {
                return Err(refused(ReplicaFault::Borders { replica: number }));
            }
        }
        Ok(())
    }

    /// Checks that healthy replicas are not a set of their own.
    fn check_cycles(&self, set: &PoolSet) -> Result<(), ReplicaError> {
        let mut run: Vec<&StoredPmdkHeader> = Vec::new();
        for replica in &self.replicas {
            let Some(header) = replica.sound_header(0).filter(|_| replica.is_healthy()) else {
                run.clear();
                continue;
            };
            run.push(header);
            let is_closed = header.uuid(PmdkUuidField::NextReplica) == run[0].uuid(PmdkUuidField::Part);
            if is_closed && run.len() < self.replicas.len() {
                return Err(ReplicaError::set(&set.path)(ReplicaFault::Alien));
            }
        }
        Ok(())
    }

    /// Reads the size of the pool from each replica, and checks that all have room for it.
    fn check_sizes(&mut self, set: &PoolSet) -> Result<(), ReplicaError> {
        let refused = ReplicaError::set(&set.path);
        let (room, mut size) = (set.net_size()?, None);
        for replica in &mut self.replicas {
            if !replica.has_healthy_header() {
                continue;
            }
            let (Some(lock), Some(header)) = (&replica.parts[0].lock, &replica.parts[0].header) else {
                continue;
            };
            let min = header.kind().map_or(0, size_min);
            let Some(found) = pool_size(lock)?.filter(|found| *found >= min) else {
                replica.is_broken = true;
                continue;
            };
            if room < found {
                return Err(refused(ReplicaFault::ReplicaTooSmall));
            }
            if size.is_some_and(|size| size != found) {
                return Err(refused(ReplicaFault::SizesDiffer));
            }
            size = Some(found);
            replica.pool_size = found;
        }
        Ok(())
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.replicas.iter().all(ReplicaHealth::is_healthy)
    }

    /// Returns the first replica that can be the source of headers: without a broken part.
    pub(crate) fn source(&self) -> Option<usize> {
        let healthy = self.replicas.iter().position(ReplicaHealth::is_healthy);
        healthy.or_else(|| self.replicas.iter().position(ReplicaHealth::has_healthy_header))
    }
}

/// Returns the bytes that the pool has by the descriptor of a replica's first part; `None` if that is damaged.
pub(crate) fn pool_size(first: &LockedPart) -> Result<Option<u64>, PmdkError> {
    let (mut descriptor, mut heap_size) = ([0; PmdkObj::LEN], [0; 8]);
    first.read_content(PmdkObj::OFF, &mut descriptor)?;
    first.read_content(PmdkObjState::HEAP_SIZE_OFF.get(), &mut heap_size)?;
    let heap_size = u64::from_le_bytes(heap_size);
    Ok(PmdkObj::decode(&descriptor).ok().and_then(|descriptor| descriptor.heap.checked_add(heap_size)))
}

/// Returns the lock on the file of this part, if there is one.
fn same_file(locks: &[Arc<LockedPart>], part: &Part) -> Option<Arc<LockedPart>> {
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let wanted = fs::metadata(&part.path).ok().map(id)?;
    let is_same = |lock: &&Arc<LockedPart>| lock.file().metadata().is_ok_and(|found| id(found) == wanted);
    locks.iter().find(is_same).cloned()
}
