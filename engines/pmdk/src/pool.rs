//! An open pool.

use crate::create::NewParts;
use crate::error::{PmdkError, SetError};
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::plan::CreateOptions;
use crate::pool_medium::PoolMedium;
use crate::pool_parts::{OpenOptions, PoolParts, to_map};
use crate::pool_set::{PoolSet, Replica};
use crate::shutdown_state::{self, States};
use crate::stops;
use lode_layout::{Durability, PmdkPartHeader, PmdkShutdown};
use lode_pmem::{Mapping, Medium, PmemError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// Makes a pool and opens it for writing: in a new file of `size` bytes at `path`, or without a size in the parts of the set
    /// file, or in all of the file or device-DAX node, that is at `path`. Parts that exist must begin with 4096 zeros.
    ///
    /// `content` writes the initial data on the medium. It is told whether all bytes are known to be zeros.
    ///
    /// # Errors
    /// [`PmdkError`], and those of `content`. No file of the pool is left then, except that an existing part may have got
    /// some content. An error after a set exists takes it back; where that fails, too, the next open completes it.
    ///
    /// # Durability
    /// The pool is durable when it returns. A crash before that leaves no pool or a whole one: see the head of this file.
    ///
    /// # Cost
    /// Allocates all parts. Two syncs for each, three for each folder.
    pub fn create<E: From<PmdkError>>(
        path: &Path,
        size: Option<u64>,
        options: &CreateOptions,
        content: impl FnOnce(&Arc<PoolMedium>, bool) -> Result<(), E>,
    ) -> Result<PmdkPool, E> {
        let new = NewParts::stage(path, size, options)?;
        let medium = map_new(&new, options)?;
        content(&medium, new.is_zeroed())?;
        stops::step()?;
        // ORDER: the content before the pool exists. Stop here: step 1 of the table.
        medium.drain().map_err(PmdkError::drain(path))?;
        let PoolParts { header, states, .. } = new.finish()?;
        Ok(PmdkPool { path: path.to_owned(), medium, header, states, is_read_only: false })
    }

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
        let parts = PoolParts::open(path, options)?;
        let PoolParts { header, is_read_only, .. } = parts;
        let access = if is_read_only { PmdkAccess::ReadOnly } else { options.access };
        // A view for reading: stores to it reach no file.
        let options = OpenOptions { access, ..options.clone() };
        let mappings = map_replicas(&parts.set, &parts.locks, parts.size, &options)?;
        let medium = Arc::new(medium_of(path, mappings, parts.locks)?);
        let pool = PmdkPool { path: path.to_owned(), medium, header, states: Vec::new(), is_read_only };
        if access != PmdkAccess::ReadWrite {
            return Ok(pool);
        }
        pool.medium.recover_replicas(path)?;
        pool.store_states(&parts.states, true)?;
        Ok(PmdkPool { states: parts.states, ..pool })
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

/// Returns the medium of these mappings, of which the first is the master's.
fn medium_of(
    path: &Path,
    mut mappings: Vec<Mapping>,
    locks: Vec<Vec<Arc<LockedPart>>>,
) -> Result<PoolMedium, PmdkError> {
    let replicas = mappings.split_off(1.min(mappings.len()));
    let master = mappings.pop().ok_or_else(|| PmemError::NotMappable { path: path.to_owned() })?;
    Ok(PoolMedium::new(master, replicas, locks.into_iter().flatten().collect()))
}

/// Maps the replicas of a new pool.
fn map_new(new: &NewParts, options: &CreateOptions) -> Result<Arc<PoolMedium>, PmdkError> {
    let CreateOptions { durability, program, .. } = *options;
    let sysfs = options.sysfs.clone();
    let options =
        OpenOptions { durability, program, sysfs, ..OpenOptions::new(options.kind, PmdkAccess::ReadWrite) };
    let locks = new.locks();
    let mappings = map_replicas(&new.set, &locks, new.size, &options)?;
    Ok(Arc::new(medium_of(&new.set.path, mappings, locks)?))
}

/// Maps each replica: its parts back to back, without the headers of all but the first, and at most `size` bytes.
fn map_replicas(
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
    if options.program.is_some() {
        mapping = mapping.in_children();
    }
    if options.access != PmdkAccess::ReadWrite {
        mapping = mapping.private_view();
    } else if let Some(durability) = durability {
        mapping = mapping.durability(durability);
    }
    let nodes = replica.parts.iter().filter(|part| part.device_align.is_some()).count();
    if nodes > 1 && options.access != PmdkAccess::ReadWrite {
        return Err(PmdkError::set(&set.path)(SetError::PrivateDevices));
    }
    let mut parts = to_map(set, replica, locks, size)?;
    match parts.pop() {
        // A view is of a whole node.
        Some(only)
            if nodes == 1
                && parts.is_empty()
                && (options.access != PmdkAccess::ReadWrite || only.len == replica.parts[0].size) =>
        {
            let file = only.file.try_clone().map_err(PmdkError::io("dup", &only.path))?;
            Ok(mapping.map_file(file, only.path)?)
        }
        last => {
            parts.extend(last);
            Ok(mapping.map_parts(parts)?)
        }
    }
}
