//! Which tools and which kernel a machine is seen through.

use serde::Deserialize;

/// Which tools and which kernel a machine is seen through: what they print, and how they round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The generation of ipmctl.
    pub ipmctl: IpmctlGeneration,
    /// The version of ndctl, as 64 or 76.
    pub ndctl: u32,
    /// The kernel.
    pub kernel: KernelVersion,
    /// What the platform carries to the media when power fails.
    pub domain: PersistenceDomain,
}

/// The generation of ipmctl, which decides on digits, words and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpmctlGeneration {
    /// 01.x: capacities with one digit, cut off.
    One,
    /// 02.x and 03.x: capacities rounded to three digits; memory resources as a table.
    Three,
}

/// A kernel, by the two numbers that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// 4 in 4.20.
    pub major: u32,
    /// 20 in 4.20.
    pub minor: u32,
}

impl KernelVersion {
    /// The two numbers of a text like `4.20`.
    pub fn parse(text: &str) -> Option<KernelVersion> {
        let (major, minor) = text.split_once('.')?;
        Some(KernelVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Whether page maps are counted in whole sections of 128 MiB, as before memory could be added in parts
    /// of sections (5.3).
    pub fn rounds_to_sections(self) -> bool {
        self < KernelVersion { major: 5, minor: 3 }
    }

    /// Whether modules tell their security state (from 5.0 on).
    pub fn tells_security(self) -> bool {
        self >= KernelVersion { major: 5, minor: 0 }
    }

    /// Whether regions have an alignment of their own (from 5.7 on).
    pub fn aligns_regions(self) -> bool {
        self >= KernelVersion { major: 5, minor: 7 }
    }
}

/// What the platform carries to the media when power fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersistenceDomain {
    /// CPU caches, too.
    CpuCache,
    /// What has reached the memory controller.
    #[default]
    MemoryController,
    /// The platform does not say.
    Unknown,
}

impl PersistenceDomain {
    /// The kernel's word for it.
    pub fn word(self) -> &'static str {
        match self {
            PersistenceDomain::CpuCache => "cpu_cache",
            PersistenceDomain::MemoryController => "memory_controller",
            PersistenceDomain::Unknown => "unknown",
        }
    }
}
