//! A persistent memory module, and a DRAM module.

use super::error::ModuleError;
use super::handle::Handle;
use super::reader::CAPACITY_MAX;
use lode_nvdimm::ModuleId;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A persistent memory module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Firmware's handle.
    pub handle: Handle,
    /// Its number in the SMBIOS tables.
    pub physical_id: u16,
    /// Device locator in the SMBIOS tables: the name of the slot.
    pub locator: String,
    /// Raw capacity in bytes; 0 if a dead module does not report it.
    pub capacity: u64,
    /// Identity; `None` if a dead module does not report it.
    pub identity: Option<ModuleId>,
    /// Version of its firmware; `None` if a dead module does not report it.
    pub firmware: Option<String>,
    /// The manufacturer's part number.
    pub part_number: Option<String>,
    /// Health state.
    pub health: Health,
    /// Security state: that of the machine file, or of [`State::security`](crate::State::security) if that has one.
    pub security: Security,
    /// Bytes of its label storage area.
    pub label_area: u64,
    /// Sensor values.
    pub sensors: Sensors,
}

impl Module {
    /// Returns true if a module can have a capacity of so many bytes.
    pub(crate) fn is_capacity(bytes: u64) -> bool {
        bytes < CAPACITY_MAX && bytes.is_multiple_of(64 << 10)
    }

    /// Returns true if the module answers, is not locked, and does not overwrite its media. Only such modules can get goals and be part of regions.
    pub fn usable(&self) -> bool {
        self.check_usable().is_ok()
    }

    /// Checks that the module is usable.
    ///
    /// # Errors
    /// [`ModuleError::DeadModule`], [`ModuleError::LockedModule`], [`ModuleError::OverwrittenModule`].
    pub(crate) fn check_usable(&self) -> Result<(), ModuleError> {
        let module = self.handle;
        match (self.health, self.security) {
            (Health::NonFunctional, _) => Err(ModuleError::DeadModule { module }),
            (_, Security::Locked) => Err(ModuleError::LockedModule { module }),
            (_, Security::Overwrite) => Err(ModuleError::OverwrittenModule { module }),
            _ => Ok(()),
        }
    }
}

/// Health state of a module, in ipmctl's words. A worse one is larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Health {
    /// No failure.
    #[default]
    Healthy,
    /// Maintenance is required.
    #[serde(rename = "Noncritical failure")]
    Noncritical,
    /// Performance or capacity is reduced.
    #[serde(rename = "Critical failure")]
    Critical,
    /// Data is lost, or loss is imminent.
    #[serde(rename = "Fatal failure")]
    Fatal,
    /// The module is present and does not answer.
    #[serde(rename = "Non-functional")]
    NonFunctional,
}

impl Health {
    /// Returns ipmctl's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Healthy => "Healthy",
            Health::Noncritical => "Noncritical failure",
            Health::Critical => "Critical failure",
            Health::Fatal => "Fatal failure",
            Health::NonFunctional => "Non-functional",
        }
    }

    /// Returns the word of the kernel's SMART report.
    pub fn smart_str(self) -> &'static str {
        match self {
            Health::Healthy => "ok",
            Health::Noncritical => "non-critical",
            Health::Critical => "critical",
            Health::Fatal | Health::NonFunctional => "fatal",
        }
    }
}

/// Security state of a module, in ipmctl's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Security {
    /// No passphrase is set.
    #[default]
    Disabled,
    /// A passphrase is set and was given.
    Unlocked,
    /// A passphrase is set and was not given: no data is accessible.
    Locked,
    /// The security state can't be changed until the next reboot.
    Frozen,
    /// The module has no passphrases, like the modules of virtual machines.
    #[serde(rename = "Not supported")]
    Unsupported,
    /// The module overwrites its media. No machine file has this state.
    #[serde(skip)]
    Overwrite,
}

impl Security {
    /// Returns ipmctl's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Security::Disabled => "Disabled",
            Security::Unlocked => "Unlocked",
            Security::Locked => "Locked",
            Security::Frozen => "Frozen",
            Security::Unsupported => "Not Supported",
            Security::Overwrite => "Unknown",
        }
    }

    /// Returns the kernel's word; `None` if the kernel has none for this state.
    pub fn kernel_str(self) -> Option<&'static str> {
        match self {
            Security::Disabled => Some("disabled"),
            Security::Unlocked => Some("unlocked"),
            Security::Locked => Some("locked"),
            Security::Frozen => Some("frozen"),
            Security::Unsupported => None,
            Security::Overwrite => Some("overwrite"),
        }
    }
}

/// Sensor values of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sensors {
    /// The temperature of the media in degrees Celsius.
    pub media_celsius: u32,
    /// The temperature of the controller in degrees Celsius.
    pub controller_celsius: u32,
    /// Remaining life of the media, in percent.
    #[serde(deserialize_with = "percent")]
    pub remaining_percent: u32,
    /// Latched dirty shutdown count: power losses before the module had finished, counted while the latch is set.
    pub latched_dirty_shutdowns: u32,
    /// Unlatched dirty shutdown count.
    pub unlatched_dirty_shutdowns: u32,
    /// Seconds that the module was powered, in total.
    pub power_on_seconds: u64,
    /// Seconds since the last power-on.
    pub up_seconds: u64,
    /// Power cycles before this machine was created.
    pub power_cycles: u64,
    /// Count of firmware errors.
    pub firmware_errors: u32,
}

/// Parses a part of a whole in percent.
fn percent<'de, D: Deserializer<'de>>(found: D) -> Result<u32, D::Error> {
    match u32::deserialize(found)? {
        percent @ ..=100 => Ok(percent),
        percent => Err(D::Error::custom(format_args!("{percent} percent can't be: at most 100 remain"))),
    }
}

impl Default for Sensors {
    /// Returns the values of a new module at room temperature.
    fn default() -> Sensors {
        Sensors {
            media_celsius: 33,
            controller_celsius: 35,
            remaining_percent: 100,
            latched_dirty_shutdowns: 0,
            unlatched_dirty_shutdowns: 0,
            power_on_seconds: 0,
            up_seconds: 0,
            power_cycles: 0,
            firmware_errors: 0,
        }
    }
}

/// A DRAM module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dram {
    /// The socket, from 0.
    pub socket: u16,
    /// Its number in the SMBIOS tables.
    pub physical_id: u16,
    /// Device locator in the SMBIOS tables: the name of the slot.
    pub locator: String,
    /// Capacity in bytes.
    pub capacity: u64,
}

/// Memory that firmware reserves for applications (EFI_MEMORY_SP), and that the kernel shows as character devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftReserved {
    /// First physical address.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
}

/// DRAM that the kernel uses as persistent memory, by `memmap=SIZE!START`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memmap {
    /// First physical address.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
}
