//! Overview of a real machine: modules, regions, namespaces and CXL devices as a tree.

use super::cxl::CxlDevice;
use super::tree::Sysfs;
use crate::listing::{Precision, Unit};
use crate::machine::IpmctlGeneration;
use crate::ndctl::{DaxDevice, NdBus, NdModule, NdNamespace, NdPersonality, NdRegion};

impl Sysfs {
    /// Formats buses, modules, regions, namespaces and CXL devices as a tree.
    pub fn overview(&self) -> String {
        let inventory = self.inventory();
        let mut text = format!("{}\n", self.root().display());
        let mut buses: Vec<&NdBus> = inventory.buses.iter().collect();
        buses.sort_by_key(|bus| bus.number);
        for bus in buses {
            text += &format!("ndbus{}: {}\n", bus.number, bus.provider);
            let mut modules: Vec<&NdModule> = bus.modules.iter().collect();
            modules.sort_by_key(|module| module.number);
            modules.iter().for_each(|module| text += &format!("  {}\n", module_line(module)));
            let mut regions: Vec<&NdRegion> = bus.regions.iter().collect();
            regions.sort_by_key(|region| region.number);
            for region in regions {
                text += &format!("  {}\n", region_line(region));
                let mut namespaces: Vec<&NdNamespace> = region.namespaces.iter().collect();
                namespaces.sort_by_key(|namespace| namespace.number);
                // An idle namespace has size 0.
                for namespace in namespaces.iter().filter(|namespace| namespace.size != Some(0)) {
                    text += &format!("    {}\n", namespace_line(namespace));
                }
            }
        }
        for device in self.cxl().devices {
            text += &format!("{}\n", cxl_line(&device));
        }
        if text.lines().count() == 1 {
            text += "no persistent memory that the kernel knows of\n";
        }
        text
    }
}

fn module_line(module: &NdModule) -> String {
    let mut parts = vec![format!("nmem{}", module.number)];
    parts.extend(module.handle.map(|handle| format!("handle {handle:#06x}")));
    parts.extend(module.id.clone());
    parts.extend(module.security.as_ref().map(|word| format!("security {word}")));
    parts.extend(module.flags.iter().map(|flag| flag.replace("flag_", "").replace('_', " ")));
    if !module.enabled {
        parts.push("disabled".to_owned());
    }
    parts.join(", ")
}

fn region_line(region: &NdRegion) -> String {
    let mut parts = vec![format!("region{}: {}", region.number, size(region.size))];
    parts.extend(region.set_id.map(|id| format!("set {id:#018x}")));
    let modules: Vec<String> = region.mappings.iter().map(|part| format!("nmem{}", part.module)).collect();
    if !modules.is_empty() {
        parts.push(format!("of {}", modules.join(" + ")));
    }
    parts.extend(region.available.map(|bytes| format!("{} free", size(Some(bytes)))));
    parts.push(format!("persistence domain {}", region.persistence_domain));
    if !region.enabled {
        parts.push("disabled".to_owned());
    }
    parts.join(", ")
}

fn namespace_line(namespace: &NdNamespace) -> String {
    let mut parts =
        vec![format!("{namespace}: {}", size(namespace.size)), namespace.mode().as_str().to_owned()];
    let devices: Vec<&DaxDevice> = match &namespace.personality {
        NdPersonality::Devdax(_, Some(region)) => region.devices.iter().collect(),
        _ => Vec::new(),
    };
    parts.extend(namespace.block_device.as_ref().map(|device| format!("/dev/{device}")));
    parts.extend(devices.iter().map(|device| format!("/dev/{}", device.name)));
    if !namespace.name.is_empty() {
        parts.push(format!("called {}", namespace.name));
    }
    if !namespace.enabled {
        parts.push("disabled".to_owned());
    }
    parts.join(", ")
}

fn cxl_line(device: &CxlDevice) -> String {
    let mut parts = vec![format!("mem{}: CXL", device.number)];
    parts.extend(device.serial.map(|serial| format!("serial {serial:#x}")));
    parts.push(format!("{} persistent", size(device.persistent)));
    parts.push(format!("{} volatile", size(device.volatile)));
    parts.extend(device.firmware.as_ref().map(|version| format!("firmware {version}")));
    parts.join(", ")
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or("unknown size".to_owned(), |bytes| {
        Precision::of(IpmctlGeneration::One).show(bytes, Unit::GiB)
    })
}
