//! Brands: the marker types by which the compiler tells pools apart.

use crate::HeapError;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a heap is open under a brand.
#[derive(Debug)]
pub struct Claim(AtomicBool);

impl Claim {
    /// That of a brand under which no heap is open. For [`brand!`](crate::brand).
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
        // ORDER: acquires what the last heap of this brand did, which is gone by now.
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
