//! `lode volume import`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::volume::{STREAM, failed, transfer};
use clap::Args;
use lode_pool::Access;
use lode_volume::{BlockDevice, Source, Volume};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Longest wait for a pipe before a signal is noticed.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the volume"),
    ("file", "path of the input, or -"),
    ("blocks", "number of blocks that were written"),
    ("bytes", "number of bytes that were written"),
];

#[derive(Args, Debug)]
pub(crate) struct Import {
    /// The volume
    path: PathBuf,
    /// The input, as long as the volume's blocks; - for standard input
    file: PathBuf,
}

/// The input, which a signal can end while it waits.
struct Input<'i> {
    file: File,
    interrupt: &'i Interrupt,
}

impl Input<'_> {
    /// Returns the number of bytes from the current offset on, if it is known.
    fn len(&mut self) -> io::Result<Option<u64>> {
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
            if self.interrupt.is_set() {
                return Err(io::Error::other("reading was stopped"));
            }
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&POLL_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                // If the kernel can't tell, the read will.
                Ok(_) | Err(_) => return self.file.read(into),
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == STREAM {
        return io::stdin().as_fd().try_clone_to_owned().map(|stdin: OwnedFd| stdin.into());
    }
    File::open(path)
}

pub(crate) fn run(import: &Import, durability: DurabilityOption) -> Result<Output, Failure> {
    let what = "importing into a volume";
    let Import { path, file } = import;
    let interrupt = Interrupt::listen()?;
    let refused = |error: io::Error| Failure::io(what, file, &error);
    let mut input = Input { file: open(file).map_err(refused)?, interrupt: &interrupt };
    let len = input.len().map_err(refused)?;
    let volume = Volume::open(path, Access::ReadWrite, durability.forced()).map_err(failed(what))?;
    let bytes = volume.capacity();
    let blocks = volume.block_count();
    let imported = transfer(what, path, bytes, &interrupt, |watch| {
        lode_volume::import(&volume, Source { reader: &mut input, len }, watch)
    });
    let closed = volume.close().map_err(failed(what));
    imported.and(closed)?;
    let text = format!("{}: {blocks} blocks, {bytes} bytes\n", path.display());
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("file", file.display().to_string())
        .with("blocks", blocks)
        .with("bytes", bytes))
}
