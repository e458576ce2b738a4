//! x86-64: CLWB or its predecessors, non-temporal stores, SFENCE.

use super::lines_of;
use crate::access;
use crate::fixup::fixup;
use lode_layout::{LINE, WORD};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::fmt;

/// Features that a mask may hide, in the order of the bits that [`Cpu::choose`] takes.
pub(super) const FEATURES: &[&str] = &["clwb", "clflushopt", "avx512f", "avx2"];
const CLWB: u32 = 1 << 0;
const CLFLUSHOPT: u32 = 1 << 1;
const AVX512F: u32 = 1 << 2;
const AVX2: u32 = 1 << 3;

/// Length in bytes up to which a record goes through the cache, if that is faster at all.
const CACHED_RECORD_MAX: usize = 512;

/// Instructions that write a line back, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteBack {
    /// Keeps the line in the cache.
    Clwb,
    /// Drops the line from the cache.
    ClflushOpt,
    /// Drops the line. Runs one line after the other.
    Clflush,
}

/// Instructions that store a whole line past the cache, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Avx512,
    Avx2,
    Sse2,
}

/// The chosen instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    write_back: WriteBack,
    stream: Stream,
    /// True if a short record is durable earlier when it is stored through the cache and written back: Intel's CPUs. On AMD's a line past
    /// the cache is.
    caches_records: bool,
}

impl Cpu {
    /// Chooses the best instructions that the CPU has and `hidden` does not hide.
    pub(super) fn choose(hidden: u32) -> Cpu {
        // Intel SDM vol. 2A, CPUID leaf 7: EBX bit 24 is CLWB, bit 23 CLFLUSHOPT. CLFLUSH is in every x86-64.
        #[allow(unused_unsafe, reason = "before Rust 1.94 the function is unsafe")]
        // SAFETY: - the CPU has the instruction: every x86-64 has CPUID, and this file is compiled for x86-64 only.
        let leaf7 = unsafe { __cpuid_count(7, 0) }.ebx;
        let has = |feature: u32, offered: bool| offered && hidden & feature == 0;
        let write_back = if has(CLWB, leaf7 & 1 << 24 != 0) {
            WriteBack::Clwb
        } else if has(CLFLUSHOPT, leaf7 & 1 << 23 != 0) {
            WriteBack::ClflushOpt
        } else {
            WriteBack::Clflush
        };
        // The standard library also checks that the system saves the wide registers.
        let stream = if has(AVX512F, std::arch::is_x86_feature_detected!("avx512f")) {
            Stream::Avx512
        } else if has(AVX2, std::arch::is_x86_feature_detected!("avx2")) {
            Stream::Avx2
        } else {
            Stream::Sse2
        };
        let caches_records = is_intel() && write_back != WriteBack::Clflush;
        Cpu { write_back, stream, caches_records }
    }

    /// Returns the instructions that every CPU of this kind has.
    pub const fn oldest() -> Cpu {
        Cpu { write_back: WriteBack::Clflush, stream: Stream::Sse2, caches_records: false }
    }

    /// Returns true if flushed lines reach the persistence domain with the next fence.
    pub(crate) fn reaches_persistence(self) -> bool {
        true
    }

    /// Returns true if a flush is in order with later stores and flushes, without a fence.
    pub(crate) fn flushes_in_order(self) -> bool {
        self.write_back == WriteBack::Clflush
    }

    /// Starts the write-back of the lines that hold `len` bytes at `start`. Returns true if all could be reached.
    ///
    /// # Safety
    /// The range lies inside of a live mapping.
    #[inline]
    pub(crate) unsafe fn flush(self, start: *const u8, len: usize) -> bool {
        let (first, count) = lines_of(start.addr() as u64, len as u64);
        let first = first as usize;
        match self.write_back {
            // SAFETY: - the lines lie in the caller's range.
            WriteBack::Clwb => unsafe { clwb(first, count) },
            // SAFETY: - as above.
            WriteBack::ClflushOpt => unsafe { clflushopt(first, count) },
            // SAFETY: - as above.
            WriteBack::Clflush => unsafe { clflush(first, count) },
        }
    }

    /// Stores `len` bytes past the cache. Returns true if all could be stored. `into` and `len` are multiples of 8.
    ///
    /// # Safety
    /// `into` lies inside of a live mapping for `len` bytes, `from` is valid for them and doesn't overlap.
    #[inline]
    pub(crate) unsafe fn copy(self, into: *mut u8, from: *const u8, len: usize) -> bool {
        if len == LINE as usize {
            // A short record, just composed word by word: a load of the whole line would wait until those stores are in the
            // cache, after all stores before them.
            // SAFETY: - copies the caller's range.
            return unsafe { copy_words(into, from, len) };
        }
        let head = (into.addr().wrapping_neg() % LINE as usize).min(len);
        let lines = (len - head) / LINE as usize;
        let tail = len - head - lines * LINE as usize;
        // SAFETY: - copies the part before the first whole line.
        if head != 0 && !unsafe { copy_words(into, from, head) } {
            return false;
        }
        let (into, from) = (into.wrapping_add(head), from.wrapping_add(head));
        // SAFETY: - copies the whole lines, which begin at a line.
        let copied = lines == 0 || unsafe { self.copy_lines(into, from, lines) };
        let (into, from) = (into.wrapping_add(len - head - tail), from.wrapping_add(len - head - tail));
        // SAFETY: - copies the rest.
        copied && (tail == 0 || unsafe { copy_words(into, from, tail) })
    }

    /// Stores the whole lines of a record, by the way on which they are durable earliest after the next fence. Returns true if all could be
    /// stored. Fetches the lines after them, for the next record.
    ///
    /// # Safety
    /// As [`copy`](Cpu::copy). `into` is the start of a line.
    #[inline]
    pub(crate) unsafe fn copy_record(self, into: *mut u8, from: *const u8, len: usize) -> bool {
        if !self.caches_records || len > CACHED_RECORD_MAX {
            // SAFETY: - the caller's promises.
            return unsafe { self.copy(into, from, len) };
        }
        // SAFETY: - the caller's promises.
        let stored = unsafe { access::store_words(into, from, len) };
        // SAFETY: - the caller's promises.
        let flushed = stored && unsafe { self.flush(into, len) };
        (len..2 * len).step_by(LINE as usize).for_each(|at| access::prefetch_store(into, at));
        flushed
    }

    /// Stores `lines` whole lines past the cache, at least one. Returns true if all could be stored. `into` is the start of
    /// a line.
    ///
    /// # Safety
    /// `into` lies inside of a live mapping for the lines, `from` is valid for them and doesn't overlap.
    #[inline]
    pub(crate) unsafe fn copy_lines(self, into: *mut u8, from: *const u8, lines: usize) -> bool {
        match self.stream {
            // SAFETY: - the caller's lines.
            Stream::Avx512 => unsafe { copy_lines_avx512(into, from, lines) },
            // SAFETY: - as above.
            Stream::Avx2 => unsafe { copy_lines_avx2(into, from, lines) },
            // SAFETY: - as above.
            Stream::Sse2 => unsafe { copy_lines_sse2(into, from, lines) },
        }
    }

    /// Waits until all that this thread flushed and copied has reached the persistence domain.
    #[inline]
    pub(crate) fn fence(self) {
        // SAFETY: - SFENCE is in every x86-64, and orders stores only.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }
}

/// Returns true if the CPU is one of Intel's.
fn is_intel() -> bool {
    // Intel SDM vol. 2A, CPUID leaf 0: the vendor's name in EBX, EDX and ECX.
    #[allow(unused_unsafe, reason = "before Rust 1.94 the function is unsafe")]
    // SAFETY: - as in `choose`.
    let leaf0 = unsafe { __cpuid_count(0, 0) };
    [leaf0.ebx, leaf0.edx, leaf0.ecx].map(u32::to_le_bytes).concat() == *b"GenuineIntel"
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write_back = match self.write_back {
            WriteBack::Clwb => "clwb",
            WriteBack::ClflushOpt => "clflushopt",
            WriteBack::Clflush => "clflush",
        };
        let stream = match self.stream {
            Stream::Avx512 => "avx512f",
            Stream::Avx2 => "avx2",
            Stream::Sse2 => "sse2",
        };
        write!(f, "flush by {write_back}, copy by {stream}")
    }
}

/// Defines a function that applies one instruction to `count` lines from `first` on.
macro_rules! write_back {
    ($name:ident, $instruction:literal) => {
        #[inline]
        unsafe fn $name(first: usize, count: u64) -> bool {
            let left: u64;
            // SAFETY: - the instruction writes back lines of the caller's live mapping and changes no byte; a fault
            //           ends the loop.
            unsafe {
                asm!("test {left}, {left}", "jz 4f",
                     concat!("2: ", $instruction, " [{line}]"),
                     "add {line}, 64",
                     "dec {left}", "jnz 2b",
                     "4:", fixup!("2", "4"),
                     line = inout(reg) first => _, left = inout(reg) count => left, options(nostack));
            }
            left == 0
        }
    };
}

write_back!(clwb, "clwb");
write_back!(clflushopt, "clflushopt");
write_back!(clflush, "clflush");

#[inline]
unsafe fn copy_words(into: *mut u8, from: *const u8, len: usize) -> bool {
    debug_assert!(len.is_multiple_of(WORD as usize) && into.addr().is_multiple_of(WORD as usize));
    let left: usize;
    // SAFETY: - stores the words of the caller's ranges, the last one first; a fault of a media store ends the loop.
    unsafe {
        asm!("3: mov {word}, [{from} + {left} - 8]",
             "2: movnti [{into} + {left} - 8], {word}",
             "sub {left}, 8", "jnz 3b",
             "4:", fixup!("2", "4"),
             left = inout(reg) len => left, word = out(reg) _, from = in(reg) from, into = in(reg) into,
             options(nostack));
    }
    left == 0
}

// Uses vector registers from 16 on: these leave no upper halves in use, which would slow down SSE code.
#[inline]
unsafe fn copy_lines_avx512(into: *mut u8, from: *const u8, lines: usize) -> bool {
    let left: usize;
    // SAFETY: - stores `lines` lines of the caller's ranges, at least one. The CPU has AVX-512F. A fault ends the loop.
    unsafe {
        asm!("3: vmovdqu64 zmm16, [{from}]",
             "2: vmovntdq [{into}], zmm16",
             "add {from}, 64", "add {into}, 64",
             "dec {left}", "jnz 3b",
             "4:", fixup!("2", "4"),
             left = inout(reg) lines => left, from = inout(reg) from => _, into = inout(reg) into => _,
             out("xmm16") _, options(nostack));
    }
    left == 0
}

#[inline]
unsafe fn copy_lines_avx2(into: *mut u8, from: *const u8, lines: usize) -> bool {
    let left: usize;
    // SAFETY: - stores `lines` lines of the caller's ranges, at least one. The CPU has AVX2. A fault ends the loop.
    unsafe {
        asm!("3: vmovdqu ymm0, [{from}]", "vmovdqu ymm1, [{from} + 32]",
             "2: vmovntdq [{into}], ymm0",
             "5: vmovntdq [{into} + 32], ymm1",
             "add {from}, 64", "add {into}, 64",
             "dec {left}", "jnz 3b",
             "4: vzeroupper", fixup!("2", "4"), fixup!("5", "4"),
             left = inout(reg) lines => left, from = inout(reg) from => _, into = inout(reg) into => _,
             // VZEROUPPER changes the upper halves of all sixteen registers.
             out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
             out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
             out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _, options(nostack));
    }
    left == 0
}

#[inline]
unsafe fn copy_lines_sse2(into: *mut u8, from: *const u8, lines: usize) -> bool {
    let left: usize;
    // SAFETY: - stores `lines` lines of the caller's ranges, at least one; a fault ends the loop.
    unsafe {
        asm!("3: movdqu {a}, [{from}]", "movdqu {b}, [{from} + 16]",
             "movdqu {c}, [{from} + 32]", "movdqu {d}, [{from} + 48]",
             "2: movntdq [{into}], {a}", "5: movntdq [{into} + 16], {b}",
             "6: movntdq [{into} + 32], {c}", "7: movntdq [{into} + 48], {d}",
             "add {from}, 64", "add {into}, 64",
             "dec {left}", "jnz 3b",
             "4:", fixup!("2", "4"), fixup!("5", "4"), fixup!("6", "4"), fixup!("7", "4"),
             left = inout(reg) lines => left, from = inout(reg) from => _, into = inout(reg) into => _,
             a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
             options(nostack));
    }
    left == 0
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Fault, Memory};
    use lode_layout::PoolOffset;

    /// Returns every choice that this machine can execute.
    fn choices() -> Vec<Cpu> {
        let mut all = Vec::new();
        for hidden in 0..1 << FEATURES.len() {
            let cpu = Cpu::choose(hidden);
            if !all.contains(&cpu) {
                all.push(cpu);
            }
        }
        all
    }

    #[test]
    fn masked_cpu_features_are_unused() {
        let weakest = Cpu::choose(u32::MAX);
        assert_eq!(weakest, Cpu::oldest());
        assert_ne!(Cpu::choose(CLWB).write_back, WriteBack::Clwb);
        assert_eq!(Cpu::choose(CLWB | CLFLUSHOPT).write_back, WriteBack::Clflush);
        assert_ne!(Cpu::choose(AVX512F).stream, Stream::Avx512);
        assert_eq!(Cpu::choose(AVX512F | AVX2).stream, Stream::Sse2);
        assert_eq!(weakest.to_string(), "flush by clflush, copy by sse2");
    }

    #[test]
    fn copies_match_for_all_alignments() {
        let pattern: Vec<u8> = (0..600u32).map(|index| (index * 7 + index / 256) as u8).collect();
        let memory = Memory::anonymous(4096).unwrap();
        for cpu in choices() {
            for offset in (0..=128).step_by(8) {
                for len in (0..=512).step_by(8) {
                    memory.store(PoolOffset::NULL, &[0xee; 1024]);
                    let place = memory.range_address(PoolOffset::new(offset), len).unwrap();
                    // SAFETY: - `span` checked the range, and the pattern is longer than `len`, from 3 on.
                    assert!(unsafe { cpu.copy(place.as_ptr(), pattern[3..].as_ptr(), len) });
                    cpu.fence();
                    let mut all = [0; 1024];
                    memory.read(PoolOffset::NULL, &mut all);
                    let (start, end) = (offset as usize, offset as usize + len);
                    assert_eq!(all[start..end], pattern[3..3 + len], "{cpu}: {len} at {offset}");
                    assert!(all[..start].iter().chain(&all[end..]).all(|byte| *byte == 0xee), "{cpu}");
                }
            }
        }
    }

    #[test]
    fn records_are_copied_whole_by_either_way() {
        let pattern: Vec<u8> = (0..1100u32).map(|index| (index * 5 + index / 256) as u8).collect();
        let memory = Memory::anonymous(4096).unwrap();
        for cpu in choices() {
            for caches_records in [false, true] {
                for len in (64..=1024).step_by(64) {
                    memory.store(PoolOffset::NULL, &[0xee; 2048]);
                    let place = memory.range_address(PoolOffset::new(128), len).unwrap();
                    let cpu = Cpu { caches_records, ..cpu };
                    // SAFETY: - `range_address` checked the range, which begins at a line; the pattern is longer than `len`, from 3 on.
                    assert!(unsafe { cpu.copy_record(place.as_ptr(), pattern[3..].as_ptr(), len) });
                    cpu.fence();
                    let mut all = [0; 2048];
                    memory.read(PoolOffset::NULL, &mut all);
                    assert_eq!(all[128..128 + len], pattern[3..3 + len], "{cpu}: {len}");
                    assert!(all[..128].iter().chain(&all[128 + len..]).all(|byte| *byte == 0xee), "{cpu}");
                }
            }
        }
    }

    /// Uses a page without access to show the lines that the instructions really reach.
    #[test]
    fn flush_covers_last_line_only() {
        let page = crate::reservation::page() as u64;
        let memory = Memory::anonymous_reserving(page, 2 * page).unwrap();
        for cpu in choices() {
            for start in page - 130..page {
                for len in 0..200 {
                    let place = memory
                        .range_address(PoolOffset::NULL, 0)
                        .unwrap()
                        .as_ptr()
                        .wrapping_add(start as usize);
                    // SAFETY: - the range lies inside of the reservation. Its second page is closed, so an access to it
                    //           raises a fault.
                    let reached = unsafe { cpu.flush(place, len as usize) };
                    assert_eq!(reached, start + len <= page, "{cpu}: {len} at {start}");
                    assert_eq!(Fault::take().map(|fault| fault.at.get()), (!reached).then_some(page));
                }
            }
        }
    }
}
