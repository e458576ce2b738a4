//! Modules that lost data while a writer had the pool open.

use std::fmt;

/// A loss of data in the memory modules: they lost power with data on the way to the media while a writer had the pool
/// open. Acknowledged changes from that time may be missing or old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyShutdown {
    /// Sum of the modules' counts of dirty shutdowns when the pool was opened.
    pub was: u64,
    /// Sum of the counts now.
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
