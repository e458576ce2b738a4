//! CXL memory devices.

use super::attribute::Folder;

/// A CXL memory device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CxlDevice {
    /// N of memN.
    pub number: u32,
    /// Its serial number.
    pub serial: Option<u64>,
    /// The version of its firmware.
    pub firmware: Option<String>,
    /// Bytes of volatile memory.
    pub volatile: Option<u64>,
    /// Bytes of persistent memory.
    pub persistent: Option<u64>,
    /// The NUMA node that is nearest.
    pub numa_node: Option<i64>,
}

/// All of them, in the order of their numbers.
pub(super) fn devices(root: &Folder) -> Vec<CxlDevice> {
    let mut found = root.folder("bus/cxl/devices").numbered("mem");
    found.sort_by_key(|(number, _)| *number);
    let device = |(number, folder): (u32, Folder)| CxlDevice {
        number,
        serial: folder.number("serial"),
        firmware: folder.text("firmware_version"),
        volatile: folder.folder("ram").number("size"),
        persistent: folder.folder("pmem").number("size"),
        numa_node: folder.natural("numa_node"),
    };
    found.into_iter().map(device).collect()
}
