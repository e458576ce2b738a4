//! Ranges of media that can't be read.

use crate::machine::Handle;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A range of a module's media that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaError {
    /// The module.
    pub module: Handle,
    /// Offset of its first byte from the start of the media.
    pub off: u64,
    /// Length in bytes.
    pub len: u64,
}

impl MediaError {
    /// Returns the offset of the first byte after the range.
    pub(crate) fn end(self) -> u64 {
        self.off + self.len
    }

    /// Returns the parts of this range outside of `range` of `module`.
    fn without(self, module: Handle, range: &Range<u64>) -> impl Iterator<Item = MediaError> {
        let touched = self.module == module && self.off < range.end && range.start < self.end();
        let parts = if touched {
            [self.off..range.start.max(self.off), range.end.min(self.end())..self.end()]
        } else {
            [self.off..self.end(), 0..0]
        };
        let parts = parts.into_iter().filter(|part| part.start < part.end);
        parts.map(move |part| MediaError { module: self.module, off: part.start, len: part.end - part.start })
    }
}

/// Removes a range from the errors.
pub(crate) fn remove(errors: &mut Vec<MediaError>, module: Handle, range: &Range<u64>) {
    *errors = errors.iter().flat_map(|error| error.without(module, range)).collect();
}

/// Adds a range. It replaces the parts of other ranges that it overlaps.
pub(crate) fn add(errors: &mut Vec<MediaError>, new: MediaError) {
    remove(errors, new.module, &(new.off..new.end()));
    errors.push(new);
    errors.sort_unstable();
}

/// Returns the first byte of a module's `range` that an error covers, and the number of bytes that the error covers
/// from there on.
pub(crate) fn first_lost(
    errors: impl IntoIterator<Item = MediaError>,
    module: Handle,
    range: &Range<u64>,
) -> Option<(u64, u64)> {
    let of_module = errors.into_iter().filter(|error| error.module == module);
    let parts = of_module.map(|error| error.off.max(range.start)..error.end().min(range.end));
    let first = parts.filter(|part| part.start < part.end).min_by_key(|part| part.start)?;
    Some((first.start, first.end - first.start))
}
