//! The heap of an open pool: which space is free, in DRAM, and how publications change it on the medium.
//!
//! ```text
//!   reserve:   class of the size -> the arena's run of it -> a block, in DRAM        (its bit on the medium stays clear)
//!                                   none free: a listed run, or a new one             (a record of its own)
//!   prepare:   bits of runs, headers of chunks, headers of new objects -> Changes    (the one record of the publication)
//!   done:      freed blocks are free in DRAM, too
//! ```
//!
//! Bits of runs are set and cleared by entries that commute, so threads need no order among them. Headers of chunks are whole words:
//! they are decided and committed under one lock, [`Heap::order`]. `docs/decisions/obj-heap.md` argues the rules.

mod arena;
mod chunk_headers;
mod chunks;
mod class;
mod class_table;
mod fallback;
mod free_space;
mod growth;
mod log_block;
mod publication;
mod run;
mod runs;
mod slots;
mod units;

pub use arena::FirstArenas;
pub use class::{ClassDescription, ClassError};
pub use class_table::prepare;
pub(crate) use publication::Publication;

use crate::action::Reservation;
use crate::block::Block;
use crate::error::{Damage, DamageReason, ObjError, Structure};
use crate::object::Object;
use crate::request::Request;
use crate::view::ObjView;
use arena::Arenas;
use class::Class;
use class_table::ClassTable;
use free_space::{Extent, FreeSpace, Transit};
use growth::Growing;
use lode_layout::{LINE, PmdkChunkKind, PmdkHeap, PmdkObjectHeader, PmdkObjectHeaderKind, PoolOffset};
use lode_pmem::sync::{SpinMutex, SpinMutexGuard, pause};
use lode_pmem::{FaultScope, Medium};
use lode_redo::cover::Cover;
use runs::Make;
use slots::{BlockPlace, Slot, Slots};

/// Stands for the unit of a reservation that has chunks for itself.
const WHOLE_CHUNKS: u32 = u32::MAX;
/// Flag of an object: the root.
const INTERNAL: u16 = 1 << 15;
/// Rounds that a waiter for a short lock spins before it yields.
const SPINS: u32 = 64;

/// The free space of an open pool.
#[derive(Debug)]
pub(crate) struct Heap {
    /// The places of the heap.
    places: ObjView<()>,
    classes: ClassTable,
    arenas: Arenas,
    slots: Slots,
    /// Held for moments, and with no other lock inside.
    free: SpinMutex<FreeSpace>,
    /// Held while headers of chunks are decided and committed, so that their order in the log is that of the decisions.
    order: SpinMutex<()>,
    /// The free block in which the log lies.
    log_block: SpinMutex<Option<Extent>>,
    /// The files in which the heap grows.
    pub(crate) growing: Growing,
}

/// Takes a lock that is held for moments, and never during an access that waits.
fn lock<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    let mut round = 0;
    loop {
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
        if round < SPINS {
            std::hint::spin_loop()
        } else {
            pause(round)
        }
        round = round.saturating_add(1);
    }
}

impl Heap {
    /// Reads the headers of a pool that is recovered. `log` is a free block that the log takes: it is given away last, when the log has moved.
    ///
    /// # Errors
    /// [`ObjError::Damaged`], [`ObjError::Memory`].
    ///
    /// # Cost
    /// A load for each block of chunks. Bitmaps are read when a block of their run's class is first asked for.
    pub(crate) fn boot<M: Medium>(view: &ObjView<M>, log: Option<BlockPlace>) -> Result<Heap, ObjError> {
        let (mut free, mut log_block) = (FreeSpace::default(), None);
        let reserved = view.medium().memory().reserved().saturating_sub(view.descriptor().heap);
        let slots = Slots::new(view.heap_size().max(reserved));
        for zone in 0..view.zone_count() {
            if view.zone(zone)?.is_none() {
                free.unused_zones.push(zone as u32);
            }
        }
        free.unused_zones.reverse();
        for block in view.blocks() {
            let block = block?;
            let place = (block.zone as u32, block.chunk);
            let is_log = log == Some(place);
            match block.header.kind {
                PmdkChunkKind::Free if is_log => log_block = Some((place, block.header.size)),
                PmdkChunkKind::Free => free.add((place, block.header.size)),
                PmdkChunkKind::Run => {
                    free.add_unread((block.header.flags, block.header.size), place);
                    slots.set_run(place, block.header.size, Slot::Unread);
                }
                _ => free.add_used(place, block.header),
            }
        }
        Ok(Heap {
            places: ObjView::of((), view.parts()),
            classes: ClassTable::new(),
            arenas: Arenas::new(FirstArenas::default()),
            slots,
            free: SpinMutex::new(free),
            order: SpinMutex::new(()),
            log_block: SpinMutex::new(log_block),
            growing: Growing::default(),
        })
    }

    /// Returns the offset of the first byte after the heap.
    pub(crate) fn end(&self) -> u64 {
        self.places.heap_end()
    }

    fn view<'m, M: Medium>(&self, medium: &'m M) -> ObjView<&'m M> {
        ObjView::of(medium, self.places.parts())
    }

    fn chunk_at(&self, (zone, chunk): BlockPlace) -> PoolOffset {
        self.places.chunk_at(zone.into(), chunk)
    }

    /// Reserves space for an object, and stores its header. The caller prepares no publication meanwhile.
    ///
    /// # Errors
    /// [`ObjError::Full`], [`ObjError::TooLarge`], [`ObjError::Empty`], [`ObjError::NoClass`], [`ObjError::UnfitClass`],
    /// [`ObjError::NoArena`]; [`ObjError::Cover`] if a record of the heap fails; [`ObjError::Damaged`], [`ObjError::Memory`].
    ///
    /// # Cost
    /// No drain; one if a run is made, or a free block is split.
    pub(crate) fn reserve<M: Medium>(
        &self,
        cover: &Cover<M>,
        request: &Request,
    ) -> Result<Reservation, ObjError> {
        let size = request.size;
        if size == 0 {
            return Err(ObjError::Empty);
        }
        if size > class::OBJECT_MAX {
            return Err(ObjError::TooLarge { size, max: class::OBJECT_MAX });
        }
        let class = match request.class {
            None => self.classes.of_size(size),
            Some(id) => self.classes.get(id).ok_or(ObjError::NoClass { id })?,
        };
        let unfit = || match class.has_whole_chunks() {
            true => ObjError::TooLarge { size, max: class::OBJECT_MAX },
            false => ObjError::UnfitClass { id: class.id, size },
        };
        let count = class.units_of(size).ok_or_else(unfit)?;
        let arena = match request.arena {
            None => self.arenas.of_thread()?,
            Some(number) => self.arenas.get(number)?,
        };
        let found = match class.has_whole_chunks() {
            true => self.reserve_chunks(cover, count)?,
            false => self.reserve_units(cover, arena, class, count, Make::IfNeeded)?,
        };
        let (reservation, header) = match found {
            Some(reservation) => (reservation, class.header),
            None if request.class.is_none() => {
                let found = self.reserve_elsewhere(cover, arena, class, size)?;
                (found.ok_or_else(|| self.full(size))?, PmdkObjectHeaderKind::Compact)
            }
            None => return Err(self.full(size)),
        };
        if let Err(fault) = FaultScope::run(|| store_object(cover.medium(), request, &reservation, header)) {
            self.cancel(&reservation);
            return Err(fault.into());
        }
        Ok(reservation)
    }

    /// Gives reserved space back. Does nothing for a reservation that is none.
    pub(crate) fn cancel(&self, reservation: &Reservation) {
        let place = (reservation.zone, reservation.chunk);
        if reservation.unit != WHOLE_CHUNKS {
            return self.cancel_units(place, (reservation.unit, reservation.count));
        }
        let mut free = lock(&self.free);
        if let Some((len, Transit::Reserved)) = free.transit(place) {
            free.end_transit(place);
            free.add((place, len));
        }
    }

    /// Returns the bytes that objects have, those in runs, and those of runs.
    ///
    /// # Errors
    /// [`ObjError::Memory`].
    ///
    /// # Cost
    /// Reads all headers and bitmaps.
    pub(crate) fn counts<M: Medium>(&self, medium: &M) -> Result<(u64, u64, u64), ObjError> {
        self.view(medium).usage()
    }
}

/// Stores the header of a reserved object, and zeros if it is to have them.
fn store_object<M: Medium>(
    medium: &M,
    request: &Request,
    reservation: &Reservation,
    kind: PmdkObjectHeaderKind,
) {
    const ZEROS: [u8; 64 * LINE as usize] = [0; 64 * LINE as usize];
    let header = PmdkObjectHeader {
        size: reservation.usable_size + kind.len(),
        type_number: request.type_number,
        flags: if request.is_internal { INTERNAL } else { 0 },
    };
    let at = PoolOffset::new(reservation.at.get() - kind.len());
    match kind {
        PmdkObjectHeaderKind::Compact => medium.store(at, &header.encode_compact()),
        PmdkObjectHeaderKind::Legacy => medium.store(at, &header.encode_legacy()),
        PmdkObjectHeaderKind::None => {}
    }
    if request.is_zeroed {
        let mut done = 0;
        while done < reservation.usable_size {
            let len = (reservation.usable_size - done).min(ZEROS.len() as u64);
            medium.store(reservation.at.plus(done), &ZEROS[..len as usize]);
            done += len;
        }
    }
}

impl Heap {
    /// Returns the object whose data begins at `at`, a reserved one, too.
    pub(crate) fn object<M: Medium>(&self, medium: &M, at: PoolOffset) -> Result<Object, ObjError> {
        let view = self.view(medium);
        if let Some(object) = self.object_in_run(&view, at)? {
            return Ok(object);
        }
        let none = ObjError::of(Structure::Object, at, DamageReason::NoObject);
        let (zone, chunk) = self.places.zone_of(at).ok_or(none)?;
        let place = (zone as u32, chunk);
        let header = {
            let free = lock(&self.free);
            let reserved = free.transit(place).filter(|(_, transit)| *transit != Transit::Freeing);
            reserved.map(|(len, _)| chunk_headers::used(len)).or_else(|| free.used(place))
        };
        let object = view.huge_object(&Block { zone, chunk, header: header.ok_or(none)? })?;
        if object.at == at { Ok(object) } else { Err(none) }
    }

    /// Fails as [`object`](Heap::object) does.
    pub(crate) fn check_object<M: Medium>(&self, medium: &M, at: PoolOffset) -> Result<(), ObjError> {
        let in_run = self.with_object(medium, at, |run, _, (unit, _)| run.state(unit))?;
        match in_run {
            Some(Some((true, _))) => Ok(()),
            Some(_) => Err(ObjError::of(Structure::Object, at, DamageReason::Free)),
            None => self.object(medium, at).map(drop),
        }
    }

    /// Returns the first object of the program in the order of offsets, after the one at `at` if it is given, which may have been freed.
    pub(crate) fn object_after<M: Medium>(
        &self,
        medium: &M,
        at: Option<PoolOffset>,
    ) -> Result<Option<PoolOffset>, ObjError> {
        let view = self.view(medium);
        let mut objects = match at {
            None => view.objects(),
            Some(at) => match view.object_at(at) {
                Ok(object) => view.objects_after(&object)?,
                // A block that was freed may be a part of a larger one by now.
                Err(ObjError::Damaged(Damage {
                    reason: DamageReason::Free | DamageReason::NoBlock, ..
                })) => view.objects_around(at)?,
                Err(error) => return Err(error),
            },
        };
        let is_passed = |object: &Object| object.is_internal || at.is_some_and(|at| object.at <= at);
        let next = objects.find(|object| !object.as_ref().is_ok_and(is_passed));
        Ok(next.transpose()?.map(|object| object.at))
    }

    pub(crate) fn add_class(&self, class: &ClassDescription) -> Result<u8, ClassError> {
        self.classes.add(class)
    }

    pub(crate) fn class(&self, id: u8) -> Option<ClassDescription> {
        self.classes.get(id).map(Class::description)
    }

    /// Begins with these arenas, before a thread has one.
    pub(crate) fn set_arenas(&mut self, first: FirstArenas) {
        self.arenas = Arenas::new(first);
    }

    pub(crate) fn arenas(&self) -> &Arenas {
        &self.arenas
    }

    /// Returns the bytes of chunks that an arena has, and true if threads get it by themselves.
    pub(crate) fn arena(&self, number: u32) -> Result<(u64, bool), ObjError> {
        let arena = self.arenas.get(number)?;
        let chunks = arena.all_active().map(|place| self.chunks_of_run(place, arena));
        Ok((chunks.sum::<u64>() * PmdkHeap::CHUNK, arena.is_automatic()))
    }
}
