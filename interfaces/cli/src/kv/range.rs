//! The options that choose a range of keys.

use clap::Args;
use lode_index::prefix_end;
use std::ffi::OsString;
use std::ops::Bound;
use std::os::unix::ffi::OsStringExt;

/// A range of keys: those that lie in all of the three.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RangeArgs {
    /// Only keys that begin with P
    #[arg(long, value_name = "P")]
    prefix: Option<OsString>,
    /// Only A and keys after it
    #[arg(long, value_name = "A")]
    from: Option<OsString>,
    /// Only keys before B
    #[arg(long, value_name = "B")]
    to: Option<OsString>,
}

impl RangeArgs {
    /// Returns true if no option is given.
    pub(crate) fn is_all(&self) -> bool {
        self.prefix.is_none() && self.from.is_none() && self.to.is_none()
    }

    /// Returns the bounds of the keys.
    pub(crate) fn bounds(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let bytes = |text: &Option<OsString>| text.clone().map(OsString::into_vec);
        let prefix = bytes(&self.prefix).unwrap_or_default();
        let to = match (prefix_end(&prefix), bytes(&self.to)) {
            (Some(end), Some(to)) => Some(end.min(to)),
            (end, to) => end.or(to),
        };
        let from = bytes(&self.from).unwrap_or_default().max(prefix);
        (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded))
    }
}
