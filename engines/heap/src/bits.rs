//! The bytes of values on the medium: types without padding, all of whose bit patterns are values.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of};
use std::slice;

/// A type whose values are their bytes. [`CellValue`](crate::CellValue) makes its types of the ones here.
///
/// # Safety
/// The type has no padding, and every bit pattern is a value.
pub unsafe trait Bits: Copy + Send + Sync + 'static {}

macro_rules! bits_of_numbers {
    ($($number:ty),*) => {$(
        // SAFETY: - a number has no padding, and all its bit patterns are values.
        unsafe impl Bits for $number {}
    )*};
}

bits_of_numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

// SAFETY: - an array is its elements one after the other, without padding.
unsafe impl<T: Bits, const N: usize> Bits for [T; N] {}

/// Two values, one directly after the other.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub struct Pair<A: Bits, B: Bits>(A, B);

// SAFETY: - a packed struct has no padding but that of its fields, and these have none.
unsafe impl<A: Bits, B: Bits> Bits for Pair<A, B> {}

impl<A: Bits, B: Bits> Pair<A, B> {
    /// Puts `second` after `first`.
    #[inline]
    pub fn new(first: A, second: B) -> Pair<A, B> {
        Pair(first, second)
    }

    /// Returns both values.
    #[inline]
    pub fn split(self) -> (A, B) {
        (self.0, self.1)
    }
}

/// One of two values, as long as the longer one. Bytes after the shorter one are zero.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub union Either<A: Bits, B: Bits> {
    first: A,
    second: B,
}

// SAFETY: - each byte is one of the longer field, which has no padding, and both constructors initialise all bytes.
//         - every bit pattern is a value of both fields.
unsafe impl<A: Bits, B: Bits> Bits for Either<A, B> {}

impl<A: Bits, B: Bits> Either<A, B> {
    /// Makes the first value.
    #[inline]
    pub fn first(first: A) -> Either<A, B> {
        let mut either = zeroed::<Either<A, B>>();
        either.first = first;
        either
    }

    /// Makes the second value.
    #[inline]
    pub fn second(second: B) -> Either<A, B> {
        let mut either = zeroed::<Either<A, B>>();
        either.second = second;
        either
    }

    /// Returns the bytes as the first value.
    #[inline]
    pub fn as_first(self) -> A {
        // SAFETY: - all bytes are initialised, and every bit pattern is a value.
        unsafe { self.first }
    }

    /// Returns the bytes as the second value.
    #[inline]
    pub fn as_second(self) -> B {
        // SAFETY: - as in `as_first`.
        unsafe { self.second }
    }
}

/// Returns the value whose bytes are zero.
#[inline]
pub fn zeroed<T: Bits>() -> T {
    // SAFETY: - every bit pattern is a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Returns the value that has the bytes of another one.
#[inline]
pub fn cast<A: Bits, B: Bits>(bits: A) -> B {
    const { assert!(size_of::<A>() == size_of::<B>(), "both have as many bytes") };
    // SAFETY: - as many bytes are read as there are, without regard to alignment. All are initialised, and every bit pattern is
    //           a value.
    unsafe { (&raw const bits).cast::<B>().read_unaligned() }
}

/// Returns the value whose bytes `fill` writes. Bytes that it does not write are zero.
#[inline]
pub(crate) fn bits_from<T: Bits>(fill: impl FnOnce(&mut [u8])) -> T {
    let mut bits = zeroed::<T>();
    // SAFETY: - the slice has as many bytes as the value, all initialised and borrowed exclusively.
    //         - every bit pattern that `fill` leaves is a value.
    fill(unsafe { slice::from_raw_parts_mut((&raw mut bits).cast(), size_of::<T>()) });
    bits
}

/// Returns the bytes of a value.
#[inline]
pub(crate) fn bytes_of<T: Bits>(bits: &T) -> &[u8] {
    // SAFETY: - all bytes are initialised, since there is no padding; the borrow keeps them as they are.
    unsafe { slice::from_raw_parts((&raw const *bits).cast(), size_of::<T>()) }
}
