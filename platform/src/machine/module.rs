//! A persistent memory module, and a DRAM module.

use crate::machine::Handle;
use lode_layout::ModuleId;
use serde::Deserialize;

/// A persistent memory module.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its place, by which firmware calls it.
    pub handle: Handle,
    /// Its number in the SMBIOS tables.
    pub physical_id: u16,
    /// What is printed on the board beside the slot.
    pub locator: String,
    /// Its raw capacity in bytes; 0 where a dead module does not tell.
    pub capacity: u64,
    /// Who it is, unless it is too dead to say.
    pub identity: Option<ModuleId>,
    /// The version of its firmware, unless it is too dead to say.
    pub firmware: Option<String>,
    /// The maker's number for this kind of module.
    pub part_number: Option<String>,
    /// How it is.
    pub health: Health,
    /// Whether its data can be reached.
    pub security: Security,
    /// Bytes of its label storage area.
    pub label_area: u64,
    /// What it measures of itself.
    pub sensors: Sensors,
}

impl Module {
    /// Whether it answers and its data can be reached, so that goals and regions can use it.
    pub fn usable(&self) -> bool {
        self.health != Health::NonFunctional && self.security != Security::Locked
    }
}

/// How a module is, in ipmctl's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Health {
    /// As it should be.
    #[default]
    Healthy,
    /// Maintenance is due.
    #[serde(rename = "Noncritical failure")]
    Noncritical,
    /// Performance or capacity are reduced.
    #[serde(rename = "Critical failure")]
    Critical,
    /// Data is lost, or will be.
    #[serde(rename = "Fatal failure")]
    Fatal,
    /// It is there and does not answer.
    #[serde(rename = "Non-functional")]
    NonFunctional,
}

impl Health {
    /// ipmctl's word.
    pub fn word(self) -> &'static str {
        match self {
            Health::Healthy => "Healthy",
            Health::Noncritical => "Noncritical failure",
            Health::Critical => "Critical failure",
            Health::Fatal => "Fatal failure",
            Health::NonFunctional => "Non-functional",
        }
    }

    /// The word of the kernel's SMART report.
    pub fn smart_word(self) -> &'static str {
        match self {
            Health::Healthy => "ok",
            Health::Noncritical => "non-critical",
            Health::Critical => "critical",
            Health::Fatal | Health::NonFunctional => "fatal",
        }
    }
}

/// Whether a module's data can be reached, in ipmctl's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Security {
    /// No passphrase is set.
    #[default]
    Disabled,
    /// A passphrase is set and was given.
    Unlocked,
    /// A passphrase is set and was not given: no data can be reached.
    Locked,
    /// As it is until the next reboot.
    Frozen,
    /// It knows of no passphrases, as the modules of virtual machines.
    #[serde(rename = "Not supported")]
    Unsupported,
}

impl Security {
    /// ipmctl's word.
    pub fn word(self) -> &'static str {
        match self {
            Security::Disabled => "Disabled",
            Security::Unlocked => "Unlocked",
            Security::Locked => "Locked",
            Security::Frozen => "Frozen",
            Security::Unsupported => "Not Supported",
        }
    }

    /// The kernel's word, if it has one for it.
    pub fn kernel_word(self) -> Option<&'static str> {
        match self {
            Security::Disabled => Some("disabled"),
            Security::Unlocked => Some("unlocked"),
            Security::Locked => Some("locked"),
            Security::Frozen => Some("frozen"),
            Security::Unsupported => None,
        }
    }
}

/// What a module measures of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sensors {
    /// The temperature of the media in degrees Celsius.
    pub media_celsius: u32,
    /// The temperature of the controller in degrees Celsius.
    pub controller_celsius: u32,
    /// How much of its life is left.
    pub remaining_percent: u32,
    /// How often power went away before it could finish, counted by the platform since it latches.
    pub latched_dirty_shutdowns: u32,
    /// The same without the latch.
    pub unlatched_dirty_shutdowns: u32,
    /// Seconds that it had power, ever.
    pub power_on_seconds: u64,
    /// Seconds since it was started.
    pub up_seconds: u64,
    /// How often it was started before this machine was made.
    pub power_cycles: u64,
    /// Errors of its firmware.
    pub firmware_errors: u32,
}

impl Default for Sensors {
    /// A new module at room temperature.
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
#[derive(Clone, Debug)]
pub struct Dram {
    /// The socket, from 0.
    pub socket: u16,
    /// Its number in the SMBIOS tables.
    pub physical_id: u16,
    /// What is printed on the board beside the slot.
    pub locator: String,
    /// Its capacity in bytes.
    pub capacity: u64,
}

/// DRAM that the kernel was told to take for persistent memory, by `memmap=SIZE!START`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memmap {
    /// The first physical address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
}
