//! Progress reports of a copy.

use std::ops::ControlFlow;
use thiserror::Error;

/// The user stopped the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it was stopped; nothing was changed")]
pub struct Stopped;

/// Receiver of a copy's progress, which can stop the copy.
pub struct Watch<'a>(&'a mut dyn FnMut(u64) -> ControlFlow<()>);

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl<'a> Watch<'a> {
    /// Makes a watch. `tell` gets the bytes that were copied since its last call, and returns `Break` to stop the copy.
    pub fn new(tell: &'a mut dyn FnMut(u64) -> ControlFlow<()>) -> Watch<'a> {
        Watch(tell)
    }

    /// Reports that `bytes` more were copied.
    ///
    /// # Errors
    /// [`Stopped`] if the copy is to stop.
    pub(crate) fn done(&mut self, bytes: u64) -> Result<(), Stopped> {
        if (self.0)(bytes).is_break() { Err(Stopped) } else { Ok(()) }
    }
}
