//! Mappings that a program places at addresses that it has reserved: the way of libpmem2.
//!
//! A reservation is inaccessible memory of the process. A view takes a part of it, and the part is reserved again when the
//! view is gone, so no other mapping takes its addresses in between.

use crate::mapping::map_sync_accepted;
use crate::reservation::page;
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

const LARGE_PAGE: usize = 2 << 20;
const HUGE_PAGE: usize = 1 << 30;

/// The bytes that a view shows.
#[derive(Clone, Copy, Debug)]
pub enum ProgramContent<'a> {
    /// A file or a device-DAX node, from `off` bytes on.
    File {
        /// The descriptor.
        file: BorrowedFd<'a>,
        /// First byte.
        off: u64,
    },
    /// Zeroed memory.
    Anonymous,
}

/// The accesses that a view allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramAccess {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Execution.
    pub execute: bool,
}

/// A view to be mapped.
#[derive(Clone, Copy, Debug)]
pub struct ProgramView<'a> {
    /// The bytes.
    pub content: ProgramContent<'a>,
    /// Their number.
    pub len: usize,
    /// The accesses that it allows.
    pub access: ProgramAccess,
    /// True if stores stay in this process.
    pub is_private: bool,
}

impl ProgramView<'_> {
    /// Maps the view at `start`. Returns true if the kernel maps persistent memory directly: it accepted MAP_SYNC.
    ///
    /// # Errors
    /// The error of mmap(2): EACCES if the descriptor is not open for the accesses. The reservation stays.
    ///
    /// # Safety
    /// The caller has reserved these addresses, in whole pages, and uses none of them.
    pub unsafe fn map_at(&self, start: usize) -> io::Result<bool> {
        if self.is_private {
            // SAFETY: - the caller's promise.
            unsafe { self.map(start, MapFlags::PRIVATE) }?;
            return Ok(false);
        }
        let is_accepted = match self.content {
            ProgramContent::File { file, off } => map_sync_accepted(file, self.protection(), self.len, off)?,
            ProgramContent::Anonymous => false,
        };
        let flags = if is_accepted { MapFlags::SHARED_VALIDATE | MapFlags::SYNC } else { MapFlags::SHARED };
        // SAFETY: - as above.
        unsafe { self.map(start, flags) }?;
        Ok(is_accepted)
    }

    fn protection(&self) -> ProtFlags {
        let mut protection = ProtFlags::empty();
        protection.set(ProtFlags::READ, self.access.read);
        protection.set(ProtFlags::WRITE, self.access.write);
        protection.set(ProtFlags::EXEC, self.access.execute);
        protection
    }

    /// Maps with these flags.
    ///
    /// # Safety
    /// As [`map_at`](ProgramView::map_at).
    unsafe fn map(&self, start: usize, flags: MapFlags) -> rustix::io::Result<()> {
        let (place, flags) = (ptr::without_provenance_mut(start), flags | MapFlags::FIXED);
        let protection = self.protection();
        match self.content {
            ProgramContent::File { file, off } => {
                // SAFETY: - the caller has reserved the addresses, and uses none of them.
                unsafe { mm::mmap(place, self.len, protection, flags, file, off) }
            }
            ProgramContent::Anonymous => {
                // SAFETY: - as above.
                unsafe { mm::mmap_anonymous(place, self.len, protection, flags) }
            }
        }
        .map(drop)
    }
}

/// Returns the alignment of a mapping of `len` bytes that allows large pages, at least `least`.
pub fn program_align(len: usize, least: usize) -> usize {
    let align = if len >= 2 * HUGE_PAGE { HUGE_PAGE } else { LARGE_PAGE };
    align.max(least)
}

/// Reserves `len` bytes, in whole pages: at `start`, or at a multiple of `align`, a power of two. Returns the first address.
///
/// # Errors
/// EEXIST if there is a mapping at these addresses, ENOMEM if the process has too few addresses.
pub fn reserve_program(start: Option<usize>, len: usize, align: usize) -> io::Result<usize> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let reserve = |hint: usize, len: usize, flags: MapFlags| {
        // SAFETY: - without MAP_FIXED no existing mapping is replaced.
        unsafe { mm::mmap_anonymous(ptr::without_provenance_mut(hint), len, ProtFlags::empty(), flags) }
            .map(|place| place.addr())
    };
    let len = len.checked_next_multiple_of(page()).ok_or(Errno::NOMEM)?;
    if let Some(start) = start {
        let place = reserve(start, len, flags | MapFlags::FIXED_NOREPLACE)?;
        if place == start {
            return Ok(start);
        }
        // A kernel older than the flag takes the address for a hint.
        unmap(place, len)?;
        return Err(Errno::EXIST.into());
    }
    let wide = len.checked_add(align).ok_or(Errno::NOMEM)?;
    let place = reserve(0, wide, flags)?;
    let aligned = place.next_multiple_of(align);
    unmap(place, aligned - place)?;
    unmap(aligned + len, place + wide - aligned - len)?;
    Ok(aligned)
}

/// Reserves `len` bytes at `start` once more, in place of the view there.
///
/// # Errors
/// The error of mmap(2). The view may be gone.
///
/// # Safety
/// The addresses belong to a reservation of the caller, which uses none of them any more.
pub unsafe fn reserve_program_again(start: usize, len: usize) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    let place = ptr::without_provenance_mut(start);
    // SAFETY: - the caller's promise.
    unsafe { mm::mmap_anonymous(place, len, ProtFlags::empty(), flags) }?;
    Ok(())
}

/// Unmaps a part of a reservation that was made just now.
fn unmap(start: usize, len: usize) -> rustix::io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: - `reserve_program` made the mapping, and no one has got its address.
    unsafe { mm::munmap(ptr::without_provenance_mut(start), len) }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::unmap_program;
    use std::io::Write;
    use std::os::fd::AsFd;

    const ACCESS: ProgramAccess = ProgramAccess { read: true, write: true, execute: false };

    #[test]
    fn reservations_are_aligned_and_exclusive() {
        for len in [1, 4096, 5 << 20] {
            let start = reserve_program(None, len, LARGE_PAGE).unwrap();
            assert!(start.is_multiple_of(LARGE_PAGE));
            let taken = reserve_program(Some(start), len, LARGE_PAGE).unwrap_err();
            assert_eq!(taken.raw_os_error(), Some(libc::EEXIST));
            // SAFETY: - nothing uses the reservation.
            unsafe { unmap_program(start, len) }.unwrap();
            assert_eq!(reserve_program(Some(start), len, LARGE_PAGE).unwrap(), start);
            // SAFETY: - as above.
            unsafe { unmap_program(start, len) }.unwrap();
        }
        for len in [usize::MAX, usize::MAX - 8191, 1 << 60] {
            let refused = reserve_program(None, len, LARGE_PAGE).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM), "{len}");
        }
        assert_eq!([program_align(1, 4096), program_align(1, 1 << 30)], [LARGE_PAGE, HUGE_PAGE]);
        assert_eq!(program_align(2 * HUGE_PAGE, 4096), HUGE_PAGE);
    }

    #[test]
    fn views_show_their_content() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[[7; 4096], [9; 4096]].concat()).unwrap();
        let content = ProgramContent::File { file: file.as_fd(), off: 4096 };
        for (content, first) in [(content, 9), (ProgramContent::Anonymous, 0)] {
            for is_private in [false, true] {
                let view = ProgramView { content, len: 4096, access: ACCESS, is_private };
                let start = reserve_program(None, 8192, LARGE_PAGE).unwrap();
                // SAFETY: - the addresses are reserved, and nothing uses them.
                assert!(!unsafe { view.map_at(start + 4096) }.unwrap());
                let byte = ptr::with_exposed_provenance_mut::<u8>(start + 4096);
                // SAFETY: - the view begins there.
                assert_eq!(unsafe { byte.read() }, first);
                // SAFETY: - as above.
                unsafe { byte.write(9) };
                // SAFETY: - nothing uses the view any more.
                unsafe { reserve_program_again(start + 4096, 4096) }.unwrap();
                // SAFETY: - as above.
                unsafe { unmap_program(start, 8192) }.unwrap();
            }
        }
    }
}
