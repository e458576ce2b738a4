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
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool::{OpenOptions, PmdkPool, check_set, complete_others, map_replicas, medium_of, size_min};
use crate::pool_medium::PoolMedium;
use crate::pool_set::{Part, PoolSet};
use crate::shutdown_state::{self, States};
use crate::staged_part::{StagedPart, is_free, persist_names, remove_hidden};
use crate::stops;
use lode_layout::{Durability, PmdkFeatures, PmdkKind, PmdkPartHeader, PmdkShutdown, PmdkShutdownRecord};
use lode_pmem::{Medium, Sysfs};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The options for a new pool.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The library of the pool.
    pub kind: PmdkKind,
    /// Its features. SINGLEHDR follows from the set file.
    pub features: PmdkFeatures,
    /// Permissions of new files; `None` for reading and writing by all that the process's mask allows.
    pub mode: Option<u32>,
    /// As [`OpenOptions::durability`].
    pub durability: Option<Durability>,
    /// As [`OpenOptions::is_in_children`].
    pub is_in_children: bool,
    /// As [`OpenOptions::sysfs`].
    pub sysfs: Sysfs,
}

impl CreateOptions {
    /// Returns options for a pool of `kind` with PMDK's own features.
    pub fn new(kind: PmdkKind) -> CreateOptions {
        let (features, sysfs) = (PmdkFeatures::DEFAULT, Sysfs::default());
        CreateOptions { kind, features, mode: None, durability: None, is_in_children: false, sysfs }
    }

    fn open_options(&self) -> OpenOptions {
        let CreateOptions { durability, is_in_children, .. } = *self;
        let sysfs = self.sysfs.clone();
        OpenOptions {
            durability,
            is_in_children,
            sysfs,
            ..OpenOptions::new(self.kind, PmdkAccess::ReadWrite)
        }
    }
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
        check_features(path, options.features)?;
        let mut set = plan(path, size, options)?;
        // Held to the end: creations of one set exclude each other.
        let _lock = set.is_set.then(|| LockedPart::open(path, PmdkAccess::CopyOnWrite)).transpose()?;
        prepare(&mut set)?;
        let creation = Creation::stage(set, size.is_some(), options)?;
        let medium = creation.map(options)?;
        content(&medium, creation.is_zeroed())?;
        Ok(creation.finish(medium, options)?)
    }
}

/// Refuses features that no open would take, or that spoil each other.
fn check_features(path: &Path, features: PmdkFeatures) -> Result<(), PmdkError> {
    let PmdkFeatures { compat, incompat, ro_compat } = features;
    let unknown =
        compat & !PmdkFeatures::CHECK_BAD_BLOCKS | incompat & !PmdkFeatures::KNOWN_INCOMPAT | ro_compat;
    // The shutdown state is stored in place: a checksum that counts it is wrong then.
    let is_spoiled = features.has_shutdown_state() && !features.has_short_checksum();
    if unknown != 0 || is_spoiled {
        return Err(PmdkError::Features { path: path.to_owned(), features });
    }
    Ok(())
}

/// Describes the new pool, and checks its sizes.
fn plan(path: &Path, size: Option<u64>, options: &CreateOptions) -> Result<PoolSet, PmdkError> {
    let mut set = match size {
        Some(_) if path.symlink_metadata().is_ok() => {
            return Err(PmdkError::Exists { path: path.to_owned() });
        }
        Some(size) => PoolSet::of_new_file(path, size),
        None => PoolSet::read(path, &options.sysfs)?,
    };
    check_set(&set, options.kind)?;
    let size_min = size_min(options.kind);
    // Where another replica has parts, `prepare` tells a pool from files of zeros.
    set.add_first_parts(|_| Some(size_min));
    set.check_sizes(size_min)?;
    Ok(set)
}

/// Completes or takes back an interrupted creation, and refuses parts that are in use.
fn prepare(set: &mut PoolSet) -> Result<(), PmdkError> {
    let mut used = None;
    for (index, (part, has_header)) in all_parts(set).enumerate() {
        if !has_header || part.path.symlink_metadata().is_err() {
            continue;
        }
        let lock = LockedPart::open(&part.path, PmdkAccess::ReadWrite)?;
        let bytes = lock.read_header()?;
        if !is_free(&bytes) {
            used = Some((index, part.path.clone(), lock, bytes));
            break;
        }
    }
    // The lock on the part is kept while the others are completed.
    if let Some((index, path, _lock, bytes)) = used {
        if let (0, true, Ok(header)) = (index, set.is_set, PmdkPartHeader::decode(&bytes)) {
            complete_others(set, &header)?;
        }
        return Err(PmdkError::NotEmpty { path });
    }
    if set.is_set {
        all_parts(set).try_for_each(|(part, _)| remove_hidden(part))?;
    }
    Ok(())
}

/// Returns all parts of the set, each with whether it has a header.
fn all_parts(set: &PoolSet) -> impl Iterator<Item = (&Part, bool)> {
    set.replicas.iter().flat_map(|replica| {
        let count = set.header_count(replica);
        replica.parts.iter().enumerate().map(move |(index, part)| (part, index < count))
    })
}

/// Returns a random UUID as PMDK stores it: the first fields as numbers of the machine.
fn new_uuid() -> Uuid {
    Uuid::from_bytes(Uuid::new_v4().to_bytes_le())
}

/// A pool that is being made.
struct Creation {
    set: PoolSet,
    uuid: Uuid,
    features: PmdkFeatures,
    /// The parts of each replica.
    staged: Vec<Vec<StagedPart>>,
}

impl Creation {
    /// Makes or takes all parts.
    fn stage(set: PoolSet, is_new_file: bool, options: &CreateOptions) -> Result<Creation, PmdkError> {
        let mut features = options.features;
        features.incompat &= !PmdkFeatures::SINGLE_HEADER;
        if set.has_single_header {
            features.incompat |= PmdkFeatures::SINGLE_HEADER;
        }
        let mut creation = Creation { uuid: new_uuid(), features, staged: Vec::new(), set };
        for replica in &creation.set.replicas {
            let mut staged = Vec::new();
            let header_count = creation.set.header_count(replica);
            for (index, part) in replica.parts.iter().enumerate() {
                stops::step()?;
                let part = match part.path.symlink_metadata() {
                    Ok(_) => {
                        let lock = LockedPart::open(&part.path, PmdkAccess::ReadWrite)?;
                        StagedPart::there(lock, part, index < header_count)?
                    }
                    Err(_) if is_new_file => StagedPart::unnamed(part, options.mode)?,
                    Err(_) => StagedPart::hidden(part, creation.uuid, options.mode)?,
                };
                if features.checks_bad_blocks() {
                    bad_blocks::check(part.lock(), true, &options.sysfs)?;
                }
                staged.push(part);
            }
            creation.staged.push(staged);
        }
        Ok(creation)
    }

    fn locks(&self) -> Vec<Vec<Arc<LockedPart>>> {
        let of = |parts: &Vec<StagedPart>| parts.iter().map(|part| Arc::clone(part.lock())).collect();
        self.staged.iter().map(of).collect()
    }

    fn is_zeroed(&self) -> bool {
        self.staged.iter().flatten().all(StagedPart::is_new)
    }

    fn map(&self, options: &CreateOptions) -> Result<Arc<PoolMedium>, PmdkError> {
        let (size, locks) = (self.set.net_size()?, self.locks());
        let mappings = map_replicas(&self.set, &locks, size, &options.open_options())?;
        Ok(Arc::new(medium_of(&self.set.path, mappings, locks)?))
    }

    /// Returns the headers of each replica, and the shutdown states of an open pool.
    fn headers(&self, options: &CreateOptions) -> Result<(Vec<Vec<PmdkPartHeader>>, States), PmdkError> {
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
                    kind: options.kind,
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
                let state =
                    PmdkShutdown { is_dirty: true, ..shutdown_state::current(&locks, &options.sysfs)? };
                of_replica[0].shutdown = PmdkShutdownRecord::Stored(state);
                states.push(Some(state));
            }
            headers.push(of_replica);
        }
        Ok((headers, states))
    }

    /// Writes the headers, and makes the parts those of a pool: steps 2 to 4.
    fn finish(mut self, medium: Arc<PoolMedium>, options: &CreateOptions) -> Result<PmdkPool, PmdkError> {
        let path = self.set.path.clone();
        let (headers, states) = self.headers(options)?;
        stops::step()?;
        // ORDER: the content before the pool exists. Stop here: step 1 of the table.
        medium.drain().map_err(PmdkError::drain(&path))?;
        for (staged, headers) in self.staged.iter_mut().zip(&headers) {
            for (index, part) in staged.iter_mut().enumerate() {
                match headers.get(index) {
                    Some(header) => part.write_header(header)?,
                    None => part.persist_file()?,
                }
            }
        }
        // ORDER: names that an interrupted creation is completed from, before the pool exists. Stop here: step 2.
        persist_names(all_parts(&self.set).map(|(part, _)| &*part.path))?;
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
        Ok(PmdkPool { path, medium, header: headers[0][0], states, is_read_only: false })
    }

    fn commit(&mut self, is_committed: bool) {
        self.staged.iter_mut().flatten().for_each(|part| part.commit(is_committed));
    }

    /// Makes all parts but the first those of the pool: step 4.
    fn publish_others(&mut self, headers: &[Vec<PmdkPartHeader>]) -> Result<(), PmdkError> {
        stops::step()?;
        // ORDER: the first part before the others. Stop here: step 3, and without it a power cut could leave the others alone.
        persist_names(all_parts(&self.set).map(|(part, _)| &*part.path).take(1))?;
        for (index, (staged, headers)) in self.staged.iter_mut().zip(headers).enumerate() {
            for (nth, part) in staged.iter_mut().enumerate().skip(usize::from(index == 0)) {
                part.publish(headers.get(nth))?;
            }
        }
        stops::step()?;
        // ORDER: all names before the caller is told. Stop here: step 3 or 4.
        persist_names(all_parts(&self.set).map(|(part, _)| &*part.path))
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
        persist_names(all_parts(&self.set).map(|(part, _)| &*part.path))?;
        self.commit(false);
        Ok(())
    }
}
