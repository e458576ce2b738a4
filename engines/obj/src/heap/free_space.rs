//! The free chunks of an open pool in DRAM, and the runs that have free blocks.
//!
//! A free block here is a free block on the medium, header and footer. One that is given away is taken out first, and stays a free block
//! on the medium until the publication of its object, or the record of a new run.

use super::class::RunKey;
use super::slots::BlockPlace;
use lode_layout::PmdkChunk;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A block of chunks: place and number.
pub(super) type Extent = (BlockPlace, u32);

/// The state of a block of chunks that is on its way to be an object, or from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transit {
    /// Reserved: free on the medium.
    Reserved,
    /// Reserved, and a publication makes it an object.
    Published,
    /// An object that a publication frees.
    Freeing,
}

/// Runs of one kind that no arena has, and that have free blocks.
///
/// A run is listed by the longest piece of free blocks in it. One whose piece has grown is listed a second time; the older entry is
/// recognized by the length that the run itself notes.
#[derive(Debug, Default)]
struct Listed {
    by_longest: BTreeMap<u32, BTreeSet<BlockPlace>>,
}

/// The free space.
#[derive(Debug, Default)]
pub(super) struct FreeSpace {
    by_len: BTreeSet<(u32, BlockPlace)>,
    by_place: BTreeMap<BlockPlace, u32>,
    /// Objects that have chunks for themselves: the header of their first chunk.
    used: HashMap<BlockPlace, PmdkChunk>,
    in_transit: HashMap<BlockPlace, (u32, Transit)>,
    /// Zones without a header, the first one last.
    pub(super) unused_zones: Vec<u32>,
    listed: HashMap<RunKey, Listed>,
    /// Runs whose bitmaps were not read, by flags and chunks.
    unread: HashMap<(u16, u32), Vec<BlockPlace>>,
    /// Runs all of whose blocks were free when they were listed.
    empty: Vec<BlockPlace>,
}

impl FreeSpace {
    /// Adds a free block.
    pub(super) fn add(&mut self, (place, len): Extent) {
        self.by_len.insert((len, place));
        self.by_place.insert(place, len);
    }

    /// Removes a free block.
    pub(super) fn remove(&mut self, (place, len): Extent) {
        self.by_len.remove(&(len, place));
        self.by_place.remove(&place);
    }

    /// Returns the smallest free block of at least `len` chunks.
    pub(super) fn best_fit(&self, len: u32) -> Option<Extent> {
        self.by_len.range((len, (0, 0))..).next().map(|(len, place)| (*place, *len))
    }

    /// Returns the chunks of the largest free block.
    pub(super) fn largest(&self) -> u32 {
        self.by_len.last().map_or(0, |(len, _)| *len)
    }

    /// Returns the free block that ends where another block begins.
    pub(super) fn before(&self, (zone, chunk): BlockPlace) -> Option<Extent> {
        let (place, len) = self.by_place.range((zone, 0)..(zone, chunk)).next_back()?;
        (place.1 + len == chunk).then_some((*place, *len))
    }

    /// Returns the free block that begins where another block ends.
    pub(super) fn after(&self, ((zone, chunk), len): Extent) -> Option<Extent> {
        let place = (zone, chunk.checked_add(len)?);
        self.by_place.get(&place).map(|len| (place, *len))
    }

    /// Returns the free blocks that lie beside one another, as what they would be together, at most `max` of them.
    pub(super) fn neighbours(&self, max: usize) -> Vec<(Extent, Vec<Extent>)> {
        let mut found: Vec<(Extent, Vec<Extent>)> = Vec::new();
        let mut group: Vec<Extent> = Vec::new();
        let end_of = |((zone, chunk), len): Extent| (zone, chunk + len);
        for (place, len) in self.by_place.iter().map(|(place, len)| (*place, *len)) {
            if group.last().is_some_and(|last| end_of(*last) != place) {
                close(&mut group, &mut found);
            }
            group.push((place, len));
        }
        close(&mut group, &mut found);
        found.truncate(max);
        found
    }

    /// Returns the header of an object's first chunk.
    pub(super) fn used(&self, place: BlockPlace) -> Option<PmdkChunk> {
        self.used.get(&place).copied()
    }

    /// Notes an object that has chunks for itself.
    pub(super) fn add_used(&mut self, place: BlockPlace, header: PmdkChunk) {
        self.used.insert(place, header);
    }

    /// Notes that an object is none any more.
    pub(super) fn remove_used(&mut self, place: BlockPlace) {
        self.used.remove(&place);
    }

    /// Returns the state of a block of chunks that is in transit.
    pub(super) fn transit(&self, place: BlockPlace) -> Option<(u32, Transit)> {
        self.in_transit.get(&place).copied()
    }

    pub(super) fn set_transit(&mut self, (place, len): Extent, transit: Transit) {
        self.in_transit.insert(place, (len, transit));
    }

    pub(super) fn end_transit(&mut self, place: BlockPlace) {
        self.in_transit.remove(&place);
    }

    /// Lists a run by its longest piece of free blocks.
    pub(super) fn list_run(&mut self, key: RunKey, place: BlockPlace, longest: u32) {
        self.listed.entry(key).or_default().by_longest.entry(longest).or_default().insert(place);
    }

    /// Takes a listed run with a piece of at least `count` blocks. Returns the length by which it was listed, too.
    pub(super) fn take_run(&mut self, key: &RunKey, count: u32) -> Option<(BlockPlace, u32)> {
        let by_longest = &mut self.listed.get_mut(key)?.by_longest;
        let (longest, places) = by_longest.range_mut(count..).next()?;
        let (longest, place) = (*longest, places.pop_first());
        if places.is_empty() {
            by_longest.remove(&longest);
        }
        place.map(|place| (place, longest))
    }

    /// Notes a run that was not read.
    pub(super) fn add_unread(&mut self, (flags, chunks): (u16, u32), place: BlockPlace) {
        self.unread.entry((flags, chunks)).or_default().push(place);
    }

    /// Takes a run that was not read and may be of the kind.
    pub(super) fn take_unread(&mut self, key: &RunKey) -> Option<BlockPlace> {
        self.unread.get_mut(&(key.flags, key.chunks))?.pop()
    }

    /// Takes any run that was not read.
    pub(super) fn take_any_unread(&mut self) -> Option<BlockPlace> {
        self.unread.values_mut().find_map(Vec::pop)
    }

    /// Notes an empty run.
    pub(super) fn list_empty(&mut self, place: BlockPlace) {
        self.empty.push(place);
    }

    /// Takes empty runs, at most `max`.
    pub(super) fn take_empty(&mut self, max: usize) -> Vec<BlockPlace> {
        let from = self.empty.len().saturating_sub(max);
        self.empty.split_off(from)
    }
}

/// Notes a group of free blocks that are more than one.
fn close(group: &mut Vec<Extent>, found: &mut Vec<(Extent, Vec<Extent>)>) {
    if let [(first, _), _, ..] = group[..] {
        let len = group.iter().map(|(_, len)| len).sum();
        found.push(((first, len), std::mem::take(group)));
    }
    group.clear();
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn blocks_are_found_by_len_and_place() {
        let mut space = FreeSpace::default();
        for extent in [((0, 0), 3), ((0, 3), 2), ((0, 10), 7), ((1, 0), 2)] {
            space.add(extent);
        }
        assert_eq!(
            (space.best_fit(2), space.best_fit(4), space.best_fit(8)),
            (Some(((0, 3), 2)), Some(((0, 10), 7)), None)
        );
        assert_eq!(
            (space.before((0, 5)), space.before((0, 4)), space.before((1, 0))),
            (Some(((0, 3), 2)), None, None)
        );
        assert_eq!((space.after(((0, 5), 5)), space.after(((0, 5), 4))), (Some(((0, 10), 7)), None));
        assert_eq!(space.neighbours(9), [(((0, 0), 5), vec![((0, 0), 3), ((0, 3), 2)])]);
        space.remove(((0, 10), 7));
        assert_eq!(space.largest(), 3);
    }

    #[test]
    fn fullest_run_that_suffices_is_taken() {
        let key = RunKey { unit_size: 128, alignment: 0, flags: 9, chunks: 1 };
        let mut space = FreeSpace::default();
        space.list_run(key, (0, 1), 64);
        space.list_run(key, (0, 2), 3);
        assert_eq!(space.take_run(&key, 4), Some(((0, 1), 64)));
        assert_eq!(space.take_run(&key, 1), Some(((0, 2), 3)));
        assert_eq!(space.take_run(&key, 1), None);
    }
}
