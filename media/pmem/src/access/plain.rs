//! Accesses by the language's own atomics, for Miri and for CPUs without a fix-up table. A fault ends the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the aligned word that holds the byte `at` bytes after `base`, and the byte's first bit in it. Every access
/// uses whole words: the language's memory model does not define atomics of two sizes at one place.
#[inline]
unsafe fn word<'a>(base: *const u8, at: usize) -> (&'a AtomicU64, u32) {
    let place = base.wrapping_add(at);
    let within = place.addr() % 8;
    let word = place.wrapping_sub(within).cast_mut().cast();
    // SAFETY: - mapped: the module's callers promise it, and a mapping ends at a page boundary. Aligned.
    //         - all accesses are atomic and of this size.
    (unsafe { AtomicU64::from_ptr(word) }, within as u32 * 8)
}

/// Loads the aligned word at `at` bytes after `base`.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn load8(base: *const u8, at: usize) -> u64 {
    // SAFETY: - the caller's promise.
    // ORDER: pairs with the release of `store8`.
    unsafe { word(base, at) }.0.load(Ordering::Acquire)
}

/// Loads the byte at `at` bytes after `base`.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn load1(base: *const u8, at: usize) -> u8 {
    // SAFETY: - the caller's promise.
    let (word, shift) = unsafe { word(base, at) };
    // ORDER: as in `load8`.
    (word.load(Ordering::Acquire) >> shift) as u8
}

/// Does nothing here.
#[inline]
pub(crate) fn prefetch_load(_base: *const u8, _at: usize) {}

/// Does nothing here.
#[inline]
pub(crate) fn prefetch_store(_base: *mut u8, _at: usize) {}

/// Stores an aligned word at `at` bytes after `base`.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn store8(base: *mut u8, at: usize, value: u64) {
    // SAFETY: - the caller's promise.
    // ORDER: pairs with the acquire of `load8`.
    unsafe { word(base, at) }.0.store(value, Ordering::Release);
}

/// Replaces the aligned word at `at` bytes after `base` if it is `current`. Returns the word found.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn compare_exchange8(base: *mut u8, at: usize, current: u64, new: u64) -> u64 {
    // SAFETY: - the caller's promise.
    let (word, _) = unsafe { word(base, at) };
    // ORDER: ordered with the loads and stores before and after it.
    word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|found| found)
}

/// Splits `len` bytes at `from` into (index, value, bytes), in whole words where the address allows.
unsafe fn pieces(from: *const u8, len: usize) -> impl Iterator<Item = (usize, u64, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let index = done;
        if index == len {
            return None;
        }
        let whole = len - index >= 8 && from.wrapping_add(index).addr().is_multiple_of(8);
        done += if whole { 8 } else { 1 };
        // SAFETY: - aligned, as just checked, and inside of the range that the caller promises.
        let word = || unsafe { load8(from, index) };
        // SAFETY: - inside of the range that the caller promises.
        let byte = || u64::from(unsafe { load1(from, index) });
        Some((index, if whole { word() } else { byte() }, done - index))
    })
}

/// Copies `len` media bytes at `from` to ordinary memory. Always returns true: a fault ends the process.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, into: *mut u8, len: usize) -> bool {
    // SAFETY: - the caller's promise.
    for (index, value, size) in unsafe { pieces(from, len) } {
        // SAFETY: - copies `size` of the 8 bytes of `value` to a place inside of the range that the caller promises.
        unsafe { into.wrapping_add(index).copy_from(value.to_le_bytes().as_ptr(), size) };
    }
    true
}

/// Returns true if `len` media bytes at `from` equal those at `bytes`.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn equals(from: *const u8, bytes: *const u8, len: usize) -> bool {
    // SAFETY: - the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    // SAFETY: - the caller's promise.
    unsafe { pieces(from, len) }
        .all(|(index, value, size)| bytes[index..index + size] == value.to_le_bytes()[..size])
}

/// Stores `len` bytes, a multiple of 8, as words to media that begin at a multiple of 8.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn store_words(into: *mut u8, from: *const u8, len: usize) -> bool {
    for at in (0..len).step_by(8) {
        // SAFETY: - the caller's promise.
        let value = unsafe { from.wrapping_add(at).cast::<u64>().read_unaligned() };
        // SAFETY: - the caller's promise.
        unsafe { store8(into, at, value) };
    }
    true
}

/// Stores `len` single bytes to media.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn store_bytes(into: *mut u8, from: *const u8, len: usize) -> bool {
    for at in 0..len {
        // SAFETY: - the caller's promise.
        let value = unsafe { from.wrapping_add(at).read() };
        // SAFETY: - the caller's promise.
        let (word, shift) = unsafe { word(into, at) };
        let with_it = |old: u64| Some(old & !(0xff << shift) | u64::from(value) << shift);
        // ORDER: as in `store8`.
        let replaced = word.fetch_update(Ordering::Release, Ordering::Relaxed, with_it);
        debug_assert!(replaced.is_ok());
    }
    true
}
