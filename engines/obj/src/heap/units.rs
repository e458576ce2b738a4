//! Blocks of runs: reservations, and the objects in them.

use super::Heap;
use super::arena::Arena;
use super::class::Class;
use super::lock;
use super::run::{Run, Units};
use super::runs::Make;
use super::slots::{BlockPlace, Slot};
use crate::action::Reservation;
use crate::block::Block;
use crate::error::{DamageReason, ObjError, Structure};
use crate::object::Object;
use crate::view::ObjView;
use lode_layout::{PmdkObjectHeaderKind, PoolOffset};
use lode_pmem::Medium;
use lode_redo::cover::Cover;

/// Bits of an object's size in a compact header.
const SIZE_BITS: u32 = 48;
/// Offset of the size in a legacy header.
const LEGACY_SIZE_OFF: u64 = 8;
/// Most blocks of an object.
const UNITS_MAX: u64 = 64;

impl Heap {
    /// Reserves `count` blocks of a run of the class. `None` if there is no space.
    #[inline]
    pub(super) fn reserve_units<M: Medium>(
        &self,
        cover: &Cover<M>,
        arena: &Arena,
        class: &Class,
        count: u32,
        make: Make,
    ) -> Result<Option<Reservation>, ObjError> {
        loop {
            let active = arena.active(class.id);
            let found = active.and_then(|place| self.take_units(place, arena, class, count));
            if found.is_some() || !self.attach(cover, arena, class, count, active, make)? {
                return Ok(found);
            }
        }
    }

    /// Takes blocks of the arena's run. `None` if it has it no more, or the run has too few.
    #[inline]
    fn take_units(&self, place: BlockPlace, arena: &Arena, class: &Class, count: u32) -> Option<Reservation> {
        let mut slot = lock(self.slots.get(place)?);
        let Slot::Run(run) = &mut *slot else { return None };
        if run.owner != arena.number || run.key != class.key {
            return None;
        }
        let unit = run.take(count)?;
        let header = class.header.len();
        let inside = run.places.blocks_off + u64::from(unit) * run.places.block_size + header;
        Some(Reservation {
            at: self.chunk_at(place).plus(inside),
            usable_size: u64::from(count) * run.places.block_size - header,
            zone: place.0,
            chunk: place.1,
            unit,
            count,
        })
    }

    /// Gives reserved blocks back.
    pub(super) fn cancel_units(&self, place: BlockPlace, units: Units) {
        self.give_back(place, |run| run.cancel(units));
    }

    /// Gives back blocks of objects that a durable record has freed.
    pub(super) fn end_free(&self, place: BlockPlace, units: Units) {
        self.give_back(place, |run| run.end_free(units));
    }

    /// Calls `change`, which returns the longest piece of free blocks that it made, and lists the run by it.
    #[inline]
    fn give_back(&self, place: BlockPlace, change: impl FnOnce(&mut Run) -> u32) {
        let Some(slot) = self.slots.get(place) else { return };
        let (key, longest, is_empty) = {
            let mut slot = lock(slot);
            let Slot::Run(run) = &mut *slot else { return };
            let piece = change(run);
            let is_longer = run.owner == 0 && piece > run.listed;
            if is_longer {
                run.listed = piece;
            }
            let is_empty = piece > 0 && run.is_empty() && !run.is_listed_as_empty;
            run.is_listed_as_empty |= is_empty;
            (run.key, if is_longer { piece } else { 0 }, is_empty)
        };
        self.list(place, key, longest, is_empty);
    }

    /// Returns the index of the block whose object has its data at `at`.
    pub(super) fn unit_at(&self, run: &Run, place: BlockPlace, at: PoolOffset) -> Option<u32> {
        let header = run.key.chunk().object_header().len();
        let inside = at.get().checked_sub(self.chunk_at(place).get() + run.places.blocks_off + header)?;
        let unit = inside / run.places.block_size;
        let is_start = unit * run.places.block_size == inside && unit < run.places.usable_count();
        u32::try_from(unit).ok().filter(|_| is_start)
    }

    /// Returns the place and the blocks of the object with its data at `at`, and calls `with` for its run. `None` if no run is there.
    #[inline]
    pub(super) fn with_object<M: Medium, R>(
        &self,
        medium: &M,
        at: PoolOffset,
        with: impl FnOnce(&mut Run, BlockPlace, Units) -> R,
    ) -> Result<Option<R>, ObjError> {
        let none = ObjError::of(Structure::Object, at, DamageReason::NoObject);
        let (zone, chunk) = self.places.zone_of(at).ok_or(none)?;
        let found = self.with_run(medium, (zone as u32, chunk), |run, place| {
            let unit = self.unit_at(run, place, at).ok_or(none)?;
            let size = object_size(medium, run.key.chunk().object_header(), at)?;
            let block_size = run.places.block_size;
            let count = size.map_or(1, |size| size.div_ceil(block_size));
            if count == 0 || count > UNITS_MAX - u64::from(unit) % UNITS_MAX {
                let (size, max) = (size.unwrap_or_default(), UNITS_MAX * block_size);
                return Err(ObjError::of(
                    Structure::Object,
                    at,
                    DamageReason::ObjectSize { size, min: 1, max },
                ));
            }
            Ok(with(run, place, (unit, count as u32)))
        })?;
        found.transpose()
    }

    /// Returns the object in a run whose data begins at `at`, a reserved one, too. `None` if no run is there.
    pub(super) fn object_in_run<M: Medium>(
        &self,
        view: &ObjView<&M>,
        at: PoolOffset,
    ) -> Result<Option<Object>, ObjError> {
        let found = self.with_object(*view.medium(), at, |run, place, (unit, _)| {
            let Some((true, _)) = run.state(unit) else {
                return Err(ObjError::of(Structure::Object, at, DamageReason::Free));
            };
            let block = Block { zone: place.0.into(), chunk: place.1, header: run.key.chunk() };
            view.run_object(&block, &run.places, unit.into())
        })?;
        found.transpose()
    }
}

/// Returns the size in the header of an object. `None` without a header.
#[inline]
fn object_size<M: Medium>(
    medium: &M,
    kind: PmdkObjectHeaderKind,
    at: PoolOffset,
) -> Result<Option<u64>, ObjError> {
    let header = at.get() - kind.len();
    let word = |at: u64| medium.memory().reading(|memory| memory.load8(PoolOffset::new(at)));
    Ok(match kind {
        PmdkObjectHeaderKind::Compact => Some(word(header)? & ((1 << SIZE_BITS) - 1)),
        PmdkObjectHeaderKind::Legacy => Some(word(header + LEGACY_SIZE_OFF)?),
        PmdkObjectHeaderKind::None => None,
    })
}
