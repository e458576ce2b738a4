//! `ipmctl show -socket`.

use super::display::{DisplayOptions, capacity, print};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records, Value};
use crate::machine::ModuleError;
use crate::platform::Platform;

const COLUMNS: [Column; 3] =
    [Column("SocketID", 9), Column("MappedMemoryLimit", 18), Column("TotalMappedMemory", 18)];

pub(super) fn show(
    platform: &Platform,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let known = platform.machine.sockets();
    if let Some(socket) = targets.sockets.iter().find(|socket| !known.contains(socket)) {
        return Err(ModuleError::UnknownSocket { socket: *socket }.into());
    }
    let named = |socket: &u16| targets.sockets.is_empty() || targets.sockets.contains(socket);
    let record = |socket: u16| {
        Record::new()
            .with("SocketID", format!("{socket:#06x}"))
            // Machine files do not have the limits of processors.
            .with("MappedMemoryLimit", Value::absent("N/A"))
            .with("TotalMappedMemory", capacity(&platform.machine, mapped(platform, socket), display))
    };
    let records = known.into_iter().filter(named).map(record).collect();
    let head = Some("SocketID");
    print(Records { list_tag: "SocketList", tag: "Socket", part_tag: "", head, records }, &COLUMNS, display)
}

/// Returns the bytes of memory and persistent memory of a socket that have addresses. DRAM that is a cache has none.
fn mapped(platform: &Platform, socket: u16) -> u64 {
    let modules = platform.machine.modules.iter().filter(|module| module.handle.socket() == socket);
    let of_modules: u64 = modules
        .map(|module| platform.capacities(module))
        .map(|uses| uses.memory.saturating_add(uses.app_direct))
        .fold(0, u64::saturating_add);
    let is_cache = platform.memory_on(socket) > 0;
    let dram = if is_cache { 0 } else { platform.machine.dram_capacity(socket) };
    of_modules.saturating_add(dram)
}
