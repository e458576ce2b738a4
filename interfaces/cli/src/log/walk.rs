//! `lode log walk`.

use crate::failure::Failure;
use crate::log::reader::{Printer, Reader};
use crate::output::Output;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Walk {
    /// The log
    path: PathBuf,
    /// Begin at this position, which an append or a walk has printed [default: the first record]
    #[arg(long, value_name = "POSITION")]
    from: Option<u64>,
}

pub(crate) fn run(walk: &Walk, json: bool) -> Result<Output, Failure> {
    let mut reader = Reader::open("walking a log", &walk.path, json)?;
    if let Some(position) = walk.from {
        reader.seek(position)?;
    }
    let mut printer = Printer::new(json);
    while let Some(record) = reader.next(true)? {
        printer.print(&record)?;
    }
    printer.flush()?;
    reader.finish()?;
    Ok(Output::empty())
}
