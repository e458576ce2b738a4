//! `ipmctl show -dimm`.

use super::display::{Attributes, DisplayOptions, UNKNOWN, capacity, dimm_id, is_first_generation, print};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records, Value};
use crate::machine::{Health, IpmctlGeneration, Module, Security};
use crate::platform::Platform;
use crate::security;
use crate::smart;

/// The columns of generation 1.
const FIRST: [Column; 6] = [
    Column("DimmID", 22),
    Column("Capacity", 25),
    Column("HealthState", 19),
    Column("ActionRequired", 15),
    Column("LockState", 31),
    Column("FWVersion", 13),
];

/// The columns of later generations.
pub(crate) const LATER: [Column; 5] = [
    Column("DimmID", 22),
    Column("Capacity", 25),
    Column("LockState", 31),
    Column("HealthState", 19),
    Column("FWVersion", 13),
];

const NOT_APPLICABLE: Value = Value::absent("N/A");

pub(super) fn show(
    platform: &Platform,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let modules = targets.resolve(&platform.machine)?;
    let records = modules.into_iter().map(|module| dimm_record(platform, module, display)).collect();
    let records = Records { list_tag: "DimmList", tag: "Dimm", part_tag: "", head: Some("DimmID"), records };
    let columns: &[Column] = if is_first_generation(&platform.machine) { &FIRST } else { &LATER };
    print(records, columns, display)
}

fn dimm_record(platform: &Platform, module: &Module, display: &DisplayOptions) -> Record {
    if module.health != Health::NonFunctional {
        return live_record(platform, module, display);
    }
    let dead = dead_record(platform, module, display);
    match display.attributes {
        Attributes::All => dead,
        Attributes::Default | Attributes::Named(_) => {
            live_record(platform, module, display).limited_to(&dead)
        }
    }
}

/// Returns all values of a module that answers.
fn live_record(platform: &Platform, module: &Module, display: &DisplayOptions) -> Record {
    let first = is_first_generation(&platform.machine);
    let record = Record::new()
        .with("DimmID", dimm_id(platform, module.handle))
        .with("Capacity", capacity(&platform.machine, module.capacity, display))
        .with("LockState", module.security.as_str());
    let optional = ["SVNDowngrade", "SecureErasePolicy", "S3ResumeOptIn", "FwActivateOptIn"];
    let record = if first { record } else { unknown(record, &optional) };
    let record = record
        .with("HealthState", smart::report(platform, module).health.as_str())
        .with("HealthStateReason", health_reason(platform, module))
        .with("FWVersion", module.firmware.as_deref().map_or(NOT_APPLICABLE, Value::from))
        .with("FWAPIVersion", UNKNOWN);
    let record = since_third(platform, record, &["FWActiveAPIVersion"]);
    let record = record
        .with("InterfaceFormatCode", "0x0301 (Non-Energy Backed Byte Addressable)")
        .with("ManageabilityState", "Manageable");
    let record = if first { record } else { record.with("PopulationViolation", "No") };
    let record = record
        .with("PhysicalID", hex(module.physical_id))
        .with("DimmHandle", module.handle)
        .with("DimmUID", module.identity.map_or(UNKNOWN, |identity| identity.to_string().into()));
    let record = with_location(record, module).with("MemoryType", "Logical Non-Volatile Device");
    let record = with_identity(record, module);
    let record = with_uses(platform, record, module, display);
    let record = with_states(platform, record, module);
    if first { record.with("ActionRequired", 0) } else { record }
}

/// Returns all values of a module that is present and does not answer.
fn dead_record(platform: &Platform, module: &Module, display: &DisplayOptions) -> Record {
    let record = Record::new()
        .with("DimmID", dimm_id(platform, module.handle))
        .with("Capacity", capacity(&platform.machine, module.capacity, display))
        .with("HealthState", module.health.as_str())
        .with("HealthStateReason", health_reason(platform, module))
        .with("SubsystemDeviceID", UNKNOWN)
        .with("SubsystemRevisionID", UNKNOWN);
    let serial = module.identity.map_or(UNKNOWN, |identity| serial_number(identity.serial).into());
    unknown(with_location(record, module), &["BootStatus", "BootStatusRegister"])
        .with("SerialNumber", serial)
        .with("FWVersion", module.firmware.as_deref().map_or(NOT_APPLICABLE, Value::from))
        .with("FWAPIVersion", NOT_APPLICABLE)
        .with("PartNumber", module.part_number.as_deref().map_or(NOT_APPLICABLE, Value::from))
}

/// Adds the use of the module's capacity.
fn with_uses(platform: &Platform, record: Record, module: &Module, display: &DisplayOptions) -> Record {
    let uses = platform.capacities(module);
    let capacity = |bytes| capacity(&platform.machine, bytes, display);
    let record = record
        .with("MemoryCapacity", capacity(uses.memory))
        .with("AppDirectCapacity", capacity(uses.app_direct))
        .with("UnconfiguredCapacity", capacity(uses.unconfigured))
        .with("InaccessibleCapacity", capacity(uses.inaccessible))
        .with("ReservedCapacity", capacity(uses.reserved));
    unknown(record, &["PackageSparingCapable", "PackageSparingEnabled", "PackageSparesAvailable"])
}

/// Adds the states of the module.
fn with_states(platform: &Platform, record: Record, module: &Module) -> Record {
    let configured = platform.state.is_configured(module.handle);
    // Firmware calls a module new. It does so at a start, and not when the configuration data is deleted.
    let is_new = platform.state.partition(module.handle).is_none();
    let record = record.with("IsNew", u16::from(is_new));
    let record = since_third(platform, record, &["AveragePowerReportingTimeConstant"]);
    let record = with_power(platform, record.with("ViralPolicy", 0).with("ViralState", 0), module);
    let record = unknown(record, &["LatchedLastShutdownStatus", "UnlatchedLastShutdownStatus"]);
    let record = record
        .with("ThermalThrottleLossPercent", NOT_APPLICABLE)
        .with("LastShutdownTime", UNKNOWN)
        .with("ModesSupported", "Memory Mode, App Direct")
        .with("SecurityCapabilities", "Encryption, Erase")
        .with("MasterPassphraseEnabled", u16::from(security::has_master_passphrase(platform, module)))
        .with("ConfigurationStatus", if configured { "Valid" } else { "Not Configured" })
        .with("SKUViolation", 0)
        .with("ARSStatus", if platform.machine.firmware_scrubs { "Completed".into() } else { UNKNOWN })
        .with("OverwriteStatus", overwrite_status(module))
        .with("AitDramEnabled", 1)
        .with("BootStatus", "Success")
        .with("BootStatusRegister", UNKNOWN);
    let shutdown = [
        "LatchSystemShutdownState",
        "PreviousPowerCycleLatchSystemShutdownState",
        "ExtendedAdrEnabled",
        "PpcExtendedAdrEnabled",
    ];
    let record = since_third(platform, record, &shutdown);
    let record = with_injections(platform, record, module);
    let counters = [
        "PoisonErrorInjectionsCounter",
        "PoisonErrorClearCounter",
        "MediaTemperatureInjectionsCounter",
        "SoftwareTriggersCounter",
    ];
    let record = counters
        .into_iter()
        .fold(record, |record, counter| record.with(counter, 0))
        .with("MaxControllerTemperature", celsius(module.sensors.controller_celsius))
        .with("MaxMediaTemperature", celsius(module.sensors.media_celsius))
        .with("MixedSKU", 0);
    // Firmware with an interface of before 3.5 has no such mode.
    if is_third(platform) { record.with("FIPSModeStatus", NOT_APPLICABLE) } else { record }
}

/// Adds the injections of the health report. Injected poison is an error of the media, and no setting of the firmware.
fn with_injections(platform: &Platform, record: Record, module: &Module) -> Record {
    let injected = smart::entry(platform, module);
    let triggers = [
        (injected.fatal, "Fatal Error"),
        (injected.spares_percent.is_some(), "Percentage Remaining"),
        (injected.unsafe_shutdown, "Dirty Shutdown"),
    ];
    let names: Vec<&str> = triggers.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    let details = if names.is_empty() { "None".to_owned() } else { names.join(", ") };
    record
        .with("ErrorInjectionEnabled", 0)
        .with("MediaTemperatureInjectionEnabled", u16::from(injected.media_celsius.is_some()))
        .with("SoftwareTriggersEnabled", u16::from(!names.is_empty()))
        .with("SoftwareTriggersEnabledDetails", details)
}

/// Returns the status of an overwrite. It is unknown after the end, as ipmctl says if another operation ran meanwhile.
fn overwrite_status(module: &Module) -> Value {
    if module.security == Security::Overwrite { "In progress".into() } else { UNKNOWN }
}

/// Adds the power limits of the module. Those of the boosted bandwidth are in the interface of firmware from 2.1 on, which
/// modules of the first product have not.
fn with_power(platform: &Platform, record: Record, module: &Module) -> Record {
    let boosts = module.firmware.as_deref().is_some_and(|version| !version.starts_with("01."));
    let if_it_boosts = |record, names: &[&'static str]| {
        if boosts { since_third(platform, record, names) } else { record }
    };
    let record = unknown(record, &["PeakPowerBudget", "AvgPowerLimit"]);
    let record = if_it_boosts(record, &["MemoryBandwidthBoostFeature", "MemoryBandwidthBoostMaxPowerLimit"]);
    let record = since_third(platform, record, &["MemoryBandwidthBoostAveragePowerTimeConstant"]);
    let record = unknown(record, &["MaxAveragePowerLimit"]);
    let record = if_it_boosts(record, &["MaxMemoryBandwidthBoostMaxPowerLimit"]);
    let names = [
        "MaxMemoryBandwidthBoostAveragePowerTimeConstant",
        "MemoryBandwidthBoostAveragePowerTimeConstantStep",
        "MaxAveragePowerReportingTimeConstant",
        "AveragePowerReportingTimeConstantStep",
        "AveragePower",
        "Average12vPower",
        "Average1_2vPower",
    ];
    since_third(platform, record, &names)
}

fn is_third(platform: &Platform) -> bool {
    platform.machine.profile.ipmctl == IpmctlGeneration::Three
}

/// Adds values that ipmctl shows since 03.x and machine files do not have.
fn since_third(platform: &Platform, record: Record, names: &[&'static str]) -> Record {
    if is_third(platform) { unknown(record, names) } else { record }
}

fn hex(number: u16) -> String {
    format!("{number:#06x}")
}

/// Adds values that machine files do not have, as unknown.
fn unknown(record: Record, names: &[&'static str]) -> Record {
    names.iter().fold(record, |record, name| record.with(name, UNKNOWN))
}

/// Adds the place of the module.
fn with_location(record: Record, module: &Module) -> Record {
    record
        .with("SocketID", hex(module.handle.socket()))
        .with("MemControllerID", hex(module.handle.controller()))
        .with("ChannelID", hex(module.handle.channel()))
        .with("ChannelPos", module.handle.slot())
}

/// Adds manufacturer and identity of the module.
fn with_identity(record: Record, module: &Module) -> Record {
    let vendor = module.identity.map(|identity| u16::from_be_bytes(identity.vendor));
    let vendor_word = vendor.map_or(UNKNOWN, |vendor| hex(vendor).into());
    let record = record
        .with("Manufacturer", if vendor == Some(0x8089) { "Intel".into() } else { UNKNOWN })
        .with("VendorID", vendor_word.clone());
    let record = unknown(record, &["DeviceID", "RevisionID"]).with("SubsystemVendorID", vendor_word.clone());
    let record = unknown(record, &["SubsystemDeviceID", "SubsystemRevisionID"])
        .with("DeviceLocator", module.locator.as_str());
    let made = module.identity.and_then(|identity| identity.made);
    let location = made.map_or(NOT_APPLICABLE, |(location, _)| format!("{location:#04x}").into());
    let date = made.map_or(NOT_APPLICABLE, |(_, [year, week])| format!("{year:02x}-{week:02x}").into());
    record
        .with("ManufacturingInfoValid", u16::from(made.is_some()))
        .with("ManufacturingLocation", location)
        .with("ManufacturingDate", date)
        .with("SerialNumber", module.identity.map_or(UNKNOWN, |one| serial_number(one.serial).into()))
        .with("PartNumber", module.part_number.as_deref().map_or(UNKNOWN, Value::from))
        .with("BankLabel", UNKNOWN)
        .with("DataWidth", "64 b")
        .with("TotalWidth", "72 b")
        .with("Speed", UNKNOWN)
        .with("FormFactor", "DIMM")
        .with("ManufacturerID", vendor_word)
        .with("ControllerRevisionID", UNKNOWN)
}

fn celsius(degrees: u32) -> Value {
    Value::number(degrees.into(), format!("{degrees} C"))
}

fn serial_number(serial: [u8; 4]) -> String {
    format!("{:#010x}", u32::from_be_bytes(serial))
}

/// Returns the reason for the health state that the module reports. An injected state has the one reason that ipmctl has
/// for a fatal one beside a failed test; the machine file names no reason for its own.
fn health_reason(platform: &Platform, module: &Module) -> Value {
    let report = smart::report(platform, module);
    match report.health {
        Health::Healthy => "None".into(),
        state if state != module.health => "Critical internal state failure".into(),
        _ if report.spares_percent == 0 => "Percentage remaining is 0".into(),
        _ => UNKNOWN,
    }
}
