//! CXL memory devices, and the address windows for regions of them.
//!
//! ```text
//! bus/cxl/devices/root0/decoder0.0           a window (CXL 3.1, 9.18.1.3), with its host bridges
//!                      /port1/endpoint2      endpoint port of a device
//!                            /decoder2.0     maps a part of the device into a region
//! bus/cxl/devices/mem0                       the device, to which the endpoint's uport links
//! ```

use lode_pmem::SysfsFolder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};

/// CXL memory of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cxl {
    /// The memory devices, in the order of their numbers.
    pub devices: Vec<CxlDevice>,
    /// The address windows, in the order of their names.
    pub windows: Vec<CxlWindow>,
    /// Number of further regions that each port between windows and devices can decode.
    pub ports: BTreeMap<String, u32>,
    /// Numbers of the existing regions.
    pub regions: BTreeSet<u32>,
}

/// A CXL memory device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlDevice {
    /// N of memN.
    pub number: u32,
    /// Its serial number.
    pub serial: Option<u64>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Bytes of volatile memory.
    pub volatile: Option<u64>,
    /// Bytes of persistent memory.
    pub persistent: Option<u64>,
    /// Bytes of its label storage area.
    pub label_area: Option<u64>,
    /// The nearest NUMA node.
    pub numa_node: Option<i64>,
    /// Endpoint port; `None` if no driver is bound to the device or no port leads to it.
    pub endpoint: Option<CxlEndpoint>,
}

/// Endpoint port of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlEndpoint {
    /// The host bridge, by its number in windows.
    pub bridge: Option<u64>,
    /// The ports that lead to the device, the host bridge's first.
    pub ports: Vec<String>,
    /// Bytes of persistent memory that regions use.
    pub taken: u64,
    /// Number of further regions that the device can join.
    pub decoders: u32,
}

/// An address window: a root decoder of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlWindow {
    /// Its name, as `decoder0.0`.
    pub name: String,
    /// Size in bytes; `None` if the kernel shows it only to root.
    pub size: Option<u64>,
    /// Bytes without a region; `None` if the kernel shows them only to root.
    pub free: Option<u64>,
    /// The host bridges that it interleaves, by their position.
    pub bridges: Vec<u64>,
    /// Bytes on one bridge before it continues on the next one.
    pub granularity: Option<u64>,
    /// True if it supports volatile memory.
    pub volatile: bool,
    /// True if it supports persistent memory.
    pub persistent: bool,
    /// Number of the next region that is made in it.
    pub next_region: Option<u32>,
}

/// Reads the CXL memory from this sysfs.
pub(super) fn read(root: &SysfsFolder) -> Cxl {
    let bus = root.folder("bus/cxl/devices");
    let mut devices = bus.numbered("mem");
    devices.sort_by_key(|(number, _)| *number);
    let mut decoders = bus.numbered_pairs("decoder");
    decoders.sort_by_key(|(port, number, _)| (*port, *number));
    let is_window = |folder: &SysfsFolder| folder.text("devtype").as_deref() == Some("cxl_decoder_root");
    let (windows, others): (Vec<_>, Vec<_>) =
        decoders.into_iter().partition(|(_, _, folder)| is_window(folder));
    let endpoints = bus.numbered("endpoint");
    let device = |(number, folder): (u32, SysfsFolder)| CxlDevice {
        number,
        serial: folder.number("serial"),
        firmware: folder.text("firmware_version"),
        volatile: folder.folder("ram").number("size"),
        persistent: folder.folder("pmem").number("size"),
        label_area: folder.number("label_storage_size"),
        numa_node: folder.non_negative("numa_node"),
        endpoint: endpoints
            .iter()
            .find(|(_, endpoint)| endpoint.target("uport") == Some(format!("mem{number}")))
            .map(|(number, folder)| endpoint(&bus, folder, &decoders_of(&others, *number))),
    };
    let ports = bus.numbered("port").into_iter();
    Cxl {
        devices: devices.into_iter().map(device).collect(),
        windows: windows.iter().map(|(port, number, folder)| window(*port, *number, folder)).collect(),
        ports: ports
            .map(|(number, _)| (format!("port{number}"), free(&decoders_of(&others, number))))
            .collect(),
        regions: bus.numbered("region").into_iter().map(|(number, _)| number).collect(),
    }
}

/// Returns the decoders of this port or endpoint.
fn decoders_of(all: &[(u32, u32, SysfsFolder)], port: u32) -> Vec<&SysfsFolder> {
    all.iter().filter(|(of, _, _)| *of == port).map(|(_, _, folder)| folder).collect()
}

/// Returns the number of decoders without a region.
fn free(decoders: &[&SysfsFolder]) -> u32 {
    let has_region = |folder: &&&SysfsFolder| folder.text("region").is_some_and(|name| !name.is_empty());
    decoders.iter().filter(|folder| !has_region(folder)).count() as u32
}

fn endpoint(bus: &SysfsFolder, folder: &SysfsFolder, decoders: &[&SysfsFolder]) -> CxlEndpoint {
    let path = fs::canonicalize(folder.path()).unwrap_or_default();
    let names: Vec<String> = path.components().filter_map(name).collect();
    let ports: Vec<String> = names.iter().filter(|name| numbered(name, "port")).cloned().collect();
    let root = names.iter().find(|name| numbered(name, "root"));
    let of_pmem = decoders.iter().filter(|one| one.text("mode").as_deref() == Some("pmem"));
    CxlEndpoint {
        bridge: root.zip(ports.first()).and_then(|(root, port)| bridge(bus, root, port)),
        ports,
        taken: of_pmem.filter_map(|one| one.number("dpa_size")).sum(),
        decoders: free(decoders),
    }
}

/// Returns the number that the windows below `root` use for the host bridge of `port`.
fn bridge(bus: &SysfsFolder, root: &str, port: &str) -> Option<u64> {
    let device = bus.folder(port).target("uport")?;
    let root = bus.folder(root);
    let ids = root.names().into_iter().filter_map(|name| name.strip_prefix("dport")?.parse().ok());
    ids.into_iter().find(|id: &u64| root.target(&format!("dport{id}")).as_ref() == Some(&device))
}

fn window(port: u32, number: u32, folder: &SysfsFolder) -> CxlWindow {
    let regions = folder.numbered("region").into_iter();
    let taken: u64 = regions.filter_map(|(_, region)| region.number("size")).sum();
    let targets = folder.text("target_list").unwrap_or_default();
    CxlWindow {
        name: format!("decoder{port}.{number}"),
        size: folder.number("size"),
        free: folder.number("size").map(|size| size.saturating_sub(taken)),
        bridges: targets.split(',').filter_map(|id| id.trim().parse().ok()).collect(),
        granularity: folder.number("interleave_granularity"),
        volatile: folder.number("cap_ram") == Some(1),
        persistent: folder.number("cap_pmem") == Some(1),
        next_region: folder
            .text("create_pmem_region")
            .and_then(|name| name.strip_prefix("region")?.parse().ok()),
    }
}

fn name(component: Component<'_>) -> Option<String> {
    Some(Path::new(&component).to_str()?.to_owned())
}

/// Returns true if a name is `prefix` and a number.
fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok())
}
