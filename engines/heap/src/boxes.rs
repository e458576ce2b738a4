//! Vectors of boxes: each element is an object of its own, which the vector owns and lends.
//!
//! The argument on which the SAFETY comments rest is at the head of `ptr.rs`. An element is a word of the buffer. It is read and
//! changed under the vector's lock, and no reference to it exists, so the buffer may move.
#![allow(unsafe_code)]

use crate::error::HeapError;
use crate::persist::{Persist, get_ref};
use crate::ptr::{Owned, PBox, TargetOf};
use crate::typed::brand::Brand;
use crate::typed::elements::{ElementForm, Elements};
use crate::typed::free::free_owned;
use crate::typed::guard::Guard;
use crate::typed::owners::{Boxes, Owners, Target};
use crate::typed::tx::TypedTx;
use crate::typed::type_hash;
use crate::typed::types::Types;
use crate::typed::vec::PVec;
use lode_layout::{PoolOffset, Shape, TypeId, WORD};
use lode_pmem::{Medium, Memory};
use std::mem::size_of;

// SAFETY: - a vector is two words, and the first owns the buffer, whose words own the elements.
unsafe impl<T: Persist<B>, B: Brand> Persist<B> for PVec<PBox<T, B>, B> {
    const NAME: u64 = type_hash::with_number(type_hash::of_name("PVec"), <PBox<T, B> as Persist<B>>::NAME);
    const TYPE_NUMBER: u64 = of_words::<T, B>(<Self as Persist<B>>::NAME);
    const OWNS: bool = true;
    const PADDED: bool = false;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        let boxes =
            const { &Target::Boxes(Boxes { buffer: Self::FORM.buffer, element: TargetOf::<T, B>::TARGET }) };
        self.buffer().visit(owners, boxes);
    }
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Vec { element: PBox::<T, B>::describe(types), buffer: Self::FORM.buffer };
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
}

/// Returns `hash` with the number and the size of a box mixed in.
const fn of_words<T: Persist<B>, B: Brand>(hash: u64) -> u64 {
    type_hash::with_size(
        type_hash::with_number(hash, <PBox<T, B> as Persist<B>>::TYPE_NUMBER),
        size_of::<PBox<T, B>>(),
    )
}

impl<T: Persist<B>, B: Brand> PVec<PBox<T, B>, B> {
    const FORM: ElementForm =
        ElementForm { size: WORD, align: WORD, buffer: of_words::<T, B>(type_hash::of_name("PVec buffer")) };

    /// Lends element number `index` as the transaction sees it; `None` beyond the end. The read is validated; it does not depend
    /// on other elements.
    ///
    /// # Errors
    /// As [`len`](PVec::len); [`HeapError::Fault`] when the element can't be read, [`HeapError::Corrupt`] when it is null.
    pub fn get<'t, M: Medium>(
        &'t self,
        tx: &'t TypedTx<'_, B, M>,
        index: u64,
    ) -> Result<Option<&'t T>, HeapError> {
        let at = self.bits(tx.raw(), Self::FORM, index)?.map(PoolOffset::new);
        // SAFETY: - the element was reached in this transaction, which is pinned until it is over.
        at.map(|at| unsafe { lend(tx.raw().heap().memory(), at) }).transpose()
    }

    /// Lends all elements as the transaction sees them. The read is validated.
    ///
    /// # Errors
    /// As [`get`](PVec::get), and [`HeapError::Corrupt`] when the length is damaged.
    pub fn to_vec<'t, M: Medium>(&'t self, tx: &'t TypedTx<'_, B, M>) -> Result<Vec<&'t T>, HeapError> {
        let (_, bytes) = self.bytes(tx.raw(), Self::FORM)?;
        // SAFETY: - as in `get`.
        offsets(&bytes).map(|at| unsafe { lend(tx.raw().heap().memory(), at) }).collect()
    }

    /// Lends element number `index` as the vector was last committed; `None` beyond the end.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when it can't be read, [`HeapError::Corrupt`] when it is null.
    pub fn load<'g, M: Medium>(
        &'g self,
        guard: &'g Guard<'_, B, M>,
        index: u64,
    ) -> Result<Option<&'g T>, HeapError> {
        let read = self.committed_bits(guard, Self::FORM, index)?;
        // SAFETY: - the vector is borrowed for `'g` from under a pin that is held so long and protects its elements, as that of a
        //           box protects its object.
        read.map(|(_, at)| unsafe { lend(guard.memory(), PoolOffset::new(at)) }).transpose()
    }

    /// Lends all elements as the vector was last committed.
    ///
    /// # Errors
    /// As [`load`](PVec::load), and [`HeapError::Corrupt`] when the length is damaged.
    pub fn load_all<'g, M: Medium>(&'g self, guard: &'g Guard<'_, B, M>) -> Result<Vec<&'g T>, HeapError> {
        let (_, bytes) = self.committed_bytes(guard, Self::FORM)?;
        // SAFETY: - as in `load`.
        offsets(&bytes).map(|at| unsafe { lend(guard.memory(), at) }).collect()
    }

    /// Appends `new`, and lends it.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`], with the vector unchanged and `new` freed; [`HeapError::Conflict`] as [`len`](PVec::len);
    /// [`HeapError::OtherPool`].
    ///
    /// # Cost
    /// 32 bytes of the record; now and then those of a buffer twice as large.
    pub fn push<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
        new: Owned<'_, T, B, M>,
    ) -> Result<&'t T, HeapError> {
        let elements = self.lock_for(tx, &new)?;
        self.append(tx.raw(), Self::FORM, elements, (1, &word_of(&new)))?;
        // SAFETY: - the vector owns the object from now on; it was reached in this transaction.
        unsafe { lend(tx.raw().heap().memory(), new.into_offset()) }
    }

    /// Puts `new` in the place of element number `index`, which is returned; `None` beyond the end, with `new` freed.
    ///
    /// # Errors
    /// As [`push`](PVec::push).
    ///
    /// # Cost
    /// 16 bytes of the record.
    pub fn replace<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
        index: u64,
        new: Owned<'_, T, B, M>,
    ) -> Result<Option<Owned<'t, T, B, M>>, HeapError> {
        let elements = self.lock_for(tx, &new)?;
        self.take(tx, elements, index, || {
            self.store(tx.raw(), Self::FORM, elements, index, &word_of(&new));
            new.into_offset();
        })
    }

    /// Removes the last element and returns it.
    ///
    /// # Errors
    /// As [`get`](PVec::get).
    ///
    /// # Cost
    /// 16 bytes of the record.
    pub fn pop<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
    ) -> Result<Option<Owned<'t, T, B, M>>, HeapError> {
        let elements = self.lock(tx.raw())?;
        let last = elements.len.saturating_sub(1);
        self.take(tx, elements, last, || self.store_len(tx.raw(), last))
    }

    /// Removes element number `index` and returns it; those after it move up. `None` beyond the end.
    ///
    /// # Errors
    /// As [`get`](PVec::get).
    ///
    /// # Cost
    /// 8 bytes of the record for each element after it. [`swap_remove`](PVec::swap_remove) takes 32.
    pub fn remove<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
        index: u64,
    ) -> Result<Option<Owned<'t, T, B, M>>, HeapError> {
        let elements = self.lock(tx.raw())?;
        self.take(tx, elements, index, || {
            let mut rest = vec![0; ((elements.len - 1 - index) * WORD) as usize];
            tx.raw().read(Self::FORM.at(elements.buffer, index + 1), &mut rest);
            self.store(tx.raw(), Self::FORM, elements, index, &rest);
            self.store_len(tx.raw(), elements.len - 1);
        })
    }

    /// Removes element number `index` and returns it; the last one takes its place. `None` beyond the end.
    ///
    /// # Errors
    /// As [`get`](PVec::get).
    ///
    /// # Cost
    /// 32 bytes of the record.
    pub fn swap_remove<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
        index: u64,
    ) -> Result<Option<Owned<'t, T, B, M>>, HeapError> {
        let elements = self.lock(tx.raw())?;
        self.take(tx, elements, index, || {
            let last = elements.len - 1;
            let moved = tx.raw().load8(Self::FORM.at(elements.buffer, last));
            self.store(tx.raw(), Self::FORM, elements, index, &moved.to_le_bytes());
            self.store_len(tx.raw(), last);
        })
    }

    /// Removes the elements from number `len` on, if there are any, and frees them with all that they own.
    ///
    /// # Errors
    /// As [`len`](PVec::len), and as [`Owned::free`].
    pub fn truncate<M: Medium>(&self, tx: &TypedTx<'_, B, M>, len: u64) -> Result<(), HeapError> {
        let elements = self.lock(tx.raw())?;
        if len < elements.len {
            elements.check_room(tx.raw(), WORD)?;
            self.store_len(tx.raw(), len);
        }
        for index in len..elements.len {
            let at = PoolOffset::new(tx.raw().load8(Self::FORM.at(elements.buffer, index)));
            free_owned(tx, at, TargetOf::<T, B>::TARGET.walk())?;
        }
        Ok(())
    }

    /// Removes all elements, and frees them with all that they own, and the vector's space.
    ///
    /// # Errors
    /// As [`truncate`](PVec::truncate).
    pub fn clear<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<(), HeapError> {
        self.truncate(tx, 0)?;
        let elements = self.lock(tx.raw())?;
        // The elements are freed by now.
        self.free_buffer(tx.raw(), elements).inspect_err(|_| tx.raw().set_rollback_only())
    }

    /// Locks the vector for a change that takes `new`.
    fn lock_for<M: Medium>(
        &self,
        tx: &TypedTx<'_, B, M>,
        new: &Owned<'_, T, B, M>,
    ) -> Result<Elements, HeapError> {
        if new.is_of(tx) { self.lock(tx.raw()) } else { Err(HeapError::OtherPool) }
    }

    /// Takes an element out of the vector, which is locked; `None` beyond the end. `leave` overwrites the element's word, or lets the
    /// vector end before it.
    fn take<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
        elements: Elements,
        index: u64,
        leave: impl FnOnce(),
    ) -> Result<Option<Owned<'t, T, B, M>>, HeapError> {
        if index >= elements.len {
            return Ok(None);
        }
        elements.check_room(tx.raw(), WORD)?;
        let at = PoolOffset::new(tx.raw().load8(Self::FORM.at(elements.buffer, index)));
        if at.is_null() {
            return Err(NULL_ELEMENT);
        }
        // SAFETY: - the vector's lock is kept until the transaction ends, and the vector owns the object no more after `leave`.
        let owned = unsafe { Owned::adopt(tx, at) }?;
        leave();
        Ok(Some(owned))
    }
}

/// An element of a vector of boxes is never null.
const NULL_ELEMENT: HeapError =
    HeapError::Corrupt { what: "a vector of boxes: an element of it", at: PoolOffset::NULL };

/// Returns the bytes of the word that owns `new`.
fn word_of<T: Persist<B>, B: Brand, M: Medium>(new: &Owned<'_, T, B, M>) -> [u8; 8] {
    new.at().get().to_le_bytes()
}

/// Returns the offsets in a buffer with these bytes.
fn offsets(bytes: &[u8]) -> impl Iterator<Item = PoolOffset> + '_ {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| PoolOffset::new(u64::from_le_bytes(*word)))
}

/// Lends the element at `at`, which a vector owns.
///
/// # Safety
/// - As for [`get_ref`].
unsafe fn lend<T: Persist<B>, B: Brand>(memory: &Memory, at: PoolOffset) -> Result<&T, HeapError> {
    if at.is_null() {
        return Err(NULL_ELEMENT);
    }
    // SAFETY: - the caller's promise.
    unsafe { get_ref(memory, at) }.map_err(HeapError::from)
}
