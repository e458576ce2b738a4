//! An open pool.

use crate::bad_blocks;
use crate::chain::{Headers, check_chain, read_header, read_headers};
use crate::error::{PmdkError, SetError};
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_medium::PoolMedium;
use crate::pool_set::{Part, PoolSet, Replica};
use crate::shutdown_state::{self, States};
use crate::staged_part;
use lode_layout::{BLOCK, Durability, PmdkFeatures, PmdkKind, PmdkPartHeader, PmdkShutdown, align_down};
use lode_pmem::{MappedPart, Mapping, Medium, PmemError, Sysfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The options for opening a pool.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The library of the pool.
    pub kind: PmdkKind,
    /// Access for writing, to a private view, or only for reading.
    pub access: PmdkAccess,
    /// The durability to use. `None` uses the durability that the weakest part offers, also if that keeps nothing: PMDK takes
    /// such media. Ignored unless the pool is opened for writing.
    pub durability: Option<Durability>,
    /// True if the shutdown state is neither looked at nor stored.
    pub ignores_shutdown_state: bool,
    /// True if lost ranges do not matter.
    pub ignores_bad_blocks: bool,
    /// True if the children of a fork may use the pool, as with PMDK. They share the lock.
    pub is_in_children: bool,
    /// Place of the kernel's information about the medium. Any other tree than /sys is for tests.
    pub sysfs: Sysfs,
}

impl OpenOptions {
    /// Returns options for a pool of `kind`, with all checks, at the durability that the medium offers.
    pub fn new(kind: PmdkKind, access: PmdkAccess) -> OpenOptions {
        OpenOptions {
            kind,
            access,
            durability: None,
            ignores_shutdown_state: false,
            ignores_bad_blocks: false,
            is_in_children: false,
            sysfs: Sysfs::default(),
        }
    }
}

/// An open pool of PMDK: its replicas, mapped and locked.
///
/// Dropping it instead of [`close`](PmdkPool::close) is no damage: a crash does the same. The parts stay locked as long as any
/// handle of the [`medium`](PmdkPool::medium).
#[derive(Debug)]
pub struct PmdkPool {
    pub(crate) path: PathBuf,
    pub(crate) medium: Arc<PoolMedium>,
    pub(crate) header: PmdkPartHeader,
    /// The shutdown state of each replica, as this handle stored it; `None` for those without one. Empty if it stored none.
    pub(crate) states: States,
    pub(crate) is_read_only: bool,
}

impl PmdkPool {
    /// Opens the pool of a set file, or of a single file or device-DAX node, at `path`.
    ///
    /// A creation that was interrupted after the pool existed is completed first, unless it is opened for reading.
    ///
    /// # Errors
    /// [`PmdkError`], but none of those of a creation.
    ///
    /// # Durability
    /// For writing, the headers say that the pool is open, durably, before it returns. Otherwise nothing is written.
    ///
    /// # Cost
    /// Some system calls for each part. One drain a replica if it has a shutdown state.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<PmdkPool, PmdkError> {
        let mut set = PoolSet::read(path, &options.sysfs)?;
        check_set(&set, options.kind)?;
        let locks = lock_parts(&mut set, options)?;
        let size = set.check_sizes(size_min(options.kind))?;
        let headers = locks
            .iter()
            .zip(&set.replicas)
            .map(|(locks, replica)| read_headers(&locks[..set.header_count(replica)], options.kind));
        let headers = headers.collect::<Result<Vec<Headers>, _>>()?;
        check_chain(&headers, set.has_single_header)?;
        let Some((_, header)) = headers.first().and_then(|headers| headers.first()).cloned() else {
            return Err(PmdkError::set(path)(SetError::Empty(path.to_owned())));
        };
        if header.features.checks_bad_blocks() && !options.ignores_bad_blocks {
            check_bad_blocks(&set, &locks, &options.sysfs)?;
        }
        // As with PMDK, a feature in any part counts.
        let mut features = headers.iter().flatten().map(|(_, header)| header.features);
        let is_read_only = features.any(PmdkFeatures::is_read_only) || options.access == PmdkAccess::ReadOnly;
        let access = if is_read_only { PmdkAccess::ReadOnly } else { options.access };
        // A view for reading: stores to it reach no file.
        let mappings = map_replicas(&set, &locks, size, &OpenOptions { access, ..options.clone() })?;
        let states = match options.ignores_shutdown_state {
            true => Vec::new(),
            false => check_shutdowns(&headers, &locks, options)?,
        };
        let medium = Arc::new(medium_of(path, mappings, locks)?);
        let pool = PmdkPool { path: path.to_owned(), medium, header, states: Vec::new(), is_read_only };
        if access != PmdkAccess::ReadWrite {
            return Ok(pool);
        }
        pool.store_states(&states, true)?;
        Ok(PmdkPool { states, ..pool })
    }

    /// Returns the medium, for engines.
    pub fn medium(&self) -> &Arc<PoolMedium> {
        &self.medium
    }

    /// Returns the header of the first part, as it was when the pool was opened.
    pub fn header(&self) -> &PmdkPartHeader {
        &self.header
    }

    /// Returns the set file, or the only part.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes that the pool has: those of its smallest replica.
    pub fn size(&self) -> u64 {
        self.medium.memory().len()
    }

    /// Returns true if nothing may be stored: the pool was opened for reading, or has features that a writer must know and
    /// this program does not.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Closes the pool. The engines on its medium have let go of it.
    ///
    /// # Errors
    /// [`PmdkError::Drain`] if a sync failed, now or before; [`PmdkError::Memory`]. The pool counts as open in a crash then.
    ///
    /// # Durability
    /// All that was flushed is durable, and then that the pool is closed.
    ///
    /// # Cost
    /// A drain of each replica, and another one where it keeps a shutdown state. None of a private view.
    pub fn close(self) -> Result<(), PmdkError> {
        if self.medium.memory().is_private_view() {
            return Ok(());
        }
        // ORDER: all stores before the mark of a closed pool. Stop here: the pool counts as open, which is checked.
        self.medium.drain().map_err(PmdkError::drain(&self.path))?;
        self.store_states(&self.states, false)
    }

    pub(crate) fn store_states(
        &self,
        states: &[Option<PmdkShutdown>],
        is_dirty: bool,
    ) -> Result<(), PmdkError> {
        for (mapping, state) in self.medium.mappings().zip(states) {
            if let Some(state) = *state {
                shutdown_state::store(mapping, PmdkShutdown { is_dirty, ..state }, &self.path)?;
            }
        }
        Ok(())
    }
}

/// Returns the least size of a pool, in bytes: PMDK's.
pub(crate) const fn size_min(kind: PmdkKind) -> u64 {
    match kind {
        PmdkKind::Objects => 8 << 20,
        PmdkKind::Blocks => (16 << 20) + 2 * BLOCK,
        PmdkKind::Log => 2 << 20,
    }
}

/// Checks that a pool of `kind` can be in the set.
pub(crate) fn check_set(set: &PoolSet, kind: PmdkKind) -> Result<(), PmdkError> {
    if set.replicas.len() > 1 && kind != PmdkKind::Objects {
        return Err(PmdkError::set(&set.path)(SetError::Replication));
    }
    Ok(())
}

/// Returns the medium of these mappings, of which the first is the master's.
pub(crate) fn medium_of(
    path: &Path,
    mut mappings: Vec<Mapping>,
    locks: Vec<Vec<Arc<LockedPart>>>,
) -> Result<PoolMedium, PmdkError> {
    let replicas = mappings.split_off(1.min(mappings.len()));
    let master = mappings.pop().ok_or_else(|| PmemError::NotMappable { path: path.to_owned() })?;
    Ok(PoolMedium::new(master, replicas, locks.into_iter().flatten().collect()))
}

/// Opens and locks all parts, and compares their sizes.
fn lock_parts(set: &mut PoolSet, options: &OpenOptions) -> Result<Vec<Vec<Arc<LockedPart>>>, PmdkError> {
    let mut master = complete_creation(set, options)?;
    let mut locks = Vec::new();
    for replica in &set.replicas {
        if let (true, Some(directory)) = (replica.parts.is_empty(), replica.directories().next()) {
            return Err(PmdkError::set(&set.path)(SetError::Empty(directory.to_owned())));
        }
        let mut of_replica = Vec::new();
        for part in &replica.parts {
            let lock = master.take().map_or_else(|| LockedPart::open(&part.path, options.access), Ok)?;
            let metadata = lock.file().metadata().map_err(PmdkError::io("fstat", &part.path))?;
            if part.device_align.is_none() && metadata.len() != part.size {
                let (path, want, found) = (part.path.clone(), part.size, metadata.len());
                return Err(PmdkError::PartSize { path, want, found });
            }
            of_replica.push(Arc::new(lock));
        }
        locks.push(of_replica);
    }
    Ok(locks)
}

/// Locks the first part of the set. If it is one of a pool whose creation was interrupted, completes the other parts.
fn complete_creation(set: &mut PoolSet, options: &OpenOptions) -> Result<Option<LockedPart>, PmdkError> {
    let Some(first) = set.replicas.first().and_then(|master| master.parts.first()) else { return Ok(None) };
    let lock = LockedPart::open(&first.path, options.access)?;
    if set.is_set && options.access == PmdkAccess::ReadWrite {
        let header = match read_header(&lock, options.kind) {
            // The other parts are not looked at: the error of the first one is reported.
            Err(PmdkError::Header { .. } | PmdkError::Kind { .. }) => return Ok(Some(lock)),
            header => header?,
        };
        if header.features.is_read_only() {
            return Ok(Some(lock));
        }
        complete_others(set, &header)?;
    }
    Ok(Some(lock))
}

/// Completes all parts but the first, which exists, of a pool whose creation was interrupted.
pub(crate) fn complete_others(set: &mut PoolSet, header: &PmdkPartHeader) -> Result<(), PmdkError> {
    // A folder tells nothing of a part that has its hidden name only.
    set.add_first_parts(|path| staged_part::hidden_len(path, header.poolset_uuid));
    let set = &*set;
    for part in set.replicas.iter().flat_map(|replica| &replica.parts) {
        staged_part::remove_second_name(part, header)?;
    }
    let parts = || set.replicas.iter().flat_map(|replica| &replica.parts).skip(1);
    let is_missing = |part: &&Part| part.path.symlink_metadata().is_err();
    let has_header = set.replicas.iter().flat_map(|replica| {
        let count = set.header_count(replica);
        (0..replica.parts.len()).map(move |index| index < count)
    });
    let unfinished: Vec<_> = parts()
        .zip(has_header.skip(1))
        .filter(|(part, has_header)| is_missing(part) || *has_header && lacks_signature(part))
        .map(|(part, _)| part)
        .collect();
    if unfinished.is_empty() {
        return Ok(());
    }
    for part in &unfinished {
        staged_part::complete(part, header)?;
    }
    staged_part::persist_names(unfinished.iter().map(|part| &*part.path))
}

/// Returns true if the part is there and begins with the mark of a creation where its signature should be.
fn lacks_signature(part: &Part) -> bool {
    let lock = LockedPart::open(&part.path, PmdkAccess::ReadOnly);
    let bytes = lock.and_then(|lock| lock.read_header());
    bytes.is_ok_and(|bytes| PmdkPartHeader::is_unsigned(&bytes))
}

fn check_bad_blocks(set: &PoolSet, locks: &[Vec<Arc<LockedPart>>], sysfs: &Sysfs) -> Result<(), PmdkError> {
    for (replica, locks) in locks.iter().enumerate() {
        for (part, lock) in locks.iter().enumerate() {
            if set.is_set {
                bad_blocks::check_recovery_file(&set.path, replica, part)?;
            }
            bad_blocks::check(lock, false, sysfs)?;
        }
    }
    Ok(())
}

/// Returns the shutdown states to store, one a replica that keeps one.
fn check_shutdowns(
    headers: &[Headers],
    locks: &[Vec<Arc<LockedPart>>],
    options: &OpenOptions,
) -> Result<States, PmdkError> {
    let mut states = Vec::new();
    for (headers, locks) in headers.iter().zip(locks) {
        let first = headers.first().filter(|(_, header)| shutdown_state::is_kept(header.features));
        let Some((path, header)) = first else {
            states.push(None);
            continue;
        };
        let current = shutdown_state::current(locks, &options.sysfs)?;
        if !shutdown_state::is_sound(current, header.shutdown) {
            return Err(PmdkError::UnsafeShutdown { path: path.clone() });
        }
        states.push(Some(current));
    }
    Ok(states)
}

/// Maps each replica: its parts back to back, without the headers of all but the first, and at most `size` bytes.
pub(crate) fn map_replicas(
    set: &PoolSet,
    locks: &[Vec<Arc<LockedPart>>],
    size: u64,
    options: &OpenOptions,
) -> Result<Vec<Mapping>, PmdkError> {
    let mapped = set.replicas.iter().zip(locks).map(|(replica, locks)| {
        match map_replica(set, replica, locks, size, options, options.durability) {
            Err(PmdkError::Medium(PmemError::Volatile { .. })) => {
                map_replica(set, replica, locks, size, options, Some(Durability::None))
            }
            mapped => mapped,
        }
    });
    mapped.collect()
}

fn map_replica(
    set: &PoolSet,
    replica: &Replica,
    locks: &[Arc<LockedPart>],
    size: u64,
    options: &OpenOptions,
    durability: Option<Durability>,
) -> Result<Mapping, PmdkError> {
    let mut mapping = Mapping::options().sysfs(options.sysfs.clone()).reserve(set.reserved()?);
    if options.is_in_children {
        mapping = mapping.in_children();
    }
    if options.access != PmdkAccess::ReadWrite {
        mapping = mapping.private_view();
    } else if let Some(durability) = durability {
        mapping = mapping.durability(durability);
    }
    let mut parts = Vec::new();
    let mut left = size;
    for (index, (part, lock)) in replica.parts.iter().zip(locks).enumerate() {
        let path = part.path.clone();
        if part.device_align.is_some() && replica.parts.len() == 1 {
            return Ok(mapping.map_file(lock.duplicate()?, path)?);
        }
        if part.device_align.is_some() && options.access != PmdkAccess::ReadWrite {
            return Err(PmdkError::set(&set.path)(SetError::PrivateDevices));
        }
        let skip = if index == 0 || set.has_single_header { 0 } else { BLOCK };
        let whole = align_down(part.size, BLOCK) - skip;
        let len = if part.device_align.is_some() { whole } else { whole.min(left) };
        left -= len.min(left);
        if len > 0 {
            parts.push(MappedPart { file: lock.duplicate()?, path, skip, len });
        }
    }
    Ok(mapping.map_parts(parts)?)
}
