//! The values on ipmctl's lines that change machines: modules, sockets, units and formats.

use super::display::DisplayOptions;
use super::refusal::{Refusal, Words};
use super::syntax::Line;
use crate::goal::Targets;
use crate::listing::Format;
use crate::machine::{Handle, Machine, Module};

/// Returns the unit and the format.
pub(super) fn display(line: &Line, words: Words) -> Result<DisplayOptions, Box<Refusal>> {
    let mut display = DisplayOptions::default();
    if let Some(unit) = line.option("-units") {
        let units = ["B", "MB", "MiB", "GB", "GiB", "TB", "TiB"];
        let known = units.into_iter().find(|known| known.eq_ignore_ascii_case(unit));
        let known = known.ok_or_else(|| Box::new(Refusal::value("option -units", unit, words)))?;
        display.unit = known.parse().ok();
    }
    match line.option("-output") {
        None => {}
        Some(format) if format.eq_ignore_ascii_case("text") => {}
        Some(format) if format.eq_ignore_ascii_case("nvmxml") => display.format = Format::Xml,
        Some(format) => return Err(Box::new(Refusal::value("option -output", format, words))),
    }
    Ok(display)
}

/// Returns the modules and sockets. A module is named by its handle or by its UID.
pub(super) fn targets(line: &Line, machine: &Machine) -> Result<Targets, Box<Refusal>> {
    let words = Words(machine.profile.ipmctl);
    let mut modules: Vec<Handle> = Vec::new();
    let ids: Vec<&str> = parts(line.target("-dimm"));
    if let Some(id) = ids.iter().find(|id| number(id).is_some_and(|number| number > u32::MAX.into())) {
        return Err(Box::new(Refusal::module_too_large(id)));
    }
    for id in &ids {
        let is_named = |module: &&Module| match number(id) {
            Some(number) => u64::from(module.handle.0) == number,
            None => module.identity.is_some_and(|identity| identity.to_string().eq_ignore_ascii_case(id)),
        };
        match machine.modules.iter().find(is_named) {
            Some(module) => modules.push(module.handle),
            None => return Err(Box::new(Refusal::unknown_module(id, words))),
        }
    }
    for (index, module) in modules.iter().enumerate() {
        if let Some(again) = modules[index + 1..].iter().position(|other| other == module) {
            return Err(Box::new(Refusal::duplicate_module(ids[index + 1 + again])));
        }
    }
    let mut sockets = Vec::new();
    for text in parts(line.target("-socket")) {
        match number(text) {
            // ipmctl keeps the lowest 16 bits.
            Some(number) => sockets.push((number & 0xffff) as u16),
            None => return Err(Box::new(Refusal::value("target -socket", text, words))),
        }
    }
    Ok(Targets { modules, sockets })
}

/// Splits a list with commas. An absent or empty list has no parts.
pub(super) fn parts(list: Option<&str>) -> Vec<&str> {
    list.filter(|list| !list.is_empty()).map_or(Vec::new(), |list| list.split(',').collect())
}

/// Parses a number, decimal or hexadecimal with 0x.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}
