//! Versions of the tools and the kernel that a machine emulates.

use serde::Deserialize;

/// Versions of the emulated tools and kernel, which decide on output and rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The generation of ipmctl.
    pub ipmctl: IpmctlGeneration,
    /// The version of ndctl, as 64 or 76.
    pub ndctl: u32,
    /// Version of the kernel.
    pub kernel: KernelVersion,
    /// Persistence domain of the platform.
    pub domain: PersistenceDomain,
}

/// The generation of ipmctl, which decides on digits, words and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpmctlGeneration {
    /// 01.x: capacities with one digit, cut off.
    One,
    /// 02.x: capacities rounded to three digits; memory resources as a table.
    Two,
    /// 03.x: as 02.x, and a goal for less memory than DRAM is refused.
    Three,
}

/// Version of a kernel, major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// Major version: 4 in 4.20.
    pub major: u32,
    /// Minor version: 20 in 4.20.
    pub minor: u32,
}

impl KernelVersion {
    /// Parses a version like `4.20`.
    pub fn parse(text: &str) -> Option<KernelVersion> {
        let (major, minor) = text.split_once('.')?;
        Some(KernelVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Returns true if page maps cover whole sections of 128 MiB. Kernels from 5.3 on can add parts of sections.
    pub fn rounds_to_sections(self) -> bool {
        self < KernelVersion { major: 5, minor: 3 }
    }

    /// Returns true if the kernel shows the security state of modules (from 5.0 on).
    pub fn reports_security(self) -> bool {
        self >= KernelVersion { major: 5, minor: 0 }
    }

    /// Returns true if the kernel shows a freeze of the security state beside the lock (from 5.4 on).
    pub fn separates_freeze(self) -> bool {
        self >= KernelVersion { major: 5, minor: 4 }
    }

    /// Returns true if the kernel takes memory that firmware reserves for applications as system RAM at a start (from
    /// 6.3 on). Older ones make a device of it that applications map.
    pub fn takes_soft_reserved_as_memory(self) -> bool {
        self >= KernelVersion { major: 6, minor: 3 }
    }

    /// Returns true if the kernel can activate the firmware of modules (from 5.9 on).
    pub fn activates_firmware(self) -> bool {
        self >= KernelVersion { major: 5, minor: 9 }
    }

    /// Returns true if the ports of CXL host bridges are those of their PCI buses (from 6.2 on). Older kernels have them at
    /// the ACPI devices.
    pub fn names_bridges_by_bus(self) -> bool {
        self >= KernelVersion { major: 6, minor: 2 }
    }

    /// Returns true if the kernel shows the serial number of modules of CXL devices (from 6.2 on).
    pub fn numbers_cxl_modules(self) -> bool {
        self >= KernelVersion { major: 6, minor: 2 }
    }

    /// Returns true if regions have an alignment of their own (from 5.7 on).
    pub fn aligns_regions(self) -> bool {
        self >= KernelVersion { major: 5, minor: 7 }
    }
}

/// Persistence domain: the stores that the platform saves to the media at power loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersistenceDomain {
    /// All stores, those in CPU caches included.
    CpuCache,
    /// Stores that have reached the memory controller.
    #[default]
    MemoryController,
    /// The platform does not report it.
    Unknown,
}

impl PersistenceDomain {
    /// Returns the kernel's word.
    pub fn as_str(self) -> &'static str {
        match self {
            PersistenceDomain::CpuCache => "cpu_cache",
            PersistenceDomain::MemoryController => "memory_controller",
            PersistenceDomain::Unknown => "unknown",
        }
    }
}
