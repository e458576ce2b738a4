//! No flush instruction: under Miri, and on CPUs for which this crate has none.

use crate::access;
use std::fmt;
use std::sync::atomic::{Ordering, fence};

/// Features that a mask may hide: none.
pub(super) const FEATURES: &[&str] = &[];

/// The only choice: no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu;

impl Cpu {
    pub(super) fn choose(_hidden: u32) -> Cpu {
        Cpu
    }

    /// Returns the instructions that every CPU of this kind has.
    pub const fn oldest() -> Cpu {
        Cpu
    }

    pub(crate) fn reaches_persistence(self) -> bool {
        false
    }

    pub(crate) fn flushes_in_order(self) -> bool {
        false
    }

    pub(crate) unsafe fn flush(self, _start: *const u8, _len: usize) -> bool {
        true
    }

    pub(crate) unsafe fn copy(self, into: *mut u8, from: *const u8, len: usize) -> bool {
        // SAFETY: - the caller's promises.
        unsafe { access::store_words(into, from, len) }
    }

    pub(crate) unsafe fn copy_record(self, into: *mut u8, from: *const u8, len: usize) -> bool {
        // SAFETY: - the caller's promises.
        unsafe { self.copy(into, from, len) }
    }

    pub(crate) unsafe fn copy_lines(self, into: *mut u8, from: *const u8, lines: usize) -> bool {
        // SAFETY: - the caller's promises.
        unsafe { self.copy(into, from, lines * lode_layout::LINE as usize) }
    }

    pub(crate) fn fence(self) {
        // ORDER: orders like a fence. No durability is promised here.
        fence(Ordering::SeqCst);
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no flush to persistence")
    }
}
