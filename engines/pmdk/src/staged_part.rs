//! A part of a new pool before it is one.

use crate::error::PmdkError;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::Part;
use crate::set_size::PART_SIZE_MIN;
use crate::stops;
use lode_layout::{PmdkPartHeader, PoolOffset, fletcher64};
use lode_pmem::{ByAddress, NewFile, PmemError, allocate};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::fs::{fchmod, fstat, fsync, linkat, openat, renameat_with};
use rustix::io::{Errno, retry_on_intr};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// The word after the name of a part in the name of its hidden file; the UUID of the pool follows.
const MARK: &str = ".lode-";
/// Bytes of a signature.
const SIGNATURE_LEN: usize = 8;
/// Bytes of a name that a hidden name holds whole: with a dot, the mark and a UUID it has no more than Linux allows.
const NAME_LEN_MAX: usize = 255 - 1 - MARK.len() - 36;

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
    /// A part, and the hidden name that it had.
    Published { was: Option<PathBuf> },
}

impl StagedPart {
    /// Makes a file without a name, for a pool of one file.
    pub(crate) fn unnamed(
        part: &Part,
        mode: Option<u32>,
        program: Option<ByAddress>,
    ) -> Result<StagedPart, PmdkError> {
        check_new_size(part)?;
        let new = NewFile::create(&part.path).map_err(|error| of_new(&part.path, &error))?;
        let file = new.file().try_clone().map_err(PmdkError::io("dup", &part.path))?;
        StagedPart::fill(file, part, mode, program, Place::Unnamed(new))
    }

    /// Makes a file with a hidden name beside its later one, which tells the pool.
    pub(crate) fn hidden(
        part: &Part,
        pool: Uuid,
        mode: Option<u32>,
        program: Option<ByAddress>,
    ) -> Result<StagedPart, PmdkError> {
        check_new_size(part)?;
        let refused = PmdkError::errno("open", &part.path);
        let name = part.path.file_name().unwrap_or_default();
        if name.is_empty() || !part.path.as_os_str().as_encoded_bytes().ends_with(name.as_encoded_bytes()) {
            // With a final slash or dot: a name of a folder, which no rename gives to a file.
            return Err(refused(Errno::ISDIR));
        }
        if part.path.symlink_metadata().is_ok() {
            // A link to nothing, whose place no new file takes.
            return Err(refused(Errno::EXIST));
        }
        StagedPart::at(hidden_path(&part.path, pool), part, mode, program)
    }

    /// Makes a file that takes the place of a part, if there is one. Its hidden name tells that no creation has made it.
    pub(crate) fn replacing(
        part: &Part,
        pool: Uuid,
        mode: Option<u32>,
        program: Option<ByAddress>,
    ) -> Result<StagedPart, PmdkError> {
        check_new_size(part)?;
        StagedPart::at(replacing_path(&part.path, pool), part, mode, program)
    }

    fn at(
        hidden: PathBuf,
        part: &Part,
        mode: Option<u32>,
        program: Option<ByAddress>,
    ) -> Result<StagedPart, PmdkError> {
        let refused = PmdkError::errno("open", &part.path);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // A narrow mode at first: another user that opens the file keeps it.
        let narrow = mode.map_or(0o666, |mode| mode & 0o600);
        let file = File::from(openat(CWD, &hidden, flags, Mode::from_raw_mode(narrow)).map_err(refused)?);
        stops::name_made(&hidden);
        let staged = StagedPart::fill(file, part, mode, program, Place::Hidden(hidden.clone()));
        staged.inspect_err(|_| drop(fs::remove_file(&hidden)))
    }

    fn fill(
        file: File,
        part: &Part,
        mode: Option<u32>,
        program: Option<ByAddress>,
        place: Place,
    ) -> Result<StagedPart, PmdkError> {
        let path = part.path.clone();
        // Locked before it has its name: no other process can lock it first.
        let lock = Arc::new(LockedPart::lock(file, &path, PmdkAccess::ReadWrite, program)?);
        let staged = StagedPart { lock, path, place, is_committed: false };
        let file = staged.lock.file();
        let links = fstat(file).map_err(PmdkError::errno("stat", &part.path))?.st_nlink;
        if links == 0 && matches!(staged.place, Place::Hidden(_)) {
            // Another creation of the part took it for a leftover before it was locked.
            return Err(PmdkError::InUse { path: part.path.clone(), holder: None });
        }
        allocate(file, 0, part.size).map_err(PmdkError::allocate(&part.path, part.size))?;
        if let Some(mode) = mode {
            let mode = Mode::from_bits_truncate(mode);
            fchmod(file, mode).map_err(PmdkError::errno("chmod", &part.path))?;
        }
        Ok(staged)
    }

    /// Takes a file or node that is there. [`check_free`](StagedPart::check_free) has to follow before anything is stored.
    pub(crate) fn there(part: &Part, program: Option<ByAddress>) -> Result<StagedPart, PmdkError> {
        let lock = LockedPart::of_set(part, PmdkAccess::ReadWrite, program, true)?;
        let (path, place) = (part.path.clone(), Place::There { is_written: false });
        Ok(StagedPart { lock: Arc::new(lock), path, place, is_committed: false })
    }

    /// Refuses a part that is there, unless its start is zeros or what an interrupted creation left. The lock is kept: no other
    /// creation has made a pool of it since it was looked at.
    pub(crate) fn check_free(&self) -> Result<(), PmdkError> {
        if self.is_new() || is_free(&self.lock.read_header()?) {
            return Ok(());
        }
        Err(PmdkError::NotEmpty { path: self.path.clone() })
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
        let bytes = header.encode();
        if let Place::There { is_written } = &mut self.place {
            *is_written = true;
            // ORDER: the mark of a creation before the rest of the header. Stop here: the mark, by which any part of a
            // header is known for one of ours.
            self.lock.write_header(0, &PmdkPartHeader::UNSIGNED)?;
            stops::step()?;
            return self.lock.write_header(SIGNATURE_LEN as u64, &bytes[SIGNATURE_LEN..]);
        }
        self.lock.write_header(PoolOffset::NULL.get(), &bytes)
    }

    /// Makes size, space and content of a file durable, as far as they are in the page cache.
    pub(crate) fn persist_file(&self) -> Result<(), PmdkError> {
        let stat = fstat(self.lock.file()).map_err(PmdkError::errno("stat", &self.path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        retry_on_intr(|| fsync(self.lock.file().as_fd())).map_err(PmdkError::errno("fsync", &self.path))?;
        stops::content_persisted(self.lock.file());
        Ok(())
    }

    /// Keeps the part, or no longer: while the pool exists, an interrupted creation is completed.
    pub(crate) fn commit(&mut self, is_committed: bool) {
        self.is_committed = is_committed;
    }

    /// Returns true if the part may be one of the pool: also if its signature was written and not synced.
    pub(crate) fn is_published(&self) -> bool {
        matches!(self.place, Place::Published { .. })
    }

    /// Makes the part one of the pool.
    pub(crate) fn publish(&mut self, header: Option<&PmdkPartHeader>) -> Result<(), PmdkError> {
        stops::step()?;
        match std::mem::replace(&mut self.place, Place::Published { was: None }) {
            Place::Unnamed(new) => new.publish().map_err(|error| of_new(&self.path, &error)),
            Place::Hidden(hidden) => {
                let renamed = rename(&hidden, &self.path);
                self.place = match renamed {
                    Ok(()) => Place::Published { was: Some(hidden) },
                    Err(_) => Place::Hidden(hidden),
                };
                renamed
            }
            // Counts as published if the sync fails: the signature may be on the medium.
            Place::There { .. } => header.map_or(Ok(()), |header| sign(&self.lock, header)),
            published @ Place::Published { .. } => {
                self.place = published;
                Ok(())
            }
        }
    }

    /// Makes the part what it was before [`publish`](StagedPart::publish).
    pub(crate) fn take_back(&mut self, has_header: bool) -> Result<(), PmdkError> {
        let Place::Published { was } = &mut self.place else { return Ok(()) };
        self.place = match was.take() {
            Some(hidden) => {
                rename(&self.path, &hidden).inspect_err(|_| *was = Some(hidden.clone()))?;
                Place::Hidden(hidden)
            }
            None => {
                if has_header {
                    self.lock.write_header(0, &PmdkPartHeader::UNSIGNED)?;
                }
                Place::There { is_written: has_header }
            }
        };
        Ok(())
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
                // ORDER: the mark of a creation last. Stop here: the mark, as long as anything else is there.
                let rest = [0; PmdkPartHeader::LEN - SIGNATURE_LEN];
                let cleared = self.lock.write_header(SIGNATURE_LEN as u64, &rest);
                let _ = cleared.and_then(|()| self.lock.write_header(0, &[0; SIGNATURE_LEN]));
            }
            _ => {}
        }
    }
}

/// Checks the size of a part that is to be made.
fn check_new_size(part: &Part) -> Result<(), PmdkError> {
    let (path, found) = (part.path.clone(), part.size);
    if found < PART_SIZE_MIN {
        return Err(PmdkError::PartTooSmall { path, found, min: PART_SIZE_MIN });
    }
    if i64::try_from(found).is_err() {
        return Err(PmdkError::InvalidSize { path, size: found });
    }
    Ok(())
}

/// Returns the error of a new file.
fn of_new(path: &Path, error: &PmemError) -> PmdkError {
    let errno = match error {
        PmemError::Io { errno, .. } => *errno,
        // The path does not end with a name.
        _ => Errno::NOENT.raw_os_error(),
    };
    PmdkError::Io { op: "open", path: path.to_owned(), errno }
}

/// Returns true if a part that begins with these bytes may become one of a new pool.
pub(crate) fn is_free(header: &[u8; PmdkPartHeader::LEN]) -> bool {
    header.iter().all(|byte| *byte == 0) || PmdkPartHeader::is_unsigned(header)
}

/// Stores the signature of a header that lacks it.
fn sign(lock: &LockedPart, header: &PmdkPartHeader) -> Result<(), PmdkError> {
    lock.write_header(0, &header.kind.signature())
}

/// Gives a file another name in its folder, unless another file has it.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), PmdkError> {
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that can't rename without replacing: the file gets both names, and loses one. If it keeps both, the
        // next open removes the hidden one.
        Err(Errno::INVAL | Errno::NOSYS) => linkat(CWD, from, CWD, to, AtFlags::empty()).inspect(|()| {
            let _ = rustix::fs::unlink(from);
        }),
        renamed => renamed,
    };
    if renamed.is_ok() {
        stops::name_changed(from, to);
    }
    renamed.map_err(|errno| match errno {
        Errno::EXIST => PmdkError::Exists { path: to.to_owned() },
        errno => PmdkError::errno("rename", to)(errno),
    })
}

/// Removes the hidden name of a part that has both names.
pub(crate) fn remove_second_name(part: &Part, header: &PmdkPartHeader) -> Result<(), PmdkError> {
    let hidden = hidden_path(&part.path, header.poolset_uuid);
    let file = |path: &Path| path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()));
    match (file(&hidden), file(&part.path)) {
        (Some(hidden_file), Some(file)) if hidden_file == file => {
            fs::remove_file(&hidden).map_err(PmdkError::io("unlink", &hidden))
        }
        _ => Ok(()),
    }
}

/// Returns the bytes of the hidden file that is to become the part of the pool; `None` if there is none.
pub(crate) fn hidden_len(path: &Path, pool: Uuid) -> Option<u64> {
    hidden_path(path, pool).symlink_metadata().ok().map(|found| found.len())
}

/// Completes a part of a pool whose creation was interrupted after its first part was one. Returns false if nothing of it
/// is there.
pub(crate) fn complete(
    part: &Part,
    header: &PmdkPartHeader,
    program: Option<ByAddress>,
) -> Result<bool, PmdkError> {
    let hidden = hidden_path(&part.path, header.poolset_uuid);
    if part.path.symlink_metadata().is_err() {
        if hidden.symlink_metadata().is_err() {
            return Ok(false);
        }
        stops::step()?;
        rename(&hidden, &part.path)?;
        return Ok(true);
    }
    let lock = LockedPart::open(&part.path, PmdkAccess::ReadWrite, program)?;
    let mut bytes = lock.read_header()?;
    if !PmdkPartHeader::is_unsigned(&bytes) {
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

/// Removes the hidden files that interrupted creations of the part have left. A creation that is under way has its files
/// locked, also if another set file names the part.
pub(crate) fn remove_hidden(part: &Part) -> Result<(), PmdkError> {
    let (Some(parent), Some(name)) = (parent(&part.path), part.path.file_name()) else { return Ok(()) };
    let prefix = hidden_prefix(name);
    let Ok(entries) = fs::read_dir(parent) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        if rest.is_some_and(|rest| Uuid::try_parse_ascii(rest).is_ok()) {
            let _lock = LockedPart::look(&entry.path(), PmdkAccess::CopyOnWrite)?;
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
    let mut name = hidden_prefix(path.file_name().unwrap_or_default());
    name.push(pool.to_string());
    path.with_file_name(name)
}

/// Returns the name of a file that is to take the place of a part: its UUID has the inverted bits of the pool's.
pub(crate) fn replacing_path(path: &Path, pool: Uuid) -> PathBuf {
    hidden_path(path, Uuid::from_u128(!pool.as_u128()))
}

/// Returns true if a file of this name may be one that is to take the place of the part.
pub(crate) fn is_replacing(hidden: &Path, part: &Path) -> bool {
    let prefix = hidden_prefix(part.file_name().unwrap_or_default());
    let name = hidden.file_name().unwrap_or_default().as_encoded_bytes();
    let uuid = name.strip_prefix(prefix.as_encoded_bytes());
    // Other spellings of the UUID or of the folder are those of no call.
    uuid.and_then(|uuid| Uuid::try_parse_ascii(uuid).ok())
        .is_some_and(|uuid| hidden_path(part, uuid) == hidden)
}

/// Returns the path of a hidden file beside `path` that has this word after its name.
pub(crate) fn hidden_beside(path: &Path, word: &str) -> PathBuf {
    let mut name = hidden_prefix(path.file_name().unwrap_or_default());
    name.push(word);
    path.with_file_name(name)
}

/// Gives a file another name in its folder, whatever had that name.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<(), PmdkError> {
    rustix::fs::rename(from, to).map_err(PmdkError::errno("rename", to))?;
    stops::name_changed(from, to);
    Ok(())
}

/// Returns the part of a hidden name before the UUID of the pool. A long name is cut, and its checksum follows.
fn hidden_prefix(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut prefix = OsString::from(".");
    if bytes.len() > NAME_LEN_MAX {
        let mut words = bytes.to_vec();
        words.resize(bytes.len().next_multiple_of(4), 0);
        // A character is not cut: some file systems refuse that.
        let mut len = NAME_LEN_MAX - 17;
        while bytes[len] & 0xc0 == 0x80 && len > NAME_LEN_MAX - 20 {
            len -= 1;
        }
        prefix.push(OsStr::from_bytes(&bytes[..len]));
        prefix.push(format!("-{:016x}", fletcher64(&words)));
    } else {
        prefix.push(name);
    }
    prefix.push(MARK);
    prefix
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{PmdkFeatures, PmdkKind, PmdkShutdownRecord};

    /// Another creation has made a pool of it since it was looked at.
    #[test]
    fn part_of_a_pool_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        let uuid = Uuid::from_u128(1);
        let header = PmdkPartHeader {
            kind: PmdkKind::Log,
            features: PmdkFeatures::DEFAULT,
            poolset_uuid: uuid,
            uuid,
            prev_part: uuid,
            next_part: uuid,
            prev_replica: uuid,
            next_replica: uuid,
            created: 1,
            shutdown: PmdkShutdownRecord::Empty,
        };
        fs::write(&path, header.encode()).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(PART_SIZE_MIN).unwrap();
        let part = Part { path: path.clone(), size: PART_SIZE_MIN, device_align: None };
        let check = || StagedPart::there(&part, None).unwrap().check_free();
        let error = check().unwrap_err();
        assert!(matches!(error, PmdkError::NotEmpty { .. }), "{error}");
        file.set_len(0).unwrap();
        file.set_len(PART_SIZE_MIN).unwrap();
        check().unwrap();
    }
}
