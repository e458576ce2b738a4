//! `ipmctl show -dimm`.

use super::{Display, print};
use crate::error::PlatformError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records};
use crate::machine::{Health, Module};
use crate::platform::Platform;

/// The columns of generation 1.
const FIRST: [Column; 6] = [
    Column("DimmID", 22),
    Column("Capacity", 25),
    Column("HealthState", 19),
    Column("ActionRequired", 15),
    Column("LockState", 31),
    Column("FWVersion", 14),
];

/// The columns of later generations.
pub(crate) const LATER: [Column; 5] = [
    Column("DimmID", 22),
    Column("Capacity", 25),
    Column("LockState", 31),
    Column("HealthState", 19),
    Column("FWVersion", 14),
];

impl Platform {
    pub(super) fn show_dimms(&self, targets: &Targets, display: &Display) -> Result<String, PlatformError> {
        let modules = self.targets(targets)?;
        let records = modules.into_iter().map(|module| self.dimm_record(module, display)).collect();
        let records =
            Records { list_tag: "DimmList", tag: "Dimm", part_tag: "", head: Some("DimmID"), records };
        let columns: &[Column] = if self.is_first_generation() { &FIRST } else { &LATER };
        print(records, columns, display)
    }

    fn dimm_record(&self, module: &Module, display: &Display) -> Record {
        let dead = module.health == Health::NonFunctional;
        let told = |value: String| if dead { "N/A".to_owned() } else { value };
        let hex = |number: u32| format!("{number:#06x}");
        let record = Record::new()
            .with("DimmID", module.handle)
            .with("Capacity", self.capacity(module.capacity, display))
            .with("LockState", told(module.security.word().to_owned()))
            .with("HealthState", module.health.word())
            .with("FWVersion", module.firmware.as_deref().unwrap_or("N/A"));
        let record = if self.is_first_generation() {
            record.with("ActionRequired", told("0".to_owned()))
        } else {
            record
        };
        let record = record
            .with("HealthStateReason", if module.health == Health::Healthy { "None" } else { "Unknown" })
            .with("ManageabilityState", if dead { "Unmanageable" } else { "Manageable" })
            .with("PhysicalID", hex(module.physical_id.into()))
            .with("DimmHandle", module.handle)
            .with("DimmUID", module.identity.map_or("N/A".to_owned(), |identity| identity.to_string()))
            .with("SocketID", hex(module.handle.socket().into()))
            .with("MemControllerID", hex(module.handle.controller().into()))
            .with("ChannelID", hex(module.handle.channel().into()))
            .with("ChannelPos", module.handle.slot())
            .with("MemoryType", "Logical Non-Volatile Device");
        let record = identity_values(record, module)
            .with("PartNumber", module.part_number.as_deref().unwrap_or("N/A"))
            .with("DeviceLocator", &module.locator);
        self.use_values(record, module, display)
    }

    /// What the module is used for, and in which state it is.
    fn use_values(&self, record: Record, module: &Module, display: &Display) -> Record {
        let uses = self.capacities(module);
        let dead = module.health == Health::NonFunctional;
        let capacity = |bytes| if dead { "N/A".to_owned() } else { self.capacity(bytes, display) };
        let configured = self.state.partition(module.handle).is_some();
        let sensors = &module.sensors;
        record
            .with("MemoryCapacity", capacity(uses.memory))
            .with("AppDirectCapacity", capacity(uses.app_direct))
            .with("UnconfiguredCapacity", capacity(uses.unconfigured))
            .with("InaccessibleCapacity", capacity(uses.inaccessible))
            .with("ReservedCapacity", capacity(uses.reserved))
            .with("IsNew", u8::from(!configured))
            .with("LatchedDirtyShutdownCount", sensors.latched_dirty_shutdowns)
            .with("UnlatchedDirtyShutdownCount", sensors.unlatched_dirty_shutdowns)
            .with("ModesSupported", "Memory Mode, App Direct")
            .with("SecurityCapabilities", "Encryption, Erase")
            .with("MasterPassphraseEnabled", 0)
            .with("ConfigurationStatus", if configured { "Valid" } else { "Not configured" })
    }
}

fn identity_values(record: Record, module: &Module) -> Record {
    let Some(identity) = module.identity else { return record };
    let vendor = u16::from_be_bytes(identity.vendor);
    let record = record.with("Manufacturer", if vendor == 0x8089 { "Intel" } else { "Unknown" });
    let record = record.with("VendorID", format!("{vendor:#06x}"));
    let record = match identity.made {
        Some((location, [year, week])) => record
            .with("ManufacturingInfoValid", 1)
            .with("ManufacturingLocation", format!("{location:#04x}"))
            .with("ManufacturingDate", format!("{year:02x}-{week:02x}")),
        None => record.with("ManufacturingInfoValid", 0),
    };
    record.with("SerialNumber", format!("{:#010x}", u32::from_be_bytes(identity.serial)))
}
