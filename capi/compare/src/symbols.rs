//! The symbols that a shared object exports, and the names that the loader knows.

use object::elf::{FileHeader64, SHN_ABS, SHN_UNDEF, STB_GLOBAL, STB_WEAK};
use object::read::elf::{Dyn, FileHeader, Sym};
use object::{Endianness, elf};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The exported symbols of a shared object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbols {
    /// Its soname.
    pub soname: String,
    /// Kind of each symbol (`func`, `object`, `tls`), by its name and its version. A default version has two signs `@`.
    pub exported: BTreeMap<(String, String), &'static str>,
    /// The libraries that it needs.
    pub needed: Vec<String>,
}

/// Reads the exported symbols of the shared object at `path`.
pub fn symbols(path: &Path) -> Symbols {
    let bytes = fs::read(path).unwrap();
    let data = &*bytes;
    let header = FileHeader64::<Endianness>::parse(data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, data).unwrap();
    let table = sections.symbols(endian, data, elf::SHT_DYNSYM).unwrap();
    let versions = sections.versions(endian, data).unwrap();
    let mut exported = BTreeMap::new();
    for (index, symbol) in table.enumerate() {
        let name = String::from_utf8_lossy(symbol.name(endian, table.strings()).unwrap()).into_owned();
        let is_global = matches!(symbol.st_bind(), STB_GLOBAL | STB_WEAK);
        // The names of the nodes themselves are absolute.
        if !is_global || matches!(symbol.st_shndx(endian), SHN_UNDEF | SHN_ABS) || name.is_empty() {
            continue;
        }
        let kind = match symbol.st_type() {
            elf::STT_FUNC => "func",
            elf::STT_TLS => "tls",
            elf::STT_OBJECT => "object",
            _ => "other",
        };
        let version = versions.as_ref().map(|versions| {
            let index = versions.version_index(endian, index);
            let named = versions.version(index).unwrap();
            let name = named.map(|version| String::from_utf8_lossy(version.name()).into_owned());
            format!("{}{}", if index.is_hidden() { "@" } else { "@@" }, name.unwrap_or_default())
        });
        exported.insert((name, version.unwrap_or_default()), kind);
    }
    let (dynamic, link) = sections.dynamic(endian, data).unwrap().unwrap();
    let strings = sections.strings(endian, data, link).unwrap();
    let texts = |tag: u32| {
        let entries = dynamic.iter().filter(move |entry| entry.tag32(endian) == Some(tag));
        entries.map(|entry| String::from_utf8_lossy(entry.string(endian, strings).unwrap()).into_owned())
    };
    let soname = texts(elf::DT_SONAME).next().unwrap_or_default();
    Symbols { soname, exported, needed: texts(elf::DT_NEEDED).collect() }
}
