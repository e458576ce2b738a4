//! Reading the log of this machine's kernel.

use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Where the kernel's log is read.
pub const KERNEL_LOG: &str = "/dev/kmsg";
/// Bytes that a record of the kernel's log takes at most.
const RECORD: usize = 8192;

/// The log of this machine's kernel, as far as it has not been overwritten: a record for each line.
///
/// # Errors
/// The kernel refuses: where `kernel.dmesg_restrict` is set, to all but root.
pub fn kernel_log() -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut log = OpenOptions::new().read(true).custom_flags(flags).open(KERNEL_LOG)?;
    let (mut text, mut record) = (Vec::new(), [0; RECORD]);
    loop {
        match log.read(&mut record) {
            Ok(0) => return Ok(text),
            Ok(len) => text.extend_from_slice(&record[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(text),
            // Records were dropped while this one was awaited: the next read goes on behind them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
}
