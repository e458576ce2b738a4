//! `lode volume info`.

use crate::failure::Failure;
use crate::output::Output;
use crate::volume::failed;
use bytesize::ByteSize;
use lode_layout::VolumeClass;
use lode_volume::VolumeInfo;
use std::path::Path;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the volume"),
    ("format", "its format: btt, btt2, pmemblk, atomic or raw"),
    ("class", "its class: block or dax"),
    ("uuid", "its identity"),
    ("size", "size of the file in bytes"),
    ("block_size", "size of a block in bytes, with its metadata"),
    ("blocks", "number of blocks"),
    ("capacity", "bytes of all blocks, which import and export copy"),
    (
        "data_off",
        "offset of block 0 in the file, in bytes, where programs map a volume of class dax; null in formats that move their blocks",
    ),
    ("arenas", "number of arenas of a table, or null"),
    ("lanes", "number of writes that run at once in an arena, or null"),
    ("in_use", "whether another process has it open for writing"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let info = lode_volume::info(path).map_err(failed("reading a volume"))?;
    let state = match (info.is_in_use, &info.holder) {
        (false, _) => "not in use".to_owned(),
        (true, Some(holder)) => format!("in use by {holder}"),
        (true, None) => "in use".to_owned(),
    };
    let mut rows = vec![
        ("path", path.display().to_string()),
        ("format", info.format.to_string()),
        ("class", class_name(info.class).to_owned()),
        ("uuid", info.uuid.to_string()),
        ("size", size(info.size)),
        ("blocks", format!("{} of {} bytes", info.block_count, info.block_size)),
        ("capacity", size(info.capacity())),
        (
            "block 0",
            match info.data_off {
                Some(off) => format!("at {off:#x}"),
                None => "at no fixed place: a write moves its block".to_owned(),
            },
        ),
        ("state", state),
    ];
    if let (Some(arenas), Some(lanes)) = (info.arenas, info.lanes) {
        rows.push(("arenas", format!("{arenas}, each with {lanes} lanes")));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let text: String = rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect();
    Ok(describe(Output::text(text), path, &info))
}

/// Formats a number of bytes in human-readable form.
fn size(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", ByteSize::b(bytes))
}

/// Returns the name of a class on the command line.
pub(super) fn class_name(class: VolumeClass) -> &'static str {
    match class {
        VolumeClass::Block => "block",
        VolumeClass::Dax => "dax",
    }
}

/// Adds the fields of a volume.
pub(super) fn describe(output: Output, path: &Path, info: &VolumeInfo) -> Output {
    output
        .with("path", path.display().to_string())
        .with("format", info.format.name())
        .with("class", class_name(info.class))
        .with("uuid", info.uuid.to_string())
        .with("size", info.size)
        .with("block_size", info.block_size)
        .with("blocks", info.block_count)
        .with("capacity", info.capacity())
        .with("data_off", info.data_off)
        .with("arenas", info.arenas)
        .with("lanes", info.lanes)
        .with("in_use", info.is_in_use)
}
