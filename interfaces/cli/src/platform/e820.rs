//! `lode platform e820`.

use super::failed;
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use crate::size;
use clap::Args;
use lode_platform::e820::{KERNEL_LOG, MemoryMap, ReservationRequest, kernel_log};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const FIELDS: &[(&str, &str)] = &[
    (
        "source",
        "the word before the ranges in the log: BIOS-e820, or user if the command line changed the map",
    ),
    ("ranges", "of each range its start and len in bytes, and its kind"),
    ("totals", "bytes that are usable, reserved, acpi, persistent and other"),
    ("plan", "with --plan: of each range its start and len in bytes, and memmap"),
    ("command_line", "with --plan: the memmap= of all of them, after the present ones, which stay"),
];

/// Read the memory map of a machine, and plan RAM that stands in for persistent memory
#[derive(Args, Debug)]
#[command(after_long_help = fields::help(FIELDS))]
pub(crate) struct E820 {
    /// The kernel's log, as dmesg prints it; `-` is the standard input [default: the log of this machine]
    file: Option<PathBuf>,
    /// Size of the RAM that is to stand in for persistent memory, in bytes or with K, M, G or T, and the NUMA node that it
    /// is taken from. Can be given several times
    #[arg(long, value_name = "SIZE[@NODE]", value_parser = request)]
    plan: Vec<ReservationRequest>,
}

/// Parses a size, as `50G`, or a size of a node, as `50G@1`.
fn request(text: &str) -> Result<ReservationRequest, String> {
    let (size, node) = match text.split_once('@') {
        Some((size, node)) => {
            let number = node.strip_prefix("node").unwrap_or(node).parse();
            (size, Some(number.map_err(|_| format!("{node} is not the number of a node, as 1"))?))
        }
        None => (text, None),
    };
    Ok(ReservationRequest { size: size::parse(size)?, node })
}

pub(crate) fn run(e820: &E820) -> Result<Output, Failure> {
    let path = e820.file.as_deref().unwrap_or(Path::new(KERNEL_LOG));
    let text = match &e820.file {
        None => kernel_log(),
        Some(path) if path == Path::new("-") => {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        }
        Some(path) => fs::read(path),
    };
    let text = text.map_err(|error| Failure::io("reading the kernel's log", path, &error))?;
    let map = MemoryMap::parse(&String::from_utf8_lossy(&text));
    let map = map
        .map_err(|error| Failure::new("reading a memory map", format_args!("{}: {error}", path.display())))?;
    let ranges = map.ranges.iter();
    let ranges: Vec<Value> = ranges
        .map(|range| json!({ "start": range.start, "len": range.len, "kind": range.kind.to_string() }))
        .collect();
    let totals: serde_json::Map<_, _> =
        map.totals().into_iter().map(|(word, bytes)| (word.to_owned(), bytes.into())).collect();
    let mut text = map.listing();
    let mut plan = None;
    if !e820.plan.is_empty() {
        let planned = map.plan(&e820.plan).map_err(failed("planning memmap="))?;
        text += &format!("\n{}", map.advice(&planned));
        plan = Some(planned);
    }
    let output = Output::text(text).with("source", map.source.as_str()).with("ranges", ranges);
    let output = output.with("totals", totals);
    let Some(planned) = plan else { return Ok(output) };
    let ranges = planned.iter();
    let ranges: Vec<Value> =
        ranges.map(|one| json!({ "start": one.start, "len": one.len, "memmap": one.to_string() })).collect();
    Ok(output.with("plan", ranges).with("command_line", map.command_line(&planned)))
}
