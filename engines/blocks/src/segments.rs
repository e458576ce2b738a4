//! The segments of all blocks: each has a map and data blocks, and a growth adds some.

use crate::descriptor;
use crate::error::{BlocksError, Damage};
use crate::plan::{DATA_COUNT_MAX, Totals, least_len};
use lode_layout::{
    BLOCK, BlockMapWord, BlocksDescriptor, Geometry, InvalidField, PoolOffset, WORD, Want, align_up,
};
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// The most segments after the first one.
const LATER_MAX: usize = 63;

/// A segment that a growth added.
#[derive(Clone, Copy, Debug)]
struct Later {
    descriptor: BlocksDescriptor,
    /// Number of its first data block.
    first_data: u64,
}

/// The segments of the blocks of a pool, in order. They are only added to.
#[derive(Debug)]
pub(crate) struct Segments {
    first: BlocksDescriptor,
    later: Box<[OnceLock<Later>]>,
    block_count: AtomicU64,
    data_count: AtomicU64,
    spare_count: AtomicU64,
}

impl Segments {
    /// Returns the segments of which this one is the only one.
    pub(crate) fn of(first: BlocksDescriptor) -> Segments {
        Segments {
            first,
            later: (0..LATER_MAX).map(|_| OnceLock::new()).collect(),
            block_count: AtomicU64::new(first.block_count),
            data_count: AtomicU64::new(first.data_count()),
            spare_count: AtomicU64::new(first.spare_count),
        }
    }

    /// Reads the descriptors of a pool.
    ///
    /// # Errors
    /// Fails if a segment has no valid one.
    pub(crate) fn read<M: Medium>(medium: &M, geometry: &Geometry) -> Result<Segments, Damage> {
        let mut segments: Option<Segments> = None;
        while let Some(place) = next_place(geometry, segments.as_ref()) {
            let found = descriptor::read(medium, place)?;
            match &segments {
                None => segments = Some(Segments::of(found)),
                Some(segments) => segments.check_next(place.0, &found).map(|()| segments.add(&[found]))?,
            }
        }
        Ok(segments.expect("the first segment has a place in every pool"))
    }

    /// Checks that a segment follows these.
    fn check_next(&self, at: PoolOffset, next: &BlocksDescriptor) -> Result<(), Damage> {
        let follows = || {
            Want::Exactly(self.block_count()).check("first_block", 0, next.first_block)?;
            Want::Exactly(self.block_size().into()).check("block_size", 0, next.block_size.into())?;
            Want::AtMost(DATA_COUNT_MAX - self.data_count()).check("block_count", 0, next.data_count())
        };
        follows().map_err(|error| Damage::Descriptor { at, error: error.into() })?;
        if self.later().count() == LATER_MAX {
            return Err(Damage::Segments { at });
        }
        Ok(())
    }

    /// Adds segments that follow these, if there is room for their number.
    pub(crate) fn add(&self, next: &[BlocksDescriptor]) {
        for descriptor in next {
            let later = Later { descriptor: *descriptor, first_data: self.data_count() };
            let free = self.later.iter().find(|later| later.get().is_none());
            free.expect("the caller has counted them").set(later).expect("one growth runs at a time");
            // ORDER: none: a thread that has the number of a data block, or a map word, has it from a lock or a word that
            // was stored after these.
            self.data_count.fetch_add(descriptor.data_count(), Ordering::Relaxed);
            // ORDER: none, it is only reported.
            self.spare_count.fetch_add(descriptor.spare_count, Ordering::Relaxed);
            // ORDER: releases the segment to a thread that finds its blocks in range.
            self.block_count.fetch_add(descriptor.block_count, Ordering::Release);
        }
    }

    /// Returns true if `count` more segments can be added.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.later().count() + count <= LATER_MAX
    }

    fn later(&self) -> impl Iterator<Item = &Later> {
        self.later.iter().map_while(OnceLock::get)
    }

    /// Returns the descriptors, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BlocksDescriptor> {
        std::iter::once(&self.first).chain(self.later().map(|later| &later.descriptor))
    }

    pub(crate) fn block_size(&self) -> u32 {
        self.first.block_size
    }

    #[inline]
    pub(crate) fn block_count(&self) -> u64 {
        // ORDER: acquires the segments of the blocks.
        self.block_count.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn data_count(&self) -> u64 {
        // ORDER: none, see `add`.
        self.data_count.load(Ordering::Relaxed)
    }

    pub(crate) fn spare_count(&self) -> u64 {
        // ORDER: none, see `add`.
        self.spare_count.load(Ordering::Relaxed)
    }

    fn totals(&self) -> Totals {
        Totals {
            block_size: self.block_size(),
            block_count: self.block_count(),
            data_count: self.data_count(),
            spare_count: self.spare_count(),
        }
    }

    /// Returns the offset of the map word of a block that exists.
    #[inline]
    pub(crate) fn word_at(&self, lba: u64) -> PoolOffset {
        if lba < self.first.block_count { self.first.word_at(lba) } else { self.later_word_at(lba) }
    }

    #[cold]
    fn later_word_at(&self, lba: u64) -> PoolOffset {
        let of = self.later().filter(|later| later.descriptor.first_block <= lba).last();
        of.expect("the block exists").descriptor.word_at(lba)
    }

    /// Returns the offset of a data block that exists.
    #[inline]
    pub(crate) fn data_at(&self, block: u32) -> PoolOffset {
        let block = u64::from(block);
        if block < self.first.data_count() { self.first.data_at(block) } else { self.later_data_at(block) }
    }

    #[cold]
    fn later_data_at(&self, block: u64) -> PoolOffset {
        let of = self.later().filter(|later| later.first_data <= block).last();
        let Later { descriptor, first_data } = of.expect("the data block exists");
        descriptor.data_at(block - first_data)
    }

    /// Decodes the map word of a block.
    ///
    /// # Errors
    /// Fails if its data block does not exist, or if the block is lost.
    #[inline]
    pub(crate) fn decode(&self, lba: u64, word: u64) -> Result<Option<BlockMapWord>, Damage> {
        match BlockMapWord::decode(word, self.data_count()) {
            Ok(word) => Ok(word),
            Err(error) => Err(self.damage_of(lba, word, error)),
        }
    }

    #[cold]
    fn damage_of(&self, lba: u64, word: u64, error: InvalidField) -> Damage {
        match word {
            BlockMapWord::LOST => Damage::Lost { lba },
            _ => Damage::MapWord { lba, at: self.word_at(lba), error },
        }
    }

    /// Returns the block whose map word lies at `at`, and the number of map words from there to the end of its map; `None`
    /// if there is no map word.
    pub(crate) fn block_of(&self, at: PoolOffset) -> Option<(u64, u64)> {
        self.iter().find_map(|segment| {
            let index = at.get().checked_sub(segment.map_off.get())? / WORD;
            let is_word = index < segment.block_count && at.get().is_multiple_of(WORD);
            is_word.then(|| (segment.first_block + index, segment.block_count - index))
        })
    }

    /// Plans the segments in the space by which a pool with these has grown.
    ///
    /// # Errors
    /// [`BlocksError::Full`] if there are too many segments or data blocks.
    pub(crate) fn plan_next(&self, geometry: &Geometry) -> Result<Vec<BlocksDescriptor>, BlocksError> {
        let planned = Segments::of(self.first);
        self.later().for_each(|later| planned.add(&[later.descriptor]));
        let mut next = Vec::new();
        while let Some(place) = next_place(geometry, Some(&planned)) {
            let full = BlocksError::Full { count: planned.block_count() };
            let segment = crate::plan::plan_next(place, planned.totals()).ok_or(full)?;
            if !planned.has_room(1) {
                return Err(full);
            }
            planned.add(&[segment]);
            next.push(segment);
        }
        Ok(next)
    }
}

/// Returns the place of the segment after `before`, and where its extent ends. `None` if a segment has no room.
pub(crate) fn next_place(geometry: &Geometry, before: Option<&Segments>) -> Option<(PoolOffset, PoolOffset)> {
    let Some(before) = before else {
        let first = &geometry.extents()[0];
        return Some((BlocksDescriptor::place(first), first.end()));
    };
    let after = before.iter().last()?.end();
    geometry.extents().iter().find_map(|extent| {
        let start = match after >= extent.start {
            true => PoolOffset::new(align_up(after.get(), BLOCK)),
            false => BlocksDescriptor::place(extent),
        };
        let end = extent.end();
        let has_room = end.get().checked_sub(start.get())? >= least_len(before.block_size());
        has_room.then_some((start, end))
    })
}

/// Returns the places of segments, and where their extents end.
pub(crate) fn places(
    geometry: &Geometry,
    segments: &Segments,
) -> impl Iterator<Item = (PoolOffset, PoolOffset)> {
    segments.iter().filter_map(|segment| {
        let start = PoolOffset::new(segment.map_off.get() - BLOCK);
        let extent = geometry.extents().iter().find(|extent| start < extent.end())?;
        Some((start, extent.end()))
    })
}
