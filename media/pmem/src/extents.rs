//! The extents of a file, as its file system tells them (FS_IOC_FIEMAP of linux/fs.h, Documentation/filesystems/fiemap).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// _IOWR('f', 11, struct fiemap).
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
/// FIEMAP_EXTENT_UNKNOWN, _DELALLOC, _ENCODED, _DATA_ENCRYPTED, _NOT_ALIGNED, _DATA_INLINE and _DATA_TAIL: the content
/// does not lie at the physical offset as it is.
const FIEMAP_EXTENT_ELSEWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
/// Number of extents in one request.
const EXTENTS: usize = 64;

/// A range of a file that lies on its device without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset in the file, in bytes.
    pub file_off: u64,
    /// Offset on the device, in bytes.
    pub device_off: u64,
    /// Length in bytes.
    pub len: u64,
}

/// struct fiemap_extent of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    len: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// struct fiemap, with room for the extents of the reply.
#[repr(C)]
struct Fiemap {
    start: u64,
    len: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// Returns the extents of a file whose content lies on the device as it is, in the order of the file. The file system
/// writes what waits in the page cache first.
///
/// # Errors
/// `EOPNOTSUPP` if the file system has no device, as tmpfs.
pub(crate) fn extents(file: BorrowedFd<'_>) -> io::Result<Vec<FileExtent>> {
    let mut all = Vec::new();
    let mut start = 0;
    loop {
        let mut ask = Fiemap {
            start,
            len: u64::MAX - start,
            flags: FIEMAP_FLAG_SYNC,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        // SAFETY: - the request reads and writes a struct fiemap with room for `count` extents, and `ask` is one.
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut ask) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        let got = &ask.extents[..EXTENTS.min(ask.mapped as usize)];
        let in_place = got.iter().filter(|extent| extent.flags & FIEMAP_EXTENT_ELSEWHERE == 0);
        all.extend(in_place.map(|extent| FileExtent {
            file_off: extent.logical,
            device_off: extent.physical,
            len: extent.len,
        }));
        match got.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 && last.len > 0 => {
                start = last.logical.saturating_add(last.len)
            }
            _ => return Ok(all),
        }
    }
}
