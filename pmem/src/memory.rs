//! Mapped bytes at a fixed address, and the loads and stores that can't go wrong silently.

use crate::{Fault, FaultKind};
use lode_layout::PoolOffset;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A range of mapped memory. All accesses are checked; one that can't be done raises a [`Fault`] of the
/// calling thread, loads zeros and stores nothing.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: u64,
}

// SAFETY: - the mapping belongs to no thread.
//         - every access goes through atomics.
unsafe impl Send for Memory {}
// SAFETY: as for Send.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroed memory of `len` bytes that no file backs.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn anonymous(len: u64) -> io::Result<Memory> {
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: - a null hint lets the kernel choose, so no existing mapping is replaced.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { base, len })
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The aligned word at `at`, acquired from whoever stored it. Media are little-endian.
    #[inline]
    pub fn load8(&self, at: PoolOffset) -> u64 {
        // ORDER: pairs with the release of `store8`: what was stored before the word is visible with it.
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The byte at `at`.
    #[inline]
    pub fn load1(&self, at: PoolOffset) -> u8 {
        // ORDER: as in `load8`.
        self.byte(at).map_or(0, |byte| byte.load(Ordering::Acquire))
    }

    /// Copies the range that begins at `at` into `into`.
    #[inline]
    pub fn read(&self, at: PoolOffset, into: &mut [u8]) {
        for (index, byte) in into.iter_mut().enumerate() {
            *byte = self.load1(at.plus(index as u64));
        }
    }

    /// Whether the range that begins at `at` holds exactly `bytes`.
    #[inline]
    pub fn equals(&self, at: PoolOffset, bytes: &[u8]) -> bool {
        bytes.iter().enumerate().all(|(index, byte)| self.load1(at.plus(index as u64)) == *byte)
    }

    /// Stores an aligned word atomically, releasing what was stored before. For implementers of `Medium`.
    #[inline]
    pub fn store8(&self, at: PoolOffset, value: u64) {
        if let Some(word) = self.word(at) {
            // ORDER: pairs with the acquire of `load8`.
            word.store(value, Ordering::Release);
        }
    }

    /// Stores bytes, aligned words inside atomically. For implementers of `Medium`.
    #[inline]
    pub fn store(&self, at: PoolOffset, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            if let Some(place) = self.byte(at.plus(index as u64)) {
                // ORDER: as in `store8`.
                place.store(*byte, Ordering::Release);
            }
        }
    }

    /// Replaces an aligned word if it is `current`. For implementers of `Medium`.
    ///
    /// # Errors
    /// The word found, when it was not `current`.
    #[inline]
    pub fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        // ORDER: a bit that is set or cleared is ordered with the loads and stores around it, both ways.
        self.word(at).map_or(Ok(current), |word| {
            word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
        })
    }

    /// Lends the range that begins at `at`.
    ///
    /// # Errors
    /// The range is not inside the memory.
    ///
    /// # Safety
    /// Nobody stores to the range while the slice lives.
    #[inline]
    pub unsafe fn lend(&self, at: PoolOffset, len: u64) -> Result<&[u8], Fault> {
        let end = at.get().checked_add(len).filter(|end| *end <= self.len);
        let (Some(_), Ok(size)) = (end, usize::try_from(len)) else {
            return Err(Fault { kind: FaultKind::OutOfRange, at, len });
        };
        // SAFETY: - the range was checked against the mapped length.
        let start = unsafe { self.base.add(at.get() as usize) };
        // SAFETY: - the range is mapped and initialised; the caller keeps stores away while it is lent.
        Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), size) })
    }

    #[inline]
    fn word(&self, at: PoolOffset) -> Option<&AtomicU64> {
        // An unaligned offset turns into a huge one when rotated, so one comparison checks both.
        if self.len < 8 || at.get().rotate_right(3) > (self.len - 8) >> 3 {
            Fault { kind: FaultKind::OutOfRange, at, len: 8 }.raise();
            return None;
        }
        // SAFETY: - the whole word lies inside the mapping, by the comparison above.
        let place = unsafe { self.base.add(at.get() as usize) };
        // SAFETY: - it is aligned to 8, by the same comparison, since mappings begin at a page.
        //         - all other accesses are atomic too, or to ranges lent while nobody stores.
        Some(unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) })
    }

    #[inline]
    fn byte(&self, at: PoolOffset) -> Option<&AtomicU8> {
        if at.get() >= self.len {
            Fault { kind: FaultKind::OutOfRange, at, len: 1 }.raise();
            return None;
        }
        // SAFETY: - the byte lies inside the mapping, by the comparison above.
        let place = unsafe { self.base.add(at.get() as usize) };
        // SAFETY: - all other accesses are atomic too, or to ranges lent while nobody stores.
        Some(unsafe { AtomicU8::from_ptr(place.as_ptr()) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: - the range is the one that was mapped, and nobody can hold a reference past this point.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len as usize) };
        debug_assert!(unmapped.is_ok());
    }
}
