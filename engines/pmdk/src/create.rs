//! New pools: all of their parts, or none.
//!
//! ```text
//! 1  each part under a hidden name, .NAME.lode-POOL, or where it is, with a mark for its signature
//! 2  content, drained; headers, synced; hidden names, synced
//! 3  the first part of the master gets its name, or its signature: from here on the pool exists
//! 4  that name, synced; the other parts get theirs; their names, synced
//! ```
//!
//! | stops after | on disk                                    | the next creation or open does                       |
//! |-------------|--------------------------------------------|------------------------------------------------------|
//! | 1, 2        | hidden files, or headers without signature | a creation removes them, and writes over the headers |
//! | 3           | the first part, and the others as in 2     | an open completes the others; a creation refuses     |
//! | 4           | the pool                                   | as for any pool                                      |
//!
//! PMDK finds no pool before the end of 4: a part is missing, or has no signature. A pool of one new file has no hidden name
//! where the file system knows O_TMPFILE, so that nothing is left.

use crate::bad_blocks;
use crate::chain::neighbours;
use crate::error::PmdkError;
use crate::file_kind::FileKind;
use crate::locked_part::LockedPart;
use crate::plan::{CreateOptions, check_features, plan, prepare};
use crate::pool_parts::{PoolParts, all_to_map};
use crate::pool_set::{Part, PoolSet};
use crate::seen::Seen;
use crate::set_size::PART_SIZE_MIN;
use crate::shutdown_state::{self, States};
use crate::staged_part::{StagedPart, persist_names};
use crate::stops;
use lode_layout::{PmdkFeatures, PmdkPartHeader, PmdkShutdown, PmdkShutdownRecord};
use lode_pmem::MappedPart;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Returns a random UUID as PMDK stores it: the first fields as numbers of the machine.
fn new_uuid() -> Uuid {
    Uuid::from_bytes(Uuid::new_v4().to_bytes_le())
}

/// The parts of a pool that is being made: it does not exist yet.
///
/// It is for callers that map the parts by themselves; [`PmdkPool::create`](crate::PmdkPool::create) maps them. Dropping it takes all back.
#[derive(Debug)]
pub struct NewParts {
    pub(crate) set: PoolSet,
    options: CreateOptions,
    uuid: Uuid,
    features: PmdkFeatures,
    pub(crate) size: u64,
    /// The parts of each replica.
    staged: Vec<Vec<StagedPart>>,
    /// The lock on the set file, to the end.
    _lock: Option<LockedPart>,
}

impl NewParts {
    /// Makes or takes all parts of a new pool: a new file of `size` bytes at `path`, or without a size the parts of the set file, or
    /// all of the file or device-DAX node, that is at `path`. Parts that exist must begin with 4096 zeros.
    ///
    /// # Errors
    /// [`PmdkError`]. No file of the pool is left then.
    ///
    /// # Cost
    /// Allocates all parts.
    pub fn stage(path: &Path, size: Option<u64>, options: &CreateOptions) -> Result<NewParts, PmdkError> {
        check_features(path, options.features)?;
        let (mut set, lock) = plan(path, size, options)?;
        if set.is_set {
            prepare(&mut set, options.program)?;
        }
        let mut features = options.features;
        features.incompat &= !PmdkFeatures::SINGLE_HEADER;
        if set.has_single_header {
            features.incompat |= PmdkFeatures::SINGLE_HEADER;
        }
        let size_of_pool = set.net_size()?;
        let mut new = NewParts {
            uuid: new_uuid(),
            options: options.clone(),
            features,
            size: size_of_pool,
            staged: Vec::new(),
            set,
            _lock: lock,
        };
        let mut seen = Seen::default();
        for replica in &new.set.replicas {
            // What was staged is taken back after an error.
            new.staged.push(Vec::new());
            for part in &replica.parts {
                stops::step()?;
                new.set.check_apart(part, &mut seen)?;
                let staged = new.stage_part(part, size.is_some())?;
                if let Some(parts) = new.staged.last_mut() {
                    parts.push(staged);
                }
            }
        }
        for (staged, replica) in new.staged.iter().zip(&new.set.replicas) {
            let count = new.set.header_count(replica);
            staged.iter().take(count).try_for_each(StagedPart::check_free)?;
        }
        Ok(new)
    }

    fn stage_part(&self, part: &Part, is_new_file: bool) -> Result<StagedPart, PmdkError> {
        let CreateOptions { mode, program, .. } = self.options;
        if let Some(found) = self.set.len_as_part(part) {
            return Err(PmdkError::PartTooSmall { path: part.path.clone(), found, min: PART_SIZE_MIN });
        }
        let staged = match FileKind::find(&part.path)? {
            FileKind::Absent if is_new_file => StagedPart::unnamed(part, mode, program)?,
            FileKind::Absent => StagedPart::hidden(part, self.uuid, mode, program)?,
            _ => StagedPart::there(part, program)?,
        };
        if self.features.checks_bad_blocks() {
            bad_blocks::check(staged.lock(), None, &self.options.sysfs)?;
        }
        Ok(staged)
    }

    /// Returns the parts of each replica, the master's first, as they have to be mapped.
    ///
    /// # Errors
    /// [`PmdkError::Io`] if the process has too many descriptors.
    pub fn to_map(&self) -> Result<Vec<Vec<MappedPart>>, PmdkError> {
        all_to_map(&self.set, &self.locks(), self.size)
    }

    /// Returns the bytes of address space to reserve, as [`PoolParts::reserved`].
    ///
    /// # Errors
    /// [`PmdkError::Set`] if the sizes in the set file are too large together.
    pub fn reserved(&self) -> Result<u64, PmdkError> {
        self.set.reserved()
    }

    /// Returns true if all bytes of all parts are known to be zeros.
    pub fn is_zeroed(&self) -> bool {
        self.staged.iter().flatten().all(StagedPart::is_new)
    }

    /// Returns the UUID of the pool.
    pub fn poolset_uuid(&self) -> Uuid {
        self.uuid
    }

    pub(crate) fn locks(&self) -> Vec<Vec<Arc<LockedPart>>> {
        let of = |parts: &Vec<StagedPart>| parts.iter().map(|part| Arc::clone(part.lock())).collect();
        self.staged.iter().map(of).collect()
    }

    /// Returns the headers of each replica, and the shutdown states of an open pool.
    fn headers(&self) -> Result<(Vec<Vec<PmdkPartHeader>>, States), PmdkError> {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let counts = self.set.replicas.iter().map(|replica| self.set.header_count(replica));
        let uuids: Vec<Vec<Uuid>> = counts.map(|count| (0..count).map(|_| new_uuid()).collect()).collect();
        let firsts: Vec<Uuid> = uuids.iter().filter_map(|uuids| uuids.first().copied()).collect();
        let (mut headers, mut states) = (Vec::new(), Vec::new());
        for (replica, (uuids, locks)) in uuids.iter().zip(self.locks()).enumerate() {
            let (prev_replica, next_replica) = neighbours(&firsts, replica);
            let header = |index: usize| {
                let (prev_part, next_part) = neighbours(uuids, index);
                PmdkPartHeader {
                    kind: self.options.kind,
                    features: self.features,
                    poolset_uuid: self.uuid,
                    uuid: uuids[index],
                    prev_part,
                    next_part,
                    prev_replica,
                    next_replica,
                    created,
                    shutdown: PmdkShutdownRecord::Empty,
                }
            };
            let mut of_replica: Vec<PmdkPartHeader> = (0..uuids.len()).map(header).collect();
            if self.features.has_shutdown_state() {
                let current = shutdown_state::current(&locks, &self.options.sysfs)?;
                let state = PmdkShutdown { is_dirty: true, ..current };
                of_replica[0].shutdown = PmdkShutdownRecord::Stored(state);
                states.push(Some(state));
            }
            headers.push(of_replica);
        }
        Ok((headers, states))
    }

    /// Writes the headers, and makes the parts those of a pool: steps 2 to 4. The caller has drained the content.
    ///
    /// # Errors
    /// [`PmdkError`]. An error after a set exists takes it back; where that fails, too, the next open completes it.
    ///
    /// # Durability
    /// The pool is durable when it returns. A crash before that leaves no pool or a whole one: see the head of this file. Its headers
    /// say that it is open.
    ///
    /// # Cost
    /// Two syncs for each part, three for each folder.
    pub fn finish(mut self) -> Result<PoolParts, PmdkError> {
        let (headers, states) = self.headers()?;
        stops::step()?;
        for (staged, headers) in self.staged.iter_mut().zip(&headers) {
            for (index, part) in staged.iter_mut().enumerate() {
                match headers.get(index) {
                    Some(header) => part.write_header(header)?,
                    None => part.persist_file()?,
                }
            }
        }
        // ORDER: names that an interrupted creation is completed from, before the pool exists. Stop here: step 2.
        persist_names(self.set.all_parts().map(|(part, _)| &*part.path))?;
        if let Some(first) = self.staged.first_mut().and_then(|staged| staged.first_mut()) {
            let published = first.publish(headers[0].first());
            let is_published = first.is_published();
            self.commit(is_published);
            published?;
        }
        if let Err(error) = self.publish_others(&headers) {
            if self.set.is_set {
                // If this fails, too, the next open completes the pool.
                let _ = self.take_back(&headers);
            }
            return Err(error);
        }
        let (locks, header) = (self.locks(), headers[0][0]);
        let (set, size, sysfs) = (self.set, self.size, self.options.sysfs);
        Ok(PoolParts { set, locks, header, size, states, is_read_only: false, sysfs })
    }

    fn commit(&mut self, is_committed: bool) {
        self.staged.iter_mut().flatten().for_each(|part| part.commit(is_committed));
    }

    /// Makes all parts but the first those of the pool: step 4.
    fn publish_others(&mut self, headers: &[Vec<PmdkPartHeader>]) -> Result<(), PmdkError> {
        stops::step()?;
        // ORDER: the first part before the others. Stop here: step 3, and without it a power cut could leave the others alone.
        persist_names(self.set.all_parts().map(|(part, _)| &*part.path).take(1))?;
        for (index, (staged, headers)) in self.staged.iter_mut().zip(headers).enumerate() {
            for (nth, part) in staged.iter_mut().enumerate().skip(usize::from(index == 0)) {
                part.publish(headers.get(nth))?;
            }
        }
        stops::step()?;
        // ORDER: all names before the caller is told. Stop here: step 3 or 4.
        persist_names(self.set.all_parts().map(|(part, _)| &*part.path))
    }

    /// Takes all parts back, the first one last. They are locked: no other handle has the pool open. Stop or error before
    /// the first one: step 3 of the table.
    fn take_back(&mut self, headers: &[Vec<PmdkPartHeader>]) -> Result<(), PmdkError> {
        for (staged, headers) in self.staged.iter_mut().zip(headers).rev() {
            for (nth, part) in staged.iter_mut().enumerate().rev() {
                stops::step()?;
                part.take_back(nth < headers.len())?;
            }
        }
        // ORDER: the first part is none before the others are removed. Stop here: step 2 of the table.
        persist_names(self.set.all_parts().map(|(part, _)| &*part.path))?;
        self.commit(false);
        Ok(())
    }
}
