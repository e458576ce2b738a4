//! Arm64: DC CVAP, which cleans a line to the point of persistence, and DSB.
//!
//! DC CVAC and DC CVAU are not enough: they clean to points at which power loss destroys the line.

use super::lines_of;
use crate::access;
use crate::fixup::fixup;
use std::arch::asm;
use std::fmt;

/// Features that a mask may hide.
pub(super) const FEATURES: &[&str] = &["dcpop"];

/// The chosen instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// True if the kernel reports DC CVAP (FEAT_DPB: ID_AA64ISAR1_EL1.DPB is not 0).
    dcpop: bool,
}

impl Cpu {
    /// Chooses the best instructions that the CPU has and `hidden` does not hide.
    pub(super) fn choose(hidden: u32) -> Cpu {
        // SAFETY: - getauxval(3) has no requirement.
        let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) };
        Cpu { dcpop: capabilities & libc::HWCAP_DCPOP != 0 && hidden & 1 == 0 }
    }

    /// Returns the instructions that every CPU of this kind has.
    pub const fn oldest() -> Cpu {
        Cpu { dcpop: false }
    }

    /// Returns true if flushed lines reach the persistence domain with the next fence.
    pub(crate) fn reaches_persistence(self) -> bool {
        self.dcpop
    }

    /// Returns false: a clean of a line is ordered by a barrier alone.
    pub(crate) fn flushes_in_order(self) -> bool {
        false
    }

    /// Starts the write-back of the lines that hold `len` bytes at `start`. Returns true if all could be reached.
    ///
    /// # Safety
    /// The range lies inside of a live mapping.
    #[inline]
    pub(crate) unsafe fn flush(self, start: *const u8, len: usize) -> bool {
        if !self.dcpop {
            // The user forced a durability that this memory can't keep: stores stay ordered, but are not durable.
            return true;
        }
        let (first, count) = lines_of(start.addr() as u64, len as u64);
        let left: u64;
        // SAFETY: - cleans the lines of the caller's live mapping and changes no byte; a fault ends the loop.
        unsafe {
            asm!("3: cbz {left}, 4f",
                 // DC CVAP, spelt for assemblers of the base architecture.
                 "2: sys #3, c7, c12, #1, {line}",
                 "add {line}, {line}, #64",
                 "sub {left}, {left}, #1", "b 3b",
                 "4:", fixup!("2", "4"),
                 line = inout(reg) first => _, left = inout(reg) count => left,
                 options(nostack, preserves_flags));
        }
        left == 0
    }

    /// Stores `len` bytes and starts their write-back. Returns true if all could be stored. `into` and `len` are
    /// multiples of 8.
    ///
    /// # Safety
    /// `into` lies inside of a live mapping for `len` bytes, `from` is valid for them and doesn't overlap.
    #[inline]
    pub(crate) unsafe fn copy(self, into: *mut u8, from: *const u8, len: usize) -> bool {
        // SAFETY: - the caller's promises.
        let stored = unsafe { access::store_words(into, from, len) };
        // SAFETY: - the caller's promises.
        stored && unsafe { self.flush(into, len) }
    }

    /// Stores the whole lines of a record, as [`copy`](Cpu::copy) does.
    ///
    /// # Safety
    /// As [`copy`](Cpu::copy).
    #[inline]
    pub(crate) unsafe fn copy_record(self, into: *mut u8, from: *const u8, len: usize) -> bool {
        // SAFETY: - the caller's promises.
        unsafe { self.copy(into, from, len) }
    }

    /// Stores `lines` whole lines and starts their write-back. Returns true if all could be stored. `into` is the start of
    /// a line.
    ///
    /// # Safety
    /// `into` lies inside of a live mapping for the lines, `from` is valid for them and doesn't overlap.
    #[inline]
    pub(crate) unsafe fn copy_lines(self, into: *mut u8, from: *const u8, lines: usize) -> bool {
        // SAFETY: - the caller's lines.
        unsafe { self.copy(into, from, lines * lode_layout::LINE as usize) }
    }

    /// Waits until all that this thread flushed and copied has reached the persistence domain.
    #[inline]
    pub(crate) fn fence(self) {
        // SAFETY: - DSB is in every Arm64, and has no requirement.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.dcpop { "flush by dc cvap" } else { "no flush to persistence" })
    }
}
