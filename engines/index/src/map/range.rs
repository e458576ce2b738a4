//! Ranges of the entries of a map.

use super::{MapKey, PMap, heap_error, value_of};
use crate::direction::Direction;
use crate::key_range::KeyBounds;
use crate::range::{RangeIn, Scan};
use crate::tree::Tree;
use crate::view::Source;
use lode_heap::structure::raw_tx;
use lode_heap::{Brand, CellValue, Guard, Heap, HeapError, TypedTx};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::fmt;

/// The entries of a range of keys of a map as a transaction sees them, its own changes included. Ascending from the front and
/// descending from the back. Made by [`PMap::range`].
///
/// The scan is validated: the transaction starts again if another one adds, changes or removes a key that the scan has passed. That
/// includes the first key after the range.
///
/// Errors are those of [`PMap::get`], and [`HeapError::Corrupt`] for a key that is none of its type. After [`HeapError::Conflict`] the
/// transaction must end, so pass it on.
pub struct MapRangeIn<'t, K: MapKey, V: CellValue, B: Brand, M: Medium> {
    map: &'t PMap<K, V, B>,
    tx: &'t TypedTx<'t, B, M>,
    root: PoolOffset,
    /// `None` if the map was empty.
    range: Option<RangeIn<'t, 't, M>>,
}

impl<'t, K: MapKey, V: CellValue, B: Brand, M: Medium> MapRangeIn<'t, K, V, B, M> {
    pub(super) fn new(
        map: &'t PMap<K, V, B>,
        tx: &'t TypedTx<'_, B, M>,
        keys: KeyBounds,
    ) -> Result<MapRangeIn<'t, K, V, B, M>, HeapError> {
        let root = map.word.get(tx)?;
        let range = map.with_tree(tx, |tree| tree.range_in(raw_tx(tx), keys))?;
        Ok(MapRangeIn { map, tx, root, range })
    }

    fn next_from(&mut self, direction: Direction) -> Option<Result<(K, V), HeapError>> {
        let range = self.range.as_mut()?;
        let entry = match direction {
            Direction::Forward => range.next()?,
            Direction::Backward => range.next_back()?,
        };
        let entry = self.map.settle(self.tx, self.root, entry);
        Some(entry.and_then(|entry| decode(&entry.key, entry.value.as_bytes(), self.root)))
    }
}

/// The entries of a range of keys of a map as they were last committed, ascending from the front and descending from the back. Made
/// by [`PMap::load_range`].
///
/// Returns each key that is present during the whole scan once, with a value that it had at some moment of the scan. A key that is
/// added or removed meanwhile may be returned or not. A scan ends if the map is cleared, or freed with its owner.
///
/// Errors are [`HeapError::InvalidValue`], [`HeapError::Corrupt`] and [`HeapError::Fault`]; the next call goes on after them.
pub struct MapRange<'g, K: MapKey, V: CellValue, B: Brand, M: Medium> {
    map: &'g PMap<K, V, B>,
    guard: &'g Guard<'g, B, M>,
    heap: &'g Heap<M>,
    root: PoolOffset,
    scan: Scan,
}

impl<'g, K: MapKey, V: CellValue, B: Brand, M: Medium> MapRange<'g, K, V, B, M> {
    pub(super) fn new(
        map: &'g PMap<K, V, B>,
        guard: &'g Guard<'_, B, M>,
        (from, to): KeyBounds,
    ) -> MapRange<'g, K, V, B, M> {
        let found = map.word.load(guard, |heap, root| (heap, root));
        let (heap, root) = found.unwrap_or_else(|error| panic!("{error}"));
        let mut scan = Scan::new(root, from, to);
        if root.is_null() {
            scan.end();
        }
        MapRange { map, guard, heap, root, scan }
    }

    fn next_from(&mut self, direction: Direction) -> Option<Result<(K, V), HeapError>> {
        let (heap, root) = (self.heap, self.root);
        let mut is_lost = false;
        let advance = |scan: &mut Scan| {
            // A damaged word leads to no tree.
            Tree::open(heap, root).inspect_err(|_| is_lost = true)?;
            heap.memory().try_reading(|view| scan.advance(Source { heap, view }, direction))
        };
        let entry = self.scan.next_or_error(direction, advance, |key, value| decode(key, value, root))?;
        if entry.is_err() && self.map.word.load(self.guard, |_, now| now) != Ok(root) {
            self.scan.end();
            return None;
        }
        if is_lost {
            self.scan.end();
        }
        Some(entry.map_err(heap_error).flatten())
    }
}

fn decode<K: MapKey, V: CellValue>(key: &[u8], value: &[u8], root: PoolOffset) -> Result<(K, V), HeapError> {
    let no_key = |_| HeapError::Corrupt { what: "a key of the map whose root", at: root };
    let key = K::decode_whole_key(key).map_err(no_key)?;
    Ok((key, value_of(value, root)?))
}

macro_rules! ranges {
    ($($range:ident),*) => {$(
        impl<K: MapKey, V: CellValue, B: Brand, M: Medium> Iterator for $range<'_, K, V, B, M> {
            type Item = Result<(K, V), HeapError>;

            fn next(&mut self) -> Option<Self::Item> {
                self.next_from(Direction::Forward)
            }
        }

        impl<K: MapKey, V: CellValue, B: Brand, M: Medium> DoubleEndedIterator for $range<'_, K, V, B, M> {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.next_from(Direction::Backward)
            }
        }

        impl<K: MapKey, V: CellValue, B: Brand, M: Medium> fmt::Debug for $range<'_, K, V, B, M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($range)).finish_non_exhaustive()
            }
        }
    )*};
}

ranges!(MapRangeIn, MapRange);
