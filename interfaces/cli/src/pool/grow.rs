//! `lode pool grow`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::pool::size;
use crate::progress::Progress;
use clap::Args;
use lode_heap::Pool;
use lode_pool::{Access, OpenOptions};
use std::path::PathBuf;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("size_before", "its size in bytes before"),
    ("size", "its size in bytes now"),
];

#[derive(Args, Debug)]
pub(crate) struct Grow {
    /// The pool's file
    path: PathBuf,
    /// New size of the pool: 1GiB, 1G, 1GB, or a number of bytes
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size: u64,
}

pub(crate) fn run(grow: &Grow, durability: DurabilityOption) -> Result<Output, Failure> {
    let options = OpenOptions { durability: durability.forced(), ..OpenOptions::new(Access::ReadWrite) };
    let _progress = Progress::spinner("growing the pool");
    let grown = Pool::open(&grow.path, &options).and_then(|pool| {
        let before = pool.header().geometry.size();
        let grown = pool.grow(grow.size);
        let after = pool.header().geometry.size();
        // Also after a failure: from here on no writer has the pool open.
        let closed = pool.close();
        grown.and(closed).map(|()| (before, after))
    });
    let (before, after) =
        grown.map_err(|error| Failure::of_pool("growing a pool", &grow.path)(error.into()))?;
    let text = format!("{}: grown from {} to {}\n", grow.path.display(), size(before), size(after));
    Ok(Output::text(text)
        .with("path", grow.path.display().to_string())
        .with("size_before", before)
        .with("size", after))
}
