//! `lode pool dump` of a pool of PMDK: the header of each part, the descriptor, and the objects of libpmemobj.

use super::{PmdkPool, info::features, objects, start_of, uuid_text};
use crate::failure::Failure;
use crate::output::Output;
use lode_layout::{BLOCK, PmdkBlk, PmdkKind, PmdkLog, PmdkObj, PmdkPartHeader, PmdkShutdownRecord};
use lode_obj::{ObjView, Object};
use lode_pmdk::InspectedPart;
use serde_json::json;
use std::io::{self, Write};

/// Prints the structures.
///
/// # Errors
/// The failure to write standard output.
pub(crate) fn dump(pool: &PmdkPool, json: bool) -> Result<Output, Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut print = |structure: &str, at: u64, len: usize, path: &str, holds: &Result<String, String>| {
        if json {
            let (damage, holds) = (holds.as_ref().err(), holds.as_ref().ok());
            let line = json!({ "structure": structure, "at": at, "len": len, "damage": damage, "holds": holds, "path": path });
            return writeln!(out, "{line}");
        }
        let text = match holds {
            Ok(holds) => holds.clone(),
            Err(damage) => format!("DAMAGED: {damage}"),
        };
        writeln!(out, "{structure:<10} {at:#012x}+{len:#x} {path}: {text}")
    };
    let parts = pool.inspection.parts();
    for part in parts.iter().filter(|part| part.header.is_some() || part.fault.is_some()) {
        let path = part.path.display().to_string();
        print("header", 0, PmdkPartHeader::LEN, &path, &header(part)).map_err(Failure::stdout)?;
    }
    if let (Some(first), Some(page)) = (parts.first(), pool.inspection.descriptor()) {
        let (len, holds) = descriptor(pool, page);
        print("descriptor", BLOCK, len, &first.path.display().to_string(), &holds)
            .map_err(Failure::stdout)?;
    }
    if pool.kind == PmdkKind::Objects && pool.faults().is_empty() {
        let path = pool.inspection.path().display().to_string();
        let (medium, _) = objects::recovered("printing a pool", pool)?;
        let view = ObjView::open(&medium).map_err(|error| Failure::damage("printing a pool", error))?;
        for object in view.objects() {
            let (at, len, holds) = match object {
                Ok(object) => (object.at.get(), object.usable_size, Ok(describe(&object))),
                Err(error) => (0, 0, Err(error.to_string())),
            };
            print("object", at, usize::try_from(len).unwrap_or(usize::MAX), &path, &holds)
                .map_err(Failure::stdout)?;
        }
    }
    out.flush().map_err(Failure::stdout)?;
    Ok(Output::empty())
}

fn describe(object: &Object) -> String {
    let Object { type_number, is_internal, place, .. } = object;
    let owner = if *is_internal { "internal, " } else { "" };
    let (zone, chunk) = (place.block.zone, place.block.chunk);
    match place.units {
        Some((unit, count)) => {
            format!(
                "{owner}type {type_number}, block {unit}+{count} of the run in chunk {chunk} of zone {zone}"
            )
        }
        None => {
            let chunks = place.block.header.size;
            format!("{owner}type {type_number}, {chunks} chunks from chunk {chunk} of zone {zone} on")
        }
    }
}

fn header(part: &InspectedPart) -> Result<String, String> {
    let Some(header) = &part.header else {
        return Err(part.fault.as_ref().map_or_else(|| "it has none".to_owned(), ToString::to_string));
    };
    let shutdown = match header.shutdown {
        PmdkShutdownRecord::Empty => "never stored".to_owned(),
        PmdkShutdownRecord::Torn => "half stored".to_owned(),
        PmdkShutdownRecord::Stored(state) => {
            let word = if state.is_dirty { "open" } else { "closed" };
            format!("{word}, {} unsafe shutdowns, devices {:#x}", state.shutdowns, state.devices)
        }
    };
    let links = [header.prev_part, header.next_part, header.prev_replica, header.next_replica];
    let [prev_part, next_part, prev_replica, next_replica] = links.map(uuid_text);
    Ok(format!(
        "{:?}, pool {}, part {}, parts {prev_part} and {next_part}, replicas {prev_replica} and {next_replica}, \
         made at {}, features {}; shutdown state {shutdown}",
        header.kind,
        uuid_text(header.poolset_uuid),
        uuid_text(header.uuid),
        header.created,
        features(header.features).join(" ")
    ))
}

/// Returns the bytes of the pool's descriptor, and its content.
fn descriptor(pool: &PmdkPool, page: &[u8; BLOCK as usize]) -> (usize, Result<String, String>) {
    let (len, decoded) = match pool.kind {
        PmdkKind::Objects => {
            let decoded =
                PmdkObj::decode(&start_of(page)).map(|PmdkObj { layout, lanes, lane_count, heap }| {
                    format!(
                        "layout \"{}\", {lane_count} lanes at {lanes:#x}, heap at {heap:#x}",
                        layout.escape_ascii()
                    )
                });
            (PmdkObj::LEN, decoded)
        }
        PmdkKind::Blocks => {
            let decoded = PmdkBlk::decode(start_of(page)).map(|PmdkBlk { block_size, is_zeroed }| {
                let map = if is_zeroed { "was zero when the pool was made" } else { "was cleared" };
                format!("blocks of {block_size} bytes; the map {map}")
            });
            (PmdkBlk::LEN, decoded)
        }
        PmdkKind::Log => {
            let size = pool.inspection.size().unwrap_or(0);
            let decoded = PmdkLog::decode(start_of(page), size).map(|PmdkLog { end, write }| {
                format!("records from {} to {write}, end {end}", PmdkLog::START)
            });
            (PmdkLog::LEN, decoded)
        }
    };
    (len, decoded.map_err(|error| error.to_string()))
}
