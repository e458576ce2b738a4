//! What ipmctl says of a machine.

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

/// The word for what ipmctl could not find out.
pub(crate) const UNKNOWN: &str = "Unknown";

/// What ipmctl can be asked to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `-topology`: what is plugged in.
    Topology,
    /// `-dimm`: the persistent memory modules.
    Dimm,
    /// `-dimm -pcd Config`: what firmware keeps on the modules.
    Pcd,
    /// `-memoryresources`: what all capacity is used for.
    MemoryResources,
    /// `-region`: mapped persistent memory.
    Region,
    /// `-goal`: what changes at the next start.
    Goal,
    /// `-sensor`: what the modules measure; of these kinds, or of all.
    Sensor(Vec<String>),
    /// `-system -capabilities`: what platform and firmware can do.
    Capabilities,
}

/// How ipmctl shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Display {
    /// In what capacities are printed.
    pub unit: Unit,
    /// In which form.
    pub format: Format,
    /// Which values.
    pub values: Values,
}

/// Which values of a thing are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Those that fit a table.
    #[default]
    Usual,
    /// `-a`: all.
    All,
    /// `-d`: these.
    Only(Vec<String>),
}

impl Platform {
    /// What ipmctl shows of the subject, as text.
    ///
    /// # Errors
    /// Modules, sockets or values that are not there.
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

    /// A capacity as the machine's ipmctl prints it.
    fn capacity(&self, bytes: u64, display: &Display) -> String {
        Digits::of(self.machine.profile.ipmctl).show(bytes, display.unit)
    }

    fn is_first_generation(&self) -> bool {
        self.machine.profile.ipmctl == IpmctlGeneration::One
    }
}

/// Records in the form that was asked for: a table of the usual values, or a list of others.
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

/// What is said where there is nothing to show.
pub(crate) fn nothing(message: &str, display: &Display) -> String {
    match display.format {
        Format::Text => format!("{message}\n"),
        Format::Xml => {
            format!("<?xml version=\"1.0\"?>\n <Results>\n  <Result>\n{message}\n  </Result>\n </Results>\n")
        }
    }
}
