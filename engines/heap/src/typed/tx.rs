//! A transaction of the typed interface.

use super::brand::Brand;
use super::root::ComparedTypes;
use crate::tx::Tx;
use lode_pmem::{Mapping, Medium};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A running transaction on the pool of the brand `B`.
///
/// A read by it shows the transaction's own changes, and the changes that others have committed. References that it
/// lends end with the closure.
pub struct TypedTx<'a, B: Brand, M: Medium = Arc<Mapping>> {
    raw: &'a Tx<'a, M>,
    compared: &'a ComparedTypes,
    brand: PhantomData<fn() -> B>,
}

impl<'a, B: Brand, M: Medium> TypedTx<'a, B, M> {
    pub(super) fn new(raw: &'a Tx<'a, M>, compared: &'a ComparedTypes) -> TypedTx<'a, B, M> {
        TypedTx { raw, compared, brand: PhantomData }
    }

    #[inline]
    pub(crate) fn raw(&self) -> &Tx<'_, M> {
        self.raw
    }

    pub(crate) fn compared(&self) -> &ComparedTypes {
        self.compared
    }
}

impl<B: Brand, M: Medium> fmt::Debug for TypedTx<'_, B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedTx").finish_non_exhaustive()
    }
}
