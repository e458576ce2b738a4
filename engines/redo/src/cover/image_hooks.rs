//! The record of images by which a range becomes covered.

use super::claims::Claims;
use crate::{CommitHooks, DirtyLines};
use lode_layout::{RECORD_HEADER_WORDS, RECORD_LINE_WORDS, Record};
use lode_pmem::Medium;
use std::ops::Range;

/// Composes a record with the images of those of `units` that the log does not cover.
#[derive(Debug)]
pub(super) struct ImageHooks<'c, M: Medium> {
    pub(super) claims: Claims<'c, M>,
    pub(super) units: Range<u64>,
}

impl<M: Medium> CommitHooks for ImageHooks<'_, M> {
    fn padded_len_max(&self, _record: &Record) -> usize {
        let words = self.claims.image_words(self.units.end - self.units.start);
        (RECORD_HEADER_WORDS + words as usize).next_multiple_of(RECORD_LINE_WORDS)
    }

    fn admits(&mut self, _closed: u64) -> bool {
        self.claims.admit()
    }

    fn compose(&mut self, record: &mut Record) {
        record.clear();
        self.claims.push_images(record, self.units.clone());
        self.claims.check_content(record);
    }

    fn to_write_back<'e>(&mut self, _entries: &'e [u64], _dirty: Option<&mut DirtyLines>) -> &'e [u64] {
        // Images are no changes.
        &[]
    }

    fn finished(&mut self, exclusive: bool) {
        self.claims.cover(exclusive);
    }
}
