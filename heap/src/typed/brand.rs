//! Brands: the marker types by which the compiler tells pools apart.

use crate::HeapError;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

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
pub(crate) struct Claimed<B: crate::Brand>(PhantomData<B>);

impl<B: crate::Brand> Claimed<B> {
    pub(crate) fn take() -> Result<Claimed<B>, HeapError> {
        // ORDER: acquires the work of the last heap of this brand, which is closed by now.
        let taken = B::claim().0.swap(true, Ordering::Acquire);
        if taken { Err(HeapError::BrandTaken) } else { Ok(Claimed(PhantomData)) }
    }
}

impl<B: crate::Brand> Drop for Claimed<B> {
    fn drop(&mut self) {
        // ORDER: releases all that was done under the brand.
        B::claim().0.store(false, Ordering::Release);
    }
}
