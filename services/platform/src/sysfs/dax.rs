//! Character devices.

use crate::ndctl::{DaxDevice, DaxMapping, DaxMemory, DaxMode, DaxRegion};
use lode_pmem::SysfsFolder;
use std::fs;
use std::path::Path;

/// The driver that hands a device to the kernel as memory.
const MEMORY_DRIVER: &str = "kmem";

/// Reads the regions of the machine's character devices.
pub(super) fn regions(root: &SysfsFolder) -> Vec<DaxRegion> {
    let mut regions: Vec<(SysfsFolder, DaxRegion)> = Vec::new();
    for (_, _, link) in root.folder("bus/dax/devices").numbered_pairs("dax") {
        let Ok(device) = fs::canonicalize(link.path()) else { continue };
        let Some(parent) = device.parent().map(SysfsFolder::new) else { continue };
        if regions.iter().any(|(known, _)| known.path() == parent.path()) {
            continue;
        }
        if let Some(mut region) = region(&parent) {
            region.path = path_of(root.path(), parent.path());
            region.devices.iter_mut().for_each(|device| add_memory(root, device));
            regions.push((parent, region));
        }
    }
    regions.into_iter().map(|(_, region)| region).collect()
}

/// Reads the region of the character devices in this folder; `None` if it has none.
pub(super) fn region(folder: &SysfsFolder) -> Option<DaxRegion> {
    let region = folder.folder("dax_region");
    let number = region.number("id")?;
    let devices = folder.numbered_pairs("dax").into_iter();
    let devices = devices.map(|(region, number, folder)| device(region, number, &folder));
    Some(DaxRegion {
        number: u32::try_from(number).ok()?,
        path: None,
        size: region.number("size"),
        available: region.number("available_size"),
        align: region.number("align"),
        devices: devices.collect(),
    })
}

fn device(region: u32, number: u32, folder: &SysfsFolder) -> DaxDevice {
    let driver = folder.driver();
    let is_memory = driver.as_deref() == Some(MEMORY_DRIVER);
    DaxDevice {
        name: format!("dax{region}.{number}"),
        size: folder.number("size").unwrap_or(0),
        target_node: folder.non_negative("target_node"),
        align: folder.number("align").filter(|align| *align > 0),
        mode: Some(if is_memory { DaxMode::SystemRam } else { DaxMode::Devdax }),
        memory: None,
        mappings: mappings(folder),
        enabled: driver.is_some(),
    }
}

/// Reads how much of a device's memory is online, if the kernel uses it as memory. Only root may read its address.
pub(super) fn add_memory(root: &SysfsFolder, device: &mut DaxDevice) {
    if device.mode == Some(DaxMode::SystemRam) {
        let folder = root.folder("bus/dax/devices").folder(&device.name);
        device.memory = memory(root, &folder, device.size, device.target_node);
    }
}

/// Reads the memory blocks of a device's node that begin in the device.
fn memory(root: &SysfsFolder, folder: &SysfsFolder, size: u64, node: Option<i64>) -> Option<DaxMemory> {
    let start = folder.number("resource").filter(|start| *start > 0)?;
    let all = root.folder("devices/system/memory");
    let hex = |text: String| u64::from_str_radix(&text, 16).ok();
    let block = hex(all.text("block_size_bytes")?)?;
    let blocks = root.folder(format!("devices/system/node/node{}", node?)).numbered("memory");
    let is_of_device = |number: u32| {
        let index = all.folder(format!("memory{number}")).text("phys_index").and_then(hex);
        index.and_then(|index| index.checked_mul(block)).is_some_and(|at| at >= start && at - start < size)
    };
    let found: Vec<_> = blocks.into_iter().filter(|(number, _)| is_of_device(*number)).collect();
    let is_online = |folder: &SysfsFolder| folder.text("state").as_deref() == Some("online");
    let is_movable = |folder: &SysfsFolder| folder.text("valid_zones").as_deref() == Some("Movable");
    let (online, total) = (found.iter().filter(|(_, one)| is_online(one)).count(), found.len());
    let movable = (online == total).then(|| found.iter().all(|(_, one)| is_movable(one)));
    Some(DaxMemory { online: online as u64, total: total as u64, movable })
}

/// Reads the ranges of a device, which only root may. Like daxctl, this ends at the first that it can't read.
fn mappings(folder: &SysfsFolder) -> Vec<DaxMapping> {
    let mapping = |number: u32| {
        let folder = folder.folder(format!("mapping{number}"));
        let (start, last) = (folder.number("start")?, folder.number("end")?);
        (start <= last).then_some(DaxMapping { page_off: folder.number("page_offset")?, start, last })
    };
    (0..).map_while(mapping).collect()
}

/// Returns the path of a folder below `devices`.
fn path_of(root: &Path, folder: &Path) -> Option<String> {
    let devices = fs::canonicalize(root).ok()?.join("devices");
    Some(format!("/{}", folder.strip_prefix(devices).ok()?.display()))
}
