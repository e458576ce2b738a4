//! Output options of ipmctl, and the formats of its listings.

use super::error::ShowError;
use crate::listing::{Column, Format, Precision, Records, Unit, Value};
use crate::machine::{Handle, IpmctlGeneration, Machine};
use crate::platform::Platform;
use crate::preferences::DimmId;

/// ipmctl's word for an unknown value.
pub(crate) const UNKNOWN: Value = Value::absent("Unknown");

/// Output options of `ipmctl show`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisplayOptions {
    /// Unit of capacities; `None` for the preferred one.
    pub unit: Option<Unit>,
    /// Output format.
    pub format: Format,
    /// Selected values.
    pub attributes: Attributes,
}

/// Selection of an object's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attributes {
    /// The values that fit into a table.
    #[default]
    Default,
    /// `-a`: all values.
    All,
    /// `-d`: these values.
    Named(Vec<String>),
}

impl DisplayOptions {
    /// Returns the options with a unit: the preferred one if they name none.
    pub(super) fn with_unit(&self, platform: &Platform) -> DisplayOptions {
        DisplayOptions { unit: self.unit.or(Some(platform.state.preferences.size)), ..self.clone() }
    }
}

/// Returns the preferred identifier of a module in listings. A module without an identity has its handle.
pub(super) fn dimm_id(platform: &Platform, module: Handle) -> String {
    let identity = || platform.machine.module(module)?.identity.map(|identity| identity.to_string());
    match platform.state.preferences.dimm_id {
        DimmId::Handle => None,
        DimmId::Uid => identity(),
    }
    .unwrap_or_else(|| module.to_string())
}

/// Formats a capacity like the machine's ipmctl.
pub(super) fn capacity(machine: &Machine, bytes: u64, display: &DisplayOptions) -> Value {
    Value::number(bytes, Precision::of(machine.profile.ipmctl).show(bytes, display.unit.unwrap_or_default()))
}

/// Returns true if the machine has generation 1 of ipmctl.
pub(super) fn is_first_generation(machine: &Machine) -> bool {
    machine.profile.ipmctl == IpmctlGeneration::One
}

/// Formats records: a table of the usual values, or a list of other selections.
pub(crate) fn print(
    mut records: Records,
    columns: &[Column],
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    if let Attributes::Named(names) = &display.attributes {
        let known = |name: &&String| records.records.iter().any(|record| record.knows(name));
        if let Some(name) = names.iter().find(|name| !known(name)) {
            return Err(ShowError::UnknownValue { name: name.clone() });
        }
    }
    let head = records.head.unwrap_or_default();
    match (&display.attributes, display.format) {
        (Attributes::Default, Format::Text) if !columns.is_empty() => return Ok(records.table(columns)),
        (Attributes::Default, _) if !columns.is_empty() => {
            let usual: Vec<&str> = columns.iter().map(|Column(name, _)| *name).collect();
            records.keep(&usual, head);
        }
        (Attributes::Named(names), _) => {
            records.keep(&names.iter().map(String::as_str).collect::<Vec<_>>(), head)
        }
        _ => {}
    }
    Ok(match display.format {
        Format::Text => records.list(),
        Format::Xml => records.xml(),
        Format::Json => records.json(),
    })
}

/// Formats a message that replaces an empty listing.
pub(crate) fn empty_result(message: &str, display: &DisplayOptions) -> String {
    match display.format {
        Format::Text => format!("{message}\n"),
        Format::Json => "[]\n".to_owned(),
        Format::Xml => {
            format!("<?xml version=\"1.0\"?>\n <Results>\n  <Result>\n{message}\n  </Result>\n </Results>\n")
        }
    }
}
