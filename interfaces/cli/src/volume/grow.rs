//! `lode volume grow`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::volume::failed;
use clap::Args;
use std::path::PathBuf;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the volume"),
    ("size_before", "size of its file in bytes before"),
    ("size", "size of its file in bytes now"),
    ("blocks_before", "number of its blocks before"),
    ("blocks", "number of its blocks now"),
];

#[derive(Args, Debug)]
pub(crate) struct Grow {
    /// The volume
    path: PathBuf,
    /// New size of the volume's file: 1GiB, 1G, 1GB, or a number of bytes
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size: u64,
}

pub(crate) fn run(grow: &Grow, durability: DurabilityOption) -> Result<Output, Failure> {
    let progress = Progress::spinner("growing the volume");
    let grown = lode_volume::grow(&grow.path, grow.size, durability.forced());
    let (before, after) = grown.map_err(failed("growing a volume"))?;
    drop(progress);
    let text = format!(
        "{}: grown from {} to {} blocks of {} bytes\n",
        grow.path.display(),
        before.block_count,
        after.block_count,
        after.block_size,
    );
    Ok(Output::text(text)
        .with("path", grow.path.display().to_string())
        .with("size_before", before.size)
        .with("size", after.size)
        .with("blocks_before", before.block_count)
        .with("blocks", after.block_count))
}
