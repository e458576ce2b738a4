//! `lode volume export`.

use crate::failure::Failure;
use crate::input::STREAM;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::volume::{failed, transfer};
use clap::Args;
use lode_pmem::NewFile;
use lode_pool::Access;
use lode_volume::{BlockDevice, TransferError, Volume};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a part of a file that stays a hole if it is zero.
const HOLE: usize = 4096;
/// Bytes that a pipe takes at once when poll reports room: PIPE_BUF of Linux.
const PIPE_BUF: usize = 4096;
const WHAT: &str = "exporting a volume";

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the volume"),
    ("file", "path of the new file"),
    ("blocks", "number of blocks"),
    ("bytes", "length of the file in bytes"),
];

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The volume
    path: PathBuf,
    /// A file that does not exist yet; - for standard output
    file: PathBuf,
}

pub(crate) fn run(export: &Export, json: bool) -> Result<Output, Failure> {
    let Export { path, file } = export;
    let is_stream = file.as_os_str() == STREAM;
    if is_stream && json {
        return Err(Failure::usage_error("--json and - both print on standard output; export to a file"));
    }
    let interrupt = Interrupt::listen()?;
    let volume = Volume::open(path, Access::ReadOnly, None).map_err(failed(WHAT))?;
    let bytes = volume.capacity();
    if is_stream {
        transfer(WHAT, path, bytes, &interrupt, |watch| {
            lode_volume::export(&volume, &mut |_, part| write_stdout(part, &interrupt), watch)
        })?;
        return Ok(Output::empty());
    }
    to_file(&volume, path, file, &interrupt)?;
    let text = format!("{}: {bytes} bytes of {}\n", file.display(), path.display());
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("file", file.display().to_string())
        .with("blocks", volume.block_count())
        .with("bytes", bytes))
}

/// Writes a part to standard output. A signal ends it while a reader takes nothing.
fn write_stdout(part: &[u8], interrupt: &Interrupt) -> io::Result<()> {
    let out = io::stdout();
    for piece in part.chunks(PIPE_BUF) {
        let mut rest = piece;
        while !rest.is_empty() {
            interrupt.wait_for(&out, PollFlags::OUT)?;
            match rustix::io::write(&out, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(())
}

/// Copies the content to a new file, which gets its name when it is whole.
fn to_file(volume: &Volume, path: &Path, file: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
    if file.symlink_metadata().is_ok() {
        return Err(Failure::new(
            WHAT,
            format_args!("{}: exists already; choose another name, or remove it first", file.display()),
        ));
    }
    let refused = |error: &io::Error| Failure::io(WHAT, file, error);
    let new = NewFile::create(file).map_err(|error| Failure::new(WHAT, error))?;
    new.file().set_len(volume.capacity()).map_err(|error| refused(&error))?;
    let mut failed = None;
    let copied = transfer(WHAT, path, volume.capacity(), interrupt, |watch| {
        let mut put = |at, part: &[u8]| write_sparse(new.file(), at, part);
        lode_volume::export(volume, &mut put, watch).map_err(|error| match error {
            TransferError::Output(error) => {
                failed = Some(refused(&error));
                TransferError::Output(error)
            }
            error => error,
        })
    });
    // The failure of a file names it, other than that of standard output.
    copied.map_err(|failure| failed.unwrap_or(failure))?;
    new.publish().map_err(|error| Failure::new(WHAT, error))
}

/// Writes a part of a new file, without its pages of zeros.
fn write_sparse(file: &File, at: u64, part: &[u8]) -> io::Result<()> {
    for (index, page) in part.chunks(HOLE).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, at + (index * HOLE) as u64)?;
        }
    }
    Ok(())
}
