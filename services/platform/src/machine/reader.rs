//! Values of machine files, with their places in the text.

use super::machine_error::MachineError;
use bytesize::ByteSize;
use std::ops::Range;
use toml::Spanned;

/// Default size of a label storage area, in bytes.
pub(super) const LABEL_AREA: u64 = 128 << 10;
/// Largest capacity of a module: the range of 52-bit physical addresses.
pub(super) const CAPACITY_MAX: u64 = 1 << 52;

/// Returns the line and column of a range's start, both from 1.
pub(super) fn place(text: &str, span: Range<usize>) -> (usize, usize) {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Validates values and locates them in the text.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
}

impl Reader<'_> {
    pub(super) fn fault<T: ToString>(
        &self,
        found: &Spanned<T>,
        what: &'static str,
        want: &'static str,
    ) -> MachineError {
        let (line, column) = place(self.text, found.span());
        MachineError::Value { line, column, what, found: found.get_ref().to_string(), want }
    }

    pub(super) fn label_area(&self, found: &Spanned<ByteSize>) -> Result<u64, MachineError> {
        match found.get_ref().as_u64() {
            bytes if (1024..=1 << 28).contains(&bytes) && bytes % 256 == 0 => Ok(bytes),
            _ => Err(self.fault(found, "the label area", "1KiB to 256MiB in multiples of 256 bytes")),
        }
    }
}
