//! Stores of pairs that are filled once, and copied for each lap: so each lap of each engine begins with the same store,
//! which costs less than to fill it again.

use crate::engine::{Database, Engine, WholeDatabase};
use crate::group::Durability;
use crate::ours;
use crate::pairs::Pairs;
use crate::peers::{LmdbDatabase, RedbDatabase, RocksdbDatabase, SqliteDatabase};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Opens the store of a peer at `path`, or makes it.
fn open_peer(engine: Engine, path: &Path) -> Result<Box<dyn WholeDatabase>> {
    Ok(match engine {
        Engine::Sqlite => Box::new(SqliteDatabase::open(path)?),
        Engine::Lmdb => Box::new(LmdbDatabase::open(path)?),
        Engine::Redb => Box::new(RedbDatabase::open(path)?),
        Engine::Rocksdb => Box::new(RocksdbDatabase::open(path)?),
        other => bail!("{other} is not a store of pairs"),
    })
}

/// Opens the store of an engine at `path`; peers make it if there is none. Ours gives a transaction up that takes longer than `overdue`.
pub(super) fn open(engine: Engine, path: &Path, overdue: Duration) -> Result<Box<dyn Database>> {
    match engine {
        Engine::Ours => ours::open_database(path, Durability::Commit, overdue),
        Engine::OursLine => ours::open_database(path, Durability::Line, overdue),
        peer => Ok(open_peer(peer, path)?),
    }
}

/// Opens the store of an engine at `path`, or makes it, ours through the public crate.
pub(super) fn open_whole(engine: Engine, path: &Path, overdue: Duration) -> Result<Box<dyn WholeDatabase>> {
    if engine == Engine::Ours { ours::public_database(path, overdue) } else { open_peer(engine, path) }
}

/// A store of one engine, closed, and a place for a copy.
pub(super) struct Filled {
    engine: Engine,
    original: PathBuf,
    copy: PathBuf,
}

impl Filled {
    /// A store with `pairs` in `folder`. Pools of ours have `room` bytes for pairs and large transactions.
    pub(super) fn create(engine: Engine, folder: &Path, pairs: &Pairs, room: u64) -> Result<Filled> {
        let original = folder.join(format!("{engine}-pairs"));
        let store = if matches!(engine, Engine::Ours | Engine::OursLine) {
            ours::filled_database(&original, room, pairs)?
        } else {
            let store = open_peer(engine, &original)?;
            store.put_all(pairs)?;
            store
        };
        ensure!(store.count()? == pairs.len() as u64, "{engine} has lost pairs");
        store.close()?;
        Ok(Filled { engine, original, copy: folder.join(format!("{engine}-lap")) })
    }

    /// Opens a fresh copy of the store, which replaces the one before.
    pub(super) fn open_copy(&self, overdue: Duration) -> Result<Box<dyn Database>> {
        open(self.engine, self.copy()?, overdue)
    }

    /// Makes a fresh copy of the store, which replaces the one before, and returns its path.
    pub(super) fn copy(&self) -> Result<&Path> {
        self.remove_copy()?;
        copy(&self.original, &self.copy).context("copying a store")?;
        Ok(&self.copy)
    }

    /// Returns the path of the store itself.
    pub(super) fn path(&self) -> &Path {
        &self.original
    }

    /// Removes the copy, if there is one.
    pub(super) fn remove_copy(&self) -> Result<()> {
        remove(&self.copy)
    }
}

/// The files of a store that is a file, with SQLite's other files, if there are any.
fn files(path: &Path) -> impl Iterator<Item = PathBuf> {
    let named = |suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    ["", "-wal", "-shm"].map(named).into_iter().filter(|file| file.exists())
}

/// Returns the files of a store that is a file or a folder.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_dir() {
        return fs::read_dir(path)?.map(|file| Ok(file?.path())).collect();
    }
    Ok(files(path).collect())
}

/// Removes the file or the folder of a store, and SQLite's other files, if there are any.
pub(super) fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(fs::remove_dir_all(path)?);
    }
    files(path).try_for_each(|file| Ok(fs::remove_file(file)?))
}

/// Returns the bytes on disk of a store.
pub(super) fn disk_bytes(path: &Path) -> Result<u64> {
    if path.is_dir() {
        return fs::read_dir(path)?.map(|file| disk_bytes(&file?.path())).sum();
    }
    // Blocks have 512 bytes here, whatever those of the file system.
    files(path).map(|file| Ok(fs::metadata(file)?.blocks() * 512)).sum()
}

/// Copies a file, or the files of a folder, and syncs the copies.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir(to)?;
        for file in fs::read_dir(from)? {
            let file = file?;
            copy(&file.path(), &to.join(file.file_name()))?;
        }
        return Ok(());
    }
    fs::copy(from, to)?;
    Ok(File::open(to)?.sync_all()?)
}
