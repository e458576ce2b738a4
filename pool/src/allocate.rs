//! Allocation of space for a file.

use crate::PoolError;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Makes the file at least `len` bytes long and allocates space on the device for every byte. So a full disk is found
/// now, not by a store to a mapping.
///
/// # Errors
/// [`PoolError::Io`]; the file then has its old length.
pub(crate) fn allocate(file: &File, len: u64) -> Result<(), PoolError> {
    let failed = |errno| PoolError::io("allocate", errno);
    let old_len = file.metadata().map_err(PoolError::std("stat"))?.len();
    let allocated = match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, old_len, len),
        other => other.map_err(failed),
    };
    if allocated.is_err() {
        // Give back the space that was allocated before the disk was full. If even that fails, the file is only longer
        // than the pool in it, which is no damage.
        let _ = file.set_len(old_len);
    }
    allocated
}

fn write_zeros(file: &File, from: u64, to: u64) -> Result<(), PoolError> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut done = from;
    while done < to {
        let step = (to - done).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..step as usize], done).map_err(PoolError::std("allocate"))?;
        done += step;
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn allocated_without_the_help_of_the_file_system() {
        let file = tempfile::tempfile().unwrap();
        write_zeros(&file, 0, 200_001).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 200_001);
    }
}
