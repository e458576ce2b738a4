//! The pool of a check: what it holds, and what the repairs change in it.

use super::dialog::Flags;
use super::stops;
use crate::failures::failure;
use lode_capi_entry::Failure;
use lode_layout::{BLOCK, PmdkFeatures, PmdkKind, PmdkUuidField, StoredPmdkHeader};
use lode_pmdk::{PmdkAccess, UncheckedPool};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, Metadata};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The type of a pool, as pmempool_check_init(3) numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolType {
    /// Found by the signature; after that, a signature that is unknown.
    Unknown,
    Log,
    Blocks,
    Objects,
    /// A block translation table without a pool around it.
    Table,
}

impl PoolType {
    /// Returns the type of a number; `None` for one that is none.
    pub(crate) fn of_number(number: u32) -> Option<PoolType> {
        let types = [PoolType::Unknown, PoolType::Log, PoolType::Blocks, PoolType::Objects, PoolType::Table];
        types.get(number as usize).copied()
    }

    fn of(kind: Option<PmdkKind>) -> PoolType {
        match kind {
            None => PoolType::Unknown,
            Some(PmdkKind::Log) => PoolType::Log,
            Some(PmdkKind::Blocks) => PoolType::Blocks,
            Some(PmdkKind::Objects) => PoolType::Objects,
        }
    }

    /// Returns the kind of a pool that PMDK repairs.
    pub(crate) fn repaired_kind(self) -> Option<PmdkKind> {
        match self {
            PoolType::Log => Some(PmdkKind::Log),
            PoolType::Blocks => Some(PmdkKind::Blocks),
            PoolType::Unknown | PoolType::Objects | PoolType::Table => None,
        }
    }

    /// Returns PMDK's word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PoolType::Unknown => "unknown",
            PoolType::Log => "pmemlog",
            PoolType::Blocks => "pmemblk",
            PoolType::Objects => "pmemobj",
            PoolType::Table => "btt",
        }
    }
}

/// The bytes below a check.
#[derive(Debug)]
enum Content {
    /// The parts of a pool of PMDK.
    Parts(UncheckedPool),
    /// A block translation table, in a file or on a block device.
    Table(File),
}

/// New bytes for a place in the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) off: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The pool of a check.
#[derive(Debug)]
pub(crate) struct CheckedPool {
    content: Content,
    stored: Vec<Vec<StoredPmdkHeader>>,
    /// The headers of each replica, with the repairs so far.
    pub(crate) headers: Vec<Vec<StoredPmdkHeader>>,
    /// Parts of all replicas.
    pub(crate) part_count: usize,
    /// The type, as the header says, or as it was found.
    pub(crate) kind: PoolType,
    pub(crate) features: PmdkFeatures,
    /// True for a single file that is a part of a set.
    pub(crate) is_part: bool,
    pub(crate) is_set: bool,
    /// Bytes of the pool.
    pub(crate) size: u64,
    /// The time at which the first part was changed, in seconds since 1970-01-01 UTC.
    pub(crate) modified: i64,
    /// The path of the pool.
    pub(crate) path: PathBuf,
    /// True if some replicas are sound, and others not.
    pub(crate) is_sync_required: bool,
    /// True if the UUID of the pool set is not that of the table.
    pub(crate) has_new_uuid: bool,
    /// Repairs of the content. Those of a group are durable before those of the next one are stored.
    groups: Vec<Vec<Change>>,
}

impl CheckedPool {
    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// EINVAL if it has another type than was declared; those of the pool.
    pub(crate) fn open(path: &Path, declared: PoolType, flags: Flags) -> Result<CheckedPool, Failure> {
        if declared == PoolType::Table {
            return CheckedPool::open_table(path, flags);
        }
        let access = if flags.keeps_repairs() { PmdkAccess::ReadWrite } else { PmdkAccess::CopyOnWrite };
        let parts = crate::pool::open(path, access)?;
        let headers = parts.read_headers().map_err(|error| failure(&error))?;
        let first = parts.set().replicas().first().and_then(|replica| replica.parts().first());
        let first = first.map_or(path, |part| part.path());
        let modified = fs::metadata(first).map_err(|error| Failure::of_call("stat", &error))?.mtime();
        let part_count = parts.set().replicas().iter().map(|replica| replica.parts().len()).sum();
        let mut pool = CheckedPool {
            stored: headers.clone(),
            headers,
            part_count,
            kind: PoolType::Unknown,
            features: PmdkFeatures::NONE,
            is_part: false,
            is_set: parts.set().is_set(),
            size: parts.size(),
            modified,
            path: path.to_owned(),
            is_sync_required: false,
            has_new_uuid: false,
            groups: Vec::new(),
            content: Content::Parts(parts),
        };
        pool.take_header();
        if declared != PoolType::Unknown && declared != pool.kind {
            return Err(Failure::invalid(format!(
                "declared pool type does not match: the pool is of the type {}",
                pool.kind.word()
            )));
        }
        Ok(pool)
    }

    fn open_table(path: &Path, flags: Flags) -> Result<CheckedPool, Failure> {
        let words = format!("open \"{}\"", path.display());
        let refused = |error| Failure::of_call(&words, &error);
        let kind = fs::metadata(path).map_err(refused)?.file_type();
        if !kind.is_file() && !std::os::unix::fs::FileTypeExt::is_block_device(&kind) {
            return Err(Failure::invalid(format!(
                "{words}: it is neither a file nor a block device; name one of them"
            )));
        }
        let mut file = File::options().read(true).write(flags.keeps_repairs()).open(path).map_err(refused)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| refused(errno.into()))?;
        let size = file.seek(SeekFrom::End(0)).map_err(refused)?;
        let modified = file.metadata().map_err(refused)?.mtime();
        Ok(CheckedPool {
            stored: Vec::new(),
            headers: Vec::new(),
            part_count: 1,
            kind: PoolType::Table,
            features: PmdkFeatures::NONE,
            is_part: false,
            is_set: false,
            size,
            modified,
            path: path.to_owned(),
            is_sync_required: false,
            has_new_uuid: false,
            groups: Vec::new(),
            content: Content::Table(file),
        })
    }

    /// Takes type and features from the first header.
    pub(crate) fn take_header(&mut self) {
        let Some(header) = self.headers.first().and_then(|headers| headers.first()) else { return };
        let links = [PmdkUuidField::NextPart, PmdkUuidField::PrevPart];
        let is_alone = links.iter().all(|link| header.uuid(*link) == header.uuid(PmdkUuidField::Part));
        self.is_part = !self.is_set && !is_alone;
        self.kind = PoolType::of(header.kind());
        self.features = header.features();
    }

    /// Returns true if the header names a library of PMDK.
    pub(crate) fn has_kind(&self) -> bool {
        !matches!(self.kind, PoolType::Unknown | PoolType::Table)
    }

    /// Returns the parts; `None` for a table alone.
    pub(crate) fn parts(&self) -> Option<&UncheckedPool> {
        match &self.content {
            Content::Parts(parts) => Some(parts),
            Content::Table(_) => None,
        }
    }

    /// Reads bytes as they are stored. Returns false if the pool does not have so many, or if they are lost.
    pub(crate) fn read(&self, off: u64, bytes: &mut [u8]) -> bool {
        let end = off.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return false;
        }
        match &self.content {
            Content::Parts(parts) => parts.read(off, bytes).is_ok(),
            Content::Table(file) => file.read_exact_at(bytes, off).is_ok(),
        }
    }

    /// Returns true if `other` describes the file of the pool, or a part of it.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub(crate) fn has_file(&self, other: &Metadata) -> Result<bool, Failure> {
        match &self.content {
            Content::Parts(parts) => parts.has_file(other).map_err(|error| failure(&error)),
            Content::Table(file) => {
                let metadata = file.metadata().map_err(|error| Failure::of_call("fstat", &error))?;
                Ok((metadata.dev(), metadata.ino()) == (other.dev(), other.ino()))
            }
        }
    }

    /// Reads a page as it is stored.
    pub(crate) fn read_page(&self, off: u64) -> Option<[u8; BLOCK as usize]> {
        let mut page = [0; BLOCK as usize];
        self.read(off, &mut page).then_some(page)
    }

    /// Adds repairs of the content, to be stored after those that were added before.
    pub(crate) fn add_changes(&mut self, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.groups.push(changes);
        }
    }

    /// Drops the repairs of the content: the check did not come to its end.
    pub(crate) fn drop_changes(&mut self) {
        self.groups.clear();
    }

    /// Writes all repairs: the content, then the headers, the first one last.
    ///
    /// # Durability
    /// Durable on return. A crash before that leaves damage that the same check repairs.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        for group in &self.groups {
            self.write_group(&stops::kept(group)?)?;
        }
        let Content::Parts(parts) = &self.content else { return Ok(()) };
        for (replica, headers) in self.headers.iter().enumerate().rev() {
            for (part, header) in headers.iter().enumerate().rev() {
                if *header != self.stored[replica][part] {
                    stops::kept(&[()])?;
                    parts.write_header(replica, part, header).map_err(|error| failure(&error))?;
                }
            }
        }
        Ok(())
    }

    fn write_group(&self, group: &[Change]) -> Result<(), Failure> {
        match &self.content {
            Content::Parts(parts) => {
                let written = group.iter().try_for_each(|Change { off, bytes }| parts.write(*off, bytes));
                // ORDER: this group before the next one, and the content before the headers. Stop here: the pool is damaged as
                // before, but for the repairs that were written.
                written.and_then(|()| parts.persist()).map_err(|error| failure(&error))
            }
            Content::Table(file) => {
                let words = format!("write \"{}\"", self.path.display());
                let written =
                    group.iter().try_for_each(|Change { off, bytes }| file.write_all_at(bytes, *off));
                // ORDER: as above.
                written.and_then(|()| file.sync_data()).map_err(|error| Failure::of_call(&words, &error))
            }
        }
    }
}
