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
    ("size_max", "the size in bytes up to which it grows by itself, or null"),
];

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct Sizes {
    /// New size of the pool: 1GiB, 1G, 1GB, or a number of bytes
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size: Option<u64>,
    /// New size up to which the pool grows by itself
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size_max: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Grow {
    /// The pool's file
    path: PathBuf,
    #[command(flatten)]
    sizes: Sizes,
}

pub(crate) fn run(grow: &Grow, durability: DurabilityOption) -> Result<Output, Failure> {
    let options = OpenOptions {
        durability: durability.forced(),
        grow_to: grow.sizes.size,
        ..OpenOptions::new(Access::ReadWrite)
    };
    let _progress = Progress::spinner("growing the pool");
    let grown = Pool::open(&grow.path, &options).and_then(|pool| {
        let before = pool.header().geometry.size();
        let Sizes { size, size_max } = grow.sizes;
        let grown = size.map_or(Ok(()), |size| pool.grow(size));
        let grown = grown.and_then(|()| match size_max {
            Some(_) => Ok(pool.file().set_size_max(size_max)?),
            None => Ok(()),
        });
        let after = pool.header();
        // Also after a failure: from here on no writer has the pool open.
        let closed = pool.close();
        grown.and(closed).map(|()| (before, after))
    });
    let (before, after) =
        grown.map_err(|error| Failure::of_pool("growing a pool", &grow.path)(error.into()))?;
    let (after, size_max) = (after.geometry.size(), after.size_max);
    let by_itself = if grow.sizes.size_max.is_some() {
        format!(", grows by itself to {}", size(size_max))
    } else {
        String::new()
    };
    let text =
        format!("{}: grown from {} to {}{by_itself}\n", grow.path.display(), size(before), size(after));
    Ok(Output::text(text)
        .with("path", grow.path.display().to_string())
        .with("size_before", before)
        .with("size", after)
        .with("size_max", (size_max > 0).then_some(size_max)))
}
