//! State of a machine: the partitions of its modules, their interleave sets, and pending goals.

use crate::cxl::{CxlPoison, CxlState};
use crate::dax::StoredDevice;
use crate::error_log::{self, FoundBy, LoggedError};
use crate::firmware::ModuleFirmware;
use crate::machine::Handle;
use crate::media_error::range::{self, MediaError};
use crate::preferences::Preferences;
use crate::relocate::Relocation;
use crate::security::ModuleSecurity;
use crate::smart::ModuleSmart;
use lode_nvdimm::LabelFormat;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use uuid::Uuid;

/// Version of the state directory that this program writes.
pub const STATE_FORMAT: u32 = 1;

/// State of a machine, without its labels: those are on the modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Version of the directory.
    pub format: u32,
    /// Number of times that the machine was started.
    pub boots: u64,
    /// Partitioning of each configured module. A module without an entry is not configured.
    #[serde(rename = "partition", default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// The interleave sets, in the order in which firmware maps them.
    #[serde(rename = "set", default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<InterleaveSet>,
    /// Goals that take effect at the next reboot.
    #[serde(rename = "goal", default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goal>,
    /// Configured modules whose configuration data was deleted. They lose their partitions at the next reboot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleared: Vec<Handle>,
    /// Modules that were disabled since the last reboot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled_modules: Vec<Handle>,
    /// Numbers of the regions that were disabled since the last reboot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled_regions: Vec<u32>,
    /// State of namespaces that lasts until the next reboot.
    #[serde(rename = "namespace", default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceState>,
    /// Media errors: these ranges can't be read until they are written.
    #[serde(rename = "media_error", default, skip_serializing_if = "Vec::is_empty")]
    pub media_errors: Vec<MediaError>,
    /// Media errors that the kernel knows. Some may be repaired on the medium without its knowledge.
    #[serde(rename = "known_error", default, skip_serializing_if = "Vec::is_empty")]
    pub known_errors: Vec<MediaError>,
    /// Character devices that were changed since the last reboot.
    #[serde(rename = "dax_device", default, skip_serializing_if = "Vec::is_empty")]
    pub dax_devices: Vec<StoredDevice>,
    /// Security of modules. A module without an entry has the security of the machine file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security: Vec<ModuleSecurity>,
    /// SMART of modules. A module without an entry has the sensors of the machine file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smart: Vec<ModuleSmart>,
    /// The error logs of modules: the entries of each log from the oldest to the newest one.
    #[serde(rename = "error", default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<LoggedError>,
    /// Firmware of modules. A module without an entry runs that of the machine file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub firmware: Vec<ModuleFirmware>,
    /// Namespaces that are, or were, moved away from their modules, and may come back.
    #[serde(rename = "relocation", default, skip_serializing_if = "Vec::is_empty")]
    pub relocations: Vec<Relocation>,
    /// CXL memory: regions, reservations, disabled devices and poison.
    #[serde(default, skip_serializing_if = "CxlState::is_initial")]
    pub cxl: CxlState,
    /// Preferences of ipmctl.
    #[serde(default, skip_serializing_if = "Preferences::is_default")]
    pub preferences: Preferences,
}

/// State of a namespace that lasts until the next reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceState {
    /// UUID of the namespace.
    pub uuid: Uuid,
    /// Y of namespaceX.Y.
    pub number: u32,
    /// True if the namespace is disabled.
    pub disabled: bool,
}

/// Partitioning of a configured module, in bytes. The rest of its capacity belongs to interleave sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// The module.
    pub module: Handle,
    /// Volatile memory, at the start of the media.
    pub memory: u64,
    /// Persistent capacity that is not mapped.
    pub reserved: u64,
}

/// Modules whose persistent capacity the memory controller maps as one range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterleaveSet {
    /// Bytes that each module contributes.
    pub share: u64,
    /// Version of the labels on its modules.
    pub labels: LabelVersion,
    /// The modules, by their position in the set.
    pub members: Vec<Member>,
}

/// A module in an interleave set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The module.
    pub module: Handle,
    /// Offset of the share on the module's media, in bytes.
    pub offset: u64,
}

/// Configuration of a module after the next reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The module.
    pub module: Handle,
    /// Bytes of volatile memory.
    pub memory: u64,
    /// Bytes of persistent capacity that are not mapped.
    pub reserved: u64,
    /// Version of the labels that the module gets.
    pub labels: LabelVersion,
    /// Shares of interleave sets: at most two, as in firmware.
    #[serde(default)]
    pub shares: Vec<Share>,
}

/// A module's share of an interleave set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Number of the set. Goals with the same number form one set.
    pub set: u32,
    /// Size in bytes.
    pub size: u64,
}

/// Version of namespace labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelVersion {
    /// Labels from before UEFI.
    #[serde(rename = "1.1")]
    V1_1,
    /// Labels of UEFI 2.7.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
}

impl LabelVersion {
    /// Returns the format on the medium.
    pub(crate) fn format(self) -> LabelFormat {
        match self {
            LabelVersion::V1_1 => LabelFormat::V1_1,
            LabelVersion::V1_2 => LabelFormat::V1_2,
        }
    }
}

impl fmt::Display for LabelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LabelVersion::V1_1 => "1.1",
            LabelVersion::V1_2 => "1.2",
        })
    }
}

/// Stores the entry of a module, in place of the one that it had.
pub(crate) fn put<T>(all: &mut Vec<T>, entry: T, module_of: impl Fn(&T) -> Handle) {
    match all.iter_mut().find(|one| module_of(one) == module_of(&entry)) {
        Some(one) => *one = entry,
        None => all.push(entry),
    }
}

impl State {
    /// Returns the factory state: no module is configured.
    pub fn new() -> State {
        State {
            format: STATE_FORMAT,
            boots: 1,
            partitions: Vec::new(),
            sets: Vec::new(),
            goals: Vec::new(),
            cleared: Vec::new(),
            disabled_modules: Vec::new(),
            disabled_regions: Vec::new(),
            namespaces: Vec::new(),
            media_errors: Vec::new(),
            known_errors: Vec::new(),
            dax_devices: Vec::new(),
            security: Vec::new(),
            smart: Vec::new(),
            errors: Vec::new(),
            firmware: Vec::new(),
            relocations: Vec::new(),
            cxl: CxlState::default(),
            preferences: Preferences::default(),
        }
    }

    /// Returns the partitioning of a module; `None` if it is not configured.
    pub fn partition(&self, module: Handle) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.module == module)
    }

    /// Returns true if the module has configuration data, as goals count it.
    pub fn is_configured(&self, module: Handle) -> bool {
        self.partition(module).is_some() && !self.cleared.contains(&module)
    }

    /// Returns true if the module was disabled since the last reboot.
    pub(crate) fn is_disabled(&self, module: Handle) -> bool {
        self.disabled_modules.contains(&module)
    }

    /// Returns true if the next reboot partitions the module again, or takes its partition away.
    pub(crate) fn changes_at_reboot(&self, module: Handle) -> bool {
        self.goal(module).is_some() || self.cleared.contains(&module)
    }

    /// Returns the sets that a module is part of, with its offset in each.
    pub fn sets_of(&self, module: Handle) -> impl Iterator<Item = (&InterleaveSet, Member)> {
        self.sets.iter().flat_map(move |set| {
            set.members.iter().filter(move |member| member.module == module).map(move |member| (set, *member))
        })
    }

    /// Returns the pending goal of a module.
    pub fn goal(&self, module: Handle) -> Option<&Goal> {
        self.goals.iter().find(|goal| goal.module == module)
    }

    /// Scrubs the media: the kernel learns all errors of the medium, and modules log those that it did not know.
    pub(crate) fn find_errors(&mut self) {
        for error in self.unknown_errors() {
            self.log_lost(error, FoundBy::AddressRangeScrub);
        }
        for error in self.media_errors.clone() {
            range::add(&mut self.known_errors, error);
        }
    }

    /// Logs an error of the medium.
    pub(crate) fn log_lost(&mut self, error: MediaError, found_by: FoundBy) {
        error_log::add_lost(&mut self.errors, error.module, &(error.off..error.end()), found_by);
    }

    /// Returns the errors of the medium that the kernel does not know.
    fn unknown_errors(&self) -> Vec<MediaError> {
        let mut unknown = self.media_errors.clone();
        for known in &self.known_errors {
            range::remove(&mut unknown, known.module, &(known.off..known.end()));
        }
        unknown
    }

    /// Starts the kernel: it finds all errors of the medium, and knows no others.
    pub(crate) fn restart_errors(&mut self) {
        self.find_errors();
        self.known_errors.clone_from(&self.media_errors);
    }

    /// Clears the errors in a range of a module that was written.
    pub(crate) fn clear_errors(&mut self, module: Handle, off: u64, len: u64) {
        for errors in [&mut self.media_errors, &mut self.known_errors] {
            range::remove(errors, module, &(off..off + len));
        }
        if let Some(device) = module.cxl_device() {
            self.cxl.clear_poison(device, &(off..off + len));
        }
    }

    /// Returns the ranges that can't be read.
    pub(crate) fn lost(&self) -> impl Iterator<Item = MediaError> {
        let poison = self.cxl.poison.iter().map(|one| MediaError {
            module: Handle::of_cxl(one.device),
            off: one.off,
            len: CxlPoison::LEN,
        });
        self.media_errors.iter().chain(&self.known_errors).copied().chain(poison)
    }

    /// Returns the first unreadable byte in a range of a module, and the number of bytes from there on.
    pub(crate) fn unreadable(&self, module: Handle, part: &Range<u64>) -> Option<(u64, u64)> {
        range::first_lost(self.lost(), module, part)
    }
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}
