//! The traits of types that may live in a pool, and access to the bytes of their values. The argument on which the
//! SAFETY comments rest is at the head of `ptr.rs`.
#![allow(unsafe_code)]

use crate::error::HeapError;
use crate::typed::brand::Brand;
use crate::typed::owners::{Edge, OldObject, Owners, Renewed, Target, Version};
use crate::typed::type_hash;
use crate::typed::types::Types;
use lode_layout::{NumberKind, PoolOffset, Shape, TypeId};
use lode_pmem::{Fault, FaultKind, Memory};
use std::mem::{MaybeUninit, size_of};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// A type that may live in the pool of the brand `B`. Made by `#[derive(Persist)]`.
///
/// # Safety
/// - The layout is fixed, and every bit pattern is a value.
/// - `PADDED` is true if there is padding, and `copy_to` copies all bytes but the padding then.
/// - Bytes that change after the object was linked lie in cells of this crate.
/// - `visit_owned` visits every field that owns an object; `OWNS` is true if there is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't live in this pool",
    note = "a `bool`, `char`, tuple, `Option` or enum lies in a cell, which checks its bytes: `PCell<bool, MyPool>`",
    note = "integers of fixed size, floats, arrays, `PBox`, `PCell`, `PMutex`, `PVec`, `PDeque`, `PHashMap`, `PString` and `#[repr(C)]` structs with `#[derive(Persist)]` can",
    note = "a struct with pointers or cells names its brand: `#[persist(brand = MyPool)]`"
)]
pub unsafe trait Persist<B: Brand>: Sized + Send + Sync + 'static {
    /// A hash of the name alone, by which pointers name the type that they lead to.
    const NAME: u64;
    /// Number of the type on the medium.
    const TYPE_NUMBER: u64;
    /// True if objects of the type may own others.
    const OWNS: bool;
    /// True if the type has padding.
    const PADDED: bool;
    /// Visits the words inside that own other objects.
    fn visit_owned(&self, owners: &mut Owners<'_>);

    /// Adds the type, and all to which it leads, to those of a pool.
    fn describe(types: &mut Types) -> TypeId;

    /// Returns the type as it was `age` changes ago; `None` if it has not changed so often.
    fn version(age: u32) -> Option<Version> {
        (age == 0).then_some(Version {
            name: Self::NAME,
            number: Self::TYPE_NUMBER,
            size: size_of::<Self>() as u64,
        })
    }

    /// Makes a value of the one in an older object that is `age` changes older, and lies at this offset in it.
    ///
    /// # Errors
    /// [`HeapError::Fault`]; those of a conversion.
    fn from_version(object: &mut OldObject<'_>, offset: u64, age: u32) -> Result<Self, HeapError> {
        let _ = age;
        object.read::<Self, B>(offset)
    }

    /// Visits the words by which the value at an offset, which is `age` changes older, owns other objects.
    ///
    /// # Errors
    /// The fault of a value that can't be read.
    fn visit_version(at: PoolOffset, owners: &mut Owners<'_>, age: u32) -> Result<(), Fault> {
        let _ = age;
        walk::<Self, B>(at, owners)
    }

    /// Copies the bytes of the value to `into`, which is as long, and leaves those of its padding out. The borrow is exclusive, so
    /// no object of a pool is meant: those are lent for reading only.
    fn copy_to(&mut self, into: &mut [u8]) {
        const { assert!(!Self::PADDED, "a type with padding copies its fields") };
        // SAFETY: - all bytes are initialised, since there is no padding; the exclusive borrow keeps other references away.
        into.copy_from_slice(unsafe { slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) });
    }
}

macro_rules! persist_numbers {
    ($($number:ty: $kind:ident),*) => {$(
        // SAFETY: - numbers have no padding, all their bit patterns are values, and they own nothing.
        unsafe impl<B: Brand> Persist<B> for $number {
            const NAME: u64 = type_hash::of_name(stringify!($number));
            const TYPE_NUMBER: u64 = <Self as Persist<B>>::NAME;
            const OWNS: bool = false;
            const PADDED: bool = false;
            fn visit_owned(&self, _: &mut Owners<'_>) {}
            fn describe(types: &mut Types) -> TypeId {
                types.number(<Self as Persist<B>>::TYPE_NUMBER, NumberKind::$kind)
            }
        }
    )*};
}

persist_numbers!(u8: U8, u16: U16, u32: U32, u64: U64, i8: I8, i16: I16, i32: I32, i64: I64, f32: F32, f64: F64);

// SAFETY: - an array is its elements one after the other; each is visited, and copied.
unsafe impl<T: Persist<B>, B: Brand, const N: usize> Persist<B> for [T; N] {
    const NAME: u64 =
        type_hash::with_number(type_hash::with_number(type_hash::of_name("[]"), T::NAME), N as u64);
    const TYPE_NUMBER: u64 = type_hash::with_number(<Self as Persist<B>>::NAME, T::TYPE_NUMBER);
    const OWNS: bool = T::OWNS;
    const PADDED: bool = T::PADDED;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        if T::OWNS {
            self.iter().for_each(|element| element.visit_owned(owners));
        }
    }
    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Array { element: T::describe(types), len: N as u64 };
        types.add(<Self as Persist<B>>::TYPE_NUMBER, size_of::<Self>(), shape)
    }
    fn version(age: u32) -> Option<Version> {
        let Version { name, number, size } = T::version(age)?;
        let name = type_hash::with_number(type_hash::with_number(type_hash::of_name("[]"), name), N as u64);
        Some(Version { name, number: type_hash::with_number(name, number), size: size * N as u64 })
    }
    fn from_version(object: &mut OldObject<'_>, offset: u64, age: u32) -> Result<Self, HeapError> {
        let size = T::version(age).map_or(0, |version| version.size);
        let element = |index| T::from_version(object, offset + index * size, age);
        let elements: Vec<T> = (0..N as u64).map(element).collect::<Result<_, _>>()?;
        Ok(elements.try_into().unwrap_or_else(|_| unreachable!("there are so many elements")))
    }
    fn visit_version(at: PoolOffset, owners: &mut Owners<'_>, age: u32) -> Result<(), Fault> {
        let size = T::version(age).map_or(0, |version| version.size);
        (0..N as u64).try_for_each(|index| T::visit_version(at.plus(index * size), owners, age))
    }
    fn copy_to(&mut self, into: &mut [u8]) {
        let parts = into.chunks_exact_mut(size_of::<T>().max(1));
        self.iter_mut().zip(parts).for_each(|(element, part)| element.copy_to(part));
    }
}

/// Calls `with` with the bytes of a value that is not shared. Those of its padding are zero.
#[inline]
pub(crate) fn with_bytes<T: Persist<B>, B: Brand, R>(value: &mut T, with: impl FnOnce(&[u8]) -> R) -> R {
    if T::PADDED {
        return with_padded_bytes(value, with);
    }
    // SAFETY: - all bytes are initialised, since there is no padding; the exclusive borrow keeps other references
    //           away.
    with(unsafe { slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) })
}

fn with_padded_bytes<T: Persist<B>, B: Brand, R>(value: &mut T, with: impl FnOnce(&[u8]) -> R) -> R {
    // Filled in place, and not moved then: a move may forget the padding.
    let mut copy = MaybeUninit::<T>::uninit();
    // SAFETY: - the place of one value is written.
    unsafe { copy.as_mut_ptr().write_bytes(0, 1) };
    // SAFETY: - the slice has as many bytes as the value, all initialised and borrowed exclusively.
    let bytes = unsafe { slice::from_raw_parts_mut(copy.as_mut_ptr().cast(), size_of::<T>()) };
    value.copy_to(bytes);
    with(bytes)
}

/// Returns a reference to the object at `at`.
///
/// # Safety
/// - An object of type `T` lies at `at`, and stays there as long as the reference lives.
pub(crate) unsafe fn get_ref<T: Persist<B>, B: Brand>(memory: &Memory, at: PoolOffset) -> Result<&T, Fault> {
    let address = memory.locate(at, size_of::<T>() as u64)?.cast::<T>();
    if !address.is_aligned() {
        return Err(Fault { kind: FaultKind::OutOfRange, at, len: size_of::<T>() as u64 });
    }
    // SAFETY: - `locate` checked the range and that it is readable; the line above checked its alignment.
    //         - every bit pattern is a value, and only cells inside of it change while the object is there,
    //           which the caller promises.
    Ok(unsafe { address.as_ref() })
}

/// Visits the words by which the `T` at an offset owns others. Only this crate makes `Owners`, so it is called as below.
pub fn walk<T: Persist<B>, B: Brand>(at: PoolOffset, owners: &mut Owners<'_>) -> Result<(), Fault> {
    // SAFETY: - the walk is called with the offset in a pointer to a `T`, in the transaction that frees or renews the object
    //           or under a pin: its space can't be used again before the reference ends.
    let object: &T = unsafe { get_ref::<T, B>(owners.memory, at) }?;
    object.visit_owned(owners);
    Ok(())
}

impl OldObject<'_> {
    /// Returns the value at an offset of the object. Its pointers lead nowhere: each has the number of the pointer in the object
    /// in its place, so that it can be told where it went.
    ///
    /// # Errors
    /// [`HeapError::Fault`].
    pub fn read<T: Persist<B>, B: Brand>(&mut self, offset: u64) -> Result<T, HeapError> {
        let at = self.at.plus(offset);
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: - the place of one value is written.
        unsafe { value.as_mut_ptr().write_bytes(0, 1) };
        // SAFETY: - the slice has as many bytes as the value, all initialised and borrowed exclusively.
        let bytes = unsafe { slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
        self.memory.reading(|memory| memory.read(at, bytes))?;
        // SAFETY: - a migration alone makes old objects: one of this size lies at `at`, and its transaction is pinned.
        unsafe { get_ref::<T, B>(self.memory, at) }?.visit_owned(&mut self.owners);
        for index in 0..self.owners.edges.len() {
            let edge = self.owners.edges[index];
            let word = &mut bytes[edge.word.get().wrapping_sub(at.get()) as usize..][..size_of::<u64>()];
            if word != [0; 8] {
                word.copy_from_slice(&self.next_tag()?.to_le_bytes());
            }
            self.edges.push(Some(edge));
        }
        self.owners.edges.clear();
        // SAFETY: - all bytes are initialised, and every bit pattern is a value.
        Ok(unsafe { value.assume_init() })
    }
}

/// Makes an object of the type `T` of the one at `at`, which is `age` changes older.
pub(crate) fn renewed<T: Persist<B>, B: Brand>(
    renewed: &mut Renewed<'_>,
    at: PoolOffset,
    age: u32,
) -> Result<(), HeapError> {
    renewed.begin(at);
    let Renewed { bytes, align, number, pointers, old } = renewed;
    let mut new = T::from_version(old, 0, age)?;
    new.visit_owned(&mut old.owners);
    let start = offset_of(old.memory, &new).get().wrapping_sub(bytes.len() as u64);
    with_bytes::<T, B, _>(&mut new, |new| bytes.extend_from_slice(new));
    for Edge { word, target } in old.owners.edges.drain(..) {
        pointers.push((word.get().wrapping_sub(start), target));
    }
    (*align, *number) = (align_of::<T>() as u64, T::TYPE_NUMBER);
    Ok(())
}

/// Returns the offset of a place in the pool. The offset of any other place is outside of the pool.
#[inline]
pub(crate) fn offset_of<T>(memory: &Memory, place: &T) -> PoolOffset {
    memory.offset_of((&raw const *place).cast())
}

/// Returns the offset of a place in the pool.
///
/// # Errors
/// [`HeapError::OtherPool`] when it lies elsewhere.
#[inline]
pub(crate) fn place_of<T>(memory: &Memory, place: &T) -> Result<PoolOffset, HeapError> {
    let at = offset_of(memory, place);
    if at.get() < memory.len() { Ok(at) } else { Err(HeapError::OtherPool) }
}

/// A word in the pool that is stored through the log only.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) const fn new(value: u64) -> Word {
        Word(AtomicU64::new(value))
    }

    /// Returns the word as it was last written back.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        // ORDER: acquires; pairs with the release of the write-back: the object that the word leads to is visible
        // with it.
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn visit(&self, owners: &mut Owners<'_>, target: &'static Target) {
        let word = offset_of(owners.memory, self);
        owners.add(Edge { word, target }, self.load());
    }
}

#[cfg(test)]
mod test {
    use super::with_bytes;
    use crate::{CellValue, PBox, PCell, Persist};

    crate::brand!(Padded);

    #[derive(CellValue, Clone, Copy)]
    #[persist(crate = "crate")]
    enum Size {
        Unknown,
        Known(u64),
    }

    #[derive(Persist)]
    #[persist(crate = "crate", brand = Padded)]
    #[repr(C)]
    struct Part<T> {
        short: u8,
        size: PCell<Size, Padded>,
        next: PBox<u64, Padded>,
        parts: [T; 2],
        last: u16,
    }

    #[test]
    fn bytes_of_padding_are_zero() {
        let part =
            |size| Part { short: 9, size: PCell::new(size), next: PBox::null(), parts: [1_u8, 2], last: 3 };
        let mut value = Part {
            short: 7,
            size: PCell::new(Size::Unknown),
            next: PBox::null(),
            parts: [part(Size::Known(u64::MAX)), part(Size::Unknown)],
            last: 0x0A0B,
        };
        const { assert!(<Part<Part<u8>> as Persist<Padded>>::PADDED) };
        let bytes = with_bytes::<_, Padded, _>(&mut value, <[u8]>::to_vec);
        let known =
            [[9, 0, 0, 0, 0, 0, 0, 0], [1, 255, 255, 255, 255, 255, 255, 255], [255, 0, 0, 0, 0, 0, 0, 0]];
        let rest = [[0; 8], [1, 2, 3, 0, 0, 0, 0, 0]];
        let unknown = [[9, 0, 0, 0, 0, 0, 0, 0], [0; 8], [0; 8]];
        let whole = [
            &[[7, 0, 0, 0, 0, 0, 0, 0], [0; 8], [0; 8], [0; 8]][..],
            &known,
            &rest,
            &unknown,
            &rest,
            &[[0x0B, 0x0A, 0, 0, 0, 0, 0, 0]],
        ];
        assert_eq!(bytes, whole.concat().concat());
    }

    #[test]
    fn bytes_without_padding_are_the_value() {
        const { assert!(!<[PCell<(u64, [u8; 8]), Padded>; 2] as Persist<Padded>>::PADDED) };
        const { assert!(!<PCell<bool, Padded> as Persist<Padded>>::PADDED) };
        let mut cells = [PCell::<(u64, [u8; 8]), Padded>::new((1, *b"lodestar")), PCell::new((2, [0; 8]))];
        let bytes = with_bytes::<_, Padded, _>(&mut cells, <[u8]>::to_vec);
        assert_eq!(bytes, b"\x01\0\0\0\0\0\0\0lodestar\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }
}
