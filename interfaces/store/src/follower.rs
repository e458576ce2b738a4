//! Stores that other processes have open.

use crate::error::Result;
use crate::frozen::Frozen;
use crate::options::LATER_INTERVAL;
use crate::snapshot::Snapshot;
use crate::store::{Store, layout_name};
use lode_follow::Followed;
use std::path::{Path, PathBuf};

/// A store for reading, in use by another process or not: [`Store::follow`].
///
/// Each [`snapshot`](Follower::snapshot) shows what was durable when it was opened. If another process has the store open
/// for writing, that process serves the snapshot through a socket beside the store, and closes it when this process drops
/// it or ends in any way. Otherwise this process opens the store for reading, and no process can open it for writing until
/// the snapshot is dropped; so a follower of a store that has no writer should drop each snapshot soon.
///
/// The right to read the file of the store is required, and enough.
///
/// # Example
/// ```
/// # use lodestone::{Durability, Store, TreeDef};
/// # fn main() -> lodestone::Result<()> {
/// # let folder = tempfile::tempdir().map_err(lodestone::Error::other)?;
/// # let path = folder.path().join("samples");
/// const SAMPLES: TreeDef<u64, u64> = TreeDef::new("samples");
/// # let store = Store::options().durability(Durability::None).open(&path)?;
/// # store.put(SAMPLES, 1, 20)?;
///
/// // In another process than the one that puts samples:
/// let follower = Store::follow(&path)?;
/// let latest = follower.snapshot()?.tree(SAMPLES)?.last()?;
/// assert_eq!(latest, Some((1, 20)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Follower {
    path: PathBuf,
}

impl Store {
    /// Returns a follower of the store at `path`, which may be open in another process.
    ///
    /// # Errors
    /// Those of [`Follower::snapshot`].
    pub fn follow(path: impl AsRef<Path>) -> Result<Follower> {
        let follower = Follower { path: path.as_ref().to_owned() };
        follower.snapshot()?;
        Ok(follower)
    }
}

impl Follower {
    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a snapshot of the store as it is now.
    ///
    /// # Errors
    /// [`is_in_use`](crate::Error::is_in_use) if a process has the store open and does not serve it, even after 2 s;
    /// [`is_permission_denied`](crate::Error::is_permission_denied), [`is_not_found`](crate::Error::is_not_found),
    /// [`is_not_a_store`](crate::Error::is_not_a_store); an error of the system.
    ///
    /// # Cost
    /// A connection to the process that has the store open, and a thread there; else that of opening the store.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let frozen = match Followed::open(&self.path, Some(layout_name()))? {
            Followed::Served(connection) => Frozen::Served(connection),
            Followed::Opened(pool) => {
                let store = Store::of_pool(*pool, LATER_INTERVAL).map_err(|error| error.at(&self.path))?;
                Frozen::open(store.shared().clone())?
            }
        };
        Ok(Snapshot::new(frozen))
    }
}
