//! The parts of a set that are made anew, from the content of others, and the change that puts them into the set.
//!
//! ```text
//! 1  hidden files with content and header, synced; device-DAX nodes with their content, behind a header of zeros
//! 2  the change: headers of the nodes and of the parts that stay, names of the files
//! ```
//!
//! Until the change is described, the set is as before: `set_change.rs` has the table of what follows. A node is broken, or no part of
//! the set, before step 1, and so it is after it.

use crate::error::PmdkError;
use crate::file_proof::FileProof;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::{Part, PoolSet};
use crate::replica_content::{CopyError, Sources, ranges};
use crate::replica_error::{ReplicaError, ReplicaFault};
use crate::replica_options::ReplicaOptions;
use crate::replica_uuids::{Uuids, link};
use crate::set_change::{NamedFile, SetChange, is_left, source_state};
use crate::set_health::SetHealth;
use crate::staged_part::{StagedPart, remove_hidden, replacing_path};
use crate::stops;
use lode_layout::{PmdkFeatures, PmdkPartHeader, PmdkUuidField, StoredPmdkHeader};
use std::os::unix::fs::{MetadataExt, fchown};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The parts to make anew, and their content.
#[derive(Debug)]
pub(crate) struct Rebuild<'a> {
    /// The set as it is to be.
    pub(crate) set: &'a PoolSet,
    /// The health of its parts: broken ones are made anew, and so are those that have lost ranges.
    pub(crate) health: &'a SetHealth,
    /// The UUIDs of its parts.
    pub(crate) uuids: Vec<Uuids>,
    /// A sound header of the pool.
    pub(crate) header: StoredPmdkHeader,
    /// The first part of the replica that has it.
    pub(crate) first: Arc<LockedPart>,
    /// The content for each replica.
    pub(crate) sources: Vec<Sources>,
    /// Bytes of the pool.
    pub(crate) size: u64,
    /// The parts that go: they are locked.
    pub(crate) removed: Vec<Arc<LockedPart>>,
    /// True if new files get the permissions and the owner of the file that they replace, and not the permissions of the first part.
    pub(crate) keeps_modes: bool,
}

/// A part that is made anew.
#[derive(Debug)]
enum NewPart {
    File(StagedPart),
    Node(Arc<LockedPart>),
}

impl NewPart {
    fn lock(&self) -> &Arc<LockedPart> {
        match self {
            NewPart::File(staged) => staged.lock(),
            NewPart::Node(lock) => lock,
        }
    }
}

impl Rebuild<'_> {
    /// Makes the parts, and then the change.
    ///
    /// # Durability
    /// Durable on return. A crash before that leaves the set as before, or such that its next repair or change makes the rest.
    ///
    /// # Cost
    /// Allocates and writes each part that is made anew, with one sync each, and some syncs for the change.
    pub(crate) fn run(&self, options: &ReplicaOptions) -> Result<(), ReplicaError> {
        self.check_nodes()?;
        self.set.all_parts().try_for_each(|(part, _)| remove_hidden(part))?;
        let source = (self.first.path().to_owned(), source_state(&self.first)?);
        let mut change = SetChange { source: Some(source), ..SetChange::default() };
        let mut made = Vec::new();
        for (replica, health) in self.health.replicas.iter().enumerate() {
            for index in 0..health.parts.len() {
                let is_made = health.is_part_broken(index) || !health.parts[index].lost.is_empty();
                if is_made {
                    made.push(self.make(replica, index, options, &mut change)?);
                } else if let Some(new) = self.header_of(replica, index) {
                    self.add_header(replica, index, new, &mut change);
                }
            }
        }
        for part in &self.removed {
            if part.is_node()? {
                // A node stays, without a header.
                let old = StoredPmdkHeader::new(part.read_header()?);
                let zeros = StoredPmdkHeader::new([0; PmdkPartHeader::LEN]);
                change.headers.push((part.path().to_owned(), old, zeros));
                continue;
            }
            let has_header = StoredPmdkHeader::new(part.read_header()?).is_intact();
            let file = FileProof::of(part.file(), part.path(), has_header)?;
            change.removed.push((part.path().to_owned(), file));
        }
        let of_parts = self.health.replicas.iter().flat_map(|replica| &replica.parts);
        let mut locks: Vec<Arc<LockedPart>> = of_parts.filter_map(|part| part.lock.clone()).collect();
        locks.extend(self.removed.iter().cloned());
        let nodes = made.iter().filter(|part| matches!(part, NewPart::Node(_)));
        locks.extend(nodes.map(|part| Arc::clone(part.lock())));
        let is_made = change.make(&self.set.path, &locks);
        // Once the change is described, its files are taken for the rest of it.
        let is_described = is_made.is_ok() || is_left(&self.set.path);
        for part in &mut made {
            if let NewPart::File(staged) = part {
                staged.commit(is_described);
            }
        }
        Ok(is_made?)
    }

    /// Refuses a node that is not broken and has lost ranges: its header and content would be gone before the change is described.
    fn check_nodes(&self) -> Result<(), ReplicaError> {
        for (replica, health) in self.set.replicas.iter().zip(&self.health.replicas) {
            for (index, (part, found)) in replica.parts.iter().zip(&health.parts).enumerate() {
                if part.device_align.is_some() && !found.lost.is_empty() && !health.is_part_broken(index) {
                    return Err(ReplicaError::set(&self.set.path)(ReplicaFault::NodeLost(part.path.clone())));
                }
            }
        }
        Ok(())
    }

    /// Makes a part anew.
    fn make(
        &self,
        replica: usize,
        index: usize,
        options: &ReplicaOptions,
        change: &mut SetChange,
    ) -> Result<NewPart, ReplicaError> {
        stops::step()?;
        let part = &self.set.replicas[replica].parts[index];
        let place = ranges(self.set, &self.set.replicas[replica])[index].clone();
        let new = self.stage(replica, index, part, options)?;
        let is_new = matches!(new, NewPart::File(_));
        self.sources[replica].copy_into(new.lock(), &place, self.size, is_new).map_err(
            |error| match error {
                CopyError::Pool(error) => error.into(),
                CopyError::Lost(off) => ReplicaError::set(&self.set.path)(ReplicaFault::Uncorrectable(off)),
            },
        )?;
        let header = self.header_of(replica, index);
        match &new {
            NewPart::File(staged) => {
                if let Some(header) = &header {
                    staged.lock().write_content(0, header.bytes())?;
                }
                stops::step()?;
                staged.persist_file()?;
                let hidden = replacing_path(&part.path, self.pool());
                let file = FileProof::of(staged.lock().file(), &hidden, header.is_some())?;
                let replaced = part.path.symlink_metadata().ok().map(|found| found.ino());
                change.named.push(NamedFile { hidden, part: part.path.clone(), file, replaced });
            }
            NewPart::Node(lock) => {
                lock.persist_content()?;
                if let Some(header) = header {
                    let zeros = StoredPmdkHeader::new([0; PmdkPartHeader::LEN]);
                    change.headers.push((part.path.clone(), zeros, header));
                }
            }
        }
        Ok(new)
    }

    fn stage(
        &self,
        replica: usize,
        index: usize,
        part: &Part,
        options: &ReplicaOptions,
    ) -> Result<NewPart, ReplicaError> {
        if part.device_align.is_some() {
            let lock = match &self.health.replicas[replica].parts[index].lock {
                Some(lock) => Arc::clone(lock),
                None => Arc::new(LockedPart::of_set(part, PmdkAccess::ReadWrite, options.program, false)?),
            };
            // ORDER: no header before the content. Stop here: a node without a header, which is broken as it was.
            lock.write_header(0, &[0; PmdkPartHeader::LEN])?;
            return Ok(NewPart::Node(lock));
        }
        let old = match self.keeps_modes {
            true => part.path.metadata(),
            false => self.first.file().metadata(),
        };
        let old = old.map_err(PmdkError::io("stat", &part.path))?;
        let staged = StagedPart::replacing(part, self.pool(), Some(old.mode() & 0o7777), options.program)?;
        if self.keeps_modes {
            // Allowed to root alone, and to others for groups of theirs.
            let _ = fchown(staged.lock().file(), Some(old.uid()), Some(old.gid()));
        }
        Ok(NewPart::File(staged))
    }

    fn pool(&self) -> Uuid {
        Uuid::from_bytes(self.header.uuid(PmdkUuidField::PoolSet))
    }

    /// Adds the new header of a part that stays, if it differs from the old one.
    fn add_header(&self, replica: usize, index: usize, new: StoredPmdkHeader, change: &mut SetChange) {
        let old = self.health.replicas[replica].sound_header(index);
        if let Some(old) = old.filter(|old| **old != new) {
            let path = self.set.replicas[replica].parts[index].path.clone();
            change.headers.push((path, old.clone(), new));
        }
    }

    /// Returns the header that a part is to have; `None` for one without a header.
    fn header_of(&self, replica: usize, index: usize) -> Option<StoredPmdkHeader> {
        if index >= self.set.header_count(&self.set.replicas[replica]) {
            return None;
        }
        let health = &self.health.replicas[replica];
        let old = (index < health.parts.len()).then(|| health.sound_header(index)).flatten();
        let mut header = old.cloned().unwrap_or_else(|| {
            let mut header = self.header.clone();
            header.clear_all_unused();
            header.clear_shutdown();
            header
                .set_created(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
            header
        });
        let before = header.clone();
        let mut features = header.features();
        features.incompat &= !PmdkFeatures::SINGLE_HEADER;
        if self.set.has_single_header {
            features.incompat |= PmdkFeatures::SINGLE_HEADER;
        }
        header.set_features(features);
        link(&mut header, self.header.uuid(PmdkUuidField::PoolSet), &self.uuids, replica, index);
        if header != before {
            header.store_checksum();
        }
        Some(header)
    }
}
