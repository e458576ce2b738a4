//! Reserved address space of a mapping, in which it can grow without moving.

use rustix::mm::{self, MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

/// Returns the size of a page in bytes, the unit of mapping.
pub(crate) fn page() -> usize {
    rustix::param::page_size()
}

/// A range of address space that this value owns until drop. Only opened parts of it can be accessed.
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
    /// Reserves `size` bytes, all of them open as zeroed memory of this process.
    pub(crate) fn accessible(size: usize) -> io::Result<Reservation> {
        Reservation::map(size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    /// Reserves `size` bytes at a multiple of `align` (a power of two), with no part open.
    pub(crate) fn inaccessible(size: usize, align: usize) -> io::Result<Reservation> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let padded = size.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let wide = Reservation::map(padded, ProtFlags::empty(), flags)?;
        let before = wide.base.as_ptr().addr().next_multiple_of(align) - wide.base.as_ptr().addr();
        let narrow = Reservation { base: wide.at(before), size };
        // The pieces at both ends are unmapped below; `narrow` owns the range between them.
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

    /// Returns the length in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the address of `offset`.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.size);
        // SAFETY: - inside the reservation, or one past its end, as just checked.
        unsafe { self.base.add(offset) }
    }

    /// Opens a range, in whole pages, as zeroed memory of this process.
    pub(crate) fn open_anonymous(&self, pages: Range<usize>) -> io::Result<()> {
        assert!(pages.start <= pages.end && pages.end <= self.size);
        let place = self.at(pages.start).as_ptr().cast();
        // SAFETY: - this value owns the range, as just checked, and the range held no mapping.
        unsafe { mm::mprotect(place, pages.len(), MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Opens a range, in whole pages, as the bytes of `file` from `offset` on.
    pub(crate) fn open_file(
        &self,
        pages: Range<usize>,
        file: BorrowedFd<'_>,
        offset: u64,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<()> {
        assert!(pages.start <= pages.end && pages.end <= self.size);
        let place = self.at(pages.start).as_ptr().cast();
        // SAFETY: - this value owns the range, as just checked. The replaced range held no mapping: callers open each
        //           page once.
        unsafe { mm::mmap(place, pages.len(), protection, flags | MapFlags::FIXED, file, offset) }?;
        Ok(())
    }

    /// Replaces as many open bytes from `start` on with `copy`. A concurrent load sees the old bytes or the new ones.
    ///
    /// # Errors
    /// Fails with the error of mremap(2). After an error the range can't be accessed.
    pub(crate) fn replace(&self, start: usize, copy: Reservation) -> io::Result<()> {
        assert!(start <= self.size && copy.size <= self.size - start);
        let (old, new) = (copy.base.as_ptr().cast(), self.at(start).as_ptr().cast());
        let flags = MremapFlags::MAYMOVE;
        // SAFETY: - the moved pages belong to `copy`, and no reference to them exists.
        //         - this value owns the replaced range, as just checked. The range stays mapped, and the caller
        //           promises that its bytes stay the same.
        let moved = unsafe { mm::mremap_fixed(old, copy.size, copy.size, flags, new) };
        // The former range of the copy belongs to no value now.
        let size = copy.size;
        std::mem::forget(copy);
        moved.map(drop).map_err(|errno| {
            // The kernel may have removed the old bytes already: reserve the range, so that no other mapping takes it.
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            // SAFETY: - this value owns the range, as checked above, and an access to it faults.
            let held = unsafe { mm::mmap_anonymous(new, size, ProtFlags::empty(), flags) };
            if held.is_ok() { errno.into() } else { std::process::abort() }
        })
    }

    /// Tells the kernel that pages of the range are read in no order: it reads no others with them.
    pub(crate) fn expect_random_reads(&self, pages: Range<usize>) -> io::Result<()> {
        assert!(pages.start <= pages.end && pages.end <= self.size);
        let place = self.at(pages.start).as_ptr().cast();
        // SAFETY: - the advice changes no content.
        unsafe { mm::madvise(place, pages.len(), mm::Advice::Random) }?;
        Ok(())
    }

    /// Keeps the range out of the children of a fork.
    pub(crate) fn exclude_from_fork(&self) -> io::Result<()> {
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
    // SAFETY: - callers own the range, and no reference into it can exist past this point.
    let unmapped = unsafe { mm::munmap(place.cast(), size) };
    debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
}
