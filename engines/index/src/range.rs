//! Scans: keys and values between two bounds, from both ends.

use crate::cursor::{Cursor, misplaced_leaf};
use crate::direction::Direction;
use crate::error::IndexError;
use crate::leaf;
use crate::lookup::{Link, Lookup};
use crate::reader::Reader;
use crate::tree::Tree;
use crate::verified::{self, Value, VerifiedLeaf};
use crate::view::{ScanView, Source};
use lode_heap::Tx;
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::mem;
use std::ops::{Bound, Deref, RangeBounds};

/// A key and its value: copies of the bytes whose checksum was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Its value at some moment of the scan.
    pub value: Value,
}

impl Entry {
    /// Returns an entry with copies of a key and a value.
    pub(crate) fn of(key: &[u8], value: &[u8]) -> Entry {
        Entry { key: key.to_vec(), value: Value::from(value) }
    }
}

/// The entries of a range of keys, ascending from the front and descending from the back.
///
/// Returns each key that is present during the whole scan exactly once, with a value that it had at some moment of
/// the scan. A key that is added or removed meanwhile may be returned or not. Each entry is right, or an error is
/// returned instead: [`IndexError::Corrupt`], [`IndexError::Fault`], and [`IndexError::Heap`] as for [`Reader::get`].
///
/// An error stands for the keys that one damaged place hid. They lie between the entries before and after the error.
/// The next call goes on after them. A range without errors has all its keys, unless damage emptied a slot.
/// [`Tree::count_leaves`](crate::Tree::count_leaves) rules that out.
///
/// # Cost
/// Each node is read once per direction. Each leaf is copied and its checksum verified. No lock, no store.
#[derive(Debug)]
pub struct Range<'r, M: Medium> {
    reader: &'r Reader<'r, M>,
    scan: Scan,
}

impl<'h, M: Medium> Reader<'h, M> {
    /// Returns the entries whose keys lie in `keys`.
    pub fn range<K: AsRef<[u8]>>(&self, keys: impl RangeBounds<K>) -> Range<'_, M> {
        self.between(own(keys.start_bound()), own(keys.end_bound()))
    }

    /// Returns the entries whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8]) -> Range<'_, M> {
        let end = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.between(Bound::Included(prefix.to_vec()), end)
    }

    /// Returns all entries.
    pub fn iter(&self) -> Range<'_, M> {
        self.between(Bound::Unbounded, Bound::Unbounded)
    }

    /// Returns the entry of the least key.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`].
    pub fn first(&self) -> Result<Option<Entry>, IndexError> {
        self.iter().next().transpose()
    }

    /// Returns the entry of the greatest key.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`].
    pub fn last(&self) -> Result<Option<Entry>, IndexError> {
        self.iter().next_back().transpose()
    }

    fn between(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Range<'_, M> {
        Range { reader: self, scan: Scan::new(self.root(), from, to) }
    }
}

/// Returns the least key that comes after all keys that begin with `prefix`, or `None` if there is no such key. A
/// range over the prefix ends before that key.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

pub(crate) fn own<K: AsRef<[u8]>>(bound: Bound<&K>) -> Bound<Vec<u8>> {
    bound.map(|key| key.as_ref().to_vec())
}

fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// Makes `key` the bound, which is no part of the range. Uses the memory of the old bound.
pub fn exclude(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    let mut bytes = match mem::replace(bound, Bound::Unbounded) {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
        Bound::Unbounded => Vec::new(),
    };
    key.clone_into(&mut bytes);
    *bound = Bound::Excluded(bytes);
}

fn is_above(from: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match from {
        Bound::Included(from) => key >= from.as_slice(),
        Bound::Excluded(from) => key > from.as_slice(),
        Bound::Unbounded => true,
    }
}

fn is_below(to: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match to {
        Bound::Included(to) => key <= to.as_slice(),
        Bound::Excluded(to) => key < to.as_slice(),
        Bound::Unbounded => true,
    }
}

/// The two ends of a scan, which move towards each other. It borrows nothing, so it may be kept beside its snapshot.
#[derive(Debug)]
pub struct Scan {
    root: PoolOffset,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front: Option<Cursor>,
    back: Option<Cursor>,
    is_done: bool,
    leaf: LeafCopy,
}

/// A copy of the leaf that a scan has read last. All copies of a scan use the same memory.
#[derive(Debug, Default)]
struct LeafCopy {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl LeafCopy {
    fn replace(&mut self, leaf: &VerifiedLeaf<'_>) {
        leaf.key().clone_into(&mut self.key);
        leaf.value_bytes().clone_into(&mut self.value);
    }
}

impl Scan {
    pub(crate) fn new(root: PoolOffset, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Scan {
        Scan { root, from, to, front: None, back: None, is_done: false, leaf: LeafCopy::default() }
    }

    /// Reads the next entry from one end. Its key becomes the bound of that end. Returns false if there is none.
    pub(crate) fn advance<M: Medium>(
        &mut self,
        source: Source<'_, M, impl ScanView<M>>,
        direction: Direction,
    ) -> Result<bool, IndexError> {
        let (cursor, start) = match direction {
            Direction::Forward => (&mut self.front, &self.from),
            Direction::Backward => (&mut self.back, &self.to),
        };
        let is_first = cursor.is_none();
        let cursor = cursor.get_or_insert_with(|| Cursor::new(direction));
        if is_first {
            cursor.begin(source, self.root, key_of(start))?;
        }
        let copy = &mut self.leaf;
        let mut skipped = false;
        while let Some(link) = cursor.next(source)? {
            cursor.read_leaf(source.view, |cursor| read_leaf(source, cursor, &link, copy))?;
            if !cursor.path_matches(&copy.key) {
                return Err(misplaced_leaf(link.slot.at()));
            }
            let (is_past_start, is_before_end) = match direction {
                Direction::Forward => (is_above(&self.from, &copy.key), is_below(&self.to, &copy.key)),
                Direction::Backward => (is_below(&self.to, &copy.key), is_above(&self.from, &copy.key)),
            };
            if !is_past_start {
                // Only the very first leaf may lie before the bound; later ones ascend, or descend. After damage on
                // the path to the bound, the cursor may begin anywhere before it.
                if !cursor.begins_early && (!is_first || skipped) {
                    let at = link.slot.at();
                    return Err(IndexError::Corrupt { what: "the order of the keys before the leaf", at });
                }
                skipped = true;
                continue;
            }
            if !is_before_end {
                return Ok(false);
            }
            cursor.begins_early = false;
            match direction {
                Direction::Forward => exclude(&mut self.from, &copy.key),
                Direction::Backward => exclude(&mut self.to, &copy.key),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Ends the scan: there are no more entries.
    pub(crate) fn end(&mut self) {
        self.is_done = true;
    }

    /// Advances with `advance` and reads the entry with `read`, unless the scan is done.
    pub(crate) fn next_or_error<T>(
        &mut self,
        direction: Direction,
        advance: impl FnOnce(&mut Self) -> Result<bool, IndexError>,
        read: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Option<Result<T, IndexError>> {
        if self.is_done {
            return None;
        }
        match advance(self) {
            Ok(true) => Some(Ok(read(&self.leaf.key, &self.leaf.value))),
            Ok(false) => {
                self.is_done = true;
                None
            }
            Err(error) => {
                let cursor = match direction {
                    Direction::Forward => &mut self.front,
                    Direction::Backward => &mut self.back,
                };
                cursor.iter_mut().for_each(Cursor::record_damage);
                Some(Err(error))
            }
        }
    }
}

/// Copies the leaf to which `link` led.
fn read_leaf<M: Medium>(
    Source { heap, view }: Source<'_, M, impl ScanView<M>>,
    cursor: &mut Cursor,
    link: &Link,
    copy: &mut LeafCopy,
) -> Result<(), IndexError> {
    let (leaf, memory) = (link.slot.at(), view.memory());
    cursor.count_read(leaf::header(view, leaf).leaf_len().unwrap_or(0).min(memory.deref().len()), leaf)?;
    let lookup = Lookup { heap, view, memory, tx: view.tx() };
    match verified::read(view, leaf, |leaf| copy.replace(leaf)) {
        Ok(()) if lookup.is_allocated_leaf(leaf) => Ok(()),
        _ => lookup.read_stable(link, |leaf| copy.replace(leaf)),
    }
}

impl<M: Medium> Range<'_, M> {
    fn next_from(&mut self, direction: Direction) -> Option<Result<Entry, IndexError>> {
        let heap = self.reader.heap();
        let advance = |scan: &mut Scan| {
            heap.memory().try_reading(|view| scan.advance(Source { heap, view }, direction))
        };
        self.scan.next_or_error(direction, advance, Entry::of)
    }
}

/// The entries of a range of keys as a transaction sees them, its own changes included. Ascending from the front and
/// descending from the back.
///
/// The scan is validated: the transaction starts again if another one adds, changes or removes a key that the scan has
/// passed. That includes the first key after the range. Changes of the transaction itself show in what the scan returns
/// later.
///
/// Errors are as for [`Range`]. After [`IndexError::Heap`] the transaction must end, so pass the error on.
#[derive(Debug)]
pub struct RangeIn<'t, 'h, M: Medium> {
    tx: &'t Tx<'h, M>,
    scan: Scan,
    /// Amount of changes of the transaction that the cursors know.
    changes: u64,
}

impl<'h, M: Medium> Tree<'h, M> {
    /// Returns the entries whose keys lie in `keys`, as the transaction sees them.
    ///
    /// # Errors
    /// [`IndexError::OtherPool`].
    pub fn range_in<'t, 'x, K: AsRef<[u8]>>(
        &self,
        tx: &'t Tx<'x, M>,
        keys: impl RangeBounds<K>,
    ) -> Result<RangeIn<'t, 'x, M>, IndexError> {
        self.between_in(tx, own(keys.start_bound()), own(keys.end_bound()))
    }

    /// Returns the entries whose keys begin with `prefix`, as the transaction sees them.
    ///
    /// # Errors
    /// [`IndexError::OtherPool`].
    pub fn prefix_in<'t, 'x>(
        &self,
        tx: &'t Tx<'x, M>,
        prefix: &[u8],
    ) -> Result<RangeIn<'t, 'x, M>, IndexError> {
        let end = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.between_in(tx, Bound::Included(prefix.to_vec()), end)
    }

    fn between_in<'t, 'x>(
        &self,
        tx: &'t Tx<'x, M>,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> Result<RangeIn<'t, 'x, M>, IndexError> {
        self.check_heap(tx)?;
        tx.pin_to_end();
        let mut scan = Scan::new(self.root(), from, to);
        if self.root().is_null() {
            scan.end();
        }
        Ok(RangeIn { tx, scan, changes: tx.changes() })
    }
}

impl<M: Medium> RangeIn<'_, '_, M> {
    fn next_from(&mut self, direction: Direction) -> Option<Result<Entry, IndexError>> {
        let (tx, changes) = (self.tx, self.tx.changes());
        if self.changes != changes {
            // The cursors begin anew at the keys that were returned last.
            (self.scan.front, self.scan.back, self.changes) = (None, None, changes);
        }
        let advance = |scan: &mut Scan| {
            let advanced = scan.advance(Source { heap: tx.heap(), view: tx }, direction);
            tx.memory().fault().map_or(advanced, |fault| Err(fault.into()))
        };
        self.scan.next_or_error(direction, advance, Entry::of)
    }
}

impl<M: Medium> Iterator for RangeIn<'_, '_, M> {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Forward)
    }
}

impl<M: Medium> DoubleEndedIterator for RangeIn<'_, '_, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Backward)
    }
}

impl<M: Medium> Iterator for Range<'_, M> {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Forward)
    }
}

impl<M: Medium> DoubleEndedIterator for Range<'_, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Backward)
    }
}
