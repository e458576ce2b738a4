//! `ipmctl show -memoryresources`.

use super::display::{DisplayOptions, capacity, is_first_generation, print};
use super::error::ShowError;
use crate::listing::{Column, Record, Records, Value};
use crate::platform::Platform;

/// The columns of the table of later generations.
const COLUMNS: [Column; 4] =
    [Column("MemoryType", 30), Column("DDR", 25), Column("PMemModule", 25), Column("Total", 25)];

pub(super) fn show(platform: &Platform, display: &DisplayOptions) -> Result<String, ShowError> {
    if is_first_generation(&platform.machine) {
        resource_list(platform, display)
    } else {
        resource_table(platform, display)
    }
}

/// Lists the capacity of the modules by use.
fn resource_list(platform: &Platform, display: &DisplayOptions) -> Result<String, ShowError> {
    let uses = platform.all_capacities();
    let capacity = |bytes| capacity(&platform.machine, bytes, display);
    let record = Record::new()
        .with("Capacity", capacity(uses.total))
        .with("MemoryCapacity", capacity(uses.memory))
        .with("AppDirectCapacity", capacity(uses.app_direct))
        .with("UnconfiguredCapacity", capacity(uses.unconfigured))
        .with("InaccessibleCapacity", capacity(uses.inaccessible))
        .with("ReservedCapacity", capacity(uses.reserved));
    let (list_tag, tag) = ("MemoryResourcesList", "MemoryResources");
    let records = Records { list_tag, tag, part_tag: "", head: None, records: vec![record] };
    print(records, &[], display)
}

/// Formats a table of modules and DRAM. In Memory Mode, DRAM is a cache and volatile memory is on the modules.
fn resource_table(platform: &Platform, display: &DisplayOptions) -> Result<String, ShowError> {
    let uses = platform.all_capacities();
    let dram = platform.machine.dram.iter().map(|dram| dram.capacity).sum::<u64>();
    let (volatile, cache) = if platform.memory_mode() { (0, dram) } else { (dram, 0) };
    // Persistent memory is never DRAM, a cache is never on a module, and firmware reserves no DRAM.
    let rows = [
        ("Volatile", Some(volatile), Some(uses.memory)),
        ("AppDirect", None, Some(uses.app_direct)),
        ("Cache", Some(cache), None),
        ("Inaccessible", Some(0), Some(uses.unconfigured + uses.inaccessible + uses.reserved)),
        ("Physical", Some(dram), Some(uses.total)),
    ];
    let capacity = |bytes: Option<u64>| {
        bytes.map_or(Value::absent("-"), |bytes| capacity(&platform.machine, bytes, display))
    };
    let record = |(kind, dram, modules): (&str, Option<u64>, Option<u64>)| {
        let total = dram.unwrap_or(0) + modules.unwrap_or(0);
        Record::new()
            .with("MemoryType", kind)
            .with("DDR", capacity(dram))
            .with("PMemModule", capacity(modules))
            .with("Total", capacity(Some(total)))
    };
    let records = rows.map(record).into();
    let head = Some("MemoryType");
    let (list_tag, tag) = ("MemoryResources", "data");
    print(Records { list_tag, tag, part_tag: "", head, records }, &COLUMNS, display)
}
