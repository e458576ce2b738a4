//! The output of `lode platform where`.

use super::objects::{HeldPool, Kind, Owner, Part, PoolPart};
use crate::output::Output;
use crate::pool::pmdk::{PmdkPart, PmdkPiece};
use lode_kv::escape_word;
use lode_platform::locate::{Located, Mapper, ModulePlace, NamespacePart, NamespacePlace};
use lode_platform::ndctl::SECTOR;
use serde_json::{Value, json};
use std::ops::Range;
use std::path::PathBuf;

/// A place, and what holds it.
#[derive(Default)]
pub(super) struct Finding {
    /// Bad sectors of the device.
    pub(super) sectors: Option<Range<u64>>,
    pub(super) located: Option<Located>,
    pub(super) files: Vec<FileFinding>,
    /// Facts that are unknown, and why.
    pub(super) notes: Vec<String>,
}

/// A part of a file.
pub(super) struct FileFinding {
    pub(super) path: PathBuf,
    /// Bytes of the file.
    pub(super) range: Range<u64>,
    /// Bytes of a block of the file system; 0 for a device.
    pub(super) block: u64,
    pub(super) pool: Option<HeldPool>,
    pub(super) mappers: Vec<Mapper>,
}

/// Returns the output for these places.
pub(super) fn output(findings: &[Finding]) -> Output {
    let texts: Vec<String> = findings.iter().map(Finding::text).collect();
    let text = if texts.is_empty() { "no bad blocks are known\n".to_owned() } else { texts.join("\n") };
    let places: Vec<Value> = findings.iter().map(Finding::json).collect();
    Output::text(text).with("places", places)
}

impl Finding {
    fn text(&self) -> String {
        let mut lines = Lines::default();
        if let Some(sectors) = &self.sectors {
            lines.add("bad", format!("sectors {} to {}", sectors.start, sectors.end.saturating_sub(1)));
        }
        if let Some(located) = &self.located {
            if let Some(address) = located.address {
                lines.add("address", format!("{address:#x}"));
            }
            for module in &located.modules {
                lines.add("module", module_text(module));
            }
            lines
                .add("region", format!("region{}, byte {:#x}", located.region.number, located.region.offset));
            lines.add(
                "namespace",
                located.namespace.as_ref().map_or("none: the space is free".to_owned(), namespace_text),
            );
        }
        for file in &self.files {
            file.add_to(&mut lines);
        }
        for note in &self.notes {
            lines.add("note", note.clone());
        }
        lines.0
    }

    fn json(&self) -> Value {
        let located = self.located.as_ref();
        json!({
            "sectors": self.sectors.as_ref().map(|sectors| json!({ "first": sectors.start, "count": sectors.end - sectors.start })),
            "address": located.and_then(|located| located.address),
            "modules": located.map(|located| located.modules.iter().map(module_json).collect::<Vec<_>>()),
            "region": located.map(|located| json!({
                "name": format!("region{}", located.region.number),
                "offset": located.region.offset,
            })),
            "namespace": located.and_then(|located| located.namespace.as_ref()).map(namespace_json),
            "files": self.files.iter().map(FileFinding::json).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

/// Lines that begin with a word.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, word: &str, text: String) {
        self.0 += &format!("{word:<9}  {text}\n");
    }
}

fn module_text(module: &ModulePlace) -> String {
    let mut parts = vec![format!("nmem{}", module.number)];
    parts.extend(module.handle.map(|handle| format!("handle {handle:#06x}")));
    parts.extend(module.slot.as_ref().map(|slot| format!("slot {slot}")));
    parts.extend(module.id.clone());
    parts.push(match module.offset {
        Some(offset) => format!("byte {offset:#x}"),
        None => "perhaps: its interleaving is unknown, which firmware's table (NFIT) tells root".to_owned(),
    });
    parts.join(", ")
}

fn module_json(module: &ModulePlace) -> Value {
    json!({
        "name": format!("nmem{}", module.number),
        "handle": module.handle,
        "id": module.id,
        "slot": module.slot,
        "offset": module.offset,
    })
}

fn namespace_text(namespace: &NamespacePlace) -> String {
    let device = namespace.device.as_ref().map_or("disabled".to_owned(), |device| format!("/dev/{device}"));
    let part = match namespace.part {
        NamespacePart::Data(offset) => format!("{device} sector {}", offset / SECTOR),
        NamespacePart::Metadata => "its page map or padding".to_owned(),
        NamespacePart::Btt(offset) => format!("{device}, byte {offset:#x} of what its BTT manages"),
    };
    format!("{}, {}, {part}", namespace.name, namespace.mode)
}

fn namespace_json(namespace: &NamespacePlace) -> Value {
    let (part, offset) = match namespace.part {
        NamespacePart::Data(offset) => ("data", Some(offset)),
        NamespacePart::Metadata => ("metadata", None),
        NamespacePart::Btt(offset) => ("btt", Some(offset)),
    };
    json!({
        "name": namespace.name,
        "mode": namespace.mode,
        "device": namespace.device,
        "part": part,
        "offset": offset,
        "sector": namespace.part.device_off().map(|offset| offset / SECTOR),
    })
}

impl FileFinding {
    fn add_to(&self, lines: &mut Lines) {
        let block = match self.range.start.checked_div(self.block) {
            Some(block) => format!(", block {block} of {} bytes", self.block),
            None => String::new(),
        };
        let bytes = match self.range.end - self.range.start {
            1 => format!("byte {:#x}", self.range.start),
            _ => format!("bytes {:#x} to {:#x}", self.range.start, self.range.end - 1),
        };
        let path = escape_word(self.path.as_os_str().as_encoded_bytes());
        lines.add("file", format!("{path}, {bytes}{block}"));
        match &self.pool {
            Some(HeldPool::Lodestone(pool)) => pool.add_to(lines),
            Some(HeldPool::Pmdk(pool)) => pmdk_text(pool, lines),
            None => {}
        }
        for mapper in &self.mappers {
            let Mapper { pid, program, addresses, .. } = mapper;
            let address = addresses.start + (self.range.start - mapper.file_off);
            lines.add("process", format!("{pid} {}, at {address:#x}", escape_word(program.as_bytes())));
        }
    }

    fn json(&self) -> Value {
        json!({
            "path": self.path.display().to_string(),
            "offset": self.range.start,
            "len": self.range.end - self.range.start,
            "block": self.range.start.checked_div(self.block),
            "block_size": self.block,
            "pool": match &self.pool {
                Some(HeldPool::Lodestone(pool)) => pool.json(),
                Some(HeldPool::Pmdk(pool)) => pmdk_json(pool),
                None => Value::Null,
            },
            "processes": self.mappers.iter().map(|mapper| json!({
                "pid": mapper.pid,
                "program": mapper.program,
                "address": mapper.addresses.start + (self.range.start - mapper.file_off),
            })).collect::<Vec<_>>(),
        })
    }
}

impl PoolPart {
    fn add_to(&self, lines: &mut Lines) {
        lines.add("pool", format!("{}, layout {}", self.uuid, self.layout));
        match &self.parts {
            Err(note) => lines.add("note", note.clone()),
            Ok(parts) if parts.is_empty() => {
                lines.add("object", "none: the space is free, or the allocator's own".to_owned())
            }
            Ok(parts) => parts.iter().for_each(|part| part.add_to(lines)),
        }
    }

    fn json(&self) -> Value {
        json!({
            "library": null,
            "uuid": self.uuid.to_string(),
            "layout": self.layout.as_str(),
            "parts": self.parts.as_ref().ok().map(|parts| parts.iter().map(Part::json).collect::<Vec<_>>()),
            "note": self.parts.as_ref().err(),
        })
    }
}

fn pmdk_text(pool: &PmdkPart, lines: &mut Lines) {
    let mut words = vec![format!("pool of {}", pool.library)];
    words.extend(pool.uuid.clone());
    // Bytes of the pool, which could hold sequences of the terminal.
    words.extend(pool.layout.as_ref().map(|layout| format!("layout \"{}\"", layout.escape_debug())));
    lines.add("pool", words.join(", "));
    for piece in &pool.pieces {
        lines.add("object", format!("{:#x}+{:#x}, {}", piece.at, piece.len, piece.text));
    }
    pool.notes.iter().for_each(|note| lines.add("note", note.clone()));
}

fn pmdk_json(pool: &PmdkPart) -> Value {
    let piece = |piece: &PmdkPiece| {
        let object = piece.object.as_ref().map(|object| {
            json!({
                "pool_uuid_lo": object.oid[0],
                "off": object.oid[1],
                "type_number": object.type_number,
                "size": object.size,
                "is_root": object.is_root,
            })
        });
        json!({ "kind": piece.kind, "at": piece.at, "len": piece.len, "holds": piece.text, "object": object })
    };
    json!({
        "library": pool.library,
        "uuid": pool.uuid,
        "layout": pool.layout,
        "parts": pool.pieces.iter().map(piece).collect::<Vec<_>>(),
        "note": (!pool.notes.is_empty()).then(|| pool.notes.join("; ")),
    })
}

impl Part {
    fn add_to(&self, lines: &mut Lines) {
        let what = match &self.kind {
            Kind::Header => "the header".to_owned(),
            Kind::Log => "the log".to_owned(),
            Kind::ChunkTable => "a chunk table".to_owned(),
            Kind::Object(name, None) => name.clone(),
            Kind::Object(name, Some(owner)) => format!("{name}, {}", owner.text()),
        };
        lines.add("object", format!("{:#x}+{:#x}, {what}", self.at, self.len));
    }

    fn json(&self) -> Value {
        let (kind, of_type, owner) = match &self.kind {
            Kind::Header => ("header", None, None),
            Kind::Log => ("log", None, None),
            Kind::ChunkTable => ("chunk table", None, None),
            Kind::Object(name, owner) => ("object", Some(name), owner.as_ref()),
        };
        let [after, before] = owner.map(Owner::around).unwrap_or_default();
        json!({
            "kind": kind,
            "at": self.at,
            "len": self.len,
            "type": of_type,
            "tree": owner.and_then(Owner::tree),
            "key": owner.and_then(Owner::key),
            "after": after,
            "before": before,
            "path": owner.and_then(Owner::way),
        })
    }
}

impl Owner {
    fn text(&self) -> String {
        let of = |tree: &Option<String>| match tree {
            Some(tree) => format!("tree {}", escape_word(tree.as_bytes())),
            None => "the tree".to_owned(),
        };
        match self {
            Owner::Key { tree, key } => format!("{}, key {}", of(tree), escape_word(key)),
            Owner::Lost { tree, after, before } => {
                let key = |key: &Option<Vec<u8>>, none: &str| {
                    key.as_ref().map_or(none.to_owned(), |key| escape_word(key))
                };
                let (after, before) = (key(after, "the first"), key(before, "the last"));
                format!("{}, what can't be read between {after} and {before}", of(tree))
            }
            Owner::Node { tree } => format!("a node of {}", of(tree)),
            Owner::Way(way) => way.clone(),
        }
    }

    fn tree(&self) -> Option<&str> {
        match self {
            Owner::Key { tree, .. } | Owner::Lost { tree, .. } | Owner::Node { tree } => tree.as_deref(),
            Owner::Way(_) => None,
        }
    }

    fn key(&self) -> Option<String> {
        match self {
            Owner::Key { key, .. } => Some(escape_word(key)),
            _ => None,
        }
    }

    /// Returns the keys around an entry that can't be read.
    fn around(&self) -> [Option<String>; 2] {
        match self {
            Owner::Lost { after, before, .. } => [after, before].map(|key| key.as_deref().map(escape_word)),
            _ => [None, None],
        }
    }

    fn way(&self) -> Option<&str> {
        match self {
            Owner::Way(way) => Some(way),
            _ => None,
        }
    }
}
