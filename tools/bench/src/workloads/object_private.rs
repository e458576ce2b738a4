//! obj-private-mib: private memory of a process that has a pool of our libpmemobj open.
//!
//! It makes transactions of a word each, at random in 800 MiB of a pool of 1 GiB. Memory of the program's own is in the figure.

use crate::figure::Figure;
use crate::peers::{Driver, PmemCalls};
use crate::plan::Size;
use crate::private_memory::private_memory;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// The row.
pub(super) const ROW: &str = "obj-private-mib";

/// Runs the row on the libraries in the folder `library`.
pub(super) fn run(library: &Path, size: &Size, folder: &Path) -> Result<Figure> {
    let folder = folder.join("private");
    fs::create_dir(&folder)?;
    let mut calls = PmemCalls::start(Driver::Objects, &folder, Some(library), None)?;
    calls.lap("reopened-make", 0, 0)?;
    calls.lap("reopened-change", size.keys as u64, 1 << 48)?;
    let bytes = private_memory(&calls.process().to_string())?;
    calls.lap("reopened-close", 0, 0)?;
    drop(calls);
    fs::remove_dir_all(&folder)?;
    Ok(Figure { workload: ROW.to_owned(), value: bytes as f64 / f64::from(1 << 20) })
}
