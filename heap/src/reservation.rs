//! Reservations: space for an object, taken outside of a transaction and filled at leisure, that a later
//! transaction makes an object, or that is given back. The medium knows nothing of it before.

use crate::alloc::{Block, Class, Key, Span};
use crate::heap::PAYLOAD_MIN;
use crate::tx::checked_align;
use crate::{Heap, HeapError, Tx};
use lode_layout::{Descriptor, Huge, PoolOffset, WORD, align_up};
use lode_pmem::{Medium, Rung};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::IntoBytes;

/// What of the heap is kept.
#[derive(Clone, Copy, Debug)]
enum Place {
    Block(Key, Block),
    Span(Span),
}

/// Space for an object that is nobody's yet. [`Tx::publish`](crate::Tx::publish) makes it an object; dropped
/// before, the space is given back. After a crash it is free.
pub struct Reservation<'h, M: Medium> {
    heap: &'h Heap<M>,
    at: PoolOffset,
    size: u64,
    type_number: u64,
    place: Place,
    /// Set when a transaction that published it is durable.
    published: Arc<AtomicBool>,
}

impl<M: Medium> Heap<M> {
    /// Reserves space for an object of at least `size` bytes, aligned to `align`, a power of two up to 4096. Its
    /// content is undefined.
    ///
    /// # Errors
    /// As [`Tx::alloc`](crate::Tx::alloc); [`HeapError::InTransaction`] inside of one.
    ///
    /// # Cost
    /// No drain, unless a superblock must be made.
    pub fn reserve(&self, size: u64, align: u64, type_number: u64) -> Result<Reservation<'_, M>, HeapError> {
        if self.in_transaction() {
            return Err(HeapError::InTransaction);
        }
        // Fetching blocks may make a superblock, which is a transaction of its own.
        let (place, at) = self.run(|tx| tx.fetch(size, align, type_number))?;
        let published = Arc::new(AtomicBool::new(false));
        Ok(Reservation { heap: self, at, size, type_number, place, published })
    }
}

impl<M: Medium> Tx<'_, M> {
    /// Takes space that no transaction gives back.
    fn fetch(&self, size: u64, align: u64, type_number: u64) -> Result<(Place, PoolOffset), HeapError> {
        let state = &mut *self.session.state.borrow_mut();
        let align = checked_align(align)?;
        if let Some(class) = Class::of(size.max(1), align) {
            let key = Key { class, type_number };
            if let Some((key, block)) = self.take_block(state, key, align)? {
                return Ok((Place::Block(key, block), block.at));
            }
        }
        let (span, data_off) = self.find_huge(state, size, align)?;
        Ok((Place::Span(span), span.start.plus(data_off)))
    }

    /// Makes the reserved space an object, with the content that it has now. Should the transaction fail, it
    /// is reserved as before. The object can be freed by later transactions, not by this one.
    ///
    /// # Errors
    /// [`HeapError::Published`] when that was done before; [`HeapError::NoObject`] when the reservation is one of
    /// another heap.
    ///
    /// # Durability
    /// Object and content are durable with the transaction.
    ///
    /// # Cost
    /// 16 bytes of the record. Content up to 1 KiB goes through the record; above, its lines are flushed under the
    /// transaction's one drain. On the commit rung all content goes through the log.
    pub fn publish(&self, reservation: &Reservation<'_, M>) -> Result<(), HeapError> {
        let at = reservation.at;
        if !std::ptr::eq(self.heap, reservation.heap) {
            return Err(HeapError::NoObject { at });
        }
        reservation.check()?;
        {
            let state = &mut *self.session.state.borrow_mut();
            if state.published.iter().any(|flag| Arc::ptr_eq(flag, &reservation.published)) {
                return Err(HeapError::Published { at });
            }
            state.published.push(Arc::clone(&reservation.published));
            match reservation.place {
                Place::Block(_, block) => state.writes.set_bits(block.word, block.mask()),
                Place::Span(span) => {
                    let data_off = at.get() - span.start.get();
                    let object =
                        Huge { size: reservation.size, data_off, type_number: reservation.type_number };
                    self.describe(state, span, Descriptor::Huge { chunks: span.chunks });
                    state.writes.store_header(span.start, &object.encode(span.start.get()), &[]);
                }
            }
        }
        self.take_content(at, align_up(reservation.size, WORD));
        Ok(())
    }

    /// Puts what lies in a new object into the record, or what vouches for it.
    fn take_content(&self, at: PoolOffset, len: u64) {
        let mut content = vec![0u64; (len / WORD) as usize];
        self.heap.memory().read(at, content.as_mut_bytes());
        let medium = self.heap.medium();
        if len > PAYLOAD_MIN && matches!(medium.rung(), Rung::Line | Rung::Byte) {
            medium.flush(at, len);
            let crc = crc32c::crc32c(content.as_bytes());
            self.session.state.borrow_mut().writes.payload(at, len, crc);
        } else {
            self.store_words(at, &content);
        }
    }
}

impl<M: Medium> Reservation<'_, M> {
    /// Where the object will be.
    pub fn at(&self) -> PoolOffset {
        self.at
    }

    /// Bytes that were asked for.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Stores bytes at `off` from the start of the object. They become durable with the transaction that
    /// publishes it, as they are then.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when the range is not inside of it; [`HeapError::Published`].
    pub fn store(&self, off: u64, bytes: &[u8]) -> Result<(), HeapError> {
        self.check()?;
        let end = off.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(HeapError::NoObject { at: self.at.plus(off) });
        }
        self.heap.medium().store(self.at.plus(off), bytes);
        Ok(())
    }

    /// Gives the space back.
    pub fn cancel(self) {}

    /// Whether it is still to be published.
    fn check(&self) -> Result<(), HeapError> {
        if self.is_published() { Err(HeapError::Published { at: self.at }) } else { Ok(()) }
    }

    fn is_published(&self) -> bool {
        // ORDER: acquires; pairs with the commit of the transaction that published it.
        self.published.load(Ordering::Acquire)
    }
}

impl<M: Medium> Drop for Reservation<'_, M> {
    fn drop(&mut self) {
        if self.is_published() {
            return;
        }
        match self.place {
            Place::Block(key, block) => self.heap.shared.central.give_blocks(key, [block].into_iter()),
            Place::Span(span) => self.heap.shared.central.give_span(span),
        }
    }
}

impl<M: Medium> fmt::Debug for Reservation<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("at", &self.at).field("size", &self.size).finish_non_exhaustive()
    }
}
