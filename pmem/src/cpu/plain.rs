//! No instruction that flushes: under Miri, and on CPUs that this crate has none for.

use crate::access;
use std::fmt;
use std::sync::atomic::{Ordering, fence};

/// What a mask may hide.
pub(super) const FEATURES: &[&str] = &[];

/// Nothing to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu;

impl Cpu {
    pub(super) fn choose(_hidden: u32) -> Cpu {
        Cpu
    }

    pub(crate) fn reaches_persistence(self) -> bool {
        false
    }

    pub(crate) unsafe fn flush(self, _start: *const u8, _len: usize) -> bool {
        true
    }

    pub(crate) unsafe fn copy(self, into: *mut u8, from: *const u8, len: usize) -> bool {
        // SAFETY: - the caller's promises.
        unsafe { access::store_words(into, from, len) }
    }

    pub(crate) fn fence(self) {
        // ORDER: the order of a fence; its other promise nobody makes here.
        fence(Ordering::SeqCst);
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no flush to persistence")
    }
}
