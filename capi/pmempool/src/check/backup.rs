//! The backup of a pool before its repair.

use super::dialog::Dialog;
use super::outcome::{Outcome, Stop};
use super::pool::CheckedPool;
use crate::failures::failure;
use lode_capi_entry::words_of;
use lode_pmdk::{PmdkError, PoolSet, UncheckedPool};
use lode_pmem::{NewFile, PmemError, Sysfs};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time.
const STEP: usize = 1 << 20;
/// PMDK's words for a backup that fails.
const CANNOT: &str = "cannot perform backup";
/// PMDK's words for a part of it.
const NOT_CREATED: &str = "unable to create backup file";

/// Makes the backup at `path`: of a file in a file, and of a set in the parts of another set.
pub(crate) async fn make(pool: &CheckedPool, dialog: &Dialog, path: &Path) -> Result<(), Stop> {
    if pool.is_set { make_set(pool, dialog, path).await } else { make_file(pool, dialog, path).await }
}

async fn make_file(pool: &CheckedPool, dialog: &Dialog, path: &Path) -> Result<(), Stop> {
    let shown = path.display();
    let exists = path.try_exists().map_err(|_| {
        dialog.stop(Outcome::Error, format!("unable to access the backup destination: {shown}"))
    })?;
    if exists {
        if size_of(path) != Some(pool.size) {
            let text =
                format!("destination of the backup does not match the size of the source pool file: {shown}");
            return Err(dialog.stop(Outcome::Error, text));
        }
        if !dialog.flags().keeps_repairs() {
            return Ok(());
        }
        let question = "destination of the backup already exists.|Do you want to overwrite it?".to_owned();
        agree(dialog, question).await?;
        if is_source(pool, path) {
            return Err(onto_source(dialog, path));
        }
    } else {
        dialog.info(format!("creating backup file: {shown}"));
    }
    let copied = copy(|off, bytes| pool.read(off, bytes), pool.size, &pool.path, path);
    copied.map_err(|error| {
        note(dialog, &error);
        // As with PMDK: an answer that can't be followed is another outcome.
        dialog.stop(if exists { Outcome::CannotRepair } else { Outcome::Error }, CANNOT)
    })
}

async fn make_set(pool: &CheckedPool, dialog: &Dialog, path: &Path) -> Result<(), Stop> {
    let refused = |reason: String| {
        dialog.info(reason);
        dialog.stop(Outcome::Error, "unable to backup poolset")
    };
    let parts = sources(pool, dialog, path).map_err(refused)?;
    let mut is_there = false;
    for Source { to, size, .. } in &parts {
        let shown = path.display();
        let exists = to
            .try_exists()
            .map_err(|_| refused(format!("unable to access the part of the destination poolset: {shown}")))?;
        if exists && size_of(to) != Some(*size) {
            let shown = to.display();
            return Err(refused(format!(
                "destination of the backup part does not match size of the source part file: {shown}"
            )));
        }
        is_there |= exists;
    }
    if !dialog.flags().keeps_repairs() {
        return Ok(());
    }
    if is_there {
        let question = "part files of the destination poolset of the backup already exist.|Do you want to \
                        overwrite them?";
        agree(dialog, question.to_owned()).await?;
        if let Some(Source { to, .. }) = parts.iter().find(|part| is_source(pool, &part.to)) {
            dialog.info(NOT_CREATED);
            return Err(onto_source(dialog, to));
        }
    }
    for (index, Source { from, to, size }) in parts.into_iter().enumerate() {
        if !is_there {
            dialog.info(format!("creating backup file: {}", to.display()));
        }
        // Not by its path, which may have another file by now.
        let read = |off, bytes: &mut [u8]| {
            pool.parts().is_some_and(|parts| parts.read_part(index, off, bytes).is_ok())
        };
        copy(read, size, &from, &to).map_err(|error| {
            note(dialog, &error);
            if !is_there {
                return refused(NOT_CREATED.to_owned());
            }
            dialog.info(NOT_CREATED);
            dialog.stop(Outcome::CannotRepair, CANNOT)
        })?;
    }
    Ok(())
}

/// A part, and its backup.
struct Source {
    from: PathBuf,
    to: PathBuf,
    size: u64,
}

/// Returns the parts with their backups, or the reason why there can be no backup.
fn sources(pool: &CheckedPool, dialog: &Dialog, path: &Path) -> Result<Vec<Source>, String> {
    let [of_source] = pool.parts().map(UncheckedPool::set).map(PoolSet::replicas).unwrap_or_default() else {
        return Err("backup of a poolset with multiple replicas is not supported".to_owned());
    };
    let invalid = |error: String| format!("invalid poolset backup file: {}: {error}", path.display());
    let set = PoolSet::read(path, &Sysfs::default()).map_err(|error| {
        // PMDK's words are those of the number. A reason of ours goes on after them.
        let failure = failure(&error);
        dialog.note_errno(failure.errno);
        match error {
            PmdkError::Io { .. } => invalid(words_of(failure.errno)),
            _ => invalid(format!("{}: {}", words_of(failure.errno), failure.text)),
        }
    })?;
    if !set.is_set() {
        dialog.note_errno(libc::EINVAL);
        return Err(invalid(format!(
            "{}: it is no set file; name one, which begins with PMEMPOOLSET",
            words_of(libc::EINVAL)
        )));
    }
    let [of_backup] = set.replicas() else {
        return Err("backup to a poolset with multiple replicas is not supported".to_owned());
    };
    let (sources, backups) = (of_source.parts(), of_backup.parts());
    if sources.len() != backups.len() {
        return Err(
            "number of part files in the backup poolset must match number of part files in the source \
                    poolset"
                .to_owned(),
        );
    }
    let pair = |(index, (source, backup)): (usize, (&lode_pmdk::Part, &lode_pmdk::Part))| {
        if source.size() != backup.size() {
            return Err(format!(
                "size of the part {index} of the backup poolset does not match source poolset"
            ));
        }
        let (from, to) = (source.path().to_owned(), backup.path().to_owned());
        Ok(Source { from, to, size: source.size() })
    };
    sources.iter().zip(backups).enumerate().map(pair).collect()
}

/// Asks a question about a backup. It is no repair.
async fn agree(dialog: &Dialog, question: String) -> Result<(), Stop> {
    dialog.ask(&[question]).await.into_iter().try_for_each(|answer| dialog.agreed(answer))
}

/// Ends the check: the backup would replace the pool, and the repair would go to a file without a name.
fn onto_source(dialog: &Dialog, path: &Path) -> Stop {
    dialog.note_errno(libc::EINVAL);
    let text = format!("{CANNOT}: {} is the pool itself, or a part of it; name another file", path.display());
    dialog.stop(Outcome::CannotRepair, text)
}

/// Returns true if `path` leads to the pool or to one of its parts, and also if that can't be told of a file that is there.
fn is_source(pool: &CheckedPool, path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(metadata) => pool.has_file(&metadata).unwrap_or(true),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Notes the reason of a backup that failed.
fn note(dialog: &Dialog, error: &io::Error) {
    dialog.note_errno(error.raw_os_error().unwrap_or(libc::EIO));
}

fn size_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.size())
}

/// Copies `size` bytes to `to`, with the permissions of `from`. A file that is there is replaced when the copy is whole.
fn copy(read: impl Fn(u64, &mut [u8]) -> bool, size: u64, from: &Path, to: &Path) -> io::Result<()> {
    let mode = fs::metadata(from)?.permissions().mode() & 0o7777;
    let is_new = !to.try_exists()?;
    // A link stays, and the file that it leads to is replaced.
    let to = &if is_new { to.to_owned() } else { fs::canonicalize(to)? };
    let name = if is_new { to.to_owned() } else { hidden(to) };
    if !is_new {
        // That of a process that was killed.
        let _ = fs::remove_file(&name);
    }
    let new = NewFile::create(&name).map_err(reason)?;
    let file = new.file();
    file.set_len(size)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    let mut bytes = vec![0; STEP];
    let mut at = 0;
    while at < size {
        let len = (size - at).min(STEP as u64) as usize;
        let bytes = &mut bytes[..len];
        if !read(at, bytes) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all_at(bytes, at)?;
        }
        at += len as u64;
    }
    new.publish().map_err(reason)?;
    if is_new {
        return Ok(());
    }
    fs::rename(&name, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // ORDER: the name before the repair begins. Stop here: the old backup or the new one.
    File::open(folder)?.sync_all()
}

/// Returns the error of the system in an error of a new file.
fn reason(error: PmemError) -> io::Error {
    match error {
        PmemError::Io { errno, .. } => io::Error::from_raw_os_error(errno),
        other => io::Error::other(other),
    }
}

/// Returns the name of a backup until it is whole.
fn hidden(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".lode-backup");
    path.with_file_name(name)
}
