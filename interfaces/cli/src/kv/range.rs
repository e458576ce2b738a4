//! The options that choose a range of keys.

use clap::Args;
use lode_index::prefix_end;
use lode_kv::KeyRange;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;

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

    /// Returns the bounds of the keys, which are taken byte for byte.
    pub(crate) fn bounds(&self) -> KeyRange {
        let Ok(bounds) = self.bounds_as(|text| Ok::<_, Infallible>(text.as_bytes().to_vec()));
        bounds
    }

    /// Returns the bounds of the keys, whose bytes `bytes` reads from the arguments.
    pub(crate) fn bounds_as<E>(&self, bytes: impl Fn(&OsStr) -> Result<Vec<u8>, E>) -> Result<KeyRange, E> {
        let bytes = |text: &Option<OsString>| text.as_deref().map(&bytes).transpose();
        let prefix = bytes(&self.prefix)?.unwrap_or_default();
        let to = match (prefix_end(&prefix), bytes(&self.to)?) {
            (Some(end), Some(to)) => Some(end.min(to)),
            (end, to) => end.or(to),
        };
        let from = bytes(&self.from)?.unwrap_or_default().max(prefix);
        Ok((Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded)))
    }
}
