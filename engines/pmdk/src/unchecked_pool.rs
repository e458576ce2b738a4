//! A pool whose headers were not judged: for programs that check, repair or change them.

use crate::bad_blocks;
use crate::error::{PmdkError, SetError};
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::PoolSet;
use crate::replica_content::ranges;
use crate::shutdown_state;
use lode_layout::{PmdkPartHeader, PmdkShutdownRecord, StoredPmdkHeader};
use lode_pmem::{ByAddress, Sysfs};
use rustix::io::Errno;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The parts of a pool, locked, whatever their headers hold. Files are not mapped: no signal tells of lost memory.
///
/// With [`PmdkAccess::CopyOnWrite`] nothing is written, and other handles are excluded all the same.
#[derive(Debug)]
pub struct UncheckedPool {
    locks: Vec<Vec<Arc<LockedPart>>>,
    set: PoolSet,
    size: u64,
    sysfs: Sysfs,
}

impl UncheckedPool {
    /// Locks the parts of the pool of a set file, or of a single file or device-DAX node, at `path`. `program` has the instructions of
    /// a program of PMDK: no signal handler is installed for a device-DAX node then.
    ///
    /// # Errors
    /// [`PmdkError`]: the set file, a part that is missing, has another size, or is in use. Never because of a header.
    ///
    /// # Cost
    /// Some system calls for each part.
    pub fn open(
        path: &Path,
        access: PmdkAccess,
        program: Option<ByAddress>,
        sysfs: &Sysfs,
    ) -> Result<UncheckedPool, PmdkError> {
        let set = PoolSet::read(path, sysfs)?;
        let locks = lock_parts(&set, access, program)?;
        let size = set.net_size()?;
        Ok(UncheckedPool { locks, set, size, sysfs: sysfs.clone() })
    }

    /// Returns the set file's content.
    pub fn set(&self) -> &PoolSet {
        &self.set
    }

    /// Returns the bytes of the pool: those of its smallest replica.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads bytes of the master, whose parts lie back to back behind the first header.
    ///
    /// # Errors
    /// [`PmdkError::Io`], also past the end of the pool; [`PmdkError::Memory`].
    pub fn read(&self, off: u64, bytes: &mut [u8]) -> Result<(), PmdkError> {
        let mut left = bytes;
        for (part, at, len) in self.pieces(off, left.len() as u64)? {
            let (bytes, rest) = left.split_at_mut(len as usize);
            part.read_content(at, bytes)?;
            left = rest;
        }
        Ok(())
    }

    /// Reads bytes of a part of the master, its header included.
    ///
    /// # Errors
    /// As [`read`](UncheckedPool::read).
    ///
    /// # Panics
    /// If there is no such part.
    pub fn read_part(&self, part: usize, at: u64, bytes: &mut [u8]) -> Result<(), PmdkError> {
        self.locks[0][part].read_content(at, bytes)
    }

    /// Returns true if a part of any replica is the file that `other` describes.
    ///
    /// # Errors
    /// [`PmdkError::Io`].
    pub fn has_file(&self, other: &Metadata) -> Result<bool, PmdkError> {
        for part in self.locks.iter().flatten() {
            let metadata = part.file().metadata().map_err(PmdkError::io("fstat", part.path()))?;
            if (metadata.dev(), metadata.ino()) == (other.dev(), other.ino()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes bytes of the master. Replicas keep what they have.
    ///
    /// # Errors
    /// As [`read`](UncheckedPool::read).
    ///
    /// # Durability
    /// After the next [`persist`](UncheckedPool::persist). A crash before that leaves any of the bytes.
    pub fn write(&self, off: u64, bytes: &[u8]) -> Result<(), PmdkError> {
        let mut left = bytes;
        for (part, at, len) in self.pieces(off, left.len() as u64)? {
            let (bytes, rest) = left.split_at(len as usize);
            part.write_content(at, bytes)?;
            left = rest;
        }
        Ok(())
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// [`PmdkError::Io`].
    ///
    /// # Durability
    /// On return.
    pub fn persist(&self) -> Result<(), PmdkError> {
        self.locks.iter().flatten().try_for_each(|part| part.persist_content())
    }

    /// Returns the pieces of a range of the master: part, offset in it, and bytes.
    fn pieces(&self, off: u64, len: u64) -> Result<Vec<(&LockedPart, u64, u64)>, PmdkError> {
        let outside =
            PmdkError::Io { op: "read", path: self.set.path.clone(), errno: Errno::INVAL.raw_os_error() };
        let end = off.checked_add(len).filter(|end| *end <= self.size).ok_or(outside)?;
        let mut pieces = Vec::new();
        if let (Some(master), Some(locks)) = (self.set.replicas.first(), self.locks.first()) {
            for (place, lock) in ranges(&self.set, master).iter().zip(locks) {
                let (from, to) = (off.max(place.range.start), end.min(place.range.end));
                if from < to {
                    pieces.push((&**lock, place.at(from), to - from));
                }
            }
        }
        Ok(pieces)
    }

    /// Returns the number of headers of each replica, the master first.
    pub fn header_counts(&self) -> Vec<usize> {
        self.set.replicas.iter().map(|replica| self.set.header_count(replica)).collect()
    }

    /// Reads the headers of each replica, in their order.
    ///
    /// # Errors
    /// [`PmdkError::Io`], [`PmdkError::Memory`].
    pub fn read_headers(&self) -> Result<Vec<Vec<StoredPmdkHeader>>, PmdkError> {
        read_headers(&self.set, &self.locks)
    }

    /// Writes the header of a part.
    ///
    /// # Errors
    /// [`PmdkError::Io`], [`PmdkError::Drain`], [`PmdkError::Memory`]. The header may have any of the bytes then.
    ///
    /// # Durability
    /// Durable on return. A process that is killed leaves the old header or the new one. A power cut may leave a part of the new
    /// one's lines.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn write_header(
        &self,
        replica: usize,
        part: usize,
        header: &StoredPmdkHeader,
    ) -> Result<(), PmdkError> {
        self.locks[replica][part].write_header(0, header.bytes())
    }

    /// Returns true unless the modules under a replica lost stores while the pool was open. `stored` is the state in its header.
    ///
    /// # Errors
    /// [`PmdkError::Io`].
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn is_shutdown_sound(&self, replica: usize, stored: PmdkShutdownRecord) -> Result<bool, PmdkError> {
        let current = shutdown_state::current(&self.locks[replica], &self.sysfs)?;
        Ok(shutdown_state::is_sound(current, stored))
    }

    /// Refuses a pool of which a part has lost ranges.
    ///
    /// # Errors
    /// [`PmdkError::BadBlocks`], [`PmdkError::Io`].
    pub fn check_bad_blocks(&self) -> Result<(), PmdkError> {
        let check = |part| bad_blocks::check(part, Some(self.set.path()), &self.sysfs);
        self.locks.iter().flatten().try_for_each(|part| check(part))
    }

    pub(crate) fn locks(&self) -> &[Vec<Arc<LockedPart>>] {
        &self.locks
    }
}

/// Reads the headers of each replica.
pub(crate) fn read_headers(
    set: &PoolSet,
    locks: &[Vec<Arc<LockedPart>>],
) -> Result<Vec<Vec<StoredPmdkHeader>>, PmdkError> {
    let of_replica = |(replica, locks): (_, &Vec<Arc<LockedPart>>)| {
        let locks = locks.iter().take(set.header_count(replica));
        locks.map(|lock| lock.read_header().map(StoredPmdkHeader::new)).collect()
    };
    set.replicas.iter().zip(locks).map(of_replica).collect()
}

fn lock_parts(
    set: &PoolSet,
    access: PmdkAccess,
    program: Option<ByAddress>,
) -> Result<Vec<Vec<Arc<LockedPart>>>, PmdkError> {
    let mut locks = Vec::new();
    for replica in &set.replicas {
        if replica.parts.is_empty() {
            return Err(PmdkError::set(&set.path)(SetError::Empty(set.path.clone())));
        }
        let mut of_replica = Vec::new();
        for part in &replica.parts {
            let lock = LockedPart::open(&part.path, access, program)?;
            let metadata = lock.file().metadata().map_err(PmdkError::io("fstat", &part.path))?;
            if part.device_align.is_none() && metadata.len() != part.size {
                let (path, want, found) = (part.path.clone(), part.size, metadata.len());
                return Err(PmdkError::PartSize { path, want, found });
            }
            if part.size < PmdkPartHeader::LEN as u64 {
                let (path, found) = (part.path.clone(), part.size);
                return Err(PmdkError::PartTooSmall { path, found, min: PmdkPartHeader::LEN as u64 });
            }
            of_replica.push(Arc::new(lock));
        }
        locks.push(of_replica);
    }
    Ok(locks)
}
