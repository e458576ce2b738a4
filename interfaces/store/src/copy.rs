//! Compact copies of stores.

use crate::error::{Error, Result};
use crate::options::Options;
use crate::store::{Store, layout_name};
use crate::tree_pool::TreePool;
use lode_heap::Pool;
use lode_index::{IndexError, Trees, TreesSnapshot};
use lode_pool::CreateOptions;
use std::path::Path;

/// Bytes of a copy beside its trees.
const SIZE_MIN: u64 = 128 << 10;

impl Store {
    /// Makes a store at `path`, where there is no file, with all trees of one commit, while others change this one. All
    /// transactions that have returned are in it, and made durable first. The copy takes as much space as they need, and a reserve of about an eighth; the size in `options` does not count. It has
    /// an identity of its own, and grows by itself.
    ///
    /// # Errors
    /// Those of [`snapshot`](Store::snapshot) and of reads of a [`ReadTree`](crate::ReadTree). A store that has lost keys or
    /// trees, which are fewer than it has counted, is refused with [`is_damage`](Error::is_damage).
    /// [`is_already_exists`](Error::is_already_exists), [`is_volatile`](Error::is_volatile),
    /// [`is_out_of_space`](Error::is_out_of_space), or an error of the system. No file is left then.
    ///
    /// # Durability
    /// The copy and its name are durable on return. A crash before that leaves no file or a whole copy.
    ///
    /// # Cost
    /// A transaction for each tree, and one for every 65,536 keys or 1 MiB of it. What others replace meanwhile is kept in
    /// memory, as for each [snapshot](crate::Snapshot).
    ///
    /// # Example
    /// ```
    /// # use lodestone::{Durability, Store, TreeDef};
    /// # fn main() -> lodestone::Result<()> {
    /// # let folder = tempfile::tempdir().map_err(lodestone::Error::other)?;
    /// # let mut options = Store::options();
    /// # let options = options.durability(Durability::None);
    /// # let (path, backup) = (folder.path().join("stones"), folder.path().join("backup"));
    /// const DENSITIES: TreeDef<String, u64> = TreeDef::new("densities");
    ///
    /// let store = options.open(&path)?;
    /// store.put(DENSITIES, "basalt", 2_900)?;
    /// store.copy_to(&backup, options)?;
    /// assert_eq!(options.open_existing(&backup)?.get(DENSITIES, "basalt")?, Some(2_900));
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_to(&self, path: impl AsRef<Path>, options: &Options) -> Result<()> {
        let path = path.as_ref();
        self.make_durable()?;
        let shared = self.shared();
        let snapshot = shared.heap().snapshot().map_err(|error| shared.located(error))?;
        let source = shared.table_at(&snapshot).and_then(|table| TreesSnapshot::open(&snapshot, table));
        let source = source.map_err(|error| shared.located(error))?;
        let located = |name: Option<&str>, error: IndexError| {
            let error = shared.located(error);
            match name {
                Some(name) => error.in_tree(name),
                None => error,
            }
        };
        let stats = shared.heap().stats().map_err(|error| shared.located(error))?;
        let mut size = stats.used_bytes();
        loop {
            // The log takes a sixteenth, and the superblocks are not quite full.
            size += size / 8 + SIZE_MIN;
            let defaults = CreateOptions::new(size, layout_name());
            let size_max = options.size_max.or(defaults.size_max);
            let create = CreateOptions { size_max, durability: options.durability, ..defaults };
            match Pool::create_with::<Error>(path, &create, |heap| {
                let trees = heap.run(Trees::create).and_then(|table| Trees::open(heap, table));
                let copied = trees
                    .map_err(Error::from)
                    .and_then(|trees| trees.copy_from(&source, located, |_| Ok(())));
                copied.map(drop).map_err(|error| error.at(path))
            }) {
                // More was removed since the snapshot than the reserve holds.
                Err(error) if error.is_small_pool() => {}
                made => return Ok(made?.close()?),
            }
        }
    }
}
