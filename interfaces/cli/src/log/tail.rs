//! `lode log tail`.

use crate::failure::Failure;
use crate::log::reader::{Printer, Reader};
use crate::output::Output;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

/// Time between two looks for records that were appended.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

#[derive(Args, Debug)]
pub(crate) struct Tail {
    /// The log
    path: PathBuf,
    /// Number of records
    #[arg(short = 'n', long = "records", value_name = "N", default_value = "10")]
    records: usize,
    /// Print records that are appended later, too, also by other processes
    #[arg(short, long)]
    follow: bool,
}

pub(crate) fn run(tail: &Tail, json: bool) -> Result<Output, Failure> {
    let mut reader = Reader::open("reading the end of a log", &tail.path, json)?;
    let mut last = VecDeque::new();
    while let Some(record) = reader.next(!tail.follow)? {
        last.push_back(record);
        if last.len() > tail.records {
            last.pop_front();
        }
    }
    let mut printer = Printer::new(json);
    last.iter().try_for_each(|record| printer.print(record))?;
    printer.flush()?;
    if !tail.follow {
        reader.finish()?;
        return Ok(Output::empty());
    }
    loop {
        while let Some(record) = reader.next(false)? {
            printer.print(&record)?;
        }
        printer.flush()?;
        if is_reader_gone() {
            return Err(Failure::stdout(io::ErrorKind::BrokenPipe.into()));
        }
    }
}

/// Waits a while. Returns true if no process reads standard output any more.
fn is_reader_gone() -> bool {
    let out = io::stdout();
    let mut files = [PollFd::new(&out, PollFlags::empty())];
    // If the kernel can't tell, the next write will.
    poll(&mut files, Some(&PAUSE)).is_ok_and(|_| files[0].revents().contains(PollFlags::ERR))
}
