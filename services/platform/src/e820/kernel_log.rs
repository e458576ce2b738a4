//! Reader of this machine's kernel log.

use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Path of the kernel's log.
pub const KERNEL_LOG: &str = "/dev/kmsg";
/// Size of the largest record of the kernel's log, in bytes.
const RECORD: usize = 8192;

/// Reads this machine's kernel log, except overwritten records. Each line is a record.
///
/// # Errors
/// Fails if a system call fails. With `kernel.dmesg_restrict` set, only root may read the log.
pub fn kernel_log() -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut log = OpenOptions::new().read(true).custom_flags(flags).open(KERNEL_LOG)?;
    let (mut text, mut record) = (Vec::new(), [0; RECORD]);
    loop {
        match log.read(&mut record) {
            Ok(0) => return Ok(text),
            Ok(len) => text.extend_from_slice(&record[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(text),
            // The kernel dropped records before they were read. The next read continues after them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
}
