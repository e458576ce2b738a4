//! The parts of a pool, open and locked: what an open has before it maps them.

use crate::bad_blocks;
use crate::chain::{Headers, Starts, check_headers, decode, read_starts};
use crate::error::{PmdkError, SetError};
use crate::feature_change;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::{Part, PoolSet, Replica};
use crate::seen::Seen;
use crate::set_change;
use crate::shutdown_state::{self, States};
use crate::staged_part;
use lode_layout::{
    BLOCK, PmdkFeatures, PmdkKind, PmdkPartHeader, PmdkShutdown, StoredPmdkHeader, align_down,
};
use lode_pmem::{ByAddress, Durability, MappedPart, Medium, Sysfs};
use std::path::Path;
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
    /// The instructions of a program of PMDK that uses the pool. The children of a fork may use it then, and share the lock, and no
    /// signal handler is installed for a header on a device-DAX node.
    pub program: Option<ByAddress>,
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
            program: None,
            sysfs: Sysfs::default(),
        }
    }
}

/// The parts of a pool, open and locked, with headers that are those of one pool.
///
/// It is for callers that map the parts by themselves; [`PmdkPool`](crate::PmdkPool) maps them. Dropping it unlocks the parts,
/// unless [`leave_locks`](PoolParts::leave_locks) leaves that to mappings of them.
#[derive(Debug)]
pub struct PoolParts {
    pub(crate) set: PoolSet,
    /// The parts of each replica.
    pub(crate) locks: Vec<Vec<Arc<LockedPart>>>,
    /// The header of the first part.
    pub(crate) header: PmdkPartHeader,
    pub(crate) size: u64,
    /// The shutdown state of each replica that an open pool has; `None` for those that keep none.
    pub(crate) states: States,
    pub(crate) is_read_only: bool,
    pub(crate) sysfs: Sysfs,
}

impl PoolParts {
    /// Opens, locks and checks the parts of the set file, or the single file or device-DAX node, at `path`.
    ///
    /// A creation that was interrupted after the pool existed is completed first, unless it is opened for reading; and so is a change of
    /// the set.
    ///
    /// # Errors
    /// [`PmdkError`], but none of those of a creation.
    ///
    /// # Cost
    /// Some system calls for each part.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<PoolParts, PmdkError> {
        let mut set = read_locked(path, options)?;
        if set.has_no_headers {
            return Err(PmdkError::set(path)(SetError::NoHeaders));
        }
        PoolParts::open_set(&mut set, options).or_else(|error| {
            check_refused(&set, options)?;
            Err(error)
        })
    }

    /// Opens, locks and checks the parts of a set.
    fn open_set(set: &mut PoolSet, options: &OpenOptions) -> Result<PoolParts, PmdkError> {
        let locks = lock_parts(set, options)?;
        let size = set.check_reserved()?;
        if options.access == PmdkAccess::ReadWrite {
            feature_change::complete(set, &locks)?;
        }
        let starts = locks.iter().zip(&set.replicas);
        let starts = starts.map(|(locks, replica)| read_starts(&locks[..set.header_count(replica)]));
        let starts = starts.collect::<Result<Vec<Starts>, _>>()?;
        let headers = check_headers(&starts, options.kind, set.has_single_header)?;
        if options.access == PmdkAccess::ReadWrite {
            clear_copied_marks(&locks, &starts)?;
        }
        let Some((_, header)) = headers.first().and_then(|headers| headers.first()).cloned() else {
            return Err(PmdkError::set(&set.path)(SetError::Empty(set.path.clone())));
        };
        if header.features.checks_bad_blocks() && !options.ignores_bad_blocks {
            bad_blocks::check_recovery_files(set)?;
            let check = |lock| bad_blocks::check(lock, Some(&set.path), &options.sysfs);
            locks.iter().flatten().try_for_each(|lock| check(lock))?;
        }
        let states = match options.ignores_shutdown_state {
            true => Vec::new(),
            false => check_shutdowns(set, size, &headers, &locks, &options.sysfs)?,
        };
        check_replicas(set, options.kind)?;
        // As with PMDK, a feature in any part counts.
        let mut features = headers.iter().flatten().map(|(_, header)| header.features);
        let is_read_only = features.any(PmdkFeatures::is_read_only) || options.access == PmdkAccess::ReadOnly;
        let (set, sysfs) = (set.clone(), options.sysfs.clone());
        Ok(PoolParts { set, locks, header, size, states, is_read_only, sysfs })
    }

    /// Returns the header of the first part, as it was when the pool was opened.
    pub fn header(&self) -> &PmdkPartHeader {
        &self.header
    }

    /// Returns the bytes that the pool has: those of its smallest replica.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the bytes of address space to reserve, in which the pool may grow; 0 for one of a fixed size.
    ///
    /// # Errors
    /// [`PmdkError::Set`] if the sizes in the set file are too large together.
    pub fn reserved(&self) -> Result<u64, PmdkError> {
        self.set.reserved()
    }

    /// Returns true if nothing may be stored: the pool was opened for reading, or has features that a writer must know and
    /// this program does not.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the state to [store](store_shutdown_state) in each replica while the pool is open for writing; `None` for one that keeps none.
    /// The list may be shorter than that of the replicas.
    pub fn shutdown_states(&self) -> &[Option<PmdkShutdown>] {
        &self.states
    }

    /// Returns the parts of each replica, the master's first, as they have to be mapped.
    ///
    /// # Errors
    /// [`PmdkError::Io`] if the process has too many descriptors.
    pub fn to_map(&self) -> Result<Vec<Vec<MappedPart>>, PmdkError> {
        all_to_map(&self.set, &self.locks, self.size)
    }

    /// Closes the parts, and leaves their locks to mappings of them. A child of a fork has these mappings, too.
    pub fn leave_locks(self) {
        self.locks.into_iter().flatten().filter_map(Arc::into_inner).for_each(LockedPart::leave_lock);
    }
}

/// Stores a shutdown state in a pool, whose first bytes are its header: that of an open pool, or that of a closed one.
///
/// # Errors
/// [`PmdkError::Memory`] and [`PmdkError::Drain`]. `path` is that of the pool.
///
/// # Durability
/// Durable on return. A power cut before that leaves the old state, the new one, or one that counts as none.
///
/// # Cost
/// One drain.
pub fn store_shutdown_state<M: Medium>(
    medium: &M,
    state: PmdkShutdown,
    is_open: bool,
    path: &Path,
) -> Result<(), PmdkError> {
    shutdown_state::store(medium, PmdkShutdown { is_dirty: is_open, ..state }, path)
}

/// Reads the set, and locks its file meanwhile. Makes the rest of an interrupted change of it.
fn read_locked(path: &Path, options: &OpenOptions) -> Result<PoolSet, PmdkError> {
    let _lock = LockedPart::look(path, options.access)?;
    let set = PoolSet::read(path, &options.sysfs)?;
    if set.is_set
        && options.access == PmdkAccess::ReadWrite
        && set_change::finish_left(&set, options.program)?
    {
        // Parts in folders have other names now.
        return PoolSet::read(path, &options.sysfs);
    }
    Ok(set)
}

/// Opens and locks all parts, and compares their sizes.
fn lock_parts(set: &mut PoolSet, options: &OpenOptions) -> Result<Vec<Vec<Arc<LockedPart>>>, PmdkError> {
    complete_creation(set, options)?;
    let set = &*set;
    let (mut locks, mut seen) = (Vec::new(), Seen::default());
    for replica in &set.replicas {
        if let (true, Some(directory)) = (replica.parts.is_empty(), replica.directories().next()) {
            return Err(PmdkError::set(&set.path)(SetError::Empty(directory.to_owned())));
        }
        let open = |part: &Part| {
            set.check_apart(part, &mut seen)?;
            LockedPart::of_set(part, options.access, options.program, false).map(Arc::new)
        };
        locks.push(replica.parts.iter().map(open).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(locks)
}

/// Completes the other parts of a set whose first part is that of a pool whose creation was interrupted.
pub(crate) fn complete_creation(set: &mut PoolSet, options: &OpenOptions) -> Result<(), PmdkError> {
    let Some(first) = set.replicas.first().and_then(|master| master.parts.first()) else { return Ok(()) };
    if !set.is_set || options.access != PmdkAccess::ReadWrite {
        return Ok(());
    }
    let lock = LockedPart::open(&first.path, options.access, options.program)?;
    match decode(&first.path, &lock.read_header()?, options.kind) {
        Ok(header) if !header.features.is_read_only() => complete_others(set, &header, options.program),
        // The first part is looked at again, with the others.
        _ => Ok(()),
    }
}

/// Completes all parts but the first, which exists, of a pool whose creation was interrupted.
pub(crate) fn complete_others(
    set: &mut PoolSet,
    header: &PmdkPartHeader,
    program: Option<ByAddress>,
) -> Result<(), PmdkError> {
    // A folder tells nothing of a part that has its hidden name only.
    set.add_first_parts(|path| staged_part::hidden_len(path, header.poolset_uuid));
    let set = &*set;
    for (part, _) in set.all_parts() {
        staged_part::remove_second_name(part, header)?;
    }
    let is_missing = |part: &Part| part.path.symlink_metadata().is_err();
    let unfinished: Vec<_> = set
        .all_parts()
        .skip(1)
        .filter(|(part, has_header)| is_missing(part) || *has_header && lacks_signature(part, program))
        .map(|(part, _)| part)
        .collect();
    if unfinished.is_empty() {
        return Ok(());
    }
    for part in &unfinished {
        staged_part::complete(part, header, program)?;
    }
    staged_part::persist_names(unfinished.iter().map(|part| &*part.path))
}

/// Returns true if the part is there and begins with the mark of a creation where its signature should be.
fn lacks_signature(part: &Part, program: Option<ByAddress>) -> bool {
    let lock = LockedPart::open(&part.path, PmdkAccess::ReadOnly, program);
    let bytes = lock.and_then(|lock| lock.read_header());
    bytes.is_ok_and(|bytes| PmdkPartHeader::is_unsigned(&bytes))
}

/// Looks for the reason of an open that has failed for another one. PMDK looks for lost memory before it opens the parts: one of them may be
/// damaged or missing because of that. As with PMDK, the first part that can be opened tells if the pool wants it.
fn check_refused(set: &PoolSet, options: &OpenOptions) -> Result<(), PmdkError> {
    let parts = || set.all_parts().map(|(part, _)| part);
    let open = |part: &Part| LockedPart::open(&part.path, options.access, options.program).ok();
    let header = parts().find_map(|part| open(part)?.read_header().ok());
    let wants = header.is_some_and(|bytes| StoredPmdkHeader::new(bytes).features().checks_bad_blocks());
    if !wants || options.ignores_bad_blocks {
        return Ok(());
    }
    bad_blocks::check_recovery_files(set)?;
    // A part that can't be opened, or that is in use, is the reason by itself.
    parts().filter_map(open).try_for_each(|part| bad_blocks::check(&part, Some(&set.path), &options.sysfs))
}

/// Refuses replicas where they would not be kept equal: PMDK has them for pools of objects alone.
fn check_replicas(set: &PoolSet, kind: PmdkKind) -> Result<(), PmdkError> {
    if kind != PmdkKind::Objects && set.replicas.len() > 1 {
        return Err(PmdkError::set(&set.path)(SetError::Replicas));
    }
    Ok(())
}

/// Returns the shutdown states to store, one a replica that keeps one.
fn check_shutdowns(
    set: &PoolSet,
    size: u64,
    headers: &[Headers],
    locks: &[Vec<Arc<LockedPart>>],
    sysfs: &Sysfs,
) -> Result<States, PmdkError> {
    let mut states = Vec::new();
    for ((headers, locks), replica) in headers.iter().zip(locks).zip(&set.replicas) {
        // What a growth has left after the end of the pool is removed by the next one.
        let locks = &locks[..set.used_count(replica, size)];
        let first = headers.first().filter(|(_, header)| header.features.has_shutdown_state());
        let Some((path, header)) = first else {
            states.push(None);
            continue;
        };
        let current = shutdown_state::current(locks, sysfs)?;
        let mut is_sound = shutdown_state::is_sound(current, header.shutdown);
        if let Some((_, before)) = locks.split_last()
            && set.is_in_directories
            && header.features.is_in_use()
        {
            is_sound |= shutdown_state::is_sound(shutdown_state::current(before, sysfs)?, header.shutdown);
        }
        if !is_sound {
            return Err(PmdkError::UnsafeShutdown { path: path.clone() });
        }
        states.push(shutdown_state::is_kept(header.features).then_some(current));
    }
    Ok(states)
}

/// Returns the parts of each replica, as [`to_map`] does.
pub(crate) fn all_to_map(
    set: &PoolSet,
    locks: &[Vec<Arc<LockedPart>>],
    size: u64,
) -> Result<Vec<Vec<MappedPart>>, PmdkError> {
    let replicas = set.replicas.iter().zip(locks);
    replicas.map(|(replica, locks)| to_map(set, replica, locks, size)).collect()
}

/// Returns the parts of a replica back to back, without the headers of all but the first, and at most `size` bytes: another replica may have
/// no more.
pub(crate) fn to_map(
    set: &PoolSet,
    replica: &Replica,
    locks: &[Arc<LockedPart>],
    size: u64,
) -> Result<Vec<MappedPart>, PmdkError> {
    let mut parts = Vec::new();
    let mut left = size;
    for (index, (part, lock)) in replica.parts.iter().zip(locks).enumerate() {
        let skip = set.skipped(index);
        let whole = align_down(part.size, BLOCK) - skip;
        let len = whole.min(left);
        left -= len;
        if len > 0 {
            let (path, unit) = (part.path.clone(), part.device_align.unwrap_or(BLOCK));
            parts.push(MappedPart { file: lock.shared_file(), path, skip, len, unit });
        }
    }
    Ok(parts)
}

/// Takes the mark of a pool in use from the headers of later parts. A sync of PMDK copies it there from the first part, whose mark alone counts,
/// and PMDK refuses a pool by the mark of any part.
fn clear_copied_marks(locks: &[Vec<Arc<LockedPart>>], starts: &[Starts]) -> Result<(), PmdkError> {
    for (locks, starts) in locks.iter().zip(starts) {
        for (lock, (_, bytes)) in locks.iter().zip(starts).skip(1) {
            let mut header = StoredPmdkHeader::new(**bytes);
            let features = header.features();
            if features.is_in_use() {
                header.set_features(features.when_closed());
                header.store_checksum();
                lock.write_header(0, header.bytes())?;
            }
        }
    }
    Ok(())
}
