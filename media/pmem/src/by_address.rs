//! Flushes and copies by address, in memory that the program maps and keeps: the way of C libraries.
//!
//! No handler stands behind these calls: a fault in them is a signal to the program, which may have a handler of its own.
//! So they use the C library's copies, whose arguments may be any addresses.
//!
//! # Cost
//! A flush is a branch and an instruction for each line. A copy of whole lines past the cache costs the time in which the
//! memory accepts them.
//!
//! # Order
//! Stores through the cache become visible in the program's order. Lines past the cache do not, until a fence. So copies
//! take that path from the length on from which PMDK's do; where a program has no reason to fence,
//! because flushes are left out or CLFLUSH orders them by itself, the copy fences.

use crate::Cpu;
use lode_layout::LINE;

/// Bytes that a fill copies at a time past the cache.
const FILL: usize = 1024;
/// Least length, in bytes, of a copy past the cache: PMDK's, for programs that rely on the order of shorter ones, or that load what they
/// have copied.
const STREAM_MIN: usize = 256;

/// The path of a copy's bytes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPath {
    /// Whole lines past the cache from the least length on, and shorter copies through it. Through it where flushes are
    /// left out.
    ByLength,
    /// Whole lines past the cache. Through it where flushes are left out.
    WriteCombining,
    /// Whole lines past the cache.
    PastCache,
    /// Through the cache, and flushed.
    ThroughCache,
    /// Through the cache, and not flushed.
    Unflushed,
}

/// The instructions of a program that names its memory by address.
#[derive(Clone, Copy, Debug)]
pub struct ByAddress {
    cpu: Cpu,
    is_flushing: bool,
    /// Least length, in bytes, of a copy past the cache.
    stream_min: usize,
}

impl ByAddress {
    /// Uses the instructions of `cpu`: flushes, and copies past the cache from 256 bytes on.
    pub const fn new(cpu: Cpu) -> ByAddress {
        ByAddress { cpu, is_flushing: true, stream_min: STREAM_MIN }
    }

    /// Copies `len` bytes and more past the cache. `usize::MAX` copies nothing past it.
    #[must_use]
    pub const fn streaming_from(self, len: usize) -> ByAddress {
        ByAddress { stream_min: len, ..self }
    }

    /// Leaves out the flushes: the caches survive a power failure, or the user takes the risk. Deep flushes stay.
    #[must_use]
    pub const fn without_flush(self) -> ByAddress {
        ByAddress { is_flushing: false, ..self }
    }

    /// Returns true if a flush does something: the caches do not survive a power failure.
    pub fn flushes(&self) -> bool {
        self.is_flushing
    }

    /// Returns true if a flush and a drain make stores durable in directly mapped memory: the CPU has the instruction, or
    /// flushes are left out.
    pub fn reaches_persistence(&self) -> bool {
        !self.is_flushing || self.cpu.reaches_persistence()
    }

    /// Starts the write-back of the lines that hold `len` bytes at `start`. A length that wraps starts none.
    ///
    /// # Durability
    /// After the thread's next [`drain`](ByAddress::drain).
    ///
    /// # Safety
    /// The range is mapped, or the program handles the signal of its fault.
    #[inline]
    pub unsafe fn flush(&self, start: *const u8, len: usize) {
        if self.is_flushing {
            // SAFETY: - the caller's promise.
            unsafe { self.deep_flush(start, len) };
        }
    }

    /// Starts the write-back as [`flush`](ByAddress::flush) does, also where flushes are left out.
    ///
    /// # Safety
    /// As [`flush`](ByAddress::flush).
    #[inline]
    pub unsafe fn deep_flush(&self, start: *const u8, len: usize) {
        if start.addr().checked_add(len).is_some() {
            // SAFETY: - the caller's promise.
            unsafe { self.cpu.flush(start, len) };
        }
    }

    /// Waits until all that this thread flushed and copied has reached the persistence domain.
    #[inline]
    pub fn drain(&self) {
        self.cpu.fence();
    }

    /// Copies `len` bytes. The ranges may overlap. A copy of a range to itself does nothing,
    /// except where no copy goes past the cache: it is flushed there, as PMDK does.
    ///
    /// # Durability
    /// After the thread's next [`drain`](ByAddress::drain), unless `path` is [`CopyPath::Unflushed`].
    ///
    /// # Safety
    /// `into` is valid for stores of `len` bytes and `from` for loads, or the program handles the signal of the fault.
    #[inline]
    pub unsafe fn copy(&self, into: *mut u8, from: *const u8, len: usize, path: CopyPath) {
        let streams = self.streams(len, path);
        // SAFETY: - the caller's promise.
        unsafe { self.copy_by(into, from, len, path, streams) };
        self.order_lines(streams);
    }

    /// Copies as [`copy`](ByAddress::copy) does, and drains.
    ///
    /// # Durability
    /// On return, unless `path` is [`CopyPath::Unflushed`].
    ///
    /// # Safety
    /// As [`copy`](ByAddress::copy).
    #[inline]
    pub unsafe fn copy_and_drain(&self, into: *mut u8, from: *const u8, len: usize, path: CopyPath) {
        let streams = self.streams(len, path);
        // SAFETY: - the caller's promise.
        unsafe { self.copy_by(into, from, len, path, streams) };
        // ORDER: the copied bytes are durable, and visible, before the call returns.
        self.drain();
    }

    /// Copies the whole lines of a record, by the way on which they are durable earliest.
    ///
    /// # Durability
    /// After the thread's next [`drain`](ByAddress::drain).
    ///
    /// # Safety
    /// As [`copy`](ByAddress::copy); the ranges don't overlap, and `into` is the start of a line.
    #[inline]
    pub(crate) unsafe fn copy_record(&self, into: *mut u8, from: *const u8, len: usize) {
        if self.is_flushing && self.stream_min != usize::MAX {
            // SAFETY: - the caller's promise. A fault is a signal to the program.
            unsafe { self.cpu.copy_record(into, from, len) };
        } else {
            // SAFETY: - the caller's promise.
            unsafe { self.copy(into, from, len, CopyPath::ByLength) };
        }
    }

    /// Stores `len` times the same byte.
    ///
    /// # Durability
    /// As [`copy`](ByAddress::copy).
    ///
    /// # Safety
    /// `into` is valid for stores of `len` bytes, or the program handles the signal of the fault.
    #[inline]
    pub unsafe fn fill(&self, into: *mut u8, byte: u8, len: usize, path: CopyPath) {
        let streams = self.streams(len, path);
        // SAFETY: - the caller's promise.
        unsafe { self.fill_by(into, byte, len, path, streams) };
        self.order_lines(streams);
    }

    /// Stores as [`fill`](ByAddress::fill) does, and drains.
    ///
    /// # Durability
    /// As [`copy_and_drain`](ByAddress::copy_and_drain).
    ///
    /// # Safety
    /// As [`fill`](ByAddress::fill).
    #[inline]
    pub unsafe fn fill_and_drain(&self, into: *mut u8, byte: u8, len: usize, path: CopyPath) {
        let streams = self.streams(len, path);
        // SAFETY: - the caller's promise.
        unsafe { self.fill_by(into, byte, len, path, streams) };
        // ORDER: the stored bytes are durable, and visible, before the call returns.
        self.drain();
    }

    /// Returns true if a copy of `len` bytes goes past the cache, from `stream_min` on where the length decides.
    #[inline]
    fn streams(&self, len: usize, path: CopyPath) -> bool {
        match path {
            CopyPath::ByLength => self.is_flushing && len >= self.stream_min,
            CopyPath::WriteCombining => self.is_flushing && self.stream_min != usize::MAX,
            CopyPath::PastCache => self.stream_min != usize::MAX,
            CopyPath::ThroughCache | CopyPath::Unflushed => false,
        }
    }

    /// Orders lines past the cache before later stores, where the program may not fence: its stores through the cache are
    /// durable without a flush, or in order by CLFLUSH.
    #[inline]
    fn order_lines(&self, streams: bool) {
        if streams && (!self.is_flushing || self.cpu.flushes_in_order()) {
            // ORDER: the lines are visible, and durable, before any later store of this thread.
            self.cpu.fence();
        }
    }

    /// Copies past the cache if `streams` says so and the ranges don't overlap, and through it otherwise.
    ///
    /// # Safety
    /// As [`copy`](ByAddress::copy).
    #[inline]
    unsafe fn copy_by(&self, into: *mut u8, from: *const u8, len: usize, path: CopyPath, streams: bool) {
        if streams && into.addr().abs_diff(from.addr()) >= len {
            // SAFETY: - the caller's promise. The ranges don't overlap.
            return unsafe { self.stream(into, from, len) };
        }
        if into.cast_const() == from && self.stream_min != usize::MAX {
            return;
        }
        // SAFETY: - the caller's promise.
        unsafe { libc::memmove(into.cast(), from.cast(), len) };
        if path != CopyPath::Unflushed {
            // SAFETY: - the caller's promise.
            unsafe { self.flush(into, len) };
        }
    }

    /// Fills past the cache if `streams` says so, and through it otherwise.
    ///
    /// # Safety
    /// As [`fill`](ByAddress::fill).
    #[inline]
    unsafe fn fill_by(&self, into: *mut u8, byte: u8, len: usize, path: CopyPath, streams: bool) {
        if streams {
            let pattern = [byte; FILL];
            let mut at = 0;
            while at < len {
                let place = into.wrapping_add(at);
                // The next part begins at a line.
                let part = (FILL - place.addr() % LINE as usize).min(len - at);
                // SAFETY: - the caller's promise, and the pattern is at least as long as a part.
                unsafe { self.stream(place, pattern.as_ptr(), part) };
                at += part;
            }
            return;
        }
        // SAFETY: - the caller's promise.
        unsafe { libc::memset(into.cast(), byte.into(), len) };
        if path != CopyPath::Unflushed {
            // SAFETY: - the caller's promise.
            unsafe { self.flush(into, len) };
        }
    }

    /// Copies the whole lines past the cache, and the ends through it.
    ///
    /// # Safety
    /// As [`copy`](ByAddress::copy). The ranges don't overlap.
    #[inline]
    unsafe fn stream(&self, into: *mut u8, from: *const u8, len: usize) {
        const LINE_LEN: usize = LINE as usize;
        let head = (into.addr().wrapping_neg() % LINE_LEN).min(len);
        let lines = (len - head) / LINE_LEN;
        if head != 0 {
            // SAFETY: - the part before the first whole line.
            unsafe { self.store(into, from, head) };
        }
        let (into, from) = (into.wrapping_add(head), from.wrapping_add(head));
        if lines != 0 {
            // SAFETY: - the whole lines, which begin at a line.
            unsafe { self.cpu.copy_lines(into, from, lines) };
        }
        let tail = len - head - lines * LINE_LEN;
        if tail != 0 {
            let at = lines * LINE_LEN;
            // SAFETY: - the part after the last whole line.
            unsafe { self.store(into.wrapping_add(at), from.wrapping_add(at), tail) };
        }
    }

    /// Copies through the cache and flushes.
    ///
    /// # Safety
    /// As [`stream`](ByAddress::stream).
    #[inline]
    unsafe fn store(&self, into: *mut u8, from: *const u8, len: usize) {
        // SAFETY: - the caller's promise.
        unsafe { libc::memcpy(into.cast(), from.cast(), len) };
        // SAFETY: - the caller's promise.
        unsafe { self.flush(into, len) };
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const PATHS: [CopyPath; 5] = [
        CopyPath::ByLength,
        CopyPath::WriteCombining,
        CopyPath::PastCache,
        CopyPath::ThroughCache,
        CopyPath::Unflushed,
    ];

    fn instructions() -> Vec<ByAddress> {
        let cpu = Cpu::without("").unwrap();
        vec![
            ByAddress::new(cpu),
            ByAddress::new(Cpu::oldest()).streaming_from(0),
            ByAddress::new(cpu).streaming_from(0).without_flush(),
            ByAddress::new(cpu).streaming_from(usize::MAX).without_flush(),
        ]
    }

    #[test]
    fn copies_equal_memmove() {
        let start: Vec<u8> = (0..1200u32).map(|index| (index * 7 + index / 256) as u8).collect();
        for by_address in instructions() {
            for path in PATHS {
                for (into, from) in [(0, 600), (600, 0), (3, 601), (64, 128), (128, 64), (77, 70), (70, 77)] {
                    for len in (0..200).chain([255, 256, 257, 500, 511, 512, 513, 570]) {
                        let mut wanted = start.clone();
                        wanted.copy_within(from..from + len, into);
                        for drains in [false, true] {
                            let mut bytes = start.clone();
                            let place = bytes.as_mut_ptr().wrapping_add(into);
                            let from = bytes.as_ptr().wrapping_add(from);
                            if drains {
                                // SAFETY: - both ranges lie inside of the vector.
                                unsafe { by_address.copy_and_drain(place, from, len, path) };
                            } else {
                                // SAFETY: - as above.
                                unsafe { by_address.copy(place, from, len, path) };
                                by_address.drain();
                            }
                            assert!(bytes == wanted, "{by_address:?} {path:?}: {len} into {into}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn fills_equal_memset() {
        for by_address in instructions() {
            for path in PATHS {
                for at in [0, 1, 63, 64, 65] {
                    for len in (0..200).chain([255, 256, 1023, 1024, 1025, 2100]) {
                        let mut wanted = vec![1; 2300];
                        wanted[at..at + len].fill(0xab);
                        for drains in [false, true] {
                            let mut bytes = vec![1; 2300];
                            let place = bytes.as_mut_ptr().wrapping_add(at);
                            if drains {
                                // SAFETY: - the range lies inside of the vector.
                                unsafe { by_address.fill_and_drain(place, 0xab, len, path) };
                            } else {
                                // SAFETY: - as above.
                                unsafe { by_address.fill(place, 0xab, len, path) };
                                by_address.drain();
                            }
                            assert!(bytes == wanted, "{by_address:?} {path:?}: {len} at {at}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_cpus_with_flushes_reach_persistence() {
        let oldest = ByAddress::new(Cpu::oldest());
        assert_eq!(oldest.reaches_persistence(), cfg!(all(target_arch = "x86_64", not(miri))));
        assert!(oldest.without_flush().reaches_persistence());
    }

    #[test]
    fn flush_of_wrapping_length_does_nothing() {
        for by_address in instructions() {
            // SAFETY: - nothing is flushed.
            unsafe { by_address.flush(std::ptr::without_provenance(usize::MAX - 63), 128) };
            // SAFETY: - nothing is flushed.
            unsafe { by_address.deep_flush(std::ptr::without_provenance(usize::MAX - 63), 128) };
            // SAFETY: - nothing is flushed.
            unsafe { by_address.deep_flush(std::ptr::null(), 0) };
        }
    }
}
