//! The named trees of a pool of the layout `store`, for reading.

use crate::counted::CountedTrees;
use crate::error::KvError;
use crate::layouts::{named, open_either};
use crate::reader::StoreReader;
use crate::store::Store;
use lode_follow::Followed;
use lode_heap::Pool;
use lode_index::{IndexError, NamedTree, TreesSnapshot};
use lode_layout::LayoutName;
use lode_pmem::Mapping;
use std::path::Path;
use std::sync::Arc;

/// The trees of a pool of the layout `store`, which programs make by the crate `lodestone-store`: at one commit, as the
/// process serves them that has the pool open for writing; or opened by this process, if none has.
///
/// # Example
/// ```
/// use lode_heap::{CreateOptions, Durability, Pool};
/// use lode_index::{StoreLayout, Tree, Trees};
/// use lode_kv::{NamedTrees, StoreReader};
/// use lode_layout::LayoutName;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("stones.store");
/// let layout = LayoutName::new(StoreLayout::NAME)?;
/// let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
/// let pool = Pool::create(&path, &options)?;
/// let heap = pool.heap();
/// let trees = Trees::open(heap, heap.run(Trees::create)?)?;
/// heap.run(|tx| {
///     let made = trees.create_in(tx, "densities", "str", "u64")?;
///     Tree::open_in(heap, tx, made.root)?.insert_in(tx, b"basalt", b"2900")
/// })?;
/// pool.close()?;
///
/// let trees = NamedTrees::open(&path)?;
/// assert_eq!(trees.names()?, ["densities"]);
/// let (tree, reader) = trees.get("densities")?.ok_or("no tree")?;
/// assert_eq!((tree.key_type.as_str(), reader.count()?), ("str", 1));
/// assert_eq!(StoreReader::open_tree(&path, b"densities")?.get(b"basalt")?, Some(b"2900".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NamedTrees {
    pool: Arc<Followed>,
}

impl NamedTrees {
    /// Opens the pool at `path`, as [`StoreReader::open`] does.
    ///
    /// # Errors
    /// [`KvError::NoNames`] for a pool of the layout `kv`; [`KvError::Follow`] and [`KvError::Pool`], as
    /// [`Followed::open`].
    pub fn open(path: &Path) -> Result<NamedTrees, KvError> {
        let pool = open_either(named(), |layout| Followed::open(path, Some(layout)))?;
        if pool.layout() == Store::layout_name() { Err(KvError::NoNames) } else { Ok(NamedTrees::new(pool)) }
    }

    /// Returns the trees of a pool with the layout `store`.
    pub fn new(pool: Followed) -> NamedTrees {
        NamedTrees { pool: Arc::new(pool) }
    }

    /// Returns the layout name `store`.
    pub fn layout_name() -> LayoutName {
        named()
    }

    /// Returns the names of all trees, sorted. It is proved that damage hides no tree.
    ///
    /// # Errors
    /// [`KvError::Index`] and [`KvError::Follow`]. [`KvError::Count`] if the table of trees leads to more or fewer than it
    /// has counted.
    ///
    /// # Cost
    /// Each entry of the table of trees is read, and transferred if it is served.
    pub fn names(&self) -> Result<Vec<String>, KvError> {
        let names = match &*self.pool {
            Followed::Opened(pool) => in_table(pool, |trees| trees.names())?,
            Followed::Served(served) => served.tree_names()?,
        };
        StoreReader::of_root(Arc::clone(&self.pool))?.prove()?;
        Ok(names)
    }

    /// Returns all trees with their types and numbers of keys, sorted by name. It is proved that damage hides no tree; the
    /// numbers of keys are not proved.
    ///
    /// # Errors
    /// As [`names`](NamedTrees::names); [`KvError::InTree`] for the first tree that can't be read.
    ///
    /// # Cost
    /// As [`names`](NamedTrees::names), and two requests for each tree if it is served.
    pub fn counted(&self) -> Result<CountedTrees, KvError> {
        let names = self.names()?;
        let at = StoreReader::of_root(Arc::clone(&self.pool))?.root();
        let lost = IndexError::Corrupt { what: "the table of trees", at };
        let named = names.into_iter().map(|name| match self.find(&name)? {
            Some(tree) => Ok((name, tree)),
            None => Err(KvError::from(lost.clone()).in_tree(&name)),
        });
        CountedTrees::count(named, |tree| StoreReader::at(Arc::clone(&self.pool), tree.root)?.count())
    }

    /// Returns the tree `name` with the names of its types, and its reader, if there is one. `None` is not proved;
    /// [`names`](NamedTrees::names) proves it.
    ///
    /// # Errors
    /// [`KvError::Index`] and [`KvError::Follow`]. [`KvError::InTree`] if there is a tree of this name and it can't be
    /// opened.
    pub fn get(&self, name: &str) -> Result<Option<(NamedTree, StoreReader)>, KvError> {
        let opened = |tree: NamedTree| {
            let reader = StoreReader::at(Arc::clone(&self.pool), tree.root);
            Ok((tree, reader.map_err(|error| error.in_tree(name))?))
        };
        self.find(name)?.map(opened).transpose()
    }

    fn find(&self, name: &str) -> Result<Option<NamedTree>, KvError> {
        match &*self.pool {
            Followed::Opened(pool) => in_table(pool, |trees| trees.get(name)),
            Followed::Served(served) => Ok(served.tree(name)?),
        }
    }
}

/// Reads the table of trees of a pool that this process has opened.
fn in_table<R>(
    pool: &Pool,
    read: impl FnOnce(&TreesSnapshot<'_, '_, Arc<Mapping>>) -> Result<R, IndexError>,
) -> Result<R, KvError> {
    let snapshot = pool.heap().snapshot()?;
    let trees = TreesSnapshot::open(&snapshot, snapshot.root()?)?;
    Ok(read(&trees)?)
}
