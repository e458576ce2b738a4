//! Accesses on Arm64. Single words use acquire and release instructions; loops use one barrier.

use crate::fixup::fixup;
use std::arch::asm;

/// Loads the aligned word at `at` bytes after `base`.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(crate) unsafe fn load8(base: *const u8, at: usize) -> u64 {
    let value;
    // SAFETY: - the caller promises the media range. A fault there resumes with the value 0, set before.
    unsafe {
        asm!("2: ldar {value}, [{place}]", "3:", fixup!("2", "3"),
             value = inout(reg) 0u64 => value, place = in(reg) base.wrapping_add(at),
             options(nostack, preserves_flags));
    }
    value
}

/// Loads the byte at `at` bytes after `base`.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(crate) unsafe fn load1(base: *const u8, at: usize) -> u8 {
    let value: u32;
    // SAFETY: - as in `load8`.
    unsafe {
        asm!("2: ldarb {value:w}, [{place}]", "3:", fixup!("2", "3"),
             value = inout(reg) 0u32 => value, place = in(reg) base.wrapping_add(at),
             options(nostack, preserves_flags));
    }
    value as u8
}

/// Prefetches the line at `at` bytes after `base` for loads. Any address is allowed, as in `prefetch_store`.
#[inline(always)]
pub(crate) fn prefetch_load(base: *const u8, at: usize) {
    // SAFETY: - PRFM never faults and changes nothing.
    unsafe {
        asm!("prfm pldl1keep, [{place}]", place = in(reg) base.wrapping_add(at),
             options(nostack, preserves_flags, readonly));
    }
}

/// Prefetches the line at `at` bytes after `base` for stores. Any address is allowed: an unmapped one has no effect.
#[inline(always)]
pub(crate) fn prefetch_store(base: *mut u8, at: usize) {
    // SAFETY: - PRFM never faults and changes nothing.
    unsafe {
        asm!("prfm pstl1keep, [{place}]", place = in(reg) base.wrapping_add(at),
             options(nostack, preserves_flags, readonly));
    }
}

/// Stores an aligned word at `at` bytes after `base`.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(crate) unsafe fn store8(base: *mut u8, at: usize, value: u64) {
    // SAFETY: - the caller promises the media range. A fault there resumes without the store.
    unsafe {
        asm!("2: stlr {value}, [{place}]", "3:", fixup!("2", "3"),
             value = in(reg) value, place = in(reg) base.wrapping_add(at),
             options(nostack, preserves_flags));
    }
}

/// Replaces the aligned word at `at` bytes after `base` if it is `current`. Returns the word found, or `current` if the
/// word can't be reached.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(crate) unsafe fn compare_exchange8(base: *mut u8, at: usize, current: u64, new: u64) -> u64 {
    let found;
    // SAFETY: - the caller promises the media range. A fault there resumes with `current` as the word found.
    unsafe {
        asm!("2: ldaxr {found}, [{place}]",
             "cmp {found}, {current}", "b.ne 5f",
             "3: stlxr {failed:w}, {new}, [{place}]",
             "cbnz {failed:w}, 2b",
             "b 4f",
             "5: clrex",
             "4:", fixup!("2", "4"), fixup!("3", "4"),
             found = inout(reg) current => found, failed = out(reg) _, current = in(reg) current,
             new = in(reg) new, place = in(reg) base.wrapping_add(at),
             options(nostack));
    }
    found
}

/// Copies `len` media bytes at `from` to ordinary memory. Returns true if all could be read. Not atomic.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, into: *mut u8, len: usize) -> bool {
    let left: usize;
    // SAFETY: - accesses words, then bytes, of 0..len of both; a fault of a media load ends the loops.
    unsafe {
        asm!("6: cmp {left}, #8", "b.lo 7f",
             "2: ldr {word}, [{from}], #8",
             "str {word}, [{into}], #8",
             "sub {left}, {left}, #8", "b 6b",
             "7: cbz {left}, 4f",
             "3: ldrb {word:w}, [{from}], #1",
             "strb {word:w}, [{into}], #1",
             "sub {left}, {left}, #1", "b 7b",
             "4: dmb ishld", fixup!("2", "4"), fixup!("3", "4"),
             left = inout(reg) len => left, word = out(reg) _, from = inout(reg) from => _,
             into = inout(reg) into => _,
             options(nostack));
    }
    left == 0
}

/// Compares `len` media bytes at `from` with those at `bytes`. Returns false if they differ or can't all be read.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn equals(from: *const u8, bytes: *const u8, len: usize) -> bool {
    let left: usize;
    // SAFETY: - accesses words, then bytes, of 0..len of both; a fault of a media load ends the loops.
    unsafe {
        asm!("6: cmp {left}, #8", "b.lo 7f",
             "2: ldr {word}, [{from}], #8",
             "ldr {other}, [{bytes}], #8",
             "cmp {word}, {other}", "b.ne 4f",
             "sub {left}, {left}, #8", "b 6b",
             "7: cbz {left}, 4f",
             "3: ldrb {word:w}, [{from}], #1",
             "ldrb {other:w}, [{bytes}], #1",
             "cmp {word:w}, {other:w}", "b.ne 4f",
             "sub {left}, {left}, #1", "b 7b",
             "4: dmb ishld", fixup!("2", "4"), fixup!("3", "4"),
             left = inout(reg) len => left, word = out(reg) _, other = out(reg) _,
             from = inout(reg) from => _, bytes = inout(reg) bytes => _,
             options(nostack));
    }
    left == 0
}

/// Stores `len` bytes, a multiple of 8, as words to media that begin at a multiple of 8. Returns true if all could be
/// stored.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn store_words(into: *mut u8, from: *const u8, len: usize) -> bool {
    let left: usize;
    // SAFETY: - accesses a word at each multiple of 8 below `len`; a fault of the media store ends the loop.
    unsafe {
        asm!("dmb ish",
             "3: cbz {left}, 4f",
             "ldr {word}, [{from}], #8",
             "2: str {word}, [{into}], #8",
             "sub {left}, {left}, #8", "b 3b",
             "4:", fixup!("2", "4"),
             left = inout(reg) len => left, word = out(reg) _, from = inout(reg) from => _,
             into = inout(reg) into => _,
             options(nostack));
    }
    left == 0
}

/// Stores `len` single bytes to media. Returns true if all could be stored.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn store_bytes(into: *mut u8, from: *const u8, len: usize) -> bool {
    let left: usize;
    // SAFETY: - accesses the bytes 0..len; a fault of the media store ends the loop.
    unsafe {
        asm!("dmb ish",
             "3: cbz {left}, 4f",
             "ldrb {byte:w}, [{from}], #1",
             "2: strb {byte:w}, [{into}], #1",
             "sub {left}, {left}, #1", "b 3b",
             "4:", fixup!("2", "4"),
             left = inout(reg) len => left, byte = out(reg) _, from = inout(reg) from => _,
             into = inout(reg) into => _,
             options(nostack));
    }
    left == 0
}
