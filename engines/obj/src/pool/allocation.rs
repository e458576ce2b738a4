//! Objects of an open pool: their space, their classes, and the arenas.

use super::{Action, Pool, Request, Reservation};
use crate::begin::begin;
use crate::error::ObjError;
use crate::heap::{ClassDescription, ClassError, FirstArenas};
use crate::object::Object;
use lode_layout::PoolOffset;
use lode_pmem::Medium;

/// Most actions that a record of its own holds in any pool.
const ACTIONS_MAX: usize = 64;

impl<M: Medium> Pool<M> {
    /// Reserves space for an object. Its header is stored; its content is the program's to store and to persist.
    ///
    /// # Errors
    /// [`ObjError::Full`], [`ObjError::TooLarge`], [`ObjError::Empty`], [`ObjError::NoClass`], [`ObjError::UnfitClass`],
    /// [`ObjError::NoArena`]; [`ObjError::Cover`] if a record of the heap fails; [`ObjError::Damaged`], [`ObjError::Memory`].
    ///
    /// # Cost
    /// No drain; one if a run is made, or a free block is split.
    pub fn reserve(&self, request: &Request) -> Result<Reservation, ObjError> {
        self.heap.reserve(&self.cover, request)
    }

    /// Gives reserved space back. Does nothing for a reservation that was published or cancelled before.
    pub fn cancel(&self, reservation: &Reservation) {
        self.heap.cancel(reservation);
    }

    /// Makes all actions durable together.
    ///
    /// # Errors
    /// [`ObjError::ForeignReservation`]; [`ObjError::Damaged`] if an object to be freed is none; [`ObjError::Cover`]. After an error
    /// that is not one of the log, nothing has changed, and the reservations are still there.
    ///
    /// # Durability
    /// Durable on return, the headers of new objects included, and not their content. After a crash before the return, all actions are
    /// made, or none.
    ///
    /// # Cost
    /// One drain; some more for more than 64 actions.
    pub fn publish(&self, actions: &[Action]) -> Result<(), ObjError> {
        if actions.len() > ACTIONS_MAX {
            return self.publish_many(actions);
        }
        let publication = self.heap.prepare(&self.cover, actions)?;
        self.cover.commit(begin(&self.cover)?, publication.changes())?;
        publication.done();
        Ok(())
    }

    /// Returns the object whose data begins at `at`, a reserved one, too.
    ///
    /// # Errors
    /// [`ObjError::Damaged`] if no object begins there; [`ObjError::Memory`].
    pub fn object(&self, at: PoolOffset) -> Result<Object, ObjError> {
        self.heap.object(self.cover.medium(), at)
    }

    /// Returns the first object of the program in the order of offsets, after the one at `at` if it is given. That may have been freed.
    ///
    /// # Errors
    /// [`ObjError::Damaged`] if `at` is outside of the heap; [`ObjError::Memory`].
    pub fn object_after(&self, at: Option<PoolOffset>) -> Result<Option<PoolOffset>, ObjError> {
        self.heap.object_after(self.cover.medium(), at)
    }

    /// Makes a class of allocations, and returns its identifier. It is not kept in the pool.
    ///
    /// # Errors
    /// [`ClassError`].
    pub fn add_class(&self, class: &ClassDescription) -> Result<u8, ClassError> {
        self.heap.add_class(class)
    }

    /// Returns a class of allocations. The blocks of class 0 are chunks.
    pub fn class(&self, id: u8) -> Option<ClassDescription> {
        self.heap.class(id)
    }

    /// Chooses the arenas before the first allocation. Without it there are as many as the machine has CPUs.
    pub fn set_arenas(&mut self, first: FirstArenas) {
        self.heap.set_arenas(first);
    }

    /// Makes the arenas of another pool in this one, and gives this thread the one that it has there. Takes no lock of the other pool, which
    /// may be a copy that a fork has made.
    pub fn follow_arenas(&self, other: &Pool<M>) {
        self.heap.arenas().follow(other.heap.arenas());
    }

    /// Returns the number of automatic arenas and of all, and the maximum.
    pub fn arenas(&self) -> (u32, u32, u32) {
        self.heap.arenas().counts()
    }

    /// Makes an arena, which no thread gets by itself, and returns its number.
    ///
    /// # Errors
    /// [`ObjError::TooManyArenas`].
    pub fn add_arena(&self) -> Result<u32, ObjError> {
        self.heap.arenas().add()
    }

    /// Returns the bytes of chunks that an arena has, and true if threads get it by themselves.
    pub fn arena(&self, number: u32) -> Option<(u64, bool)> {
        self.heap.arena(number).ok()
    }

    /// Lets threads get an arena by themselves, or not.
    ///
    /// # Errors
    /// [`ObjError::NoArena`].
    pub fn set_arena_automatic(&self, number: u32, is_automatic: bool) -> Result<(), ObjError> {
        self.heap.arenas().get(number).map(|arena| arena.set_automatic(is_automatic))
    }

    /// Returns the number of this thread's arena.
    pub fn thread_arena(&self) -> u32 {
        self.heap.arenas().of_thread().map_or(1, |arena| arena.number)
    }

    /// Gives this thread an arena. If all threads share one, it keeps that.
    ///
    /// # Errors
    /// [`ObjError::NoArena`].
    pub fn set_thread_arena(&self, number: u32) -> Result<(), ObjError> {
        self.heap.arenas().choose(number)
    }

    /// Returns the bytes that objects have, those in runs, and those of runs.
    ///
    /// # Errors
    /// [`ObjError::Memory`].
    ///
    /// # Cost
    /// Reads all headers and bitmaps.
    pub fn heap_counts(&self) -> Result<(u64, u64, u64), ObjError> {
        self.heap.counts(self.cover.medium())
    }
}
