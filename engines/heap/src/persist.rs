//! The traits of types that may live in a pool, and access to the bytes of their values. The argument on which the
//! SAFETY comments rest is at the head of `ptr.rs`.
#![allow(unsafe_code)]

use crate::typed::brand::Brand;
use crate::typed::owners::{Edge, Owners, Walk};
use crate::typed::type_hash;
use lode_layout::PoolOffset;
use lode_pmem::{Fault, FaultKind, Memory};
use std::mem::{MaybeUninit, size_of};
use std::sync::atomic::{AtomicU64, Ordering};

/// A type that may live in the pool of the brand `B`. Made by `#[derive(Persist)]`.
///
/// # Safety
/// - The layout is fixed and has no padding, and every bit pattern is a value.
/// - Bytes that change after the object was linked lie in cells of this crate. A type that is persistent in all pools has
///   none.
/// - `visit_owned` visits every field that owns an object; `OWNS` is true if there is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't live in this pool",
    note = "integers of fixed size, floats, arrays, `PBox`, `PCell`, `PMutex`, `PVec`, `PString` and `#[repr(C)]` structs with `#[derive(Persist)]` can",
    note = "a struct with pointers or cells names its brand: `#[persist(brand = MyPool)]`"
)]
pub unsafe trait Persist<B: Brand>: Sized + Send + Sync + 'static {
    /// A hash of the name alone, by which pointers name the type that they lead to.
    const NAME: u64;
    /// Number of the type on the medium.
    const TYPE_NUMBER: u64;
    /// True if objects of the type may own others.
    const OWNS: bool;
    /// Visits the words inside that own other objects.
    fn visit_owned(&self, owners: &mut Owners<'_>);
}

macro_rules! persist_numbers {
    ($($number:ty),*) => {$(
        // SAFETY: - numbers have no padding, all their bit patterns are values, and they own nothing.
        unsafe impl<B: Brand> Persist<B> for $number {
            const NAME: u64 = type_hash::of_name(stringify!($number));
            const TYPE_NUMBER: u64 = <Self as Persist<B>>::NAME;
            const OWNS: bool = false;
            fn visit_owned(&self, _: &mut Owners<'_>) {}
        }
    )*};
}

persist_numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

// SAFETY: - an array is its elements one after the other, without padding; each is visited.
unsafe impl<T: Persist<B>, B: Brand, const N: usize> Persist<B> for [T; N] {
    const NAME: u64 =
        type_hash::with_number(type_hash::with_number(type_hash::of_name("[]"), T::NAME), N as u64);
    const TYPE_NUMBER: u64 = type_hash::with_number(<Self as Persist<B>>::NAME, T::TYPE_NUMBER);
    const OWNS: bool = T::OWNS;
    fn visit_owned(&self, owners: &mut Owners<'_>) {
        if T::OWNS {
            self.iter().for_each(|element| element.visit_owned(owners));
        }
    }
}

/// Returns the bytes of a value that is not shared.
pub(crate) fn bytes_of<T: Persist<B>, B: Brand>(value: &mut T) -> &[u8] {
    // SAFETY: - all bytes are initialised, since there is no padding; the exclusive borrow keeps other references
    // away.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

/// Returns the value whose bytes `fill` writes. Bytes that it does not write are zero.
pub(crate) fn value_of<T: Persist<B>, B: Brand>(fill: impl FnOnce(&mut [u8])) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: - the slice has as many bytes as the value, all initialised and borrowed exclusively.
    fill(unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>()) });
    // SAFETY: - every bit pattern is a value.
    unsafe { value.assume_init() }
}

crate::brand!(
    /// The brand of no pool. No type outside of this module can name it, so whatever is [`Persist`] in it is so in every
    /// pool, and has no pointer and no cell.
    Nowhere
);

/// A [persistent](Persist) type without pointers and cells: a number, an array, or a struct with `#[derive(Persist)]`
/// that names no brand. Its values are their bytes.
pub trait Plain: Sized {
    /// Number of the type on the medium.
    const PLAIN_NUMBER: u64;

    /// Returns the bytes of the value.
    fn as_bytes(&self) -> &[u8];

    /// Returns the value with these bytes; `None` if their number is not its size.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl<T: Persist<Nowhere>> Plain for T {
    const PLAIN_NUMBER: u64 = T::TYPE_NUMBER;

    fn as_bytes(&self) -> &[u8] {
        // SAFETY: - all bytes are initialised, since a persistent type has no padding.
        //         - they do not change while they are borrowed: a type that is persistent in all pools has no cell, since
        //           each cell is of the one pool that it names.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<T>()) }
    }

    fn from_bytes(bytes: &[u8]) -> Option<T> {
        (bytes.len() == size_of::<T>()).then(|| value_of(|value| value.copy_from_slice(bytes)))
    }
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

/// Returns the offset of a place in the pool. The offset of any other place is outside of the pool.
#[inline]
pub(crate) fn offset_of<T>(memory: &Memory, place: &T) -> PoolOffset {
    memory.offset_of((&raw const *place).cast())
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

    pub(crate) fn visit(&self, owners: &mut Owners<'_>, walk: Option<Walk>) {
        let word = offset_of(owners.memory, self);
        owners.edges.push(Edge { word, walk });
    }
}

#[cfg(test)]
mod test {
    use crate::{Persist, Plain};

    #[derive(Persist, Clone, Copy, Debug, PartialEq)]
    #[persist(crate = "crate")]
    #[repr(C)]
    struct Sample {
        time: u64,
        site: [u8; 6],
        mass: i16,
    }

    #[test]
    fn values_are_their_bytes() {
        let sample = Sample { time: 0x0102, site: *b"quarry", mass: -2 };
        assert_eq!(sample.as_bytes(), b"\x02\x01\0\0\0\0\0\0quarry\xfe\xff");
        // The bytes need no alignment.
        let mut shifted = vec![0];
        shifted.extend_from_slice(sample.as_bytes());
        assert_eq!(Sample::from_bytes(&shifted[1..]), Some(sample));
        assert_eq!(Sample::from_bytes(&shifted), None);
        assert_eq!(Sample::from_bytes(&shifted[2..]), None);
    }
}
