//! A part of a new pool before it is one.

use crate::error::PmdkError;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::Part;
use crate::stops;
use lode_layout::{PmdkPartHeader, PoolOffset};
use lode_pmem::{NewFile, allocate};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::fs::{fchmod, fstat, fsync, linkat, openat, renameat_with};
use rustix::io::{Errno, retry_on_intr};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// The word after the name of a part in the name of its hidden file; the UUID of the pool follows.
const MARK: &str = ".lode-";
/// Bytes of a signature.
const SIGNATURE_LEN: usize = 8;

/// A part that is being made: content and header are written, and no program takes it for a part of a pool.
#[derive(Debug)]
pub(crate) struct StagedPart {
    lock: Arc<LockedPart>,
    path: PathBuf,
    place: Place,
    /// True once the part must not be taken back.
    is_committed: bool,
}

/// The way in which a part becomes one.
#[derive(Debug)]
enum Place {
    /// A file without a name, which it gets.
    Unnamed(NewFile),
    /// A file with this hidden name, which is renamed.
    Hidden(PathBuf),
    /// A file or node that was there, with zeros at its start: its signature is stored last. True once its header is written.
    There { is_written: bool },
    /// A part.
    Published,
}

impl StagedPart {
    /// Makes a file without a name, for a pool of one file.
    pub(crate) fn unnamed(part: &Part, mode: Option<u32>) -> Result<StagedPart, PmdkError> {
        let new = NewFile::create(&part.path)?;
        let file = new.file().try_clone().map_err(PmdkError::io("dup", &part.path))?;
        StagedPart::fill(file, part, mode, Place::Unnamed(new))
    }

    /// Makes a file with a hidden name beside its later one, which tells the pool.
    pub(crate) fn hidden(part: &Part, pool: Uuid, mode: Option<u32>) -> Result<StagedPart, PmdkError> {
        let hidden = hidden_path(&part.path, pool);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(CWD, &hidden, flags, Mode::from_raw_mode(0o666));
        let file = File::from(file.map_err(PmdkError::errno("create", &part.path))?);
        stops::name_made(&hidden);
        StagedPart::fill(file, part, mode, Place::Hidden(hidden))
    }

    fn fill(file: File, part: &Part, mode: Option<u32>, place: Place) -> Result<StagedPart, PmdkError> {
        let path = part.path.clone();
        // Locked before it has its name: no other process can lock it first.
        let lock = Arc::new(LockedPart::lock(file, &path, PmdkAccess::ReadWrite)?);
        let staged = StagedPart { lock, path, place, is_committed: false };
        let file = staged.lock.file();
        allocate(file, 0, part.size).map_err(PmdkError::io("fallocate", &part.path))?;
        if let Some(mode) = mode {
            fchmod(file, Mode::from_raw_mode(mode)).map_err(PmdkError::errno("chmod", &part.path))?;
        }
        Ok(staged)
    }

    /// Takes a file or node that is there, whose start is zeros or what an interrupted creation left.
    pub(crate) fn there(lock: LockedPart, part: &Part) -> Result<StagedPart, PmdkError> {
        let path = part.path.clone();
        if part.device_align.is_none() {
            let len = lock.file().metadata().map_err(PmdkError::io("fstat", &path))?.len();
            if len != part.size {
                return Err(PmdkError::PartSize { path, want: part.size, found: len });
            }
            allocate(lock.file(), 0, len).map_err(PmdkError::io("fallocate", &path))?;
        }
        let place = Place::There { is_written: false };
        Ok(StagedPart { lock: Arc::new(lock), path, place, is_committed: false })
    }

    pub(crate) fn lock(&self) -> &Arc<LockedPart> {
        &self.lock
    }

    /// Returns true if all bytes of the part are known to be zeros.
    pub(crate) fn is_new(&self) -> bool {
        !matches!(self.place, Place::There { .. })
    }

    /// Writes the header, without its signature where the file has its name already.
    pub(crate) fn write_header(&mut self, header: &PmdkPartHeader) -> Result<(), PmdkError> {
        stops::step()?;
        let mut bytes = header.encode();
        if let Place::There { is_written } = &mut self.place {
            *is_written = true;
            bytes[..SIGNATURE_LEN].fill(0);
        }
        self.lock.write_header(PoolOffset::NULL.get(), &bytes)
    }

    /// Makes size, space and content of a file durable, as far as they are in the page cache.
    pub(crate) fn persist_file(&self) -> Result<(), PmdkError> {
        let stat = fstat(self.lock.file()).map_err(PmdkError::errno("fstat", &self.path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        retry_on_intr(|| fsync(self.lock.file().as_fd())).map_err(PmdkError::errno("fsync", &self.path))
    }

    /// Keeps the part: from here on the pool exists, and an interrupted creation is completed.
    pub(crate) fn commit(&mut self) {
        self.is_committed = true;
    }

    /// Makes the part one of the pool.
    pub(crate) fn publish(&mut self, header: Option<&PmdkPartHeader>) -> Result<(), PmdkError> {
        stops::step()?;
        match std::mem::replace(&mut self.place, Place::Published) {
            Place::Unnamed(new) => Ok(new.publish()?),
            Place::Hidden(hidden) => {
                let renamed = rename(&hidden, &self.path);
                if renamed.is_err() {
                    self.place = Place::Hidden(hidden);
                }
                renamed
            }
            Place::There { is_written } => {
                let signed = header.map_or(Ok(()), |header| sign(&self.lock, header));
                if signed.is_err() {
                    self.place = Place::There { is_written };
                }
                signed
            }
            Place::Published => Ok(()),
        }
    }
}

impl Drop for StagedPart {
    /// Takes back what was made, unless the pool exists. A failure leaves what a kill leaves.
    fn drop(&mut self) {
        if self.is_committed || stops::is_stopped() {
            return;
        }
        match &self.place {
            Place::Hidden(hidden) => {
                let _ = fs::remove_file(hidden);
            }
            Place::There { is_written: true } => {
                let _ = self.lock.write_header(0, &[0; PmdkPartHeader::LEN]);
            }
            _ => {}
        }
    }
}

/// Stores the signature of a header that lacks it.
fn sign(lock: &LockedPart, header: &PmdkPartHeader) -> Result<(), PmdkError> {
    lock.write_header(0, &header.kind.signature())
}

/// Gives a hidden file its name, unless another file has it.
fn rename(hidden: &Path, path: &Path) -> Result<(), PmdkError> {
    let renamed = match renameat_with(CWD, hidden, CWD, path, RenameFlags::NOREPLACE) {
        // A file system that can't rename without replacing: it gets both names, and loses the hidden one.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(CWD, hidden, CWD, path, AtFlags::empty()).and_then(|()| rustix::fs::unlink(hidden))
        }
        renamed => renamed,
    };
    stops::name_changed(hidden, path);
    renamed.map_err(|errno| match errno {
        Errno::EXIST => PmdkError::Exists { path: path.to_owned() },
        errno => PmdkError::errno("rename", path)(errno),
    })
}

/// Completes a part of a pool whose creation was interrupted after its first part was one. Returns false if nothing of it
/// is there.
pub(crate) fn complete(part: &Part, header: &PmdkPartHeader) -> Result<bool, PmdkError> {
    let hidden = hidden_path(&part.path, header.poolset_uuid);
    if part.path.symlink_metadata().is_err() {
        if hidden.symlink_metadata().is_err() {
            return Ok(false);
        }
        stops::step()?;
        rename(&hidden, &part.path)?;
        return Ok(true);
    }
    let lock = LockedPart::open(&part.path, PmdkAccess::ReadWrite)?;
    let mut bytes = lock.read_header()?;
    if bytes[..SIGNATURE_LEN] != [0; SIGNATURE_LEN] {
        return Ok(true);
    }
    bytes[..SIGNATURE_LEN].copy_from_slice(&header.kind.signature());
    match PmdkPartHeader::decode(&bytes) {
        Ok(found) if found.poolset_uuid == header.poolset_uuid => {
            stops::step()?;
            sign(&lock, &found)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Removes the hidden files that interrupted creations of the part have left. The caller has the lock on the set file,
/// so no creation is under way.
pub(crate) fn remove_hidden(part: &Part) -> Result<(), PmdkError> {
    let (Some(parent), Some(name)) = (parent(&part.path), part.path.file_name()) else { return Ok(()) };
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(MARK);
    let Ok(entries) = fs::read_dir(parent) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        if rest.is_some_and(|rest| Uuid::try_parse_ascii(rest).is_ok()) {
            fs::remove_file(entry.path()).map_err(PmdkError::io("unlink", &entry.path()))?;
        }
    }
    Ok(())
}

/// Makes the names in the folders of these files durable.
pub(crate) fn persist_names<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), PmdkError> {
    let folders: BTreeSet<&Path> = paths.filter_map(parent).collect();
    for folder in folders {
        let file = File::open(folder).map_err(PmdkError::io("open the directory", folder))?;
        retry_on_intr(|| fsync(&file)).map_err(PmdkError::errno("fsync directory", folder))?;
        stops::names_persisted(folder);
    }
    Ok(())
}

fn parent(path: &Path) -> Option<&Path> {
    path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// Returns the name that a part has before it is one.
fn hidden_path(path: &Path, pool: Uuid) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!("{MARK}{pool}"));
    path.with_file_name(name)
}
