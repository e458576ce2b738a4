//! Output of ipmctl.

mod dimm;
mod goal;
mod pcd;
mod region;
mod resources;
mod sensor;
mod system;
mod topology;

use crate::error::PlatformError;
use crate::goal::Targets;
use crate::listing::{Column, Digits, Format, Records, Unit};
use crate::machine::IpmctlGeneration;
use crate::platform::Platform;

pub(crate) use dimm::LATER as DIMM_COLUMNS;
pub use goal::{created_goals, goals_to_confirm};
pub(crate) use region::COLUMNS as REGION_COLUMNS;
pub(crate) use topology::COLUMNS as TOPOLOGY_COLUMNS;

/// ipmctl's word for an unknown value.
pub(crate) const UNKNOWN: &str = "Unknown";

/// Subject of `ipmctl show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `-topology`: the hardware.
    Topology,
    /// `-dimm`: the persistent memory modules.
    Dimm,
    /// `-dimm -pcd Config`: platform configuration data (PCD) on the modules.
    Pcd,
    /// `-memoryresources`: use of the total capacity.
    MemoryResources,
    /// `-region`: mapped persistent memory.
    Region,
    /// `-goal`: pending goals.
    Goal,
    /// `-sensor`: sensor values of these types, or of all.
    Sensor(Vec<String>),
    /// `-system -capabilities`: capabilities of platform and firmware.
    Capabilities,
}

/// Output options of `ipmctl show`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Display {
    /// Unit of capacities.
    pub unit: Unit,
    /// Output format.
    pub format: Format,
    /// Selected values.
    pub values: Values,
}

/// Selection of an object's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// The values that fit into a table.
    #[default]
    Usual,
    /// `-a`: all values.
    All,
    /// `-d`: these values.
    Only(Vec<String>),
}

impl Platform {
    /// Returns ipmctl's output for the subject.
    ///
    /// # Errors
    /// Modules, sockets or values do not exist.
    pub fn show(
        &self,
        subject: &Subject,
        targets: &Targets,
        display: &Display,
    ) -> Result<String, PlatformError> {
        match subject {
            Subject::Topology => self.show_topology(targets, display),
            Subject::Dimm => self.show_dimms(targets, display),
            Subject::Pcd => self.show_pcd(targets, display),
            Subject::MemoryResources => self.show_resources(display),
            Subject::Region => self.show_regions(targets, display),
            Subject::Goal => self.show_goals(targets, display),
            Subject::Sensor(kinds) => self.show_sensors(kinds, targets, display),
            Subject::Capabilities => self.show_capabilities(display),
        }
    }

    /// Formats a capacity like the machine's ipmctl.
    fn capacity(&self, bytes: u64, display: &Display) -> String {
        Digits::of(self.machine.profile.ipmctl).show(bytes, display.unit)
    }

    fn is_first_generation(&self) -> bool {
        self.machine.profile.ipmctl == IpmctlGeneration::One
    }
}

/// Formats records: a table of the usual values, or a list of other selections.
pub(crate) fn print(
    mut records: Records,
    columns: &[Column],
    display: &Display,
) -> Result<String, PlatformError> {
    if let Values::Only(names) = &display.values {
        let known = |name: &&String| records.records.iter().any(|record| record.knows(name));
        if let Some(name) = names.iter().find(|name| !known(name)) {
            return Err(PlatformError::UnknownValue { name: name.clone() });
        }
    }
    let head = records.head.unwrap_or_default();
    match (&display.values, display.format) {
        (Values::Usual, Format::Text) if !columns.is_empty() => return Ok(records.table(columns)),
        (Values::Usual, _) if !columns.is_empty() => {
            let usual: Vec<&str> = columns.iter().map(|Column(name, _)| *name).collect();
            records.keep(&usual, head);
        }
        (Values::Only(names), _) => records.keep(&names.iter().map(String::as_str).collect::<Vec<_>>(), head),
        _ => {}
    }
    Ok(if display.format == Format::Xml { records.xml() } else { records.list() })
}

/// Formats a message that replaces an empty listing.
pub(crate) fn nothing(message: &str, display: &Display) -> String {
    match display.format {
        Format::Text => format!("{message}\n"),
        Format::Xml => {
            format!("<?xml version=\"1.0\"?>\n <Results>\n  <Result>\n{message}\n  </Result>\n </Results>\n")
        }
    }
}
