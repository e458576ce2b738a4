//! `lode volume import`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::volume::{failed, transfer};
use clap::Args;
use lode_pool::Access;
use lode_volume::{BlockDevice, Source, Volume};
use std::io;
use std::path::PathBuf;

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

pub(crate) fn run(import: &Import, durability: DurabilityOption) -> Result<Output, Failure> {
    let what = "importing into a volume";
    let Import { path, file } = import;
    let interrupt = Interrupt::listen()?;
    let refused = |error: io::Error| Failure::io(what, file, &error);
    let mut input = Input::open(file, &interrupt).map_err(refused)?;
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
