//! Progress reports of a copy.

use std::ops::ControlFlow;
use thiserror::Error;

/// The user stopped the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it was stopped; nothing was changed")]
pub struct Cancelled;

/// Receiver of a copy's progress, which can stop the copy.
pub struct CopyProgress<'a>(&'a mut dyn FnMut(u64) -> ControlFlow<()>);

impl std::fmt::Debug for CopyProgress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CopyProgress")
    }
}

impl<'a> CopyProgress<'a> {
    /// Makes a receiver. `report` gets the bytes that were copied since its last call, and returns `Break` to stop the
    /// copy.
    pub fn new(report: &'a mut dyn FnMut(u64) -> ControlFlow<()>) -> CopyProgress<'a> {
        CopyProgress(report)
    }

    /// Reports that `bytes` more were copied.
    ///
    /// # Errors
    /// [`Cancelled`] if the copy is to stop.
    pub(crate) fn advance(&mut self, bytes: u64) -> Result<(), Cancelled> {
        if (self.0)(bytes).is_break() { Err(Cancelled) } else { Ok(()) }
    }
}
