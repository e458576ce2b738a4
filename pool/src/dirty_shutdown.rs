//! Modules that lost data while a writer had the pool open.

use std::fmt;

/// The memory modules lost power with data on the way to the media while a writer had the pool open: what was
/// acknowledged meanwhile may be missing, or old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyShutdown {
    /// How often that had happened to the modules, summed, when the pool was opened.
    pub was: u64,
    /// How often it has happened by now.
    pub now: u64,
}

impl fmt::Display for DirtyShutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DirtyShutdown { was, now } = self;
        write!(
            f,
            "the memory modules lost data while the pool was open: their count of dirty shutdowns went from \
             {was} to {now}"
        )
    }
}
