//! An open part, with the lock that PMDK takes.

use crate::error::PmdkError;
use crate::file_kind::FileKind;
use crate::pool_set::Part;
use crate::set_size::PART_SIZE_MIN;
use lode_layout::PmdkPartHeader;
use lode_pmem::{ByAddress, LockHolder, allocate};
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

/// The operations that a handle allows on a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkAccess {
    /// Changing it. Excludes every other handle.
    ReadWrite,
    /// Changing a view of this process, of which no store reaches the files. Excludes every other handle, as PMDK's
    /// copy_on_write.at_open does.
    CopyOnWrite,
    /// Reading it, through a private view. Excludes writers.
    ReadOnly,
}

/// A file or device-DAX node, with flock(2) on its description: the lock of PMDK, so that its programs and ours exclude
/// each other. A mapping of the file keeps the description, and with it the lock.
#[derive(Debug)]
pub(crate) struct LockedPart {
    path: PathBuf,
    file: Arc<File>,
    /// The process that unlocks it at the end; `None` if its mapping does.
    unlocked_by: Option<u32>,
    /// Set for a part of a program of PMDK, in which no signal handler is installed; its instructions.
    program: Option<ByAddress>,
}

impl LockedPart {
    /// Opens and locks a part.
    pub(crate) fn open(
        path: &Path,
        access: PmdkAccess,
        program: Option<ByAddress>,
    ) -> Result<LockedPart, PmdkError> {
        // As with PMDK, a private view is of a file that could be written.
        let file = open(path, access != PmdkAccess::ReadOnly)?;
        LockedPart::lock(file, path, access, program)
    }

    /// Opens and locks the file that names a pool, which is only read, and which no other handle may use meanwhile. `None` for a folder
    /// or a device-DAX node, which is looked at before it is opened.
    pub(crate) fn look(path: &Path, access: PmdkAccess) -> Result<Option<LockedPart>, PmdkError> {
        match FileKind::find(path)? {
            FileKind::File | FileKind::Absent => {
                LockedPart::lock(open(path, false)?, path, access, None).map(Some)
            }
            FileKind::Directory | FileKind::Device => Ok(None),
        }
    }

    /// Opens and locks a part of a set, and compares its size. For a new pool the space of a file is allocated.
    pub(crate) fn of_set(
        part: &Part,
        access: PmdkAccess,
        program: Option<ByAddress>,
        is_new: bool,
    ) -> Result<LockedPart, PmdkError> {
        let lock = LockedPart::open(&part.path, access, program)?;
        lock.check_size(part, is_new)?;
        Ok(lock)
    }

    fn check_size(&self, part: &Part, is_new: bool) -> Result<(), PmdkError> {
        let found = match part.device_align {
            Some(_) => part.size,
            None => self.file.metadata().map_err(PmdkError::io("stat", &self.path))?.len(),
        };
        let path = || self.path.clone();
        if found < PART_SIZE_MIN {
            return Err(PmdkError::PartTooSmall { path: path(), found, min: PART_SIZE_MIN });
        }
        if is_new && part.device_align.is_none() {
            allocate(&self.file, 0, found).map_err(PmdkError::allocate(&self.path, found))?;
        }
        if found != part.size {
            return Err(PmdkError::PartSize { path: path(), want: part.size, found });
        }
        Ok(())
    }

    /// Locks an open file. Does not wait.
    pub(crate) fn lock(
        file: File,
        path: &Path,
        access: PmdkAccess,
        program: Option<ByAddress>,
    ) -> Result<LockedPart, PmdkError> {
        let operation = match access {
            PmdkAccess::ReadOnly => FlockOperation::NonBlockingLockShared,
            PmdkAccess::ReadWrite | PmdkAccess::CopyOnWrite => FlockOperation::NonBlockingLockExclusive,
        };
        let path = path.to_owned();
        match flock(&file, operation) {
            Ok(()) => {
                let (file, unlocked_by) = (Arc::new(file), Some(process::id()));
                Ok(LockedPart { path, file, unlocked_by, program })
            }
            Err(Errno::WOULDBLOCK) => {
                let holder = fstat(&file).ok().and_then(|stat| LockHolder::find(stat.st_dev, stat.st_ino));
                Err(PmdkError::InUse { path, holder })
            }
            Err(errno) => Err(PmdkError::errno("flock", &path)(errno)),
        }
    }

    /// Closes the file, and leaves the lock to a mapping of it.
    pub(crate) fn leave_lock(mut self) {
        self.unlocked_by = None;
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn program(&self) -> Option<ByAddress> {
        self.program
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the same handle, for a mapping.
    pub(crate) fn shared_file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Returns another handle of the same description, for a mapping.
    pub(crate) fn duplicate(&self) -> Result<File, PmdkError> {
        self.file.try_clone().map_err(PmdkError::io("dup", &self.path))
    }

    /// Reads the first 4096 bytes, as far as there are so many.
    pub(crate) fn read_header(&self) -> Result<[u8; PmdkPartHeader::LEN], PmdkError> {
        let mut bytes = [0; PmdkPartHeader::LEN];
        if self.is_node()? {
            self.read_node(0, &mut bytes)?;
        } else {
            read_what_is_there(&self.file, &self.path, 0, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Writes bytes into the header, durably.
    pub(crate) fn write_header(&self, at: u64, bytes: &[u8]) -> Result<(), PmdkError> {
        self.write_content(at, bytes)?;
        // ORDER: the bytes before the caller's next step. Stop here: the header is as before, or has any of them.
        self.persist_content()
    }
}

/// Reads bytes of a file at an offset, as far as there are so many.
pub(crate) fn read_what_is_there(
    file: &File,
    path: &Path,
    at: u64,
    bytes: &mut [u8],
) -> Result<(), PmdkError> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64).map_err(PmdkError::io("read", path))? {
            0 => break,
            count => done += count,
        }
    }
    Ok(())
}

/// Opens a file or device-DAX node. Looked at before it is opened: the open of a pipe waits.
fn open(path: &Path, is_written: bool) -> Result<File, PmdkError> {
    if FileKind::find(path)? == FileKind::Directory {
        return Err(PmdkError::Folder { path: path.to_owned() });
    }
    File::options().read(true).write(is_written).open(path).map_err(PmdkError::io("open", path))
}

impl Drop for LockedPart {
    /// Unlocks. Closing the file alone may not unlock at once: a process that another thread is just starting has
    /// descriptors of all our files until it runs its own program. The child of a fork unlocks nothing.
    fn drop(&mut self) {
        if self.unlocked_by == Some(process::id()) {
            // If this fails, closing the file unlocks it.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}
