//! Cells, pointers and owned objects in a pool, and the lending of references to objects.
//!
//! The argument on which the SAFETY comments here and in `persist.rs` rest:
//!
//! * **Valid.** A persistent type has a fixed layout and no invalid bit pattern. So the bytes at any aligned offset inside
//!   of the memory are a value of the type. Types with invalid bit patterns lie in cells and vectors, as [`Bits`].
//! * **In place.** The address of a pool is the same while it is open.
//! * **Reached.** A pointer that is followed lies in the pool of the transaction or guard, which is compared. None can be copied, or
//!   made outside. A migration takes values out, and puts a tag in place of each pointer in them: a tag counts only in the new object
//!   that is made of the same old one, and no other object is made with one. Its target
//!   is lent for a lifetime during which a pin is held, made when the pointer was reached. A block that is freed
//!   later is not used again before that pin is gone.
//! * **Owned once.** An object has one owner: a pointer in the pool, or an [`Owned`] of a running transaction. Moving
//!   between the two happens under the pointer's lock, which is kept to the end of the transaction. A migration borrows the heap
//!   exclusively, and lets each pointer of an object that it replaces go to one place.
//! * **Still.** After an object was linked, its bytes change only inside of cells, pointers and vectors. Those
//!   consist of words that are accessed atomically. A new object is stored in place at once, while only its
//!   transaction can reach the block, so that transaction can lend references to it. The object is in the record too,
//!   so a replay of the log does not depend on that store. A migration converts objects in place; it borrows the heap exclusively,
//!   so no reference to one is left.
#![allow(unsafe_code)]

use crate::bits::{Bits, bytes_of};
use crate::error::HeapError;
use crate::heap::Heap;
use crate::persist::{Persist, Word, get_ref, place_of, renewed, walk, with_bytes};
use crate::typed::brand::Brand;
use crate::typed::deque::PDeque;
use crate::typed::free::free_owned;
use crate::typed::freeing_tx::StructureType;
use crate::typed::guard::Guard;
use crate::typed::hash_map::PHashMap;
use crate::typed::mutex::PMutex;
use crate::typed::owners::{ObjectType, OldObject, Owners, Target, Version};
use crate::typed::root::{ComparedTypes, committed_root, read_type_table, root_in, type_table_in};
use crate::typed::string::PString;
use crate::typed::structure::{Structure, StructureWord};
use crate::typed::tx::TypedTx;
use crate::typed::type_hash;
use crate::typed::types::Types;
use crate::typed::value::{CellValue, with_values};
use crate::typed::vec::PVec;
use lode_layout::{PoolOffset, Shape, TypeId};
use lode_pmem::{Fault, Mapping, Medium};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, align_of, size_of};
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// SAFETY: - a vector is two words, and the first owns the buffer; elements own nothing.
unsafe impl<T: CellValue, B: Brand> Persist<B> for PVec<T, B> {
    const NAME: u64 = type_hash::with_number(type_hash::of_name("PVec"), T::NAME);
    const TYPE_NUMBER: u64 = with_values::<T>(<Self as Persist<B>>::NAME);
    const OWNS: bool = true;
    const PADDED: bool = false;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        self.buffer().visit(owners, const { &Target::Buffer(Self::FORM.buffer) });
    }
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Vec { element: T::describe(types), buffer: Self::FORM.buffer };
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
}

// SAFETY: - a queue is four words, and the first owns the buffer; elements own nothing.
unsafe impl<T: CellValue, B: Brand> Persist<B> for PDeque<T, B> {
    const NAME: u64 = type_hash::with_number(type_hash::of_name("PDeque"), T::NAME);
    const TYPE_NUMBER: u64 = with_values::<T>(<Self as Persist<B>>::NAME);
    const OWNS: bool = true;
    const PADDED: bool = false;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        self.buffer().visit(owners, const { &Target::Buffer(Self::BUFFER_TYPE) });
    }
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Deque { element: T::describe(types), buffer: Self::BUFFER_TYPE };
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
}

// SAFETY: - a map is four words, and the first owns the buffer; keys and values own nothing.
unsafe impl<K: CellValue, V: CellValue, B: Brand> Persist<B> for PHashMap<K, V, B> {
    const NAME: u64 =
        type_hash::with_number(type_hash::with_number(type_hash::of_name("PHashMap"), K::NAME), V::NAME);
    const TYPE_NUMBER: u64 = with_values::<V>(with_values::<K>(<Self as Persist<B>>::NAME));
    const OWNS: bool = true;
    const PADDED: bool = false;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        self.buffer().visit(owners, const { &Target::Buffer(Self::BUFFER_TYPE) });
    }
    fn describe(types: &mut Types) -> TypeId {
        let [key, value] = [K::describe(types), V::describe(types)];
        let shape = Shape::HashMap { key, value, buffer: Self::BUFFER_TYPE };
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
}

// SAFETY: - a string is its vector.
unsafe impl<B: Brand> Persist<B> for PString<B> {
    const NAME: u64 = type_hash::of_name("PString");
    const TYPE_NUMBER: u64 = <Self as Persist<B>>::NAME;
    const OWNS: bool = true;
    const PADDED: bool = false;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        self.bytes().visit_owned(owners);
    }
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::String { buffer: PVec::<u8, B>::FORM.buffer };
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
}

// SAFETY: - a structure's word is one word, which owns the structure.
unsafe impl<S: Structure, B: Brand> Persist<B> for StructureWord<S, B> {
    const NAME: u64 = S::NAME;
    const TYPE_NUMBER: u64 = S::TYPE_NUMBER;
    const OWNS: bool = true;
    const PADDED: bool = false;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        let target = const { &Target::Structure(StructureType { root: S::ROOT_TYPE, free: S::free }) };
        self.word().visit(owners, target);
    }
    fn describe(types: &mut Types) -> TypeId {
        S::describe(types)
    }
}

/// Declares a type of fields that are a [`StructureWord`], with this name and these parameters. It is `Persist` then. For crates
/// that keep structures.
#[doc(hidden)]
#[macro_export]
macro_rules! structure_field {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident[$($parameter:ident: $bound:path),*; $brand:ident]($structure:ty);
    ) => {
        $(#[$attribute])*
        #[repr(transparent)]
        $visibility struct $name<$($parameter,)* $brand> {
            word: $crate::structure::StructureWord<$structure, $brand>,
        }

        // SAFETY: - the type is transparent: its one field, which is persistent, is all that it has.
        unsafe impl<$($parameter: $bound,)* $brand: $crate::Brand> $crate::Persist<$brand>
            for $name<$($parameter,)* $brand>
        {
            const NAME: u64 = <$crate::structure::StructureWord<$structure, $brand> as $crate::Persist<$brand>>::NAME;
            const TYPE_NUMBER: u64 =
                <$crate::structure::StructureWord<$structure, $brand> as $crate::Persist<$brand>>::TYPE_NUMBER;
            const OWNS: bool = true;
            const PADDED: bool = false;
            fn visit_owned(&self, owners: &mut $crate::Owners<'_>) {
                $crate::Persist::visit_owned(&self.word, owners);
            }
            fn describe(types: &mut $crate::types::Types) -> $crate::types::TypeId {
                <$crate::structure::StructureWord<$structure, $brand> as $crate::Persist<$brand>>::describe(types)
            }
        }
    };
}

// SAFETY: - a mutex is the value that it guards: the lock itself is in DRAM.
unsafe impl<T: Persist<B>, B: Brand> Persist<B> for PMutex<T, B> {
    const NAME: u64 = type_hash::with_number(type_hash::of_name("PMutex"), T::NAME);
    const TYPE_NUMBER: u64 = type_hash::with_number(<Self as Persist<B>>::NAME, T::TYPE_NUMBER);
    const OWNS: bool = T::OWNS;
    const PADDED: bool = T::PADDED;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        self.guarded().visit_owned(owners);
    }
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Mutex(T::describe(types));
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
    fn version(age: u32) -> Option<Version> {
        let Version { name, number, size } = T::version(age)?;
        let name = type_hash::with_number(type_hash::of_name("PMutex"), name);
        Some(Version { name, number: type_hash::with_number(name, number), size })
    }
    fn from_version(object: &mut OldObject<'_>, offset: u64, age: u32) -> Result<Self, HeapError> {
        T::from_version(object, offset, age).map(PMutex::new)
    }
    fn visit_version(at: PoolOffset, owners: &mut Owners<'_>, age: u32) -> Result<(), Fault> {
        T::visit_version(at, owners, age)
    }
    fn copy_to(&mut self, into: &mut [u8]) {
        self.guarded_mut().copy_to(into);
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
union CellBits<T: Bits> {
    value: T,
    /// Makes the cell whole words.
    word: u64,
}

/// A field that can change: read by copy, stored in a transaction.
///
/// It holds any [`CellValue`]: numbers, `bool`, `Option`, tuples, arrays, and structs and enums with
/// `#[derive(CellValue)]`. Values of up to 8 bytes take one word, which is loaded and stored atomically. Larger ones take
/// several words. The lock of the cell's offset guards these; a transaction that stores takes it by itself.
#[repr(transparent)]
pub struct PCell<T: CellValue, B> {
    bits: UnsafeCell<CellBits<T::Bits>>,
    brand: PhantomData<fn() -> B>,
}

// SAFETY: - loads are atomic word by word, and stores happen through the log only.
unsafe impl<T: CellValue, B> Sync for PCell<T, B> {}

// SAFETY: - every bit pattern of the bits is one of the cell, which owns nothing.
//         - `PADDED` is true unless the first word or the bits fill the cell; `copy_to` copies these then.
unsafe impl<T: CellValue, B: Brand> Persist<B> for PCell<T, B> {
    const NAME: u64 = type_hash::with_number(type_hash::of_name("PCell"), T::NAME);
    const TYPE_NUMBER: u64 = with_values::<T>(<Self as Persist<B>>::NAME);
    const OWNS: bool = false;
    const PADDED: bool = !Self::IS_SMALL && size_of::<T::Bits>() != size_of::<Self>();
    fn visit_owned(&self, _: &mut Owners<'_>) {}
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Cell(T::describe(types));
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
    fn copy_to(&mut self, into: &mut [u8]) {
        let cell = self.bits.get_mut();
        if Self::IS_SMALL {
            // SAFETY: - `new` initialised the whole word.
            into.copy_from_slice(bytes_of(unsafe { &cell.word }));
        } else {
            // SAFETY: - `new` initialised the bits.
            let bits = unsafe { cell.value };
            into[..size_of::<T::Bits>()].copy_from_slice(bytes_of(&bits));
        }
    }
}

impl<T: CellValue, B> PCell<T, B> {
    /// True if the value takes a single word.
    pub(crate) const IS_SMALL: bool = size_of::<T::Bits>() <= size_of::<u64>();

    /// Makes a cell that holds `value`.
    pub fn new(value: T) -> PCell<T, B> {
        let mut bits = CellBits { word: 0 };
        bits.value = value.to_bits();
        PCell { bits: UnsafeCell::new(bits), brand: PhantomData }
    }

    /// Returns the value of a cell that is not in a pool, as a [migration](crate::Migrate) has it.
    ///
    /// # Errors
    /// [`HeapError::InvalidValue`], with the null offset.
    pub fn into_value(self) -> Result<T, HeapError> {
        // SAFETY: - the bits are initialised, and every bit pattern is one.
        let bits = unsafe { self.bits.into_inner().value };
        T::from_bits(bits).ok_or(HeapError::InvalidValue { name: T::TYPE_NAME, at: PoolOffset::NULL })
    }

    /// Returns the first word as it was last written back.
    #[inline]
    pub(crate) fn load_word(&self) -> u64 {
        // SAFETY: - the cell is at least a word, and aligned like one; all accesses to it are atomic.
        let word = unsafe { AtomicU64::from_ptr(self.bits.get().cast()) };
        // ORDER: acquires; pairs with the release of the write-back.
        word.load(Ordering::Acquire)
    }

    /// Returns the bits of a small cell whose word is `word`.
    #[inline]
    pub(crate) fn bits_in(word: u64) -> T::Bits {
        let () = const { assert!(cfg!(target_endian = "little")) };
        let bits = CellBits::<T::Bits> { word };
        // SAFETY: - all of the value lies in the word: this is for small cells only, as the callers' `IS_SMALL` checks;
        //         - every bit pattern is a value.
        unsafe { bits.value }
    }

    /// Returns the word of a small cell that holds `bits`.
    #[inline]
    pub(crate) fn word_of(bits: T::Bits) -> u64 {
        let mut cell = CellBits { word: 0 };
        cell.value = bits;
        // SAFETY: - the word was initialised, and so were the bytes of the value over it.
        unsafe { cell.word }
    }
}

/// A pointer in the pool that owns the object that it leads to, or is null.
///
/// A new pointer is null; [`set`](PBox::set) gives it an object. A pointer can't be copied or moved out of the pool,
/// so every object has one owner, and is freed once.
#[repr(transparent)]
pub struct PBox<T, B> {
    word: Word,
    target: PhantomData<fn() -> (T, B)>,
}

// SAFETY: - a pointer is one word; every bit pattern is an offset, which is checked when it is followed.
unsafe impl<T: Persist<B>, B: Brand> Persist<B> for PBox<T, B> {
    const NAME: u64 = type_hash::with_number(type_hash::of_name("PBox"), T::NAME);
    const TYPE_NUMBER: u64 = <Self as Persist<B>>::NAME;
    const OWNS: bool = true;
    const PADDED: bool = false;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        self.word.visit(owners, TargetOf::<T, B>::TARGET);
    }
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Box(T::describe(types));
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
}

/// The kind of the owned objects that are a `T`.
pub(crate) struct TargetOf<T, B>(PhantomData<(T, B)>);

impl<T: Persist<B>, B: Brand> TargetOf<T, B> {
    pub(crate) const TARGET: &'static Target = &Target::Object(ObjectType {
        id: std::any::TypeId::of::<T>,
        walk: if T::OWNS { Some(walk::<T, B>) } else { None },
        version: T::version,
        visit_version: T::visit_version,
        renew: renewed::<T, B>,
    });
}

impl<T, B> fmt::Debug for PBox<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PBox").field(&PoolOffset::new(self.word.load())).finish()
    }
}

impl<T, B> Default for PBox<T, B> {
    fn default() -> PBox<T, B> {
        PBox::null()
    }
}

impl<T, B> PBox<T, B> {
    /// Makes a null pointer.
    pub const fn null() -> PBox<T, B> {
        PBox { word: Word::new(0), target: PhantomData }
    }
}

impl<T: Persist<B>, B: Brand> PBox<T, B> {
    /// Returns the object that the pointer leads to for the transaction, its own changes included. The read of the
    /// pointer is validated.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] as [`PCell::get`]; [`HeapError::Fault`] when the pointer is damaged, or when the object's
    /// memory is known to be lost; [`HeapError::OtherPool`].
    #[inline]
    pub fn get<'t, M: Medium>(&'t self, tx: &'t TypedTx<'_, B, M>) -> Result<Option<&'t T>, HeapError> {
        let memory = tx.raw().heap().memory();
        let at = PoolOffset::new(tx.raw().read8(place_of(memory, &self.word)?)?);
        // SAFETY: - the pointer was reached in this transaction, which is pinned until it is over.
        (!at.is_null()).then(|| unsafe { get_ref(memory, at) }).transpose().map_err(HeapError::from)
    }

    /// Returns the object that the pointer leads to, as it was last committed.
    ///
    /// # Errors
    /// As [`get`](PBox::get).
    ///
    /// # Cost
    /// A load, and a check of both ranges.
    #[inline]
    pub fn load<'g, M: Medium>(&'g self, guard: &'g Guard<'_, B, M>) -> Result<Option<&'g T>, HeapError> {
        place_of(guard.memory(), &self.word)?;
        let at = PoolOffset::new(self.word.load());
        // SAFETY: - this pointer is borrowed for `'g` from under a pin that is held so long and protects its object;
        //           `guard` protects the objects that are reached through a pointer of the root.
        (!at.is_null()).then(|| unsafe { get_ref(guard.memory(), at) }).transpose().map_err(HeapError::from)
    }

    /// Makes the pointer own `new`, or makes it null for `None`, and returns the object that it owned.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction moves the pointer; [`HeapError::Fault`] as
    /// [`get`](PBox::get).
    ///
    /// # Cost
    /// 16 bytes of the record.
    pub fn replace<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
        new: Option<Owned<'_, T, B, M>>,
    ) -> Result<Option<Owned<'t, T, B, M>>, HeapError> {
        let raw = tx.raw();
        let word = place_of(raw.heap().memory(), &self.word)?;
        if new.as_ref().is_some_and(|new| !new.is_of(tx)) {
            return Err(HeapError::OtherPool);
        }
        raw.lock(word)?;
        let old = PoolOffset::new(raw.load8(word));
        // SAFETY: - the pointer's lock is kept until the transaction ends, so no other transaction comes to own the
        //           object; the pointer is overwritten below.
        let old = (!old.is_null()).then(|| unsafe { Owned::adopt(tx, old) }).transpose()?;
        raw.store8(word, new.map_or(PoolOffset::NULL, Owned::into_offset).get());
        Ok(old)
    }

    /// Makes the pointer own `new`, and frees the object that it owned.
    ///
    /// # Errors
    /// As [`replace`](PBox::replace).
    pub fn set<M: Medium>(&self, tx: &TypedTx<'_, B, M>, new: Owned<'_, T, B, M>) -> Result<(), HeapError> {
        self.replace(tx, Some(new))?.map_or(Ok(()), Owned::free)
    }

    /// Makes the pointer null, and returns the object that it owned.
    ///
    /// # Errors
    /// As [`replace`](PBox::replace).
    pub fn take<'t, M: Medium>(
        &self,
        tx: &'t TypedTx<'_, B, M>,
    ) -> Result<Option<Owned<'t, T, B, M>>, HeapError> {
        self.replace(tx, None)
    }
}

/// An object that the running transaction owns: new, or taken from a pointer. Unless it is given to a pointer, its
/// drop frees it with all that it owns.
///
/// It stays in its thread, since another thread runs another transaction:
///
/// ```compile_fail,E0277
/// lode_heap::brand!(Mine);
/// fn is_send<T: Send>() {}
/// is_send::<lode_heap::Owned<'static, u64, Mine>>();
/// ```
pub struct Owned<'t, T: Persist<B>, B: Brand, M: Medium = Arc<Mapping>> {
    tx: &'t TypedTx<'t, B, M>,
    at: PoolOffset,
    object: &'t T,
}

impl<'t, T: Persist<B>, B: Brand, M: Medium> Owned<'t, T, B, M> {
    const FITS: () =
        assert!(align_of::<T>() <= 4096, "an object behind a pointer is aligned to 4 KiB at most");

    /// Makes a new object.
    pub(crate) fn make(tx: &'t TypedTx<'_, B, M>, mut value: T) -> Result<Self, HeapError> {
        let () = Self::FITS;
        let raw = tx.raw();
        if T::OWNS {
            let mut owners = Owners::looking(raw.heap().memory());
            value.visit_owned(&mut owners);
            if owners.has_pointer {
                return Err(HeapError::StrayPointer);
            }
        }
        let at = with_bytes::<T, B, _>(&mut value, |bytes| {
            raw.alloc_in_place(bytes, align_of::<T>() as u64, T::TYPE_NUMBER)
        })?;
        // SAFETY: - the object was just made, and has no other owner.
        unsafe { Owned::adopt(tx, at) }
    }

    /// Takes ownership of the object at `at`.
    ///
    /// # Safety
    /// - An object of type `T` lies there, and it has no other owner, now or later.
    pub(crate) unsafe fn adopt(tx: &'t TypedTx<'_, B, M>, at: PoolOffset) -> Result<Self, HeapError> {
        // SAFETY: - the object is there; if it is freed, its block is not used again before the transaction is over.
        let object = unsafe { get_ref(tx.raw().heap().memory(), at) }?;
        Ok(Owned { tx, at, object })
    }

    /// Frees the object, with all that it owns.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction changes a part of it; [`HeapError::NoObject`] and
    /// [`HeapError::Corrupt`] when a pointer or the heap are damaged. The transaction can't commit then.
    ///
    /// # Cost
    /// 16 bytes of the record for each object, and for each pointer on the way, which is locked.
    pub fn free(self) -> Result<(), HeapError> {
        let tx = self.tx;
        free_owned(tx, self.into_offset(), TargetOf::<T, B>::TARGET.walk())
    }

    /// Returns true if the object is one of the transaction's heap.
    pub(crate) fn is_of(&self, tx: &TypedTx<'_, B, M>) -> bool {
        ptr::eq(self.tx.raw().heap(), tx.raw().heap())
    }

    pub(crate) fn at(&self) -> PoolOffset {
        self.at
    }

    pub(crate) fn into_offset(self) -> PoolOffset {
        ManuallyDrop::new(self).at
    }
}

impl<B: Brand, M: Medium> TypedTx<'_, B, M> {
    /// Makes an object that holds `value`. The transaction owns it until a [`PBox`] does.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`].
    ///
    /// # Cost
    /// The object's bytes and 24 more in the record; the object's bytes are stored twice. Those of an object above 1 KiB are
    /// stored once, in place, under the transaction's one drain; at durability commit they go through the log.
    #[inline]
    pub fn alloc<T: Persist<B>>(&self, value: T) -> Result<Owned<'_, T, B, M>, HeapError> {
        Owned::make(self, value)
    }
}

impl<T: Persist<B>, B: Brand, M: Medium> Deref for Owned<'_, T, B, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.object
    }
}

impl<T: Persist<B>, B: Brand, M: Medium> Drop for Owned<'_, T, B, M> {
    fn drop(&mut self) {
        // A transaction that is lost keeps nothing. Any other one may commit, even while its thread unwinds from a
        // panic: the panic may be another's, or be caught in this one. An error rolls the transaction back, so the
        // object is not lost.
        if !self.tx.raw().will_roll_back() {
            let _ = free_owned(self.tx, self.at, TargetOf::<T, B>::TARGET.walk());
        }
    }
}

impl<T: Persist<B>, B: Brand, M: Medium> fmt::Debug for Owned<'_, T, B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owned").field(&self.at).finish()
    }
}

/// Returns the root, if there is one. Only a migration frees it, which borrows the heap exclusively, so the reference is good for
/// as long as the heap is borrowed. A
/// root that the running transaction makes does not count, since it may be rolled back.
///
/// # Errors
/// [`HeapError::OtherTypes`] when the pool's types are not those of a root `T`; [`HeapError::NotTyped`],
/// [`HeapError::TypeTable`], [`HeapError::Corrupt`] and [`HeapError::Fault`].
pub(crate) fn root<'h, T: Persist<B>, B: Brand, M: Medium>(
    heap: &'h Heap<M>,
    compared: &ComparedTypes,
) -> Result<Option<&'h T>, HeapError> {
    let Some(typed) = committed_root(heap)? else { return Ok(None) };
    compared.compare::<T, B>(&typed, || read_type_table(heap, typed.types), || true)?;
    let root = typed.root;
    let object = heap.object(root)?;
    check_object::<T, B>(root, object.size, object.type_number)?;
    // SAFETY: - the object is a `T`, as just checked; no pointer owns the root, so no transaction can free it but those of a
    //           migration, which borrows the heap exclusively.
    unsafe { get_ref(heap.memory(), root) }.map(Some).map_err(HeapError::from)
}

/// Returns an error unless an object is a `T`.
fn check_object<T: Persist<B>, B: Brand>(at: PoolOffset, size: u64, found: u64) -> Result<(), HeapError> {
    let is_right = found == T::TYPE_NUMBER && size >= size_of::<T>() as u64;
    if is_right { Ok(()) } else { Err(HeapError::Corrupt { what: "the type of the object", at }) }
}

impl<B: Brand, M: Medium> TypedTx<'_, B, M> {
    /// Returns the root as the transaction sees it, or `None` while there is none. The read is validated: the
    /// transaction starts again if another one makes the root before this one commits.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] as [`PCell::get`]; [`HeapError::OtherTypes`] when the pool's types are not those of a root
    /// `T`; [`HeapError::NotMigrated`], [`HeapError::NotTyped`], [`HeapError::TypeTable`], [`HeapError::Corrupt`] and [`HeapError::Fault`].
    pub fn root<T: Persist<B>>(&self) -> Result<Option<&T>, HeapError> {
        let raw = self.raw();
        let Some(typed) = root_in(raw)? else { return Ok(None) };
        let is_committed = || committed_root(raw.heap()) == Ok(Some(typed));
        self.compared().compare::<T, B>(&typed, || type_table_in(raw, typed.types), is_committed)?;
        let root = typed.root;
        let (size, type_number) = raw.object(root)?;
        check_object::<T, B>(root, size, type_number)?;
        // SAFETY: - the object is a `T`, as just checked; no pointer owns the root, so no transaction can free it. If
        //           this transaction made it, its content is in place.
        unsafe { get_ref(raw.heap().memory(), root) }.map(Some).map_err(HeapError::from)
    }
}
