//! A power cut after a stop: names and contents that were not synced are lost.
//!
//! A file's content is what its last fsync(2) had, or any sectors of what was written after it, or by the last one itself. A file that
//! was made and removed again does not come back.

use lode_pmdk::{DurableContents, NameChange, noting_contents, take_name_changes};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes that a disk writes whole.
const SECTOR: usize = 512;

/// The loss after a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Changes of names whose folder was not synced: those whose bits are set, by their order. Without a bit it is a kill.
    Names(u32),
    /// The same, and all content that was not synced.
    NamesAndContents(u32),
    /// No names. Of the content that was not synced, and of what the last fsync wrote, some sectors, by this seed.
    Sectors(u64),
}

/// Runs `make` on this thread, and loses what it has done to files in these folders. Returns the result, and the number of sets of changes
/// of names.
pub(crate) fn losing<R>(folders: &[&Path], lost: Lost, make: impl FnOnce() -> R) -> (R, u32) {
    let mask = match lost {
        Lost::Names(mask) | Lost::NamesAndContents(mask) => mask,
        Lost::Sectors(_) => 0,
    };
    // On the same file system.
    let kept = tempfile::tempdir_in(folders[0].parent().unwrap()).unwrap();
    let link = |(index, path): (usize, PathBuf)| {
        let link = kept.path().join(index.to_string());
        fs::hard_link(&path, &link).unwrap();
        (path, link)
    };
    let kept_names = files(folders).into_iter().enumerate().map(link).collect();
    take_name_changes();
    if !matches!(lost, Lost::Names(_)) {
        let contents = files(folders).iter().map(|path| (inode(path), fs::read(path).unwrap())).collect();
        let (result, durable) = noting_contents(contents, make);
        let masks = lose_names(&take_name_changes(), mask, &kept_names);
        match lost {
            Lost::Sectors(seed) => lose_sectors(&files(folders), &durable, seed),
            _ => lose_contents(&files(folders), &durable),
        }
        return (result, masks);
    }
    let result = make();
    (result, lose_names(&take_name_changes(), mask, &kept_names))
}

/// Returns the files of the folders.
fn files(folders: &[&Path]) -> Vec<PathBuf> {
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

/// Takes back changes of names whose folder was not synced after them, the last one first.
fn lose_names(changes: &[NameChange], mask: u32, kept: &BTreeMap<PathBuf, PathBuf>) -> u32 {
    let folder_of = |change: &NameChange| match change {
        NameChange::Made(path) | NameChange::Renamed(_, path) | NameChange::Removed(path) => {
            path.parent().map(Path::to_owned)
        }
        NameChange::Persisted(_) => None,
    };
    let is_unsynced = |(index, change): &(usize, &NameChange)| {
        folder_of(change).is_some_and(|folder| !changes[*index..].contains(&NameChange::Persisted(folder)))
    };
    let unsynced: Vec<&NameChange> =
        changes.iter().enumerate().filter(is_unsynced).map(|(_, change)| change).collect();
    for (index, change) in unsynced.iter().enumerate().rev() {
        if mask >> index & 1 == 0 {
            continue;
        }
        let restore = |path: &Path| {
            if let Some(kept) = kept.get(path) {
                fs::hard_link(kept, path).unwrap();
            }
        };
        match change {
            NameChange::Made(path) => drop(fs::remove_file(path)),
            NameChange::Renamed(from, to) => {
                fs::rename(to, from).unwrap();
                restore(to);
            }
            NameChange::Removed(path) => restore(path),
            NameChange::Persisted(_) => {}
        }
    }
    1 << unsynced.len()
}

/// Gives each file its durable content: none if it was never synced.
fn lose_contents(files: &[PathBuf], durable: &DurableContents) {
    for path in files {
        let bytes = durable.by_inode.get(&inode(path)).map_or(&[][..], Vec::as_slice);
        if fs::read(path).unwrap() != bytes {
            write_sparse(path, bytes);
        }
    }
}

/// Takes back any of the sectors that were not durable when the power was cut. The lengths of files stay.
fn lose_sectors(files: &[PathBuf], durable: &DurableContents, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let is_durable = |path: &PathBuf| durable.by_inode.get(&inode(path)) == fs::read(path).ok().as_ref();
    // The last sync can be cut only if nothing was written after it.
    let last = durable.last.as_ref().filter(|_| files.iter().all(is_durable));
    for path in files {
        let inode = inode(path);
        let before = match last {
            Some((last, before)) if *last == inode => Some(before),
            _ => durable.by_inode.get(&inode),
        };
        let mut before = before.cloned().unwrap_or_default();
        let mut bytes = fs::read(path).unwrap();
        before.resize(bytes.len(), 0);
        if before == bytes {
            continue;
        }
        for (sector, old) in bytes.chunks_mut(SECTOR).zip(before.chunks(SECTOR)) {
            if sector != old && rng.bool() {
                sector.copy_from_slice(old);
            }
        }
        write_sparse(path, &bytes);
    }
}

/// Returns the number of a file.
pub(crate) fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Gives a file this content, without pages of zeros.
pub(crate) fn write_sparse(path: &Path, bytes: &[u8]) {
    let file = File::options().write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (index, page) in bytes.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0))
    {
        file.write_all_at(page, index as u64 * 4096).unwrap();
    }
}
