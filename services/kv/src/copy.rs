//! A compact copy of a pool of keys and values, in a new pool.

use crate::STORE_SIZE_MIN;
use crate::counted::CountedTrees;
use crate::error::KvError;
use crate::layouts::{found, named, open_either};
use crate::store::{Store, make_tree};
use lode_heap::{Heap, HeapError, OpenError, Pool, Snapshot};
use lode_index::{IndexError, Tree, TreeSnapshot, Trees, TreesSnapshot};
use lode_layout::{Durability, LayoutName, PoolOffset, TREE_CELLS_OFF};
use lode_pmem::Medium;
use lode_pool::{Access, CreateOptions, OpenOptions};
use std::path::Path;

/// Receiver of the events of a copy.
pub trait CopyEvents {
    /// Reports that this number of keys was copied since the last call.
    fn copied(&self, keys: u64);

    /// Returns true if the copy must end early. The copy asks before each transaction.
    fn stopped(&self) -> bool;
}

/// A finished copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// Number of keys.
    pub keys: u64,
    /// Size of the new pool in bytes.
    pub size: u64,
}

/// The reason why there is no copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The store could not be read.
    #[error("the store can't be read: {0}")]
    Source(#[source] KvError),
    /// The new pool could not be made.
    #[error(transparent)]
    Target(KvError),
    /// The receiver of the events stopped the copy.
    #[error("the copy was stopped")]
    Stopped,
}

impl From<OpenError> for CopyError {
    fn from(error: OpenError) -> CopyError {
        CopyError::Target(error.into())
    }
}

impl From<IndexError> for CopyError {
    fn from(error: IndexError) -> CopyError {
        CopyError::Target(error.into())
    }
}

fn source_error(error: impl Into<KvError>) -> CopyError {
    CopyError::Source(error.into())
}

impl CopyError {
    /// Returns true if the new pool is too small.
    fn is_too_small(&self) -> bool {
        let CopyError::Target(KvError::Index(IndexError::Heap(error))) = self else { return false };
        error.is_out_of_space() || matches!(error, HeapError::TooLarge { .. })
    }
}

impl<M: Medium> Store<M> {
    /// Makes a new pool at `path` with the keys and values of one commit, while others change this store. The pool takes
    /// as much space as they need, and a reserve of about an eighth. It grows by itself. It has an identity of its own,
    /// and no progress of a load.
    ///
    /// # Errors
    /// [`CopyError`]. No file is left then. A file that exists is not replaced.
    ///
    /// # Durability
    /// The pool and its name are durable on return. A crash before that leaves no pool or a whole one.
    ///
    /// # Cost
    /// A transaction for every 65,536 keys or 1 MiB. What others change meanwhile is kept in memory, as for each
    /// [snapshot](Store::snapshot). If they removed much since the copy began, the first pool may prove too small, and the
    /// copy begins again with a larger one.
    pub fn copy_to(
        &self,
        path: &Path,
        durability: Option<Durability>,
        events: &impl CopyEvents,
    ) -> Result<CopyReport, CopyError> {
        let content = Content::of(self.heap(), Store::layout_name()).map_err(CopyError::Source)?;
        content.copy_to(path, durability, events)
    }
}

/// A pool of the layout `kv` or `store` that is open for reading, to be copied with all its keys and values.
#[derive(Debug)]
pub struct CopySource {
    pool: Pool,
}

impl CopySource {
    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// [`KvError::NotCopied`] for a pool of another layout; [`KvError::Pool`].
    pub fn open(path: &Path) -> Result<CopySource, KvError> {
        let open = |layout| {
            let options = OpenOptions { layout: Some(layout), ..OpenOptions::new(Access::ReadOnly) };
            Pool::open(path, &options)
        };
        let pool = open_either(Store::layout_name(), open).map_err(|error| match found(&error) {
            Some(layout) => KvError::NotCopied { layout: *layout },
            None => error,
        })?;
        Ok(CopySource { pool })
    }

    /// Returns the size of the pool in bytes.
    pub fn size(&self) -> u64 {
        self.pool.header().geometry.size()
    }

    /// Returns the number of keys, of all trees, as they have counted them. It is not proved.
    ///
    /// # Errors
    /// [`KvError::Index`]; [`KvError::InTree`] for the first tree that can't be read.
    pub fn count(&self) -> Result<u64, KvError> {
        Content::of(self.pool.heap(), self.pool.layout())?.count()
    }

    /// Makes a new pool at `path`, of the same layout, as [`Store::copy_to`] does.
    ///
    /// # Errors
    /// [`CopyError`]. No file is left then. A file that exists is not replaced.
    ///
    /// # Durability
    /// As [`Store::copy_to`].
    ///
    /// # Cost
    /// As [`Store::copy_to`], and a transaction for each tree.
    pub fn copy_to(
        &self,
        path: &Path,
        durability: Option<Durability>,
        events: &impl CopyEvents,
    ) -> Result<CopyReport, CopyError> {
        let content = Content::of(self.pool.heap(), self.pool.layout()).map_err(CopyError::Source)?;
        content.copy_to(path, durability, events)
    }
}

/// The keys and values of a pool at one commit.
struct Content<'h, M: Medium> {
    snapshot: Snapshot<'h, M>,
    root: PoolOffset,
    layout: LayoutName,
}

impl<'h, M: Medium> Content<'h, M> {
    fn of(heap: &'h Heap<M>, layout: LayoutName) -> Result<Content<'h, M>, KvError> {
        let snapshot = heap.snapshot()?;
        let root = snapshot.root()?;
        Ok(Content { snapshot, root, layout })
    }

    /// Returns the number of keys as the trees have counted them.
    fn count(&self) -> Result<u64, KvError> {
        if self.layout != named() {
            return Ok(TreeSnapshot::open(&self.snapshot, self.root)?.count()?);
        }
        let trees = TreesSnapshot::open(&self.snapshot, self.root)?;
        let named = trees.all_named()?.into_iter().map(Ok);
        Ok(CountedTrees::count(named, |tree| Ok(trees.open_tree(tree)?.count()?))?.keys)
    }

    fn copy_to(
        &self,
        path: &Path,
        durability: Option<Durability>,
        events: &impl CopyEvents,
    ) -> Result<CopyReport, CopyError> {
        let mut size = self.snapshot.heap().stats().map_err(source_error)?.used_bytes();
        loop {
            // The log takes a sixteenth, and the superblocks are not quite full.
            size += size / 8 + STORE_SIZE_MIN;
            let options = CreateOptions { durability, ..CreateOptions::new(size, self.layout) };
            let mut keys = 0;
            let made: Result<Pool, CopyError> = Pool::create_with(path, &options, |heap| {
                keys = self.fill(heap, events)?;
                Ok(())
            });
            match made {
                Err(error) if error.is_too_small() => {}
                made => {
                    let pool = made?;
                    let size = pool.header().geometry.size();
                    pool.close()?;
                    return Ok(CopyReport { keys, size });
                }
            }
        }
    }

    /// Makes the same content in `heap`. Returns the number of keys.
    fn fill<T: Medium>(&self, heap: &Heap<T>, events: &impl CopyEvents) -> Result<u64, CopyError> {
        // The keys of a batch are reported when the next one begins.
        let mut batch = 0;
        let before = |next| {
            events.copied(std::mem::replace(&mut batch, next) as u64);
            if events.stopped() { Err(CopyError::Stopped) } else { Ok(()) }
        };
        if self.layout == named() {
            let source = TreesSnapshot::open(&self.snapshot, self.root).map_err(source_error)?;
            let trees = Trees::open(heap, heap.run(Trees::create)?)?;
            let located = |name: Option<&str>, error| {
                let error = KvError::from(error);
                CopyError::Source(match name {
                    Some(name) => error.in_tree(name),
                    None => error,
                })
            };
            return trees.copy_from(&source, located, before);
        }
        let source = TreeSnapshot::open(&self.snapshot, self.root).map_err(source_error)?;
        let tree = Tree::open(heap, heap.run(make_tree).map_err(CopyError::Target)?)?;
        let keys = tree.load_sorted(source.iter().map(|entry| entry.map_err(source_error)), before)?;
        let counted = source.count().map_err(source_error)?;
        if keys != counted {
            let at = self.root.plus(TREE_CELLS_OFF);
            return Err(CopyError::Source(KvError::Count { counted, found: keys, at }));
        }
        Ok(keys)
    }
}
