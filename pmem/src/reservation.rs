//! Address space held for a mapping, so that it can grow without moving.

use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

/// Bytes of a page, the unit of mapping.
pub(crate) fn page() -> usize {
    rustix::param::page_size()
}

/// A range of address space that is ours until drop. What is not yet opened in it can't be accessed.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: - address space belongs to the process, not to a thread.
unsafe impl Send for Reservation {}
// SAFETY: - nothing here accesses the memory through `&self`.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// `size` bytes, all of them zeroed memory of this process.
    pub(crate) fn opened(size: usize) -> io::Result<Reservation> {
        Reservation::map(size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    /// `size` bytes at a multiple of `align` (a power of two), nothing of it open.
    pub(crate) fn closed(size: usize, align: usize) -> io::Result<Reservation> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let padded = size.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let wide = Reservation::map(padded, ProtFlags::empty(), flags)?;
        let before = wide.base.as_ptr().addr().next_multiple_of(align) - wide.base.as_ptr().addr();
        let narrow = Reservation { base: wide.at(before), size };
        // The pieces at both ends go back; `narrow` owns what is between.
        std::mem::forget(wide);
        unmap(narrow.base.as_ptr().wrapping_sub(before), before);
        unmap(narrow.base.as_ptr().wrapping_add(size), padded - size - before);
        Ok(narrow)
    }

    fn map(size: usize, protection: ProtFlags, flags: MapFlags) -> io::Result<Reservation> {
        // SAFETY: - a null hint lets the kernel choose, so no existing mapping is replaced.
        let base = unsafe { mm::mmap_anonymous(ptr::null_mut(), size, protection, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Reservation { base, size })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.size);
        // SAFETY: - inside the reservation, or one past its end, as just checked.
        unsafe { self.base.add(offset) }
    }

    /// Opens a range, in whole pages, as zeroed memory of this process.
    pub(crate) fn open_anonymous(&self, pages: Range<usize>) -> io::Result<()> {
        assert!(pages.start <= pages.end && pages.end <= self.size);
        let place = self.at(pages.start).as_ptr().cast();
        // SAFETY: - the range is ours, as just checked, and held nothing.
        unsafe { mm::mprotect(place, pages.len(), MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Opens a range, in whole pages, as the bytes of `file` from `offset` on.
    pub(crate) fn open_file(
        &self,
        pages: Range<usize>,
        file: BorrowedFd<'_>,
        offset: u64,
        flags: MapFlags,
    ) -> io::Result<()> {
        assert!(pages.start <= pages.end && pages.end <= self.size);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let place = self.at(pages.start).as_ptr().cast();
        // SAFETY: - the range is ours, as just checked, and what is replaced held nothing: callers open each
        //           page once.
        unsafe { mm::mmap(place, pages.len(), protection, flags | MapFlags::FIXED, file, offset) }?;
        Ok(())
    }

    /// Keeps the range out of the children that this process forks.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        let place = self.base.as_ptr().cast();
        // SAFETY: - the advice changes nothing in this process.
        unsafe { mm::madvise(place, self.size, mm::Advice::LinuxDontFork) }?;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        unmap(self.base.as_ptr(), self.size);
    }
}

fn unmap(place: *mut u8, size: usize) {
    if size == 0 {
        return;
    }
    // SAFETY: - callers own the range, and nobody can hold a reference into it past this point.
    let unmapped = unsafe { mm::munmap(place.cast(), size) };
    debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
}
