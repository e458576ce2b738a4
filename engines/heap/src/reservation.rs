//! Reservations: space for an object, taken and filled outside of a transaction. A later transaction makes it an
//! object, or it is given back. The medium does not know of it before.
//!
//! ```text
//!   Heap::reserve -> Reservation --run_with--> Reserved --Tx::publish--> an object, at the commit
//!                        ^                        |  not published: given back at the commit
//!                        +--- error, with its cause
//! ```

use crate::alloc::allocations::{PAYLOAD_MIN, make_object};
use crate::alloc::central::BlockOrSpan;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::tx::Tx;
use lode_layout::{PoolOffset, WORD, align_up};
use lode_pmem::{Durability, FaultScope, Medium};
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use zerocopy::IntoBytes;

/// The reserved space.
#[derive(Clone, Copy, Debug)]
struct ReservedSpace {
    at: PoolOffset,
    size: u64,
    type_number: u64,
    place: BlockOrSpan,
}

/// Reserved space for an object. [`Heap::run_with`] takes it into a transaction, in which
/// [`Tx::publish`](crate::Tx::publish) makes it an object. Dropping it gives the space back. After a crash the space
/// is free.
pub struct Reservation<'h, M: Medium> {
    heap: &'h Heap<M>,
    space: ReservedSpace,
    /// True if the last attempt of the transaction has published it.
    is_published: bool,
}

/// A reservation inside of a transaction, for one attempt of its closure. [`Tx::publish`](crate::Tx::publish)
/// consumes it, so its content can't change past the log once the transaction has recorded it. Later stores go
/// through the transaction.
pub struct Reserved<'t> {
    /// Number of its heap.
    heap: u64,
    space: ReservedSpace,
    is_published: &'t mut bool,
    /// Keeps it in the thread of its transaction.
    thread: PhantomData<*const ()>,
}

/// The reservations that [`Heap::run_with`] takes into a transaction: a [`Reservation`], an array or a vector of
/// them. The closure gets as many [`Reserved`], in the same shape.
pub trait Reservations: ReservationSteps {
    /// The argument of the closure.
    type Reserved<'t>;
}

/// The steps of [`Reservations`] in a transaction. Other crates can't name this trait, and so can't implement it.
pub trait ReservationSteps: Sized {
    /// Begins an attempt.
    fn begin_attempt(&mut self) -> Self::Reserved<'_>
    where
        Self: Reservations;

    /// Ends the transaction. Reservations that it has published belong to the heap; with `in_doubt` all of them do.
    /// The others are given back.
    fn finish(self, in_doubt: bool);
}

impl<M: Medium> Reservations for Reservation<'_, M> {
    type Reserved<'t> = Reserved<'t>;
}

impl<M: Medium, const N: usize> Reservations for [Reservation<'_, M>; N] {
    type Reserved<'t> = [Reserved<'t>; N];
}

impl<M: Medium> Reservations for Vec<Reservation<'_, M>> {
    type Reserved<'t> = Vec<Reserved<'t>>;
}

impl<M: Medium> ReservationSteps for Reservation<'_, M> {
    fn begin_attempt(&mut self) -> <Self as Reservations>::Reserved<'_> {
        self.is_published = false;
        let is_published = &mut self.is_published;
        Reserved { heap: self.heap.number(), space: self.space, is_published, thread: PhantomData }
    }

    fn finish(self, in_doubt: bool) {
        if self.is_published || in_doubt {
            mem::forget(self);
        }
    }
}

impl<M: Medium, const N: usize> ReservationSteps for [Reservation<'_, M>; N] {
    fn begin_attempt(&mut self) -> <Self as Reservations>::Reserved<'_> {
        self.each_mut().map(Reservation::begin_attempt)
    }

    fn finish(self, in_doubt: bool) {
        self.into_iter().for_each(|reservation| reservation.finish(in_doubt));
    }
}

impl<M: Medium> ReservationSteps for Vec<Reservation<'_, M>> {
    fn begin_attempt(&mut self) -> <Self as Reservations>::Reserved<'_> {
        self.iter_mut().map(Reservation::begin_attempt).collect()
    }

    fn finish(self, in_doubt: bool) {
        self.into_iter().for_each(|reservation| reservation.finish(in_doubt));
    }
}

/// A transaction of [`Heap::run_with`] that failed, with the reservations that it was given.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotPublished<E, S> {
    /// The closure's error, or the [`HeapError`] of the transaction.
    pub error: E,
    /// The reservations, as they were before. `None` after [`HeapError::InDoubt`]: the space may hold objects, and is
    /// left alone until the pool is opened again.
    pub reservations: Option<S>,
}

impl<S> From<NotPublished<HeapError, S>> for HeapError {
    /// Returns the error alone. The reservations are given back.
    fn from(failed: NotPublished<HeapError, S>) -> HeapError {
        failed.error
    }
}

/// The reason why a transaction with reservations failed. Only an error of the heap can leave them in doubt.
enum RunError<E> {
    Heap(HeapError),
    Closure(E),
}

impl<E> From<HeapError> for RunError<E> {
    fn from(error: HeapError) -> RunError<E> {
        RunError::Heap(error)
    }
}

impl<M: Medium> Heap<M> {
    /// Reserves space for an object of at least `size` bytes, aligned to `align`, a power of two up to 4096. Its
    /// content is undefined.
    ///
    /// # Errors
    /// As [`Tx::alloc`](crate::Tx::alloc); [`HeapError::InTransaction`] inside of a transaction.
    ///
    /// # Cost
    /// No drain, unless a superblock must be made.
    pub fn reserve(&self, size: u64, align: u64, type_number: u64) -> Result<Reservation<'_, M>, HeapError> {
        if self.in_transaction() {
            return Err(HeapError::InTransaction);
        }
        self.log().begin_epoch()?;
        // Fetching blocks may make a superblock, which is a transaction of its own. A block that a failed one has
        // fetched is not given back before the pool is opened again: its superblock may be gone.
        let (place, at) = self.run(|tx| {
            let attempt = &mut *tx.attempt();
            let (space, writes) = attempt.space_and_writes();
            space.take(tx.allocator(), writes, size, align, type_number)
        })?;
        let space = ReservedSpace { at, size, type_number, place };
        Ok(Reservation { heap: self, space, is_published: false })
    }

    /// Runs `closure` as a transaction, as [`run`](Heap::run) does. The closure may publish `reservations`: one, an
    /// array or a vector of them. Each attempt of the closure gets them anew.
    ///
    /// When the transaction commits, published reservations are objects, and the others are given back. When it
    /// fails, all are as before and returned with the error. When it panics, they are given back.
    ///
    /// ```
    /// # use lode_heap::{HeapError, Heap};
    /// # fn example<M: lode_pmem::Medium>(heap: &Heap<M>) -> Result<(), HeapError> {
    /// let (head, body) = (heap.reserve(16, 8, 1)?, heap.reserve(4000, 8, 2)?);
    /// body.store(0, b"filled before the transaction")?;
    /// let at = body.at().get();
    /// heap.run_with([head, body], |tx, [head, body]| {
    ///     tx.publish(body)?;
    ///     let head = tx.publish(head)?;
    ///     tx.store8(head, at);
    ///     tx.set_root(head);
    ///     Ok::<_, HeapError>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`NotPublished`], with the closure's error or a [`HeapError`]: [`HeapError::InTransaction`] inside of another
    /// closure on the same heap.
    ///
    /// # Durability
    /// Durable on return, with the content of published reservations.
    ///
    /// # Cost
    /// That of [`run`](Heap::run), and of [`Tx::publish`](crate::Tx::publish).
    pub fn run_with<S: Reservations, R, E: From<HeapError>>(
        &self,
        mut reservations: S,
        mut closure: impl FnMut(&Tx<'_, M>, S::Reserved<'_>) -> Result<R, E>,
    ) -> Result<R, NotPublished<E, S>> {
        if self.in_transaction() {
            let error = HeapError::InTransaction.into();
            return Err(NotPublished { error, reservations: Some(reservations) });
        }
        let (error, in_doubt) =
            match self.run(|tx| closure(tx, reservations.begin_attempt()).map_err(RunError::Closure)) {
                Ok(value) => {
                    reservations.finish(false);
                    return Ok(value);
                }
                Err(RunError::Heap(error)) => {
                    let in_doubt = matches!(error, HeapError::InDoubt(_));
                    (error.into(), in_doubt)
                }
                Err(RunError::Closure(error)) => (error, false),
            };
        if in_doubt {
            reservations.finish(true);
            return Err(NotPublished { error, reservations: None });
        }
        Err(NotPublished { error, reservations: Some(reservations) })
    }
}

impl<M: Medium> Tx<'_, M> {
    /// Makes the reserved space an object, with the content that it has now, and returns its offset. The transaction
    /// can store to the object but can't free it; later transactions can.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when the reservation belongs to another heap.
    ///
    /// # Durability
    /// Object and content are durable with the transaction.
    ///
    /// # Cost
    /// 16 bytes of the record. Content up to 1 KiB goes through the record. The lines of longer content are flushed
    /// under the transaction's one drain. At durability commit all content goes through the log. Content above 1 KiB to
    /// which the transaction stores once more goes through the log, too, unless it is longer than a record: then the
    /// transaction has a second drain.
    pub fn publish(&self, reserved: Reserved<'_>) -> Result<PoolOffset, HeapError> {
        reserved.check_heap(self)?;
        let ReservedSpace { at, size, type_number, place } = reserved.space;
        {
            let attempt = &mut *self.attempt();
            let (space, writes) = attempt.space_and_writes();
            if let BlockOrSpan::Span(_) = place {
                space.note_published_span();
            }
            make_object(self.allocator(), writes, place, at, size, type_number);
        }
        *reserved.is_published = true;
        self.log_content(at, align_up(size, WORD));
        Ok(at)
    }

    /// Puts the content of a new object into the record, or its checksum.
    fn log_content(&self, at: PoolOffset, len: u64) {
        let mut content = vec![0u64; (len / WORD) as usize];
        self.memory().read(at, content.as_mut_bytes());
        let medium = self.heap().medium();
        if len > PAYLOAD_MIN && matches!(medium.durability(), Durability::Line | Durability::Byte) {
            medium.flush(at, len);
            let crc = crc32c::crc32c(content.as_bytes());
            self.attempt().writes().payload(at, len, crc);
        } else {
            self.store_words(at, &content);
        }
    }
}

impl ReservedSpace {
    /// Stores past the log to reserved space.
    fn store<M: Medium>(&self, medium: &M, off: u64, bytes: &[u8]) -> Result<(), HeapError> {
        let end = off.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(HeapError::NoObject { at: self.at.plus(off) });
        }
        Ok(FaultScope::run(|| medium.store(self.at.plus(off), bytes))?)
    }
}

impl<M: Medium> Reservation<'_, M> {
    /// Returns the offset that the object will have.
    pub fn at(&self) -> PoolOffset {
        self.space.at
    }

    /// Returns the size that was asked for, in bytes.
    pub fn size(&self) -> u64 {
        self.space.size
    }

    /// Stores bytes at `off` from the start of the object. The transaction that publishes the object makes its
    /// content at that time durable.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when the range is not inside of the object; [`HeapError::Fault`].
    pub fn store(&self, off: u64, bytes: &[u8]) -> Result<(), HeapError> {
        self.space.store(self.heap.medium(), off, bytes)
    }

    /// Gives the space back.
    pub fn cancel(self) {}
}

impl Reserved<'_> {
    /// Returns the offset that the object will have.
    pub fn at(&self) -> PoolOffset {
        self.space.at
    }

    /// Returns the size that was asked for, in bytes.
    pub fn size(&self) -> u64 {
        self.space.size
    }

    /// Stores bytes at `off` from the start of the object, past the log. They stay if the transaction fails, and
    /// become durable if it publishes the object.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when the range is not inside of the object, or when `tx` belongs to another heap;
    /// [`HeapError::Fault`].
    pub fn store<M: Medium>(&self, tx: &Tx<'_, M>, off: u64, bytes: &[u8]) -> Result<(), HeapError> {
        self.check_heap(tx)?;
        self.space.store(tx.heap().medium(), off, bytes)
    }

    fn check_heap<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<(), HeapError> {
        if self.heap == tx.heap().number() { Ok(()) } else { Err(HeapError::NoObject { at: self.space.at }) }
    }
}

impl<M: Medium> Drop for Reservation<'_, M> {
    fn drop(&mut self) {
        if self.heap.log().check_not_failed().is_err() {
            // A commit that panicked may have published it.
            return;
        }
        self.heap.shared().release(self.space.place);
    }
}

impl<M: Medium> fmt::Debug for Reservation<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReservedSpace { at, size, .. } = self.space;
        f.debug_struct("Reservation").field("at", &at).field("size", &size).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reserved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReservedSpace { at, size, .. } = self.space;
        f.debug_struct("Reserved").field("at", &at).field("size", &size).finish_non_exhaustive()
    }
}
