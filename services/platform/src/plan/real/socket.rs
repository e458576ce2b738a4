//! Sockets of regions and devices.

use crate::machine::Handle;
use crate::ndctl::{Inventory, NdRegion};

/// Returns the socket of a region's modules, or of the region's NUMA node if they have no handle.
pub(super) fn socket_of(inventory: &Inventory, region: &NdRegion) -> u16 {
    let modules = inventory.modules();
    let handle = region.mappings.iter().find_map(|mapping| {
        modules.iter().find(|module| module.number == mapping.module).and_then(|module| module.handle)
    });
    match handle.and_then(|number| Handle::of_number(number).ok()) {
        Some(handle) => handle.socket(),
        None => node(region.numa_node),
    }
}

/// Returns the socket with the number of a NUMA node; 0 without one.
pub(super) fn node(number: Option<i64>) -> u16 {
    number.and_then(|number| number.try_into().ok()).unwrap_or(0)
}
