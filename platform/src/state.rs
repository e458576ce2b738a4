//! What a machine remembers: how its modules are divided, which sets they form, and what is to change.

use crate::machine::Handle;
use crate::media_error::MediaError;
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The format of state directories that this program writes.
pub const STATE_FORMAT: u32 = 1;

/// What a machine remembers, its labels apart: those lie on the modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The format of the directory.
    pub format: u32,
    /// How often the machine was started.
    pub boots: u64,
    /// How each configured module is divided; a module without an entry is not configured.
    #[serde(rename = "partition", default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// The interleave sets, in the order in which firmware maps them.
    #[serde(rename = "set", default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<InterleaveSet>,
    /// What is to change at the next start.
    #[serde(rename = "goal", default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goal>,
    /// Regions that were disabled since the start, by their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled_regions: Vec<u32>,
    /// What is known of namespaces until the next start.
    #[serde(rename = "namespace", default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceState>,
    /// What the modules have lost: it can't be read until it is written.
    #[serde(rename = "media_error", default, skip_serializing_if = "Vec::is_empty")]
    pub media_errors: Vec<MediaError>,
    /// What of that the kernel knows, and what it still believes.
    #[serde(rename = "known_error", default, skip_serializing_if = "Vec::is_empty")]
    pub known_errors: Vec<MediaError>,
}

/// What is known of a namespace until the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceState {
    /// Which.
    pub uuid: Uuid,
    /// Y of namespaceX.Y.
    pub number: u32,
    /// Whether it was switched off.
    pub disabled: bool,
}

/// How a configured module is divided, in bytes; its sets have the rest.
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
    /// Bytes that each module gives.
    pub share: u64,
    /// Which labels its modules have.
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
    /// Where on its media the share starts, in bytes.
    pub offset: u64,
}

/// What a module is to be after the next start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The module.
    pub module: Handle,
    /// Bytes of volatile memory.
    pub memory: u64,
    /// Bytes of persistent capacity that are not mapped.
    pub reserved: u64,
    /// Which labels the module gets.
    pub labels: LabelVersion,
    /// What it gives to sets: two at most, as firmware has it.
    #[serde(default)]
    pub shares: Vec<Share>,
}

/// What a module is to give to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Which set: goals with the same number form one.
    pub set: u32,
    /// Bytes.
    pub size: u64,
}

/// Which namespace labels are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelVersion {
    /// Those before UEFI.
    #[serde(rename = "1.1")]
    V1_1,
    /// Those of UEFI 2.7.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
}

impl fmt::Display for LabelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LabelVersion::V1_1 => "1.1",
            LabelVersion::V1_2 => "1.2",
        })
    }
}

impl State {
    /// A machine fresh from the factory: nothing is configured.
    pub fn new() -> State {
        State {
            format: STATE_FORMAT,
            boots: 1,
            partitions: Vec::new(),
            sets: Vec::new(),
            goals: Vec::new(),
            disabled_regions: Vec::new(),
            namespaces: Vec::new(),
            media_errors: Vec::new(),
            known_errors: Vec::new(),
        }
    }

    /// How a module is divided, if it is configured.
    pub fn partition(&self, module: Handle) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.module == module)
    }

    /// The sets that a module is part of, with its offset in each.
    pub fn sets_of(&self, module: Handle) -> impl Iterator<Item = (&InterleaveSet, Member)> {
        self.sets.iter().flat_map(move |set| {
            set.members.iter().filter(move |member| member.module == module).map(move |member| (set, *member))
        })
    }

    /// The goal of a module, if it has one.
    pub fn goal(&self, module: Handle) -> Option<&Goal> {
        self.goals.iter().find(|goal| goal.module == module)
    }
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}
