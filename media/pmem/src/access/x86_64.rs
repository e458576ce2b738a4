//! Accesses on x86-64: its loads acquire and its stores release.

use crate::fixup::fixup;
use std::arch::asm;

/// Length from which `rep movsb` is faster than a loop of 16-byte loads.
const STRING_LEN: usize = 512;

/// Loads the aligned word at `at` bytes after `base`.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(crate) unsafe fn load8(base: *const u8, at: usize) -> u64 {
    let value;
    // SAFETY: - the caller promises the media range. A fault there resumes with the value 0, set before.
    unsafe {
        asm!("2: mov {value}, [{base} + {at}]", "3:", fixup!("2", "3"),
             value = inout(reg) 0u64 => value, base = in(reg) base, at = in(reg) at,
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
        asm!("2: movzx {value:e}, byte ptr [{base} + {at}]", "3:", fixup!("2", "3"),
             value = inout(reg) 0u32 => value, base = in(reg) base, at = in(reg) at,
             options(nostack, preserves_flags));
    }
    value as u8
}

/// Prefetches the line at `at` bytes after `base` for loads. Any address is allowed, as in `prefetch_store`.
#[inline(always)]
pub(crate) fn prefetch_load(base: *const u8, at: usize) {
    // SAFETY: - PREFETCHT0 never faults and changes nothing.
    unsafe {
        asm!("prefetcht0 [{base} + {at}]", base = in(reg) base, at = in(reg) at,
             options(nostack, preserves_flags, readonly));
    }
}

/// Prefetches the line at `at` bytes after `base` for stores. Any address is allowed: an unmapped one has no effect.
#[inline(always)]
pub(crate) fn prefetch_store(base: *mut u8, at: usize) {
    // SAFETY: - PREFETCHW never faults and changes nothing; CPUs without it execute a NOP.
    unsafe {
        asm!("prefetchw [{base} + {at}]", base = in(reg) base, at = in(reg) at,
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
        asm!("2: mov [{base} + {at}], {value}", "3:", fixup!("2", "3"),
             value = in(reg) value, base = in(reg) base, at = in(reg) at,
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
    // SAFETY: - the caller promises the media range. A fault there resumes with `current` in rax.
    unsafe {
        asm!("2: lock cmpxchg [{base} + {at}], {new}", "3:", fixup!("2", "3"),
             inout("rax") current => found, new = in(reg) new, base = in(reg) base, at = in(reg) at,
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
    match len {
        // SAFETY: - the callee requires what our caller promises.
        0..8 => unsafe { copy_out_bytes(from, into, len) },
        // SAFETY: - as above; `len` is at least 8.
        8..16 => unsafe { copy_out_two_words(from, into, len) },
        // SAFETY: - as above; `len` is at least 16.
        16..STRING_LEN => unsafe { copy_out_vectors(from, into, len) },
        // SAFETY: - as above.
        _ => unsafe { copy_out_string(from, into, len) },
    }
}

#[inline]
unsafe fn copy_out_bytes(from: *const u8, into: *mut u8, len: usize) -> bool {
    let left: usize;
    // SAFETY: - loads from, and stores to, the bytes 0..len of both, which the caller promises. A fault of the media
    //           load ends the loop.
    unsafe {
        asm!("test {left}, {left}", "jz 4f",
             "2: movzx {byte:e}, byte ptr [{from} + {left} - 1]",
             "mov byte ptr [{into} + {left} - 1], {byte:l}",
             "dec {left}", "jnz 2b",
             "4:", fixup!("2", "4"),
             left = inout(reg) len => left, byte = out(reg) _, from = in(reg) from, into = in(reg) into,
             options(nostack));
    }
    left == 0
}

#[inline]
unsafe fn copy_out_two_words(from: *const u8, into: *mut u8, len: usize) -> bool {
    let left: usize;
    // SAFETY: - accesses the first word and the last one, which may overlap. Both are inside of 0..len, since `len` is
    //           at least 8.
    unsafe {
        asm!("2: mov {first}, [{from}]",
             "3: mov {last}, [{from} + {left} - 8]",
             "mov [{into}], {first}",
             "mov [{into} + {left} - 8], {last}",
             "xor {left:e}, {left:e}",
             "4:", fixup!("2", "4"), fixup!("3", "4"),
             left = inout(reg) len => left, first = out(reg) _, last = out(reg) _,
             from = in(reg) from, into = in(reg) into,
             options(nostack));
    }
    left == 0
}

#[inline]
unsafe fn copy_out_vectors(from: *const u8, into: *mut u8, len: usize) -> bool {
    let mut last = len - 16;
    // SAFETY: - accesses 16 bytes at each multiple of 16 below `last`, then 16 bytes at `last`: all inside of 0..len.
    unsafe {
        asm!("test {last}, {last}", "jz 3f",
             "2: movups {vector}, [{from} + {done}]",
             "movups [{into} + {done}], {vector}",
             "add {done}, 16", "cmp {done}, {last}", "jb 2b",
             "3: movups {vector}, [{from} + {last}]",
             "movups [{into} + {last}], {vector}",
             "mov {last}, -1",
             "4:", fixup!("2", "4"), fixup!("3", "4"),
             done = inout(reg) 0usize => _, last = inout(reg) last, vector = out(xmm_reg) _,
             from = in(reg) from, into = in(reg) into,
             options(nostack));
    }
    last == usize::MAX
}

#[inline]
unsafe fn copy_out_string(from: *const u8, into: *mut u8, len: usize) -> bool {
    let left: usize;
    // SAFETY: - copies the bytes 0..len. The direction flag is clear at the start of every asm block. A fault leaves
    //           the number of bytes not copied.
    unsafe {
        asm!("2: rep movsb", "3:", fixup!("2", "3"),
             inout("rcx") len => left, inout("rsi") from => _, inout("rdi") into => _,
             options(nostack, preserves_flags));
    }
    left == 0
}

/// Compares `len` media bytes at `from` with those at `bytes`. Returns false if they differ or can't all be read.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn equals(from: *const u8, bytes: *const u8, len: usize) -> bool {
    let mut left = len;
    if len >= 8 {
        // SAFETY: - accesses a word at each multiple of 8 below `last`, then a word at `last`: all inside of 0..len.
        unsafe {
            asm!("2: mov {word}, [{from} + {done}]",
                 "cmp {word}, [{bytes} + {done}]", "jne 4f",
                 "add {done}, 8", "cmp {done}, {last}", "jb 2b",
                 "3: mov {word}, [{from} + {last}]",
                 "cmp {word}, [{bytes} + {last}]", "jne 4f",
                 "xor {left:e}, {left:e}",
                 "4:", fixup!("2", "4"), fixup!("3", "4"),
                 done = inout(reg) 0usize => _, last = in(reg) len - 8, left = inout(reg) left,
                 word = out(reg) _, from = in(reg) from, bytes = in(reg) bytes,
                 options(nostack, readonly));
        }
    } else {
        // SAFETY: - accesses the bytes 0..len of both, from the last to the first.
        unsafe {
            asm!("test {left}, {left}", "jz 4f",
                 "2: movzx {byte:e}, byte ptr [{from} + {left} - 1]",
                 "cmp {byte:l}, [{bytes} + {left} - 1]", "jne 4f",
                 "dec {left}", "jnz 2b",
                 "4:", fixup!("2", "4"),
                 left = inout(reg) left, byte = out(reg) _, from = in(reg) from, bytes = in(reg) bytes,
                 options(nostack, readonly));
        }
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
    let done: usize;
    // SAFETY: - accesses a word at each multiple of 8 below `len`; a fault of the media store ends the loop.
    unsafe {
        asm!("test {len}, {len}", "jz 4f",
             "3: mov {word}, [{from} + {done}]",
             "2: mov [{into} + {done}], {word}",
             "add {done}, 8", "cmp {done}, {len}", "jb 3b",
             "4:", fixup!("2", "4"),
             done = inout(reg) 0usize => done, len = in(reg) len, word = out(reg) _,
             from = in(reg) from, into = in(reg) into,
             options(nostack));
    }
    done == len
}

/// Stores `len` single bytes to media. Returns true if all could be stored.
///
/// # Safety
/// See the module.
#[inline]
pub(crate) unsafe fn store_bytes(into: *mut u8, from: *const u8, len: usize) -> bool {
    let done: usize;
    // SAFETY: - accesses the bytes 0..len; a fault of the media store ends the loop.
    unsafe {
        asm!("test {len}, {len}", "jz 4f",
             "3: movzx {byte:e}, byte ptr [{from} + {done}]",
             "2: mov byte ptr [{into} + {done}], {byte:l}",
             "inc {done}", "cmp {done}, {len}", "jb 3b",
             "4:", fixup!("2", "4"),
             done = inout(reg) 0usize => done, len = in(reg) len, byte = out(reg) _,
             from = in(reg) from, into = in(reg) into,
             options(nostack));
    }
    done == len
}
