//! Who is told how far a copy is.

use crate::error::PlatformError;
use std::ops::ControlFlow;

/// Who is told how far a copy is, and may say that it is to stop.
pub struct Watch<'a>(&'a mut dyn FnMut(u64) -> ControlFlow<()>);

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl<'a> Watch<'a> {
    /// `tell` is called with the bytes that were done since it was called before; what it returns says whether to go on.
    pub fn new(tell: &'a mut dyn FnMut(u64) -> ControlFlow<()>) -> Watch<'a> {
        Watch(tell)
    }

    /// So many bytes more are done.
    ///
    /// # Errors
    /// [`PlatformError::Stopped`] if it is to stop.
    pub(crate) fn done(&mut self, bytes: u64) -> Result<(), PlatformError> {
        if (self.0)(bytes).is_break() { Err(PlatformError::Stopped) } else { Ok(()) }
    }
}
