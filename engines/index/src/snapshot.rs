//! A tree at one moment.

use crate::count;
use crate::direction::Direction;
use crate::error::IndexError;
use crate::lookup::Lookup;
use crate::node::Node;
use crate::range::{Entry, Scan, own, prefix_end};
use crate::verified::Value;
use crate::view::Source;
use lode_heap::{HeapError, Snapshot};
use lode_layout::{PoolOffset, tree_meta};
use lode_pmem::Medium;
use std::ops::{Bound, RangeBounds};

/// The tree as a [`Snapshot`] sees it: the same keys and values for every lookup and scan, whatever writers do
/// meanwhile.
///
/// Lookups and scans take no lock and never start again. They return right values or errors, as those of a
/// [`Reader`](crate::Reader). One check is missing: that the heap has a leaf at the place to which a slot leads, since
/// the leaf may have been removed since.
#[derive(Debug)]
pub struct TreeSnapshot<'s, 'h, M: Medium> {
    snapshot: &'s Snapshot<'h, M>,
    root: PoolOffset,
}

impl<M: Medium> Clone for TreeSnapshot<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for TreeSnapshot<'_, '_, M> {}

impl<'s, 'h, M: Medium> TreeSnapshot<'s, 'h, M> {
    /// Opens the tree whose root object is at `root`, an offset that the snapshot shows: its
    /// [root](Snapshot::root), or a word that was read from it. The tree is empty if that is [`PoolOffset::NULL`].
    ///
    /// # Errors
    /// [`IndexError::NoTree`], [`IndexError::Fault`]; [`IndexError::Heap`] with
    /// [`HeapError::SnapshotEnded`].
    pub fn open(
        snapshot: &'s Snapshot<'h, M>,
        root: PoolOffset,
    ) -> Result<TreeSnapshot<'s, 'h, M>, IndexError> {
        let tree = TreeSnapshot { snapshot, root };
        if root.is_null() {
            return Ok(tree);
        }
        snapshot.try_reading(|view| match view.load8(Node::root(root).meta_at()) {
            meta if meta == tree_meta() => Ok(tree),
            _ => Err(IndexError::NoTree { at: root }),
        })
    }

    /// Opens another tree of the same snapshot.
    pub(crate) fn of_same_snapshot(&self, root: PoolOffset) -> Result<TreeSnapshot<'s, 'h, M>, IndexError> {
        TreeSnapshot::open(self.snapshot, root)
    }

    /// Returns the value of `key`. `None` is not proved, as for [`Reader::get`](crate::Reader::get).
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`]; [`IndexError::Heap`] with
    /// [`HeapError::SnapshotEnded`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, IndexError> {
        self.snapshot.try_reading(|view| {
            Lookup { heap: self.snapshot.heap(), view, memory: view.memory(), tx: None }.get(self.root, key)
        })
    }

    /// Returns the number of keys, as the tree has counted them.
    ///
    /// # Errors
    /// As [`get`](TreeSnapshot::get).
    pub fn count(&self) -> Result<u64, IndexError> {
        if self.root.is_null() {
            return Ok(0);
        }
        self.snapshot.try_reading(|view| Ok(count::sum(view, self.root)))
    }

    /// Returns the entries whose keys lie in `keys`.
    pub fn range<K: AsRef<[u8]>>(&self, keys: impl RangeBounds<K>) -> RangeAt<'s, 'h, M> {
        self.between(own(keys.start_bound()), own(keys.end_bound()))
    }

    /// Returns the entries whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8]) -> RangeAt<'s, 'h, M> {
        let end = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.between(Bound::Included(prefix.to_vec()), end)
    }

    /// Returns all entries.
    pub fn iter(&self) -> RangeAt<'s, 'h, M> {
        self.between(Bound::Unbounded, Bound::Unbounded)
    }

    fn between(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> RangeAt<'s, 'h, M> {
        RangeAt { snapshot: self.snapshot, scan: Scan::new(self.root, from, to) }
    }
}

impl Scan {
    /// Returns a scan of the entries whose keys lie in `keys`. `root` is the root object of a tree that
    /// [`TreeSnapshot::open`] has opened.
    pub fn over<K: AsRef<[u8]>>(root: PoolOffset, keys: impl RangeBounds<K>) -> Scan {
        Scan::new(root, own(keys.start_bound()), own(keys.end_bound()))
    }

    /// Calls `read` with the key and the value of the next entry from one end, as `snapshot` shows it, which is the same in
    /// all calls. Errors are as for [`RangeAt`].
    pub fn next_at<M: Medium, T>(
        &mut self,
        snapshot: &Snapshot<'_, M>,
        direction: Direction,
        read: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Option<Result<T, IndexError>> {
        let heap = snapshot.heap();
        let advance =
            |scan: &mut Scan| snapshot.try_reading(|view| scan.advance(Source { heap, view }, direction));
        let next = self.next_or_error(direction, advance, read);
        if let Some(Err(IndexError::Heap(HeapError::SnapshotEnded))) = next {
            self.end();
        }
        next
    }
}

/// The entries of a range of keys at one moment. Ascending from the front and descending from the back.
///
/// Errors are as for [`Range`](crate::Range). After [`IndexError::Heap`] with
/// [`HeapError::SnapshotEnded`] there are no more entries.
///
/// # Cost
/// Each node is read once per direction, and each leaf once. Words that transactions have replaced since are looked up
/// in memory.
#[derive(Debug)]
pub struct RangeAt<'s, 'h, M: Medium> {
    snapshot: &'s Snapshot<'h, M>,
    scan: Scan,
}

impl<M: Medium> RangeAt<'_, '_, M> {
    fn next_from(&mut self, direction: Direction) -> Option<Result<Entry, IndexError>> {
        self.scan.next_at(self.snapshot, direction, Entry::of)
    }
}

impl<M: Medium> Iterator for RangeAt<'_, '_, M> {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Forward)
    }
}

impl<M: Medium> DoubleEndedIterator for RangeAt<'_, '_, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Backward)
    }
}
