//! `ipmctl show -topology`.

use super::display::{DisplayOptions, UNKNOWN, capacity, dimm_id, print};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records, Value};
use crate::platform::Platform;
use lode_layout::align_down;

pub(crate) const COLUMNS: [Column; 5] = [
    Column("DimmID", 22),
    Column("MemoryType", 30),
    Column("Capacity", 25),
    Column("PhysicalID", 10),
    Column("DeviceLocator", 15),
];

/// Granularity in bytes of a module's capacity in SMBIOS type 17.
const SMBIOS_UNIT: u64 = 64 << 20;

pub(super) fn show(
    platform: &Platform,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let hex = |number: u16| format!("{number:#06x}");
    let mut records = Vec::new();
    for module in targets.resolve(&platform.machine)? {
        let handle = module.handle;
        let rounded = align_down(module.capacity, SMBIOS_UNIT);
        let record = Record::new()
            .with("DimmID", dimm_id(platform, handle))
            .with("MemoryType", "Logical Non-Volatile Device")
            .with("Capacity", capacity(&platform.machine, rounded, display))
            .with("PhysicalID", hex(module.physical_id))
            .with("DeviceLocator", module.locator.as_str())
            .with("SocketID", hex(handle.socket()))
            .with("MemControllerID", hex(handle.controller()))
            .with("ChannelID", hex(handle.channel()))
            .with("ChannelPos", handle.slot())
            .with("NodeControllerID", hex(handle.node()));
        records.push(record.with("BankLabel", UNKNOWN));
    }
    // A list of modules excludes DRAM, which has no handle.
    let dram = if targets.modules.is_empty() { platform.machine.dram.as_slice() } else { &[] };
    for dram in
        dram.iter().filter(|dram| targets.sockets.is_empty() || targets.sockets.contains(&dram.socket))
    {
        let record = Record::new()
            .with("DimmID", Value::absent("N/A"))
            .with("MemoryType", "DDR4")
            .with("Capacity", capacity(&platform.machine, dram.capacity, display))
            .with("PhysicalID", hex(dram.physical_id))
            .with("DeviceLocator", dram.locator.as_str());
        let places = ["SocketID", "MemControllerID", "ChannelID", "ChannelPos", "NodeControllerID"];
        let record =
            places.into_iter().fold(record, |record, place| record.with(place, Value::absent("N/A")));
        records.push(record.with("BankLabel", UNKNOWN));
    }
    let head = Some("DimmID");
    let records = Records { list_tag: "DimmTopologyList", tag: "DimmTopology", part_tag: "", head, records };
    print(records, &COLUMNS, display)
}
