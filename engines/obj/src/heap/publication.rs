//! Publications: actions that become durable together.

use super::chunks::Merged;
use super::free_space::{Extent, Transit};
use super::run::Units;
use super::slots::BlockPlace;
use super::{Heap, WHOLE_CHUNKS, chunk_headers, lock};
use crate::action::{Action, Reservation};
use crate::bugs;
use crate::error::{DamageReason, ObjError, Structure};
use lode_layout::{CoverEntry, Entry, PmdkObjectHeaderKind, PmdkRun, PoolOffset, Record, WORD};
use lode_pmem::sync::SpinMutexGuard;
use lode_pmem::{Medium, hold};
use lode_redo::cover::{Changes, Cover};
use std::cell::Cell;

/// Bits of a word of a bitmap.
const BITS: u32 = 64;

/// The changes of a publication, prepared: what the record takes, and what DRAM gets to know when it is durable. Dropped without
/// [`done`](Publication::done), it has failed.
#[derive(Debug)]
pub(crate) struct Publication<'h> {
    heap: &'h Heap,
    /// Held from the first change of a chunk's header on.
    order: Option<SpinMutexGuard<'h, ()>>,
    /// `None` after the end.
    parts: Option<Box<Parts>>,
}

/// The parts of a publication. A thread keeps them for its next one.
#[derive(Debug, Default)]
struct Parts {
    objects: Vec<(PoolOffset, u64)>,
    /// Number of `objects` that are whole: headers of new objects with their content.
    whole: usize,
    words: Vec<(PoolOffset, u64)>,
    entries: Record,
    /// Blocks of runs, and true if they become an object.
    units: Vec<(BlockPlace, Units, bool)>,
    /// Reserved chunks that become an object.
    allocated: Vec<Extent>,
    /// Chunks of objects that are freed.
    freed: Vec<Extent>,
    /// The same, with the free blocks beside them.
    merged: Vec<Merged>,
}

std::thread_local! {
    static SPARE: Cell<Option<Box<Parts>>> = const { Cell::new(None) };
}

impl Heap {
    /// Prepares the publication of actions. The caller commits its changes, and then says that they are durable. It reserves no space
    /// meanwhile.
    ///
    /// # Errors
    /// [`ObjError::ForeignReservation`]; [`ObjError::Damaged`] if an object to be freed is none.
    ///
    /// # Cost
    /// No drain. A short lock for each action; chunks of their own take one that is held until the end.
    pub(crate) fn prepare<M: Medium>(
        &self,
        cover: &Cover<M>,
        actions: &[Action],
    ) -> Result<Publication<'_>, ObjError> {
        let parts = SPARE.try_with(Cell::take).ok().flatten();
        let mut publication = Publication { heap: self, order: None, parts };
        for action in actions {
            match action {
                Action::Allocate(reservation) => publication.allocate(cover.medium(), reservation)?,
                Action::Free(at) => publication.free(cover.medium(), *at)?,
                Action::Store { at, value } => publication.parts().words.push((*at, *value)),
            }
        }
        publication.merge();
        Ok(publication)
    }

    fn bitmap_word(&self, place: BlockPlace, unit: u32) -> PoolOffset {
        self.chunk_at(place).plus(PmdkRun::LEN as u64 + u64::from(unit / BITS) * WORD)
    }
}

fn bits((unit, count): Units) -> u64 {
    (u64::MAX >> (BITS - count.clamp(1, BITS))) << (unit % BITS)
}

impl Publication<'_> {
    fn parts(&mut self) -> &mut Parts {
        self.parts.get_or_insert_default()
    }

    fn hold_order<M: Medium>(&mut self, medium: &M) {
        let heap = self.heap;
        self.order.get_or_insert_with(|| hold(&heap.order, medium));
    }

    fn allocate<M: Medium>(&mut self, medium: &M, reservation: &Reservation) -> Result<(), ObjError> {
        let Reservation { at, usable_size, zone, chunk, unit, count } = *reservation;
        let foreign = ObjError::ForeignReservation { at };
        let place = (zone, chunk);
        if unit == WHOLE_CHUNKS {
            return self.allocate_chunks(medium, at, place).ok_or(foreign);
        }
        let heap = self.heap;
        let header = heap.with_run(medium, place, |run, first| {
            let header = run.key.chunk().object_header().len();
            let is_sound = first == place
                && heap.unit_at(run, place, at) == Some(unit)
                && u64::from(count) * run.places.block_size == usable_size.wrapping_add(header);
            (is_sound && run.publish((unit, count))).then_some(header)
        });
        let header = match header {
            Ok(header) => header.flatten().ok_or(foreign)?,
            // No block begins with the chunk that the reservation names.
            Err(ObjError::Damaged(_)) => return Err(foreign),
            Err(error) => return Err(error),
        };
        let parts = self.parts();
        parts.units.push((place, (unit, count), true));
        if header > 0 && !bugs::HEADER_NOT_LOGGED.is_active() {
            parts.objects.push((PoolOffset::new(at.get() - header), header));
        }
        let (at, mask) = (heap.bitmap_word(place, unit), bits((unit, count)));
        parts.entries.push(Entry::Cover(CoverEntry::SetBits { at, mask }));
        Ok(())
    }

    fn allocate_chunks<M: Medium>(&mut self, medium: &M, at: PoolOffset, place: BlockPlace) -> Option<()> {
        self.hold_order(medium);
        let header = PmdkObjectHeaderKind::Compact.len();
        let len = {
            let mut free = lock(&self.heap.free);
            let (len, _) = free.transit(place).filter(|(_, transit)| *transit == Transit::Reserved)?;
            free.set_transit((place, len), Transit::Published);
            len
        };
        let heap = self.heap;
        let parts = self.parts();
        parts.allocated.push((place, len));
        if heap.chunk_at(place).plus(header) != at {
            return None;
        }
        parts.objects.push((heap.chunk_at(place), header));
        heap.push_used(&mut parts.entries, (place, len));
        Some(())
    }

    fn free<M: Medium>(&mut self, medium: &M, at: PoolOffset) -> Result<(), ObjError> {
        let parts = self.parts.get_or_insert_default();
        let in_run = self.heap.with_object(medium, at, |run, place, units| match run.begin_free(units) {
            true => Ok(Some((place, units))),
            // The same publication frees the object twice, which PMDK takes for once.
            false if parts.units.contains(&(place, units, false)) => Ok(None),
            false => {
                let is_taken = run.state(units.0).is_some_and(|(is_taken, _)| is_taken);
                let reason = if is_taken { DamageReason::InTransit } else { DamageReason::Free };
                Err(ObjError::of(Structure::Object, at, reason))
            }
        })?;
        let Some(begun) = in_run else { return self.free_chunks(medium, at) };
        let Some((place, units)) = begun? else { return Ok(()) };
        if bugs::FREED_AT_ONCE.is_active() {
            self.heap.end_free(place, units);
        }
        let (at, mask) = (self.heap.bitmap_word(place, units.0), bits(units));
        let parts = self.parts();
        parts.units.push((place, units, false));
        parts.entries.push(Entry::Cover(CoverEntry::ClearBits { at, mask }));
        Ok(())
    }

    fn free_chunks<M: Medium>(&mut self, medium: &M, at: PoolOffset) -> Result<(), ObjError> {
        self.hold_order(medium);
        let heap = self.heap;
        let wrong = |reason| ObjError::of(Structure::Object, at, reason);
        let none = wrong(DamageReason::NoObject);
        let (zone, chunk) = heap.places.zone_of(at).ok_or(none)?;
        let place = (zone as u32, chunk);
        let mut free = lock(&heap.free);
        let header = free.used(place).ok_or(none)?;
        if heap.chunk_at(place).plus(header.object_header().len()) != at {
            return Err(none);
        }
        if free.transit(place).is_some() {
            drop(free);
            // As in a run.
            let is_freed = self.parts().freed.contains(&(place, header.size));
            return if is_freed { Ok(()) } else { Err(wrong(DamageReason::InTransit)) };
        }
        free.set_transit((place, header.size), Transit::Freeing);
        drop(free);
        self.parts().freed.push((place, header.size));
        Ok(())
    }

    /// Joins the freed chunks with the free blocks beside them.
    fn merge(&mut self) {
        let heap = self.heap;
        let parts = self.parts();
        if !parts.freed.is_empty() {
            parts.merged = heap.merge(parts.freed.clone());
            for (block, _) in &parts.merged {
                heap.push_free(&mut parts.entries, *block);
            }
        }
    }

    /// Returns what the record makes durable: the headers of new objects, the words of `Action::Store`, bits and words of the heap.
    pub(crate) fn changes(&self) -> Changes<'_> {
        let Some(parts) = &self.parts else { return Changes::default() };
        let Parts { objects, words, entries, .. } = &**parts;
        Changes { objects, words, entries: entries.body(), ..Changes::default() }
    }

    /// Adds words of which only the library knows.
    pub(crate) fn push_word(&mut self, at: PoolOffset, value: u64) {
        self.parts().entries.push_word(at, value);
    }

    /// Adds the content of a new object. The order is mostly that of the headers, so it joins the next of them.
    pub(crate) fn push_object(&mut self, at: PoolOffset, len: u64) {
        let Parts { objects, whole, .. } = self.parts();
        match objects.get_mut(*whole) {
            Some((start, header)) if start.plus(*header) == at => {
                *header += len;
                *whole += 1;
            }
            _ => objects.push((at, len)),
        }
    }

    /// Says that the record is durable: freed space can be given away.
    pub(crate) fn done(mut self) {
        let heap = self.heap;
        let Parts { units, allocated, freed, merged, .. } = self.parts();
        for (place, units, is_object) in units.drain(..) {
            if !is_object {
                heap.end_free(place, units);
            }
        }
        if allocated.is_empty() && freed.is_empty() {
            return;
        }
        let mut free = lock(&heap.free);
        for (place, len) in allocated.drain(..) {
            free.end_transit(place);
            free.add_used(place, chunk_headers::used(len));
        }
        for (place, _) in freed.drain(..) {
            free.end_transit(place);
            free.remove_used(place);
        }
        merged.drain(..).for_each(|(block, _)| free.add(block));
    }
}

impl Drop for Publication<'_> {
    /// Takes back what is left: all, if the publication has failed.
    fn drop(&mut self) {
        let heap = self.heap;
        let Some(mut parts) = self.parts.take() else { return };
        let Parts { units, allocated, freed, merged, .. } = &mut *parts;
        for (place, units, is_object) in units.drain(..) {
            heap.take_back(place, units, is_object);
        }
        if !(allocated.is_empty() && freed.is_empty()) {
            let mut free = lock(&heap.free);
            allocated.drain(..).for_each(|block| free.set_transit(block, Transit::Reserved));
            freed.drain(..).for_each(|(place, _)| free.end_transit(place));
            Heap::unmerge(&mut free, merged);
        }
        parts.objects.clear();
        parts.whole = 0;
        parts.words.clear();
        parts.entries.clear();
        parts.merged.clear();
        // A thread that is ending keeps nothing.
        let _ = SPARE.try_with(|spare| spare.set(Some(parts)));
    }
}

impl Heap {
    fn take_back(&self, place: BlockPlace, units: Units, is_object: bool) {
        let Some(slot) = self.slots.get(place) else { return };
        if let super::slots::Slot::Run(run) = &mut *lock(slot) {
            if is_object { run.unpublish(units) } else { run.keep(units) }
        }
    }
}
