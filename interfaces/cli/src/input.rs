//! The input of a command: a file, a pipe or a terminal, which a signal can end while it waits.

use crate::interrupt::Interrupt;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The word on the command line for standard input and output.
pub(crate) const STREAM: &str = "-";

/// The input, which a signal can end while it waits.
pub(crate) struct Input<'i> {
    file: File,
    interrupt: &'i Interrupt,
}

impl Input<'_> {
    /// Opens the file at `path`, or standard input.
    pub(crate) fn open<'i>(path: &Path, interrupt: &'i Interrupt) -> io::Result<Input<'i>> {
        let file = if path.as_os_str() == STREAM {
            io::stdin().as_fd().try_clone_to_owned().map(|stdin: OwnedFd| stdin.into())?
        } else {
            // A named pipe opens at once, without a writer; poll waits for it.
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            OpenOptions::new().read(true).custom_flags(flags).open(path)?
        };
        Ok(Input { file, interrupt })
    }

    /// Returns the number of bytes from the current offset on, if it is known.
    pub(crate) fn len(&mut self) -> io::Result<Option<u64>> {
        let kind = self.file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Ok(None);
        }
        let (here, end) = (self.file.stream_position()?, self.file.seek(SeekFrom::End(0))?);
        self.file.seek(SeekFrom::Start(here))?;
        Ok(Some(end.saturating_sub(here)))
    }
}

impl Read for Input<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.interrupt.wait_for(&self.file, PollFlags::IN)?;
            match self.file.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}
