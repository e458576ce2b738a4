//! The runs of an open pool, found by the chunk that they begin with.

use super::run::Run;
use lode_layout::PmdkHeap;
use lode_pmem::sync::SpinMutex;
use std::sync::OnceLock;

/// Chunks of a group.
const GROUP: u32 = 256;

/// The first chunk of a block: its zone, and its index there.
pub(super) type BlockPlace = (u32, u32);

/// Returns a place as a word that is not 0.
pub(super) fn pack((zone, chunk): BlockPlace) -> u64 {
    (u64::from(zone) << 32 | u64::from(chunk)) + 1
}

/// Returns the place that a word stands for; `None` for 0.
pub(super) fn unpack(word: u64) -> Option<BlockPlace> {
    word.checked_sub(1).map(|word| ((word >> 32) as u32, word as u32))
}

/// The state of a chunk.
#[derive(Debug)]
pub(super) enum Slot {
    /// It is no part of a run.
    NoRun,
    /// It is the first chunk of a run whose bitmap was not read.
    Unread,
    /// It is the first chunk of a run.
    Run(Box<Run>),
    /// It is a later chunk of a run, so many chunks after the first.
    Part(u32),
}

type Group = Box<[SpinMutex<Slot>]>;

/// A slot for each chunk, made in groups when the first of a group is asked for.
#[derive(Debug)]
pub(super) struct Slots {
    zones: Box<[Box<[OnceLock<Group>]>]>,
}

impl Slots {
    /// Returns the slots of a heap.
    pub(super) fn new(heap_size: u64) -> Slots {
        let of_zone = |zone| {
            let chunks = PmdkHeap::chunk_count(heap_size, zone);
            (0..chunks.div_ceil(GROUP)).map(|_| OnceLock::new()).collect()
        };
        Slots { zones: (0..PmdkHeap::zone_count(heap_size)).map(of_zone).collect() }
    }

    /// Returns the slot of a chunk. `None` if the heap has no such chunk.
    #[inline]
    pub(super) fn get(&self, (zone, chunk): BlockPlace) -> Option<&SpinMutex<Slot>> {
        let group = self.zones.get(zone as usize)?.get((chunk / GROUP) as usize)?;
        let slots = group.get_or_init(|| (0..GROUP).map(|_| SpinMutex::new(Slot::NoRun)).collect());
        slots.get((chunk % GROUP) as usize)
    }

    /// Sets the slots of a run's chunks.
    pub(super) fn set_run(&self, place: BlockPlace, chunks: u32, first: Slot) {
        self.set_later(place, chunks, Slot::Part);
        if let Some(slot) = self.get(place) {
            *super::lock(slot) = first;
        }
    }

    /// Sets the slots of a run's later chunks.
    pub(super) fn set_later(&self, (zone, chunk): BlockPlace, chunks: u32, state: impl Fn(u32) -> Slot) {
        for distance in 1..chunks {
            if let Some(slot) = self.get((zone, chunk + distance)) {
                *super::lock(slot) = state(distance);
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn places_round_trip() {
        for place in [(0, 0), (3, 65527), (u32::MAX >> 1, u32::MAX)] {
            assert_eq!(unpack(pack(place)), Some(place));
        }
        assert_eq!(unpack(0), None);
    }

    #[test]
    fn heaps_have_a_slot_for_each_chunk() {
        let slots = Slots::new(65 << 30);
        assert!(slots.get((3, 65527)).is_some() && slots.get((5, 0)).is_none());
        assert!(slots.get((0, 65528 + GROUP)).is_none());
    }
}
