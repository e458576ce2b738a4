//! A pool whose content is one tree of keys and values.

use crate::STORE_SIZE_MIN;
use crate::error::KvError;
use crate::proof;
use lode_follow::{FollowError, Server};
use lode_fsck::{ShrinkError, ShrinkEvents, shrink_pool};
use lode_heap::{Heap, HeapError, Pool, Shrunk, Tx};
use lode_index::{IndexError, Tree, TreeLayout};
use lode_layout::{KV_LOAD_OFF, KV_LOAD_WORDS, KvLoad, LayoutName, PoolOffset};
use lode_pmem::{Mapping, Medium};
use lode_pool::{CreateOptions, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The layout name of pools that hold a store.
pub const LAYOUT_NAME: &str = "kv";

/// The layout of a store, for checks and repairs.
pub const LAYOUT: TreeLayout = TreeLayout::new(LAYOUT_NAME);

/// Keys and values in a pool of the layout `kv`, whose root object is that of a tree.
///
/// # Durability
/// A change is durable when the function that makes it returns.
#[derive(Debug)]
pub struct Store<M: Medium = Arc<Mapping>> {
    /// Serves snapshots to other processes, or the reason why it does not; `None` if the medium is no mapping. Dropped
    /// before the pool.
    server: Option<Result<Server, FollowError>>,
    pool: Arc<Pool<M>>,
    /// Offset of the root object. Null in a pool without a tree that was opened for reading.
    root: PoolOffset,
}

impl Store {
    /// Returns the layout name `kv`.
    pub fn layout_name() -> LayoutName {
        LayoutName::new(LAYOUT_NAME).expect("a layout name")
    }

    /// Makes a pool at `path` with an empty store in it. The layout in `options` is replaced by `kv`.
    ///
    /// # Errors
    /// [`KvError::TooSmall`] below [`STORE_SIZE_MIN`], and every error of making a pool.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Store, KvError> {
        if options.size < STORE_SIZE_MIN {
            return Err(KvError::TooSmall { size: options.size });
        }
        let options = CreateOptions { layout: Store::layout_name(), ..options.clone() };
        let pool = Pool::create_with(path, &options, |heap| heap.run(make_tree).map(drop))?;
        Ok(Store::from_pool(pool)?.served())
    }

    /// Opens the store at `path`. The layout in `options` is replaced by `kv`. If it is opened for writing, other processes
    /// can read it by [`StoreReader`](crate::StoreReader).
    ///
    /// # Errors
    /// [`KvError`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Store, KvError> {
        Ok(Store::open_through(path, options, |mapping| mapping)?.served())
    }

    /// Shrinks the closed store at `path` to about what its keys and values take. Objects near the end of
    /// the file move to free space before them, so no other space is needed. The layout in `options` is replaced by `kv`.
    ///
    /// # Errors
    /// [`ShrinkError`]. The store has all its keys then, and its old or its new size.
    ///
    /// # Durability
    /// The new size is durable on return. A crash before that leaves a store with all its keys, of the old or the new size.
    ///
    /// # Cost
    /// Reads and verifies all keys and values once, and again in each of at most 12 passes, and moves as many
    /// bytes as the file has too much. A store that has little free space has no pass.
    pub fn shrink(
        path: &Path,
        options: &OpenOptions,
        events: &dyn ShrinkEvents,
    ) -> Result<Shrunk, ShrinkError> {
        let options = OpenOptions { layout: Some(Store::layout_name()), ..options.clone() };
        shrink_pool(path, &options, &[&LAYOUT], events)
    }

    fn served(mut self) -> Store {
        self.server = Some(Server::start(&self.pool));
        self
    }
}

impl<M: Medium> Store<M> {
    /// Opens a store as [`open`](Store::open) does. Everything is stored through what `wrap` makes of the mapping.
    ///
    /// # Errors
    /// [`KvError`].
    pub fn open_through(
        path: &Path,
        options: &OpenOptions,
        wrap: impl FnOnce(Arc<Mapping>) -> M,
    ) -> Result<Store<M>, KvError> {
        let options = OpenOptions { layout: Some(Store::layout_name()), ..options.clone() };
        Store::from_pool(Pool::open_through(path, &options, wrap)?)
    }

    /// Returns the store in `pool`. If the pool has no tree yet, it is made, in one transaction. If the pool was
    /// opened for reading, the store is then empty.
    ///
    /// # Errors
    /// [`KvError`].
    pub fn from_pool(pool: Pool<M>) -> Result<Store<M>, KvError> {
        let mut root = pool.heap().root()?;
        if root.is_null() && !pool.heap().is_read_only() {
            root = pool.heap().run(make_tree)?;
        }
        let store = Store { server: None, pool: Arc::new(pool), root };
        store.tree()?;
        Ok(store)
    }

    /// Returns the pool that the store is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// Returns the path of the socket at which other processes read the store.
    ///
    /// # Errors
    /// The reason why they can't: such as a folder in which no socket can be made, or a store that is open for reading.
    /// `None` if the store is on a medium around its mapping.
    pub fn socket(&self) -> Result<&Path, Option<&FollowError>> {
        match &self.server {
            Some(Ok(server)) => Ok(server.path()),
            Some(Err(error)) => Err(Some(error)),
            None => Err(None),
        }
    }

    /// Returns the heap that the store is in.
    pub fn heap(&self) -> &Heap<M> {
        self.pool.heap()
    }

    /// Returns the tree, for operations that change nothing.
    ///
    /// # Errors
    /// [`IndexError::NoTree`] if the tree was damaged since the store was opened.
    pub fn tree(&self) -> Result<Tree<'_, M>, IndexError> {
        tree_at(self.heap(), self.root)
    }

    /// Returns a copy of the value of `key`, which its checksum proves right, or an error. `None` means that the tree
    /// leads to no such key. It is not proved; [`get_proven`](Store::get_proven) proves it.
    ///
    /// # Errors
    /// [`KvError::Index`], as [`Tree::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.tree()?.get(key)?)
    }

    /// Returns a copy of the value of `key`, as [`get`](Store::get) does, and proves `None` as well. Then every node
    /// and leaf of the tree is sound and in its place, the tree has as many leaves as it has counted keys, and no
    /// leaf has `key`. No thread may change the tree meanwhile, hence `&mut`. The reasons are in
    /// docs/decisions/proof-of-absence.md.
    ///
    /// # Errors
    /// [`KvError::Index`] as [`Tree::get`]. [`KvError::Unproven`] when the key is not found and there is damage,
    /// which may have lost the key.
    ///
    /// # Cost
    /// That of a lookup if the key is present, else that of [`Tree::check`]: each node and leaf is read once.
    pub fn get_proven(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        proof::get_proven(&self.tree()?, key)
    }

    /// Gives `key` the value `value`. Returns true if it had a value before. Clears the progress of a load: loading
    /// that input again would load all of it.
    ///
    /// # Errors
    /// [`KvError::Index`], with [`HeapError::ReadOnly`] in a pool that was opened for reading.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, KvError> {
        self.heap().check_writable()?;
        let tree = self.tree()?;
        self.heap().run(|tx| {
            self.clear_load_progress(tx)?;
            Ok(tree.insert_in(tx, key, value)?)
        })
    }

    /// Removes `key`. Returns true if it was present. Removing it clears the progress of a load, as [`put`](Store::put)
    /// does.
    ///
    /// # Errors
    /// [`KvError::Index`], with [`HeapError::ReadOnly`] in a pool that was opened for reading.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain, none if the key was not there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, KvError> {
        self.heap().check_writable()?;
        let tree = self.tree()?;
        self.heap().run(|tx| {
            let was_present = tree.delete_in(tx, key)?;
            if was_present {
                self.clear_load_progress(tx)?;
            }
            Ok(was_present)
        })
    }

    /// Returns the number of keys as the tree has counted them, like [`Tree::count`]. It is not proved.
    ///
    /// # Errors
    /// [`KvError::Index`].
    pub fn count(&self) -> Result<u64, KvError> {
        Ok(self.tree()?.count()?)
    }

    /// Returns the number of keys, which is proved: the tree leads to as many leaves as it has counted keys. No
    /// thread may change the tree meanwhile, hence `&mut`.
    ///
    /// # Errors
    /// [`KvError::Index`] when a node is damaged. [`KvError::Count`] when the tree leads to more or fewer keys.
    ///
    /// # Cost
    /// Reads each node once, and no leaf.
    pub fn count_proven(&mut self) -> Result<u64, KvError> {
        proof::count_proven(&self.tree()?)
    }

    /// Returns the progress of the last load: the part of its input that is in the tree. `None` if the tree was changed
    /// since.
    ///
    /// # Errors
    /// [`KvError::Load`].
    pub fn load_progress(&self) -> Result<Option<KvLoad>, KvError> {
        if self.root.is_null() {
            return Ok(None);
        }
        load_progress_at(self.heap(), self.load_progress_at())
    }

    /// Notes the progress of a load, in `tx`.
    pub(crate) fn store_load_progress(&self, tx: &Tx<'_, M>, load: &KvLoad) -> Result<(), HeapError> {
        tx.lock(self.load_progress_at())?;
        tx.store_words(self.load_progress_at(), &load.encode());
        Ok(())
    }

    pub(crate) fn clear_load_progress(&self, tx: &Tx<'_, M>) -> Result<(), HeapError> {
        // A load has the store to itself, so no other thread makes the note non-zero meanwhile.
        if tx.memory().load8(self.load_progress_at()) != 0 {
            tx.lock(self.load_progress_at())?;
            tx.store_words(self.load_progress_at(), &KvLoad::NONE);
        }
        Ok(())
    }

    fn load_progress_at(&self) -> PoolOffset {
        self.root.plus(KV_LOAD_OFF)
    }

    /// Closes the pool.
    ///
    /// # Errors
    /// As [`Pool::close`].
    pub fn close(self) -> Result<(), KvError> {
        let Store { server, pool, .. } = self;
        Ok(Server::stop(server.and_then(Result::ok), pool)?.close()?)
    }
}

/// Returns the tree whose root object is at `root`, an empty one if that is null.
pub(crate) fn tree_at<M: Medium>(heap: &Heap<M>, root: PoolOffset) -> Result<Tree<'_, M>, IndexError> {
    if root.is_null() { Ok(Tree::empty(heap)) } else { Tree::open(heap, root) }
}

/// Returns the progress of a load that is at `at`.
pub(crate) fn load_progress_at<M: Medium>(heap: &Heap<M>, at: PoolOffset) -> Result<Option<KvLoad>, KvError> {
    let mut words = [0; KV_LOAD_WORDS];
    let read = heap.memory().reading(|memory| memory.read(at, words.as_mut_bytes()));
    read.map_err(IndexError::from)?;
    KvLoad::decode(&words).map_err(|_| KvError::Load { at })
}

pub(crate) fn make_tree<M: Medium>(tx: &Tx<'_, M>) -> Result<PoolOffset, KvError> {
    let root = Tree::create(tx)?;
    tx.set_root(root);
    Ok(root)
}
