//! Brands: the marker types by which the compiler tells pools apart.

#![allow(unsafe_code)]

use crate::error::HeapError;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// The marker type of a pool. Made by [`brand!`](crate::brand).
///
/// # Safety
/// `claim` returns the same static at every call, and no other brand's.
pub unsafe trait Brand: Sized + Send + Sync + 'static {
    /// Returns the claim of this brand, which says if a heap is open under it.
    fn claim() -> &'static Claim;
}

/// Declares the brand of a pool: a type that every pointer, cell and lock in the pool names. Code that mixes in those
/// of another pool does not compile. One heap at a time can be open under a brand.
///
/// ```
/// lode_heap::brand!(
///     /// The pool that keeps the accounts.
///     pub Bank
/// );
/// ```
#[macro_export]
macro_rules! brand {
    ($(#[$attribute:meta])* $visibility:vis $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;
        // SAFETY: - the claim is a static of this brand alone.
        unsafe impl $crate::Brand for $name {
            fn claim() -> &'static $crate::Claim {
                static CLAIM: $crate::Claim = $crate::Claim::new();
                &CLAIM
            }
        }
    };
}

/// The claim of a brand: set while a heap is open under it.
#[derive(Debug)]
pub struct Claim(AtomicBool);

impl Claim {
    /// Makes the claim of a brand under which no heap is open. For [`brand!`](crate::brand).
    #[expect(clippy::new_without_default, reason = "a default would invite claims that belong to no brand")]
    pub const fn new() -> Claim {
        Claim(AtomicBool::new(false))
    }
}

/// A brand that is taken, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claimed<B: Brand>(PhantomData<B>);

impl<B: Brand> Claimed<B> {
    pub(crate) fn take() -> Result<Claimed<B>, HeapError> {
        // ORDER: acquires the work of the last heap of this brand, which is closed by now.
        let taken = B::claim().0.swap(true, Ordering::Acquire);
        if taken { Err(HeapError::BrandTaken) } else { Ok(Claimed(PhantomData)) }
    }
}

impl<B: Brand> Drop for Claimed<B> {
    fn drop(&mut self) {
        // ORDER: releases all that was done under the brand.
        B::claim().0.store(false, Ordering::Release);
    }
}
