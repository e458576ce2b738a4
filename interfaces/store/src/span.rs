//! Spans of `tracing`, if the feature is on.

/// Enters a span with this name and these fields until the result is dropped.
#[cfg(feature = "tracing")]
macro_rules! span {
    ($name:literal $(, $($field:tt)*)?) => {
        tracing::debug_span!(target: "lodestone", $name $(, $($field)*)?).entered()
    };
}

/// Does nothing without the feature `tracing`.
#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($($any:tt)*) => {
        ()
    };
}

pub(crate) use span;
