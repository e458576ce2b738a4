//! Decoders of ports: which part of a region goes to which downstream port.
//!
//! ```text
//! window       granularity and ways of firmware          position 0 1 2 3: bridge A B A B
//! bridge A     targets of positions 0 and 2              granularity of the region x ways of the window
//! switch       targets of the positions below it         granularity x ways of the port above
//! endpoint     granularity and ways of the region
//! ```
//!
//! A position is a device of a region. Address bits are used up from the top of this drawing to its bottom, so the devices
//! that share a port above follow each other at equal distances.

use super::stored::StoredCxlRegion;
use super::topology::{Level, Topology};
use crate::machine::{AddressWindow, CxlHardware};

/// Number of decoders of a host bridge or switch.
pub(crate) const PORT_DECODERS: usize = 4;
/// Largest granularity of a decoder, in bytes (CXL 3.1, 8.2.4.20.7).
const GRANULARITY_MAX: u64 = 16 << 10;
/// Numbers of downstream ports over which the decoder of a host bridge or switch can interleave.
const PORT_WAYS: [usize; 4] = [1, 2, 4, 8];

/// Numbers of devices over which a region can interleave.
const WAYS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Returns true if a region of a window can have this granularity.
pub(crate) fn takes_granularity(window: &AddressWindow, granularity: u64) -> bool {
    let is_of_window = window.bridges.len() == 1 || granularity == window.granularity;
    is_of_window && granularity.is_power_of_two() && (256..=GRANULARITY_MAX).contains(&granularity)
}

/// Returns true if a region of a window can have this number of devices.
pub(crate) fn takes_ways(window: &AddressWindow, ways: usize) -> bool {
    let bridges = window.bridges.len();
    WAYS.contains(&ways) && ways.is_multiple_of(bridges) && (ways / bridges).is_power_of_two()
}

/// Checks that the ports above a region's devices have a decoder for it, after those of the committed ones of `earlier`.
pub(crate) fn check_ports(
    topology: &Topology,
    earlier: &[StoredCxlRegion],
    region: &StoredCxlRegion,
) -> Result<(), &'static str> {
    let start = |region: &StoredCxlRegion| (region.window, region.off);
    let others: Vec<&StoredCxlRegion> = earlier.iter().filter(|other| other.committed).collect();
    for port in ports_of(topology, region) {
        let shared: Vec<_> =
            others.iter().filter(|other| ports_of(topology, other).contains(&port)).collect();
        if shared.len() >= PORT_DECODERS {
            return Err("a port above the devices has no decoder left; destroy a region first");
        }
        if shared.iter().any(|other| start(other) > start(region)) {
            let why = "a port above the devices has a region at higher addresses, and decoders go up in address; \
                       destroy that region first";
            return Err(why);
        }
    }
    Ok(())
}

/// Decoder of a host bridge or switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortDecoder {
    /// Positions of the downstream ports.
    pub(crate) dports: Vec<usize>,
    /// Bytes on one of them before it continues on the next one.
    pub(crate) granularity: u64,
}

/// Returns the decoder of a host bridge or switch for a region; `None` if no device of the region is below the port.
pub(crate) fn port_decoder(
    topology: &Topology,
    window: &AddressWindow,
    region: &StoredCxlRegion,
    port: usize,
) -> Option<PortDecoder> {
    let dports = dports_of(topology, region, port);
    if dports.is_empty() {
        return None;
    }
    let above = topology.ports[port].above?;
    let granularity = match topology.ports[above].level {
        // Like the kernel, this takes a window over three bridges for a third of them.
        Level::Root => region.granularity.saturating_mul(power_of_two(window.bridges.len()) as u64),
        _ => {
            let decoder = port_decoder(topology, window, region, above)?;
            decoder.granularity.saturating_mul(decoder.dports.len() as u64)
        }
    };
    Some(PortDecoder { dports, granularity })
}

fn power_of_two(ways: usize) -> usize {
    if ways.is_power_of_two() { ways } else { ways / 3 }
}

/// Returns the downstream ports of a port that lead to the devices of a region, in the order of their first positions.
fn dports_of(topology: &Topology, region: &StoredCxlRegion, port: usize) -> Vec<usize> {
    let mut dports = Vec::new();
    for device in &region.devices {
        match topology.dport_to(port, *device) {
            Some(dport) if !dports.contains(&dport) => dports.push(dport),
            _ => {}
        }
    }
    dports
}

/// Returns the ports between the root and the endpoints of a region's devices, ascending.
pub(crate) fn ports_of(topology: &Topology, region: &StoredCxlRegion) -> Vec<usize> {
    let endpoints = region.devices.iter().filter_map(|device| topology.endpoints.get(*device as usize));
    let above = endpoints.flat_map(|endpoint| topology.above(*endpoint));
    let mut ports: Vec<usize> = above.filter(|port| topology.ports[*port].level != Level::Root).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Checks that ports can decode a region whose devices have these positions. Returns the position that they can't have,
/// and why.
pub(crate) fn check_positions(
    cxl: &CxlHardware,
    topology: &Topology,
    window: &AddressWindow,
    region: &StoredCxlRegion,
) -> Result<(), (usize, &'static str)> {
    let ways = region.devices.len();
    for (position, device) in region.devices.iter().enumerate() {
        if region.devices[..position].contains(device) {
            return Err((position, "the region has the device already; name another one"));
        }
        let above = cxl.devices.get(*device as usize).map(|device| &device.above);
        let bridge = above.and_then(|port| cxl.bridge_above(port)).map(|bridge| bridge.id);
        if bridge != window.bridges.get(position % window.bridges.len().max(1)).copied() {
            let why = "the device is below another host bridge than the window has for the position; \
                       take the devices in turns from the bridges of the window";
            return Err((position, why));
        }
    }
    for port in ports_of(topology, region) {
        let decoder = port_decoder(topology, window, region, port);
        let Some(PortDecoder { dports, granularity }) = decoder else { continue };
        if !PORT_WAYS.contains(&dports.len()) {
            let why = "a host bridge or switch interleaves over 1, 2, 4 or 8 of its ports; take another number of devices";
            return Err((ways - 1, why));
        }
        if granularity > GRANULARITY_MAX {
            let why = "the granularity of a port below would be above 16384; take a smaller one";
            return Err((ways - 1, why));
        }
        if dports.len() > 1 {
            check_distances(topology, region, port, ways / dports.len())?;
        }
    }
    Ok(())
}

/// Checks that the devices behind one downstream port follow each other at this distance.
fn check_distances(
    topology: &Topology,
    region: &StoredCxlRegion,
    port: usize,
    distance: usize,
) -> Result<(), (usize, &'static str)> {
    let dport_at = |position: usize| topology.dport_to(port, region.devices[position]);
    let mut seen = Vec::new();
    for position in 0..region.devices.len() {
        let Some(dport) = dport_at(position) else { continue };
        let follows = || position.checked_sub(distance).and_then(dport_at) == Some(dport);
        if seen.contains(&dport) && !follows() {
            let why = "devices that share a port above follow each other at equal distances; \
                       take them in turns from the ports of each bridge and switch";
            return Err((position, why));
        }
        seen.push(dport);
    }
    Ok(())
}
