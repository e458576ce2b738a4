//! Compact copies of stores.

use crate::error::{Error, Result};
use crate::frozen::{Frozen, FrozenTree};
use crate::options::Options;
use crate::store::{Store, layout_name};
use lode_heap::{Heap, Pool};
use lode_index::{Direction, Tree, Trees};
use lode_pmem::Mapping;
use lode_pool::CreateOptions;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a copy beside its trees.
const SIZE_MIN: u64 = 128 << 10;

impl Store {
    /// Makes a store at `path`, where there is no file, with all trees of one commit, while others change this one. The
    /// copy takes as much space as they need, and a reserve of about an eighth; the size in `options` does not count. It has
    /// an identity of its own, and grows by itself.
    ///
    /// # Errors
    /// Those of [`snapshot`](Store::snapshot) and of reads of a [`ReadTree`](crate::ReadTree);
    /// [`is_already_exists`](Error::is_already_exists), [`is_volatile`](Error::is_volatile),
    /// [`is_out_of_space`](Error::is_out_of_space), or an error of the system. No file is left then.
    ///
    /// # Durability
    /// The copy and its name are durable on return. A crash before that leaves no file or a whole copy.
    ///
    /// # Cost
    /// A transaction for every 65,536 keys or 1 MiB. What others replace meanwhile is kept in memory, as for each
    /// [snapshot](crate::Snapshot).
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
        let frozen = Arc::new(Frozen::open(self.shared().clone())?);
        let stats = self.shared().heap().stats().map_err(|error| self.shared().located(error))?;
        let mut size = stats.used_bytes();
        loop {
            // The log takes a sixteenth, and the superblocks are not quite full.
            size += size / 8 + SIZE_MIN;
            let defaults = CreateOptions::new(size, layout_name());
            let size_max = options.size_max.or(defaults.size_max);
            let create = CreateOptions { size_max, durability: options.durability, ..defaults };
            match Pool::create_with::<Error>(path, &create, |heap| {
                fill(heap, &frozen).map_err(|error| error.at(path))
            }) {
                // More was removed since the snapshot than the reserve holds.
                Err(error) if error.is_small_pool() => {}
                made => return Ok(made?.close()?),
            }
        }
    }
}

/// Makes the trees of a snapshot in `heap`.
fn fill(heap: &Heap<&Mapping>, frozen: &Arc<Frozen>) -> Result<()> {
    let table = heap.run(Trees::create)?;
    let trees = Trees::open(heap, table)?;
    for name in frozen.names()? {
        let Some(source) = frozen.find(&name)? else { continue };
        let copied = FrozenTree::open(Arc::clone(frozen), source.root, &name)?;
        let target = heap.run(|tx| trees.create_in(tx, &name, &source.key_type, &source.value_type))?;
        let mut scan = copied.scan((Bound::Unbounded, Bound::Unbounded));
        let entries = std::iter::from_fn(|| copied.next(&mut scan, Direction::Forward));
        Tree::open(heap, target.root)?.load_sorted::<Error>(entries, |_| Ok(()))?;
    }
    Ok(())
}
