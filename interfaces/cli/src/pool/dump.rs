//! `lode pool dump`: the structures of a pool, as far as they can be read.

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{pmdk, typed_dump};
use clap::Args;
use lode_heap::{OpenError, Pool};
use lode_layout::{
    CHECKPOINT_COPY_STRIDE, CHECKPOINT_SLOT_WORDS, CHECKPOINT_SLOTS_OFF, CheckpointSlot, PoolOffset,
};
use lode_pmem::{Medium, Readable};
use lode_pool::{Access, HeaderCopy, OpenOptions, map_unchecked};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("structure", "header, slot, extent, root or object, or value with --typed; one object a line"),
    ("at", "its offset, in bytes"),
    ("len", "its bytes, where it has a length of its own"),
    ("damage", "why it can't be read, or null"),
    ("holds", "its content; of an object its type number, as text if it is readable text"),
    ("path", "with --typed, the way to the value in holds from the root, or from a tree; or null"),
];

/// Arguments of `lode pool dump`.
#[derive(Args, Debug)]
pub(crate) struct Dump {
    /// The pool's file or device
    path: PathBuf,
    /// Print the values of a pool of typed data, each with the way to it from the root, by the types that the pool names
    #[arg(long)]
    typed: bool,
    /// Print only what is at WAY and beyond, as in Shop.items
    #[arg(long = "path", value_name = "WAY", requires = "typed")]
    way: Option<String>,
}

/// The output, to which structures are printed as they are found.
struct Structures<W> {
    out: W,
    json: bool,
}

impl<W: Write> Structures<W> {
    fn print(
        &mut self,
        structure: &str,
        at: PoolOffset,
        len: Option<u64>,
        holds: &Result<String, String>,
    ) -> io::Result<()> {
        if self.json {
            let damage = holds.as_ref().err();
            let holds = holds.as_ref().ok();
            let line = json!({ "structure": structure, "at": at.get(), "len": len, "damage": damage, "holds": holds, "path": null });
            return writeln!(self.out, "{line}");
        }
        let len = len.map_or(String::new(), |len| format!("+{len:#x}"));
        let what = match holds {
            Ok(holds) => holds.clone(),
            Err(damage) => format!("DAMAGED: {damage}"),
        };
        writeln!(self.out, "{structure:<7} {:#012x}{len:<10} {what}", at.get())
    }
}

pub(crate) fn run(args: &Dump, json: bool) -> Result<Output, Failure> {
    let path = &args.path;
    if args.typed {
        return typed_dump::run(path, args.way.as_deref(), json);
    }
    if let Some(pool) = pmdk::find("printing a pool", path)? {
        return pmdk::dump(&pool, json);
    }
    let failure = || Failure::of_pool("printing a pool", path);
    let mapping = map_unchecked(path, &OpenOptions::new(Access::ReadOnly))
        .map_err(|error| failure()(OpenError::from(error).into()))?;
    let mut dump = Structures { out: io::BufWriter::new(io::stdout().lock()), json };
    let uuid = print_headers(&mut dump, &mapping).map_err(Failure::stdout)?;
    if let Some(uuid) = uuid {
        print_slots(&mut dump, &mapping, &uuid).map_err(Failure::stdout)?;
    }
    drop(mapping);
    let pool =
        Pool::open(path, &OpenOptions::new(Access::ReadOnly)).map_err(|error| failure()(error.into()))?;
    for extent in pool.header().geometry.extents() {
        let holds = Ok(format!("chunk table of {:#x} bytes", extent.table_len));
        dump.print("extent", extent.start, Some(extent.len), &holds).map_err(Failure::stdout)?;
    }
    let root = pool.heap().root();
    let at = *root.as_ref().unwrap_or(&PoolOffset::NULL);
    let holds = root
        .map(|_| "the object from which all others are reached".to_owned())
        .map_err(|error| error.to_string());
    dump.print("root", at, None, &holds).map_err(Failure::stdout)?;
    for object in pool.heap().objects() {
        let object = object.map_err(|error| failure()(error.into()))?;
        let holds = Ok(type_name(object.type_number));
        dump.print("object", object.at, Some(object.size), &holds).map_err(Failure::stdout)?;
    }
    dump.out.flush().map_err(Failure::stdout)?;
    Ok(Output::empty())
}

/// Prints both copies of the header; returns the pool's UUID if a copy can be read.
fn print_headers<M: Medium>(dump: &mut Structures<impl Write>, medium: &M) -> io::Result<Option<[u8; 16]>> {
    let mut uuid = None;
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        let holds = match copy.read(medium) {
            Ok(header) => {
                uuid = Some(header.uuid.into_bytes());
                Ok(format!(
                    "copy {copy}: pool {}, layout {}, generation {}, {} bytes",
                    header.uuid,
                    header.layout,
                    header.generation,
                    header.geometry.size()
                ))
            }
            Err(fault) => Err(fault.to_string()),
        };
        dump.print("header", copy.at(), None, &holds)?;
    }
    Ok(uuid)
}

fn print_slots<M: Medium>(dump: &mut Structures<impl Write>, medium: &M, uuid: &[u8; 16]) -> io::Result<()> {
    for index in 0..4 {
        let at = CHECKPOINT_SLOTS_OFF.plus(index * CHECKPOINT_COPY_STRIDE);
        let read = |memory: &Readable| -> [u64; CHECKPOINT_SLOT_WORDS] {
            std::array::from_fn(|word| memory.load8(at.plus(word as u64 * 8)))
        };
        let words = medium.memory().reading(read);
        let holds = match words.map(|words| (words, CheckpointSlot::decode(&words, uuid))) {
            Err(fault) => Err(fault.to_string()),
            Ok((_, Some(slot))) => Ok(format!(
                "checkpoint {}: up to record {}, {} rings, {}{}",
                slot.generation,
                slot.sequence,
                slot.rings,
                if slot.closed { "closed" } else { "open" },
                if slot.in_second_area { ", in the second area" } else { "" }
            )),
            Ok((words, None)) if words == [0; CHECKPOINT_SLOT_WORDS] => Ok("never written".to_owned()),
            Ok((_, None)) => Err("its checksum is wrong".to_owned()),
        };
        dump.print("slot", at, None, &holds)?;
    }
    Ok(())
}

/// Formats a type number, as text if it holds readable text.
pub(crate) fn type_name(number: u64) -> String {
    let bytes = number.to_le_bytes();
    let text = bytes.trim_ascii_end().split(|byte| *byte == 0).next().unwrap_or_default();
    let readable = text.len() > 2 && text.iter().all(u8::is_ascii_graphic);
    if readable { String::from_utf8_lossy(text).into_owned() } else { Value::from(number).to_string() }
}
