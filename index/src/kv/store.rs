//! A pool whose content is one tree of keys and values.

use crate::kv::KvError;
use crate::{Finding, IndexError, Tree};
use lode_heap::{Heap, HeapError, Pool, Tx};
use lode_layout::{KV_LOAD_OFF, KV_LOAD_WORDS, KvLoad, LayoutName, PoolOffset, TREE_CELLS_OFF};
use lode_pmem::{Fault, Mapping, Medium};
use lode_pool::{CreateOptions, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The layout name of pools that hold a store.
pub const LAYOUT_NAME: &str = "kv";

/// The least bytes of a pool with a store in it: fewer would have no room for keys.
pub const STORE_SIZE_MIN: u64 = 128 << 10;

/// Keys and values in a pool of the layout `kv`: the pool's root is that of a tree.
///
/// # Durability
/// A change is durable when the function that makes it returns.
#[derive(Debug)]
pub struct Store<M: Medium = Arc<Mapping>> {
    pool: Pool<M>,
    /// Null in a pool without a tree that was opened for reading.
    root: PoolOffset,
}

impl Store {
    /// The layout `kv`.
    pub fn layout() -> LayoutName {
        LayoutName::new(LAYOUT_NAME).expect("a layout name")
    }

    /// Makes a pool at `path` with nothing in it. The layout in `options` is replaced by `kv`.
    ///
    /// # Errors
    /// [`KvError::TooSmall`] below [`STORE_SIZE_MIN`], and what a pool can't be made for.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Store, KvError> {
        if options.size < STORE_SIZE_MIN {
            return Err(KvError::TooSmall { size: options.size });
        }
        let options = CreateOptions { layout: Store::layout(), ..options.clone() };
        Store::over(Pool::create_with(path, &options, |heap| heap.run(make_tree).map(drop))?)
    }

    /// Opens the store at `path`. The layout in `options` is replaced by `kv`.
    ///
    /// # Errors
    /// [`KvError`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Store, KvError> {
        Store::open_through(path, options, |mapping| mapping)
    }
}

impl<M: Medium> Store<M> {
    /// As [`open`](Store::open); everything is stored through what `wrap` makes of the mapping.
    ///
    /// # Errors
    /// [`KvError`].
    pub fn open_through(
        path: &Path,
        options: &OpenOptions,
        wrap: impl FnOnce(Arc<Mapping>) -> M,
    ) -> Result<Store<M>, KvError> {
        let options = OpenOptions { layout: Some(Store::layout()), ..options.clone() };
        Store::over(Pool::open_through(path, &options, wrap)?)
    }

    /// The store in `pool`. Where there is none yet the tree is made, in one transaction; in a pool that was
    /// opened for reading the store is empty.
    ///
    /// # Errors
    /// [`KvError`].
    pub fn over(pool: Pool<M>) -> Result<Store<M>, KvError> {
        let mut root = pool.heap().root()?;
        if root.is_null() && !pool.heap().is_read_only() {
            root = pool.heap().run(make_tree)?;
        }
        let store = Store { pool, root };
        store.tree()?;
        Ok(store)
    }

    /// The pool that it is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// The heap that it is in.
    pub fn heap(&self) -> &Heap<M> {
        self.pool.heap()
    }

    /// The tree, for everything that changes nothing.
    ///
    /// # Errors
    /// [`IndexError::NoTree`] when it was damaged since the store was opened.
    pub fn tree(&self) -> Result<Tree<'_, M>, IndexError> {
        if self.root.is_null() { Ok(Tree::absent(self.heap())) } else { Tree::open(self.heap(), self.root) }
    }

    /// Returns a copy of the value of `key`: the right one, which its checksum proves, or an error. `None` means that
    /// the tree leads to no such key, and is not proved; [`get_proven`](Store::get_proven) proves it.
    ///
    /// # Errors
    /// [`KvError::Index`], as [`Tree::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.tree()?.get(key)?)
    }

    /// As [`get`](Store::get), but `None` is proved as well: every node and leaf of the tree is sound and in its place,
    /// the tree has as many leaves as it has counted keys, and none of them has `key`. For the time of that nobody may
    /// change the tree, hence `&mut`. The reasons are in docs/decisions/proof-of-absence.md.
    ///
    /// # Errors
    /// [`KvError::Index`] as [`Tree::get`]; [`KvError::Unproven`] when the key is not found and there is damage, so
    /// that it may be a key that was lost.
    ///
    /// # Cost
    /// That of a lookup when the key is there, else that of [`Tree::check`]: each node and leaf is read once.
    pub fn get_proven(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        let tree = self.tree()?;
        let found = tree.get(key)?;
        if found.is_none() {
            let mut damage = None;
            tree.check(|finding| match finding {
                Finding::Damage(error) => drop(damage.get_or_insert(error)),
                Finding::Object(_) => {}
            });
            if let Some(error) = damage {
                return Err(KvError::Unproven(error));
            }
        }
        Ok(found)
    }

    /// Gives `key` the value `value`; whether it had another one before. What is remembered of a load ends
    /// here: loading that input again would load all of it.
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
        self.heap().check_changes()?;
        let tree = self.tree()?;
        self.heap().run(|tx| {
            self.forget_load(tx)?;
            Ok(tree.insert_in(tx, key, value)?)
        })
    }

    /// Removes `key`; whether it was there. What is remembered of a load ends here, as for
    /// [`put`](Store::put).
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
        self.heap().check_changes()?;
        let tree = self.tree()?;
        self.heap().run(|tx| {
            let was_there = tree.delete_in(tx, key)?;
            if was_there {
                self.forget_load(tx)?;
            }
            Ok(was_there)
        })
    }

    /// Returns the number of keys, as [`Tree::count`]: the tree has counted them, and nothing proves it.
    ///
    /// # Errors
    /// [`KvError::Index`].
    pub fn count(&self) -> Result<u64, KvError> {
        Ok(self.tree()?.count()?)
    }

    /// Returns the number of keys, to each of which a slot of the tree leads: as many as the tree has counted. For the
    /// time of that nobody may change the tree, hence `&mut`.
    ///
    /// # Errors
    /// [`KvError::Index`] when a node is damaged; [`KvError::Count`] when there are more or fewer.
    ///
    /// # Cost
    /// Reads each node once, and no leaf.
    pub fn count_proven(&mut self) -> Result<u64, KvError> {
        let tree = self.tree()?;
        let counted = tree.count()?;
        let found = tree.count_leaves(counted)?;
        if found != counted {
            let at = self.root.plus(TREE_CELLS_OFF);
            return Err(KvError::Count { counted, found, at });
        }
        Ok(counted)
    }

    /// How much of which input the tree holds, if nothing else has changed it since that load.
    ///
    /// # Errors
    /// [`KvError::Load`].
    pub fn loaded(&self) -> Result<Option<KvLoad>, KvError> {
        if self.root.is_null() {
            return Ok(None);
        }
        let mut words = [0; KV_LOAD_WORDS];
        self.heap().memory().read(self.load_at(), words.as_mut_bytes());
        if let Some(fault) = Fault::take() {
            return Err(IndexError::from(fault).into());
        }
        KvLoad::decode(&words).map_err(|_| KvError::Load { at: self.load_at() })
    }

    /// Notes in `tx` how far a load has come.
    pub(crate) fn note_load(&self, tx: &Tx<'_, M>, load: &KvLoad) -> Result<(), HeapError> {
        tx.lock(self.load_at())?;
        tx.store_words(self.load_at(), &load.encode());
        Ok(())
    }

    fn forget_load(&self, tx: &Tx<'_, M>) -> Result<(), HeapError> {
        // A load has the store to itself, so the line changes from zero in no other thread.
        if self.heap().memory().load8(self.load_at()) != 0 {
            tx.lock(self.load_at())?;
            tx.store_words(self.load_at(), &KvLoad::NONE);
        }
        Ok(())
    }

    fn load_at(&self) -> PoolOffset {
        self.root.plus(KV_LOAD_OFF)
    }

    /// Closes the pool.
    ///
    /// # Errors
    /// As [`Pool::close`].
    pub fn close(self) -> Result<(), KvError> {
        Ok(self.pool.close()?)
    }
}

fn make_tree<M: Medium>(tx: &Tx<'_, M>) -> Result<PoolOffset, KvError> {
    let root = Tree::create(tx)?;
    tx.set_root(root);
    Ok(root)
}
