//! Space for files.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Makes the file at least `len` bytes long and allocates space on the device for every byte from `from` on. So a full
/// disk is found now, not by a store to a mapping.
///
/// # Errors
/// Fails with the error of the system call; with EFBIG, and without a signal, if `len` exceeds the process's
/// [limit](file_size_limit). The file then has its old length.
pub fn allocate(file: &File, from: u64, len: u64) -> io::Result<()> {
    let old_len = file.metadata()?.len();
    if len > old_len && file_size_limit().is_some_and(|limit| len > limit) {
        return Err(Errno::FBIG.into());
    }
    let allocated = match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, len - from)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, old_len, len),
        answer => answer.map_err(io::Error::from),
    };
    if allocated.is_err() {
        // Give back the space that was allocated before the disk was full. If even that fails, the file is only longer
        // than the pool in it, which is no damage.
        let _ = file.set_len(old_len);
    }
    allocated
}

/// Gives the space of `len` bytes from `from` on back to the file system. The file keeps its length, and has zeros there.
/// Does nothing on file systems without holes.
///
/// # Errors
/// Fails with the error of the system call.
pub fn deallocate(file: &File, from: u64, len: u64) -> io::Result<()> {
    match punch_hole(file, from, len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        answer => answer.map_err(io::Error::from),
    }
}

/// As [`deallocate`], and fails on file systems without holes.
pub(crate) fn punch_hole(file: &File, from: u64, len: u64) -> rustix::io::Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    retry_on_intr(|| fallocate(file, hole, from, len))
}

/// Returns the length in bytes up to which this process may extend or write files, `ulimit -f`; `None` without a limit.
/// The kernel sends SIGXFSZ, which by default ends the process, at a call that would exceed it.
pub fn file_size_limit() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Extends the file with zeros, on file systems without fallocate.
fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut done = from;
    while done < to {
        let step = (to - done).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..step as usize], done)?;
        done += step;
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn allocation_falls_back_to_zeros() {
        let file = tempfile::tempfile().unwrap();
        write_zeros(&file, 0, 200_001).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 200_001);
    }
}
