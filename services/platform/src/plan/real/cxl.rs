//! Regions that CXL devices can form.

use super::socket::node;
use crate::goal::PersistentKind;
use crate::plan::request::NamespaceRequest;
use crate::sysfs::{Cxl, CxlDevice, CxlEndpoint, CxlWindow};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Granularity in bytes of the capacity that a device contributes to a region (CXL 3.1, 8.2.4.20).
const UNIT: u64 = 256 << 20;
/// Numbers of devices over which a region can be interleaved, descending (CXL 3.1, 8.2.4.20.7).
const WAYS: [usize; 8] = [16, 12, 8, 6, 4, 3, 2, 1];

/// A region that is made of CXL devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CxlRegion {
    /// N of regionN.
    pub number: u32,
    /// Its CXL window, as `decoder0.0`.
    pub window: String,
    /// The devices by their position: N of memN.
    pub devices: Vec<u32>,
    /// Size in bytes.
    pub size: u64,
    /// The socket of the devices.
    pub socket: u16,
}

/// Returns the reason that a device can't join a region; `None` if it can, or has no free persistent memory.
pub(super) fn unusable(cxl: &Cxl, device: &CxlDevice) -> Option<&'static str> {
    let size = device.persistent.filter(|size| *size > 0)?;
    let Some(endpoint) = &device.endpoint else { return Some("not enabled") };
    if endpoint.taken >= size {
        return None;
    }
    let Some(bridge) = endpoint.bridge else { return Some("behind no host bridge that the kernel shows") };
    if !cxl.windows.iter().any(|window| window.persistent && window.bridges.contains(&bridge)) {
        return Some("behind no window for persistent memory");
    }
    if endpoint.decoders == 0 {
        return Some("without a free decoder");
    }
    (!can_decode(cxl, endpoint)).then_some("behind a port without a free decoder")
}

/// Returns true if the device and all ports above it can decode one more region.
fn can_decode(cxl: &Cxl, endpoint: &CxlEndpoint) -> bool {
    let ports = &endpoint.ports;
    endpoint.decoders > 0 && ports.iter().all(|port| cxl.ports.get(port).is_some_and(|count| *count > 0))
}

/// Returns the regions that could be made for a request, those over the most devices first. `taken` has the numbers of
/// all existing regions.
pub(super) fn candidates(cxl: &Cxl, request: &NamespaceRequest, taken: &BTreeSet<u32>) -> Vec<CxlRegion> {
    let mut found: Vec<CxlRegion> = Vec::new();
    let suits = |ways: &usize| match request.kind {
        None => true,
        Some(PersistentKind::AppDirect) => *ways > 1,
        Some(PersistentKind::AppDirectNotInterleaved) => *ways == 1,
    };
    for ways in WAYS.into_iter().filter(suits) {
        for window in cxl.windows.iter().filter(|window| window.persistent) {
            found.extend(region_over(cxl, window, ways, request.socket, taken));
        }
    }
    found
}

/// Returns the largest region of `ways` devices in this window.
fn region_over(
    cxl: &Cxl,
    window: &CxlWindow,
    ways: usize,
    socket: Option<u16>,
    taken: &BTreeSet<u32>,
) -> Option<CxlRegion> {
    let bridges = window.bridges.len();
    if bridges == 0 || !ways.is_multiple_of(bridges) {
        return None;
    }
    let mut by_bridge: Vec<Vec<&CxlDevice>> = Vec::new();
    for bridge in &window.bridges {
        let mut here: Vec<&CxlDevice> = cxl
            .devices
            .iter()
            .filter(|device| socket.is_none_or(|socket| socket == node(device.numa_node)))
            .filter(|device| free(cxl, device, *bridge) >= UNIT)
            .collect();
        here.sort_by_key(|device| (Reverse(free(cxl, device, *bridge)), device.number));
        here.truncate(ways / bridges);
        by_bridge.push(here);
    }
    if by_bridge.iter().any(|devices| devices.len() < ways / bridges) {
        return None;
    }
    // Interleaving alternates between the host bridges, so the positions do.
    let devices: Vec<&CxlDevice> =
        (0..ways).map(|position| by_bridge[position % bridges][position / bridges]).collect();
    let place = (0..ways).map(|position| free(cxl, devices[position], window.bridges[position % bridges]));
    let share = place.min()?.min(window.free.map_or(u64::MAX, |bytes| bytes / ways as u64)) / UNIT * UNIT;
    let number =
        window.next_region.unwrap_or_else(|| (0..).find(|one| !taken.contains(one)).unwrap_or(u32::MAX));
    (share > 0).then(|| CxlRegion {
        number,
        window: window.name.clone(),
        devices: devices.iter().map(|device| device.number).collect(),
        size: share * ways as u64,
        socket: node(devices.first().and_then(|device| device.numa_node)),
    })
}

/// Returns the bytes that a device below this host bridge has for one more region.
fn free(cxl: &Cxl, device: &CxlDevice, bridge: u64) -> u64 {
    let is_there = |endpoint: &&CxlEndpoint| endpoint.bridge == Some(bridge) && can_decode(cxl, endpoint);
    let endpoint = device.endpoint.as_ref().filter(is_there);
    endpoint.map_or(0, |endpoint| device.persistent.unwrap_or(0).saturating_sub(endpoint.taken))
}

/// Returns the CXL memory that remains after a region is made.
pub(super) fn remaining(cxl: &Cxl, region: &CxlRegion, taken: &BTreeSet<u32>) -> Cxl {
    let mut left = cxl.clone();
    let share = region.size / region.devices.len() as u64;
    let mut ports = BTreeSet::new();
    for device in left.devices.iter_mut().filter(|device| region.devices.contains(&device.number)) {
        if let Some(endpoint) = &mut device.endpoint {
            endpoint.taken += share;
            endpoint.decoders -= 1;
            ports.extend(endpoint.ports.iter().cloned());
        }
    }
    for port in ports {
        left.ports.entry(port).and_modify(|count| *count = count.saturating_sub(1));
    }
    left.regions.insert(region.number);
    // The kernel reserves a region number for each window.
    let mut kept: BTreeSet<u32> = left.windows.iter().filter_map(|window| window.next_region).collect();
    kept.extend(taken);
    kept.insert(region.number);
    for window in left.windows.iter_mut().filter(|window| window.name == region.window) {
        window.free = window.free.map(|bytes| bytes.saturating_sub(region.size));
        window.next_region = (0..).find(|number| !kept.contains(number));
    }
    left
}

#[cfg(test)]
mod test {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns a device below this host bridge and port.
    fn device(number: u32, bridge: u64, port: &str, size: u64) -> CxlDevice {
        let ports = vec![port.to_owned()];
        let endpoint = CxlEndpoint { bridge: Some(bridge), ports, taken: 0, decoders: 2 };
        CxlDevice { number, persistent: Some(size), endpoint: Some(endpoint), ..CxlDevice::default() }
    }

    /// Returns two host bridges with two devices each: one window over both, and one over the second.
    fn cxl() -> Cxl {
        let window = |name: &str, bridges: &[u64], next| CxlWindow {
            name: name.to_owned(),
            free: Some(16 * GIB),
            bridges: bridges.to_vec(),
            persistent: true,
            next_region: Some(next),
            ..CxlWindow::default()
        };
        Cxl {
            devices: vec![
                device(0, 7, "port1", 2 * GIB),
                device(1, 5, "port2", 2 * GIB),
                device(2, 5, "port2", 3 * GIB + 1),
                device(3, 7, "port1", 2 * GIB),
            ],
            windows: vec![window("decoder0.0", &[5, 7], 2), window("decoder0.1", &[5], 3)],
            ports: [("port1".to_owned(), 2), ("port2".to_owned(), 2)].into(),
            regions: BTreeSet::new(),
        }
    }

    fn made(cxl: &Cxl, request: &NamespaceRequest) -> Vec<(String, Vec<u32>, u64)> {
        let found = candidates(cxl, request, &BTreeSet::new()).into_iter();
        found.map(|region| (region.window, region.devices, region.size / GIB)).collect()
    }

    fn region(window: &str, devices: &[u32], gib: u64) -> (String, Vec<u32>, u64) {
        (window.to_owned(), devices.to_vec(), gib)
    }

    #[test]
    fn positions_alternate_between_host_bridges() {
        assert_eq!(
            made(&cxl(), &NamespaceRequest::default()),
            [
                region("decoder0.0", &[2, 0, 1, 3], 8),
                region("decoder0.0", &[2, 0], 4),
                region("decoder0.1", &[2, 1], 4),
                region("decoder0.1", &[2], 3),
            ]
        );
        let alone = NamespaceRequest {
            kind: Some(PersistentKind::AppDirectNotInterleaved),
            ..NamespaceRequest::default()
        };
        assert_eq!(made(&cxl(), &alone), [region("decoder0.1", &[2], 3)]);
        assert_eq!(made(&cxl(), &NamespaceRequest { socket: Some(1), ..NamespaceRequest::default() }), []);
    }

    #[test]
    fn region_takes_capacity_decoders_and_number() {
        let all = cxl();
        let first = candidates(&all, &NamespaceRequest::default(), &BTreeSet::from([0, 1])).remove(0);
        assert_eq!(first.number, 2);
        let left = remaining(&all, &first, &BTreeSet::from([0, 1]));
        // The other devices are full. The larger one has capacity left, below ports that can decode one more region.
        assert_eq!(made(&left, &NamespaceRequest::default()), [region("decoder0.1", &[2], 1)]);
        assert_eq!(left.windows[0].next_region, Some(4), "3 is kept for the other window");
        assert_eq!(left.windows[0].free, Some(8 * GIB));
        let second = candidates(&left, &NamespaceRequest::default(), &BTreeSet::new()).remove(0);
        let left = remaining(&left, &second, &BTreeSet::new());
        assert_eq!(made(&left, &NamespaceRequest::default()), []);
        assert_eq!(unusable(&left, &left.devices[2]), Some("without a free decoder"));
    }

    #[test]
    fn unusable_device_has_a_reason() {
        let mut cxl = cxl();
        cxl.ports.insert("port1".to_owned(), 0);
        assert_eq!(unusable(&cxl, &cxl.devices[0]), Some("behind a port without a free decoder"));
        assert_eq!(unusable(&cxl, &cxl.devices[1]), None);
        cxl.windows.iter_mut().for_each(|window| window.persistent = false);
        assert_eq!(unusable(&cxl, &cxl.devices[1]), Some("behind no window for persistent memory"));
        assert_eq!(
            unusable(&cxl, &CxlDevice { persistent: Some(GIB), ..CxlDevice::default() }),
            Some("not enabled")
        );
        assert_eq!(unusable(&cxl, &CxlDevice::default()), None, "it has nothing to give");
    }
}
