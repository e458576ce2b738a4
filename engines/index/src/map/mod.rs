//! Ordered maps as fields of typed objects: a tree that has one owner.
//!
//! ```text
//!   object of a program     a field of one word, null while the map is empty
//!        |  under the word's own lock
//!   root object of a tree   made by the first insertion
//!        |
//!   nodes and leaves        keys as bytes that sort as the keys do, values as their bits
//! ```
//!
//! Each operation of a transaction reads the word, and the read is validated like any other. So a transaction that uses a map
//! conflicts with one that makes it, clears it, or frees its owner. A reader outside of transactions reads again if the word
//! changes. Both may meet the nodes of a map that another thread is about to free, and what they find there counts only if the
//! word still leads there.

mod free;
mod key;
mod range;
mod salvage;
mod visit;

pub use key::MapKey;
pub use range::{MapRange, MapRangeIn};
pub(crate) use salvage::TreeMaps;
pub use visit::visit_map;

use crate::error::IndexError;
use crate::key_range::KeyRange;
use crate::tree::Tree;
use crate::verified::Value;
use free::free_tree;
use lode_heap::structure::{FreeingTx, Structure, StructureWord, raw_tx};
use lode_heap::type_hash::{of_name, with_number, with_size};
use lode_heap::types::{TypeId, Types};
use lode_heap::{Brand, CellValue, Guard, HeapError, TypedTx, structure_field};
use lode_layout::{AsKey, KEY_LEN_MAX, PoolOffset, Shape, TYPE_TREE, WORD, encode_key};
use lode_pmem::Medium;
use std::fmt;
use std::marker::PhantomData;

/// The tree of a map with such keys and values.
#[derive(Debug)]
pub(crate) struct MapTree<K, V>(PhantomData<fn() -> (K, V)>);

impl<K: MapKey, V: CellValue> Structure for MapTree<K, V> {
    const NAME: u64 = with_number(with_number(of_name("PMap"), K::NAME), V::NAME);
    const TYPE_NUMBER: u64 =
        with_size(with_number(with_number(of_name("PMap"), K::NAME), V::TYPE_NUMBER), size_of::<V::Bits>());
    const ROOT_TYPE: u64 = TYPE_TREE;

    fn describe(types: &mut Types) -> TypeId {
        let (key, value) = (K::describe(types), V::describe(types));
        types.add(Self::TYPE_NUMBER, WORD as usize, Shape::Map { key, value, root: TYPE_TREE })
    }

    fn free(tx: &dyn FreeingTx, root: PoolOffset) -> Result<(), HeapError> {
        free_tree(tx, root)
    }
}

structure_field! {
    /// A map in a pool, sorted by its keys. Its values are any [`CellValue`], read and stored by copy, and checked when they are read.
    ///
    /// ```
    /// use lode_heap::{CellValue, CreateOptions, Durability, HeapError, LayoutName, Persist, TypedPool};
    /// use lode_index::PMap;
    ///
    /// lode_heap::brand!(Shop);
    ///
    /// #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    /// struct Item {
    ///     cents: u64,
    ///     count: u32,
    /// }
    ///
    /// #[derive(Persist)]
    /// #[persist(brand = Shop)]
    /// #[repr(C)]
    /// struct Store {
    ///     stock: PMap<String, Item, Shop>,
    ///     /// By customer and day.
    ///     orders: PMap<(u64, u32), u64, Shop>,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.pool");
    /// # let options = CreateOptions { durability: Some(Durability::Commit), ..CreateOptions::new(1 << 20, LayoutName::new("shop")?) };
    /// let pool = TypedPool::<Shop>::create(&path, &options)?;
    /// let store = pool.root_or_init(|_| Ok(Store { stock: PMap::new(), orders: PMap::new() }))?;
    /// pool.run(|tx| {
    ///     store.stock.insert(tx, "bolt", Item { cents: 5, count: 1000 })?;
    ///     store.stock.insert(tx, "nut", Item { cents: 3, count: 800 })?;
    ///     store.orders.insert(tx, (7, 20_000), 12)?;
    ///     Ok::<_, HeapError>(())
    /// })?;
    ///
    /// let guard = pool.guard();
    /// assert_eq!(store.stock.load(&guard, "nut")?, Some(Item { cents: 3, count: 800 }));
    /// let first = store.stock.load_range(&guard, .."c").next().transpose()?;
    /// assert_eq!(first.map(|(key, _)| key), Some("bolt".to_owned()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Transactions that change different keys run side by side, unless one of them makes the map's first entry or clears it. A
    /// transaction that reads a key, or that it is absent, a range, or the length, is validated at its commit. Readers outside of
    /// transactions take no lock.
    ///
    /// After an error the transaction must end, so pass it on. [`HeapError::OtherPool`] is one of each method.
    ///
    /// # Cost
    /// A field takes a word. An empty map takes no space beyond it, until its first insertion makes a root object of some 600 bytes,
    /// which [`clear`](PMap::clear) and the free of the owner give back. An entry takes 16 bytes, and those of its key and value, each
    /// rounded up to 8; the nodes above take about as much again for random keys. Keys have up to 64 KiB: an integer its own size,
    /// text and bytes their own and in a tuple at least 2 more, an entry that is not last.
    pub struct PMap[K: MapKey, V: CellValue; B](MapTree<K, V>);
}

impl<K, V, B> PMap<K, V, B> {
    /// Makes an empty map. It takes no space of its own.
    pub const fn new() -> PMap<K, V, B> {
        PMap { word: StructureWord::null() }
    }
}

impl<K, V, B> Default for PMap<K, V, B> {
    fn default() -> PMap<K, V, B> {
        PMap::new()
    }
}

impl<K: MapKey, V: CellValue, B: Brand> PMap<K, V, B> {
    /// Returns the map with the same bytes as values of another type, for the [migration](lode_heap::Migrate) of the object that has
    /// it: an enum that got a variant more is such a type. Values whose bytes are none of it are errors where they are read, after
    /// the migration.
    pub fn recast<New: CellValue>(self) -> PMap<K, New, B> {
        const { assert!(size_of::<V::Bits>() == size_of::<New::Bits>(), "values of another size") };
        PMap { word: self.word.recast() }
    }

    /// Gives `key` a value. Returns the one that it had.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`]; [`HeapError::KeyTooLong`], with nothing changed; [`HeapError::InvalidValue`], with nothing
    /// changed, when the bytes of the old value are none; [`HeapError::Conflict`]; [`HeapError::Corrupt`] and [`HeapError::Fault`] when
    /// the map is damaged; [`HeapError::PoolTooLarge`].
    ///
    /// # Cost
    /// For a new key the entry, and some 50 bytes more in the record; now and then those of a node. For an old one with a value of
    /// up to 8 bytes, some 32 bytes of the record.
    pub fn insert<M: Medium>(
        &self,
        tx: &TypedTx<'_, B, M>,
        key: impl AsKey<K>,
        value: V,
    ) -> Result<Option<V>, HeapError> {
        let key = encode_key(&key);
        if key.len() > KEY_LEN_MAX {
            return Err(HeapError::KeyTooLong { len: key.len(), max: KEY_LEN_MAX });
        }
        let root = match self.word.get(tx)? {
            root if root.is_null() => self.root_or_create(tx)?,
            root => root,
        };
        let mut old = None;
        let is_value = |bytes: &[u8]| old.insert(V::from_bytes(bytes)).is_some();
        let done = value.with_bytes(|new| {
            Tree::open_in(raw_tx(tx).heap(), raw_tx(tx), root)
                .and_then(|tree| tree.replace_in(raw_tx(tx), &key, new, is_value))
        });
        self.settle(tx, root, done)?;
        old.map(|old| old.ok_or_else(|| invalid_value::<V>(root))).transpose()
    }

    /// Returns the root object, which is made if there is none.
    #[cold]
    fn root_or_create<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<PoolOffset, HeapError> {
        let root = self.word.lock(tx)?;
        if !root.is_null() {
            return Ok(root);
        }
        let root = Tree::create(raw_tx(tx)).map_err(heap_error)?;
        self.word.set(tx, root)?;
        Ok(root)
    }

    /// Removes `key`. Returns the value that it had.
    ///
    /// # Errors
    /// As [`insert`](PMap::insert).
    ///
    /// # Cost
    /// Two descents, and some 50 bytes of the record; now and then those of a smaller node.
    pub fn remove<M: Medium>(
        &self,
        tx: &TypedTx<'_, B, M>,
        key: impl AsKey<K>,
    ) -> Result<Option<V>, HeapError> {
        let key = encode_key(&key);
        let old = self.get_encoded(tx, &key)?;
        if old.is_some() {
            self.with_tree(tx, |tree| tree.delete_in(raw_tx(tx), &key))?;
        }
        Ok(old)
    }

    /// Returns the value of `key` as the transaction sees it. The read is validated, also that of a key that is absent.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction is changing the place of the key, or when the value does not go with what the
    /// transaction has read before; [`HeapError::InvalidValue`] when its bytes are none; [`HeapError::Corrupt`] and
    /// [`HeapError::Fault`] when the map is damaged.
    ///
    /// # Cost
    /// A descent, and notes of 64 bytes for the map and for the entry. The entry's checksum is verified.
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>, key: impl AsKey<K>) -> Result<Option<V>, HeapError> {
        self.get_encoded(tx, &encode_key(&key))
    }

    /// Returns true if the transaction sees `key` in the map. The read is validated, and the value is not looked at.
    ///
    /// # Errors
    /// As [`get`](PMap::get).
    pub fn contains<M: Medium>(&self, tx: &TypedTx<'_, B, M>, key: impl AsKey<K>) -> Result<bool, HeapError> {
        let found = self.with_tree(tx, |tree| tree.get_in(raw_tx(tx), &encode_key(&key)))?;
        Ok(found.flatten().is_some())
    }

    fn get_encoded<M: Medium>(&self, tx: &TypedTx<'_, B, M>, key: &[u8]) -> Result<Option<V>, HeapError> {
        let found =
            self.with_tree(tx, |tree| Ok(tree.get_in(raw_tx(tx), key)?.map(|bytes| (bytes, tree.root()))))?;
        found.flatten().map(|(bytes, root)| value_of(&bytes, root)).transpose()
    }

    /// Returns the value of `key` as it was last committed.
    ///
    /// # Errors
    /// [`HeapError::InvalidValue`], [`HeapError::Corrupt`], [`HeapError::Fault`].
    pub fn load<M: Medium>(
        &self,
        guard: &Guard<'_, B, M>,
        key: impl AsKey<K>,
    ) -> Result<Option<V>, HeapError> {
        let key = encode_key(&key);
        let (root, found) = self.word.load(guard, |heap, root| {
            if root.is_null() {
                return (root, Ok(None));
            }
            let found = Tree::open(heap, root).and_then(|tree| tree.reader().get(&key));
            (root, found.map(|value| value.map(Value::into_vec)))
        })?;
        found.map_err(heap_error)?.map(|bytes| value_of(&bytes, root)).transpose()
    }

    /// Returns the number of entries as the transaction sees it. The read is validated: the transaction starts again if another one
    /// adds or removes a key before it commits.
    ///
    /// # Errors
    /// As [`get`](PMap::get).
    pub fn len<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<u64, HeapError> {
        self.with_tree(tx, |tree| tree.count_in(raw_tx(tx))).map(Option::unwrap_or_default)
    }

    /// Returns true if the transaction sees no entries.
    ///
    /// # Errors
    /// As [`len`](PMap::len).
    pub fn is_empty<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<bool, HeapError> {
        self.len(tx).map(|len| len == 0)
    }

    /// Returns the number of entries as it was last committed, as [`Tree::count`] does.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`], [`HeapError::Fault`].
    pub fn load_len<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<u64, HeapError> {
        let count = self.word.load(guard, |heap, root| match root.is_null() {
            true => Ok(0),
            false => Tree::open(heap, root).and_then(|tree| tree.count()),
        })?;
        count.map_err(heap_error)
    }

    /// Returns the entry of the least key as the transaction sees it. The read is validated.
    ///
    /// # Errors
    /// As [`get`](PMap::get).
    pub fn first<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Option<(K, V)>, HeapError> {
        self.range(tx, ..)?.next().transpose()
    }

    /// Returns the entry of the greatest key as the transaction sees it. The read is validated.
    ///
    /// # Errors
    /// As [`get`](PMap::get).
    pub fn last<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Option<(K, V)>, HeapError> {
        self.range(tx, ..)?.next_back().transpose()
    }

    /// Returns the entries of a range of keys, `..` for all, as the transaction sees them.
    ///
    /// # Errors
    /// As [`get`](PMap::get).
    pub fn range<'t, M: Medium>(
        &'t self,
        tx: &'t TypedTx<'_, B, M>,
        keys: impl KeyRange<K>,
    ) -> Result<MapRangeIn<'t, K, V, B, M>, HeapError> {
        MapRangeIn::new(self, tx, keys.bounds())
    }

    /// Returns the entries of a range of keys, `..` for all, as they were last committed.
    ///
    /// # Panics
    /// Panics if the guard is one of another pool.
    pub fn load_range<'g, M: Medium>(
        &'g self,
        guard: &'g Guard<'_, B, M>,
        keys: impl KeyRange<K>,
    ) -> MapRange<'g, K, V, B, M> {
        MapRange::new(self, guard, keys.bounds())
    }

    /// Removes all entries, and frees their space.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction uses the map; [`HeapError::TooLarge`] when there are too many entries for one
    /// transaction, of which some can be [removed](PMap::remove) before; [`HeapError::Corrupt`] and [`HeapError::NoObject`] when the map is
    /// damaged.
    ///
    /// # Cost
    /// 16 bytes of the record for each entry, and 32 for each node. Freeing the owner costs the same.
    pub fn clear<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<(), HeapError> {
        self.word.free(tx)
    }

    /// Returns the result of an operation on the tree; `None` if there is no tree.
    fn with_tree<R, M: Medium>(
        &self,
        tx: &TypedTx<'_, B, M>,
        with: impl FnOnce(&Tree<'_, M>) -> Result<R, IndexError>,
    ) -> Result<Option<R>, HeapError> {
        let root = self.word.get(tx)?;
        if root.is_null() {
            return Ok(None);
        }
        let done = Tree::open_in(raw_tx(tx).heap(), raw_tx(tx), root).and_then(|tree| with(&tree));
        self.settle(tx, root, done).map(Some)
    }

    /// Returns the result of an operation on the tree at `root`. A tree that looks damaged may be one that another transaction has
    /// freed: this one starts again then.
    fn settle<R, M: Medium>(
        &self,
        tx: &TypedTx<'_, B, M>,
        root: PoolOffset,
        done: Result<R, IndexError>,
    ) -> Result<R, HeapError> {
        let looks_damaged = done.as_ref().is_err_and(IndexError::is_damage);
        if looks_damaged && self.word.lock(tx)? != root {
            return Err(raw_tx(tx).restart());
        }
        done.map_err(heap_error)
    }
}

impl<K, V, B> fmt::Debug for PMap<K, V, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PMap").finish_non_exhaustive()
    }
}

/// Returns the value with these bytes, of an entry of the tree at `root`.
fn value_of<V: CellValue>(bytes: &[u8], root: PoolOffset) -> Result<V, HeapError> {
    V::from_bytes(bytes).ok_or_else(|| invalid_value::<V>(root))
}

fn invalid_value<V: CellValue>(root: PoolOffset) -> HeapError {
    HeapError::InvalidValue { name: V::TYPE_NAME, at: root }
}

fn heap_error(error: IndexError) -> HeapError {
    match error {
        IndexError::Heap(error) => error,
        IndexError::Fault(fault) => fault.into(),
        IndexError::Corrupt { what, at } => HeapError::Corrupt { what, at },
        IndexError::NoTree { at } => HeapError::Corrupt { what: "the root of the map", at },
        IndexError::KeyTooLong { len } => HeapError::KeyTooLong { len, max: KEY_LEN_MAX },
        IndexError::PoolTooLarge { len, max } => HeapError::PoolTooLarge { len, max },
        IndexError::OtherPool => HeapError::OtherPool,
        IndexError::TreeName { .. } | IndexError::TreeExists => {
            unreachable!("a map has no name")
        }
    }
}
