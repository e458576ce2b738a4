//! `lode volume import`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::volume::{STREAM, failed, transfer};
use clap::Args;
use lode_pool::Access;
use lode_volume::{BlockDevice, Source, Volume};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
            self.interrupt.wait_for(&self.file, PollFlags::IN)?;
            match self.file.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == STREAM {
        return io::stdin().as_fd().try_clone_to_owned().map(|stdin: OwnedFd| stdin.into());
    }
    // A named pipe opens at once, without a writer; poll waits for it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
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
