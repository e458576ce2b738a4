//! `ipmctl show -topology`.

use super::{Display, print};
use crate::error::PlatformError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records};
use crate::platform::Platform;

pub(crate) const COLUMNS: [Column; 5] = [
    Column("DimmID", 22),
    Column("MemoryType", 30),
    Column("Capacity", 25),
    Column("PhysicalID", 10),
    Column("DeviceLocator", 15),
];

impl Platform {
    pub(super) fn show_topology(
        &self,
        targets: &Targets,
        display: &Display,
    ) -> Result<String, PlatformError> {
        let mut records = Vec::new();
        for module in self.targets(targets)? {
            records.push(
                Record::new()
                    .with("DimmID", module.handle)
                    .with("MemoryType", "Logical Non-Volatile Device")
                    .with("Capacity", self.capacity(module.capacity, display))
                    .with("PhysicalID", format!("{:#06x}", module.physical_id))
                    .with("DeviceLocator", &module.locator)
                    .with("SocketID", format!("{:#06x}", module.handle.socket()))
                    .with("MemControllerID", format!("{:#06x}", module.handle.controller()))
                    .with("ChannelID", format!("{:#06x}", module.handle.channel()))
                    .with("ChannelPos", module.handle.slot()),
            );
        }
        // Naming modules leaves DRAM out: it has no number to be named by.
        let dram = if targets.modules.is_empty() { self.machine.dram.as_slice() } else { &[] };
        for dram in
            dram.iter().filter(|dram| targets.sockets.is_empty() || targets.sockets.contains(&dram.socket))
        {
            records.push(
                Record::new()
                    .with("DimmID", "N/A")
                    .with("MemoryType", "DDR4")
                    .with("Capacity", self.capacity(dram.capacity, display))
                    .with("PhysicalID", format!("{:#06x}", dram.physical_id))
                    .with("DeviceLocator", &dram.locator)
                    .with("SocketID", format!("{:#06x}", dram.socket)),
            );
        }
        let head = Some("DimmID");
        let records =
            Records { list_tag: "DimmTopologyList", tag: "DimmTopology", part_tag: "", head, records };
        print(records, &COLUMNS, display)
    }
}
