//! The units of figures.

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Ticks of the time-stamp counter for one operation.
    Cycles,
    /// Microseconds for one operation.
    Micros,
    /// Puts in a second.
    PutsPerSecond,
    /// Commits in a second.
    CommitsPerSecond,
    /// Gets in a second.
    GetsPerSecond,
    /// Requests of a client in a second.
    Iops,
    /// Drains for one operation, or for a thousand.
    Drains,
    /// Fences for one operation.
    Fences,
    /// A ratio.
    Times,
    /// Milliseconds.
    Millis,
    /// Bytes for one key.
    Bytes,
    /// Mebibytes.
    Mebibytes,
    /// Crash images in a second.
    ImagesPerSecond,
}

impl Unit {
    /// The name in all outputs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Cycles => "cycles",
            Unit::Micros => "us",
            Unit::PutsPerSecond => "puts/s",
            Unit::CommitsPerSecond => "commits/s",
            Unit::GetsPerSecond => "gets/s",
            Unit::Iops => "IOPS",
            Unit::Drains => "drains",
            Unit::Fences => "fences",
            Unit::Times => "x",
            Unit::Millis => "ms",
            Unit::Bytes => "bytes",
            Unit::Mebibytes => "MiB",
            Unit::ImagesPerSecond => "images/s",
        }
    }

    /// Returns true if more is better.
    pub(crate) fn is_rate(self) -> bool {
        matches!(
            self,
            Unit::PutsPerSecond
                | Unit::CommitsPerSecond
                | Unit::GetsPerSecond
                | Unit::Iops
                | Unit::ImagesPerSecond
        )
    }
}
