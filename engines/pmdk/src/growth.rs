//! The growth of an open pool in directories: each replica gets a part more.
//!
//! | stops after | on disk | the next open or growth |
//! |---|---|---|
//! | the new files, under hidden names | the old parts | the next growth removes these files |
//! | the names of some, or of all without a sync | some replicas have a part more | the pool has the size of the smallest replica; the next growth removes what others have more |
//! | all names, synced | the new parts | the pool has them |
//! | the shutdown states | the sums with those of the new parts, in some replicas or in all | as above; a new part was not used before |
//!
//! Parts have no headers but the first, as PMDK demands of sets in directories, so a new part is zeros. It is synced before it gets its
//! name.

use crate::error::{PmdkError, SetError};
use crate::locked_part::LockedPart;
use crate::pool_parts::PoolParts;
use crate::pool_set::{Part, PoolSet};
use crate::set_size::PART_SIZE_MIN;
use crate::shutdown_state::{self, States};
use crate::staged_part::{StagedPart, persist_names, remove_hidden};
use crate::stops;
use lode_layout::{BLOCK, PmdkShutdown, align_down};
use lode_pmem::{ByAddress, MappedPart, Sysfs};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use uuid::Uuid;

/// Bits of a mode that a new part takes from the first one.
const MODE_MASK: u32 = 0o777;

/// The directories of an open pool, in which it grows.
#[derive(Clone, Debug)]
pub struct PoolGrowth {
    set: PoolSet,
    pool: Uuid,
    /// Bytes of the pool: those of its smallest replica.
    size: u64,
    states: States,
    program: Option<ByAddress>,
    sysfs: Sysfs,
}

impl PoolParts {
    /// Returns the right to let the pool grow; `None` if its parts are not in directories.
    ///
    /// # Errors
    /// [`PmdkError::Io`] if a directory can't be synced.
    ///
    /// # Cost
    /// A sync of each directory.
    pub fn growth(&self, program: Option<ByAddress>) -> Result<Option<PoolGrowth>, PmdkError> {
        let (set, pool, size) = (self.set.clone(), self.header.poolset_uuid, self.size);
        if !set.is_in_directories || !set.has_single_header || self.is_read_only {
            return Ok(None);
        }
        // ORDER: the name of a part that a growth before a kill has left, before the pool uses the part. Stop here: row 2 of the table.
        persist_names(set.all_parts().map(|(part, _)| part.path()))?;
        let (states, sysfs) = (self.states.clone(), self.sysfs.clone());
        Ok(Some(PoolGrowth { set, pool, size, states, program, sysfs }))
    }
}

impl PoolGrowth {
    /// Returns the shutdown states of the pool with all its parts, as [`PoolParts::shutdown_states`].
    pub fn shutdown_states(&self) -> &[Option<PmdkShutdown>] {
        &self.states
    }

    /// Appends a part of `len` bytes, in whole pages, to each replica, or one of as many as the directories have room for. `map` [stores](crate::store_shutdown_state)
    /// the states that it gets, and maps the parts, the master's first, after the others; the mappings keep their locks. If it fails, it
    /// stores the states from before.
    ///
    /// # Errors
    /// [`SetError::Exhausted`] if there is no room for a part, [`SetError::Uneven`]; [`PmdkError`] for the files, and that of `map`. The
    /// pool has its old size then.
    ///
    /// # Durability
    /// The parts are durable on return. A crash before that leaves the pool with its old size or the new one.
    ///
    /// # Cost
    /// Allocates the parts. A sync for each, and for each of their directories.
    pub fn append(
        &mut self,
        len: u64,
        map: impl FnOnce(&[MappedPart], &[Option<PmdkShutdown>]) -> Result<(), PmdkError>,
    ) -> Result<(), PmdkError> {
        let left = align_down(self.set.reserved()?.saturating_sub(self.size), BLOCK);
        let len = align_down(len, BLOCK).min(left);
        if len < PART_SIZE_MIN {
            return Err(PmdkError::set(&self.set.path)(SetError::Exhausted { left }));
        }
        self.remove_surplus()?;
        let parts: Vec<Part> = self.set.next_parts(len);
        let mut staged = Vec::new();
        for (part, replica) in parts.iter().zip(&self.set.replicas) {
            stops::step()?;
            // As those that the pool has.
            let first = replica.parts.first().and_then(|first| fs::metadata(&first.path).ok());
            let mode = first.map(|found| found.mode() & MODE_MASK);
            remove_hidden(part)?;
            staged.push(StagedPart::hidden(part, self.pool, mode, self.program)?);
        }
        let mapped = staged.iter().map(|staged| {
            stops::step()?;
            // ORDER: size and space before the name. Stop here: row 1 of the table.
            staged.persist_file()?;
            let file = staged.lock().shared_file();
            Ok(MappedPart { file, path: staged.lock().path().to_owned(), skip: 0, len, unit: BLOCK })
        });
        let mapped = mapped.collect::<Result<Vec<_>, PmdkError>>()?;
        let states = self.states_with(&staged)?;
        if let Err(error) = publish(&mut staged).and_then(|()| map(&mapped, &states)) {
            for staged in staged.iter_mut().rev().filter(|_| !stops::is_stopped()) {
                // If this fails, the replica has a part more, as after a crash.
                let _ = staged.take_back(false);
            }
            return Err(error);
        }
        staged.iter_mut().for_each(|staged| staged.commit(true));
        for (replica, part) in self.set.replicas.iter_mut().zip(parts) {
            replica.parts.push(part);
        }
        self.size += len;
        self.states = states;
        let locks: Vec<Arc<LockedPart>> = staged.iter().map(|staged| Arc::clone(staged.lock())).collect();
        drop(staged);
        locks.into_iter().filter_map(Arc::into_inner).for_each(LockedPart::leave_lock);
        Ok(())
    }

    /// Returns the shutdown states of the pool with these parts.
    fn states_with(&self, staged: &[StagedPart]) -> Result<States, PmdkError> {
        let states = self.states.iter().zip(staged);
        let added = states.map(|(state, staged)| {
            state.map(|state| shutdown_state::with_part(state, staged.lock(), &self.sysfs)).transpose()
        });
        added.collect()
    }

    /// Removes the parts that some replicas have after the end of the pool: it never had them.
    fn remove_surplus(&mut self) -> Result<(), PmdkError> {
        let mut removed = Vec::new();
        let (single, size, path) = (self.set.has_single_header, self.size, self.set.path.clone());
        for replica in &mut self.set.replicas {
            while let Some(more) = replica.net_size(single).map(|net| net - size.min(net))
                && more > 0
            {
                let Some(last) = replica.parts.pop_if(|last| align_down(last.size, BLOCK) <= more) else {
                    return Err(PmdkError::set(&path)(SetError::Uneven { more }));
                };
                fs::remove_file(&last.path).map_err(PmdkError::io("unlink", &last.path))?;
                stops::name_removed(&last.path);
                removed.push(last.path);
            }
        }
        // ORDER: none of them comes back beside a new part. Stop here: row 2 of the table.
        persist_names(removed.iter().map(|path| &**path))
    }
}

/// Gives the parts their names, durably.
fn publish(staged: &mut [StagedPart]) -> Result<(), PmdkError> {
    for staged in staged.iter_mut() {
        staged.publish(None)?;
    }
    stops::step()?;
    // ORDER: the names before the pool is told. Stop here: row 2 or 3 of the table.
    persist_names(staged.iter().map(|staged| staged.lock().path()))
}
