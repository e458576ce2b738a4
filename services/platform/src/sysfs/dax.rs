//! Character devices.

use crate::ndctl::{DaxDevice, DaxMode, DaxRegion};
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
        enabled: driver.is_some(),
    }
}

/// Returns the path of a folder below `devices`.
fn path_of(root: &Path, folder: &Path) -> Option<String> {
    let devices = fs::canonicalize(root).ok()?.join("devices");
    Some(format!("/{}", folder.strip_prefix(devices).ok()?.display()))
}
