//! Faults at the border of this crate. Each call takes the faults of its own reads and stores, and leaves those that
//! its caller raised before.

use crate::error::HeapError;
use lode_pmem::Fault;

/// Returns the result of `access`, or the fault that it raised. An earlier fault of the thread stays raised.
#[inline]
pub(crate) fn told<R>(access: impl FnOnce() -> Result<R, HeapError>) -> Result<R, HeapError> {
    let (result, own) = Fault::apart(access);
    own.map_or(result, |fault| Err(fault.into()))
}
