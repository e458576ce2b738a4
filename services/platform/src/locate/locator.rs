//! Addresses, sectors and modules of one machine.

use super::error::LocateError;
use crate::discovery::memory_devices;
use crate::ndctl::inventory::{BadBlocks, SECTOR};
use crate::ndctl::{Inventory, NdMapping, NdModule, NdNamespace, NdPersonality, NdRegion, inventory};
use crate::platform::Platform;
use crate::region::INTERLEAVE_LINE;
use crate::sysfs::Sysfs;
use lode_nvdimm::{Interleave, Nfit};
use std::collections::BTreeMap;
use std::fs;

/// Finds bytes of persistent memory of one machine.
#[derive(Debug)]
pub struct Locator {
    inventory: Inventory,
    interleaving: Interleaving,
    /// Names of slots, by the physical ids of modules.
    slots: BTreeMap<u64, String>,
}

/// Knowledge of how regions are interleaved.
#[derive(Debug)]
enum Interleaving {
    /// In lines of this length, in the order of positions.
    Lines(u64),
    /// As firmware's table says.
    Table(Nfit),
    /// Unknown: only root may read the table.
    Unknown,
}

/// A located byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its physical address; `None` if the kernel hides it from the user.
    pub address: Option<u64>,
    /// Its region.
    pub region: RegionPlace,
    /// Its module; without an offset, all modules that may hold it. Empty in a region without modules.
    pub modules: Vec<ModulePlace>,
    /// Its namespace; `None` in free space.
    pub namespace: Option<NamespacePlace>,
}

/// A byte of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPlace {
    /// N of regionN.
    pub number: u32,
    /// Offset in the region, in bytes.
    pub offset: u64,
}

/// A byte of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModulePlace {
    /// N of nmemN.
    pub number: u32,
    /// Device handle; `None` if the kernel does not show it.
    pub handle: Option<u64>,
    /// Unique id.
    pub id: Option<String>,
    /// Name of its slot; `None` if it is unknown. On a real machine, only root may read it.
    pub slot: Option<String>,
    /// Offset on the module, in bytes; `None` if the interleaving is unknown.
    pub offset: Option<u64>,
}

/// A byte of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacePlace {
    /// The kernel's name.
    pub name: String,
    /// Its mode, in ndctl's word.
    pub mode: &'static str,
    /// Name of its device in /dev; `None` if it is disabled.
    pub device: Option<String>,
    /// The part of the namespace.
    pub part: NamespacePart,
}

/// A part of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespacePart {
    /// Data: its offset on the device, in bytes.
    Data(u64),
    /// The page map, or padding.
    Metadata,
    /// A block of a BTT, or its metadata: the offset in the namespace, in bytes.
    Btt(u64),
}

impl NamespacePart {
    /// Returns the offset on the namespace's device; `None` for what has none.
    pub fn device_off(self) -> Option<u64> {
        match self {
            NamespacePart::Data(offset) => Some(offset),
            NamespacePart::Metadata | NamespacePart::Btt(_) => None,
        }
    }
}

impl Locator {
    /// Returns the locator of an emulated machine.
    pub fn of_platform(platform: &Platform) -> Locator {
        let modules = platform.machine.modules.iter();
        let slots = modules.map(|module| (module.physical_id.into(), module.locator.clone())).collect();
        let interleaving = Interleaving::Lines(INTERLEAVE_LINE);
        Locator { inventory: inventory(platform), interleaving, slots }
    }

    /// Returns the locator of a real machine. It locates modules of interleaved regions, and names slots, if the user may
    /// read firmware's tables. A damaged table is as good as none.
    pub fn of_sysfs(sysfs: &Sysfs) -> Locator {
        let table = |path: &str| fs::read(sysfs.root().join("firmware").join(path));
        let nfit = table("acpi/tables/NFIT").ok().and_then(|bytes| Nfit::decode(&bytes).ok());
        let devices = table("dmi/tables/DMI").map(|bytes| memory_devices(&bytes)).unwrap_or_default();
        let slots = devices.into_iter().map(|device| (device.handle.into(), device.locator)).collect();
        let interleaving = nfit.map_or(Interleaving::Unknown, Interleaving::Table);
        Locator { inventory: sysfs.inventory(), interleaving, slots }
    }

    fn regions(&self) -> impl Iterator<Item = &NdRegion> {
        self.inventory.buses.iter().flat_map(|bus| &bus.regions)
    }

    /// Locates a physical address.
    ///
    /// # Errors
    /// [`LocateError::NotPersistent`], [`LocateError::HiddenAddresses`].
    pub fn at_address(&self, address: u64) -> Result<Located, LocateError> {
        let mut known = Vec::new();
        let mut is_hidden = false;
        for region in self.regions() {
            let (Some(base), Some(size)) = (region.base, region.size) else {
                is_hidden = true;
                continue;
            };
            match address.checked_sub(base).filter(|offset| *offset < size) {
                Some(offset) => return Ok(self.in_region(region, offset)),
                None => known.push(format!("{base:#x}-{:#x}", base.saturating_add(size.saturating_sub(1)))),
            }
        }
        if is_hidden {
            return Err(LocateError::HiddenAddresses);
        }
        let regions = match known.as_slice() {
            [] => "; there are none".to_owned(),
            known => format!("; there are {}", known.join(", ")),
        };
        Err(LocateError::NotPersistent { address, regions })
    }

    /// Locates a sector of [`SECTOR`] bytes of a namespace's device.
    ///
    /// # Errors
    /// [`LocateError::UnknownDevice`], [`LocateError::NoSuchSector`], [`LocateError::Moved`],
    /// [`LocateError::HiddenAddresses`].
    pub fn at_sector(&self, device: &str, sector: u64) -> Result<Located, LocateError> {
        let (_, namespace) = self.namespace(device)?;
        let has = namespace.size.unwrap_or(0) / SECTOR;
        if sector >= has {
            return Err(LocateError::NoSuchSector { device: device.to_owned(), sector, has });
        }
        self.at_byte(device, sector * SECTOR)
    }

    /// Locates a byte of a namespace's device.
    ///
    /// # Errors
    /// As [`at_sector`](Locator::at_sector).
    pub fn at_byte(&self, device: &str, offset: u64) -> Result<Located, LocateError> {
        let (_, namespace) = self.namespace(device)?;
        let (base, len) = namespace.place.ok_or(LocateError::HiddenAddresses)?;
        if matches!(namespace.personality, NdPersonality::Sector { .. }) {
            let device = device.to_owned();
            return Err(LocateError::Moved { device, namespace: namespace.to_string(), base });
        }
        match base.checked_add(offset).filter(|_| offset < len) {
            Some(address) => self.at_address(address),
            None => Err(LocateError::NoSuchSector {
                device: device.to_owned(),
                sector: offset / SECTOR,
                has: len / SECTOR,
            }),
        }
    }

    /// Returns the known bad blocks of a namespace, in sectors of its device; in mode sector, whose blocks a BTT moves, in
    /// sectors of the namespace.
    ///
    /// # Errors
    /// [`LocateError::UnknownDevice`]; [`LocateError::HiddenAddresses`] if only the region has a list.
    pub fn bad_blocks(&self, device: &str) -> Result<Vec<BadBlocks>, LocateError> {
        let (region, namespace) = self.namespace(device)?;
        let clip = |blocks: &[BadBlocks], first: u64, last: u64| -> Vec<BadBlocks> {
            let clip = |blocks: &BadBlocks| {
                let from = blocks.offset.max(first);
                let end = blocks.offset.saturating_add(blocks.count).min(last);
                let count = end.checked_sub(from).filter(|count| *count > 0)?;
                Some(BadBlocks { offset: from - first, count, modules: blocks.modules.clone() })
            };
            blocks.iter().filter_map(clip).collect()
        };
        // A character device has no list of its own, and neither has an emulated device.
        if !namespace.bad_blocks.is_empty() {
            return Ok(clip(&namespace.bad_blocks, 0, namespace.size.unwrap_or(0) / SECTOR));
        }
        match (namespace.place, region.base) {
            (Some((base, len)), Some(start)) => {
                let first = base.saturating_sub(start) / SECTOR;
                Ok(clip(&region.bad_blocks, first, first.saturating_add(len / SECTOR)))
            }
            _ if region.bad_blocks.is_empty() => Ok(Vec::new()),
            _ => Err(LocateError::HiddenAddresses),
        }
    }

    /// Returns the modules that hold this number of sectors from a located byte on, each with its first byte of them.
    ///
    /// # Cost
    /// A step for each sector, or shorter line, of one rotation of the interleaving, at most.
    pub fn modules_of(&self, first: &Located, sectors: u64) -> Vec<ModulePlace> {
        let mut found: Vec<ModulePlace> = Vec::new();
        let Some(region) = self.regions().find(|region| region.number == first.region.number) else {
            return found;
        };
        let mut offset = first.region.offset;
        // Lines of CXL memory may be shorter than a sector.
        let step = region.line.unwrap_or(SECTOR).clamp(1, SECTOR);
        let steps = sectors.saturating_mul(SECTOR).div_ceil(step);
        // A rotation may begin and end within a step. After it, the same modules follow again.
        let rotation = self.rotation(region, offset).div_ceil(step).saturating_add(1);
        for _ in 0..steps.min(rotation) {
            for module in self.modules(region, offset) {
                if found.iter().all(|known| known.number != module.number) {
                    found.push(module);
                }
            }
            if found.len() >= region.mappings.len() {
                break;
            }
            offset = offset.saturating_add(step);
        }
        found
    }

    /// Returns the bytes after which the modules of a region follow again in the same order.
    fn rotation(&self, region: &NdRegion, offset: u64) -> u64 {
        match &self.interleaving {
            Interleaving::Lines(line) => {
                region.line.unwrap_or(*line).saturating_mul(region.mappings.len() as u64)
            }
            Interleaving::Table(nfit) => {
                let address = region.base.and_then(|base| base.checked_add(offset));
                address.map_or(0, |address| nfit.rotation_at(address))
            }
            Interleaving::Unknown => 0,
        }
    }

    /// Returns the name of the device of a namespace, which is named by it, or by itself.
    ///
    /// # Errors
    /// [`LocateError::UnknownDevice`].
    pub fn device_of(&self, name: &str) -> Result<Option<String>, LocateError> {
        self.namespace(name).map(|(_, namespace)| device(namespace))
    }

    /// Returns true if a namespace has the device, or is called so.
    pub fn has_device(&self, name: &str) -> bool {
        self.namespace(name).is_ok()
    }

    fn namespace(&self, name: &str) -> Result<(&NdRegion, &NdNamespace), LocateError> {
        let mut known = Vec::new();
        for region in self.regions() {
            for namespace in region.namespaces.iter().filter(|namespace| namespace.size != Some(0)) {
                let device = device(namespace);
                if namespace.to_string() == name || device.as_deref() == Some(name) {
                    return Ok((region, namespace));
                }
                known.push(device.unwrap_or_else(|| namespace.to_string()));
            }
        }
        let known = match known.as_slice() {
            [] => "there are no namespaces".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        Err(LocateError::UnknownDevice { device: name.to_owned(), known })
    }

    fn in_region(&self, region: &NdRegion, offset: u64) -> Located {
        let address = region.base.and_then(|base| base.checked_add(offset));
        Located {
            address,
            region: RegionPlace { number: region.number, offset },
            modules: self.modules(region, offset),
            namespace: address.and_then(|address| namespace_at(region, address)),
        }
    }

    fn modules(&self, region: &NdRegion, offset: u64) -> Vec<ModulePlace> {
        let address = region.base.and_then(|base| base.checked_add(offset));
        let found = match (&self.interleaving, region.mappings.as_slice()) {
            (_, []) => return Vec::new(),
            (Interleaving::Table(nfit), _) => {
                let place = address.and_then(|address| nfit.module_at(address));
                place.and_then(|place| {
                    let module =
                        self.modules_by(|module| module.handle == Some(place.handle.into())).next()?;
                    Some((module.number, place.offset))
                })
            }
            (Interleaving::Lines(line), mappings) => in_lines(region.line.unwrap_or(*line), mappings, offset),
            (Interleaving::Unknown, [only]) => Some((only.module, only.offset.saturating_add(offset))),
            (Interleaving::Unknown, _) => None,
        };
        match found {
            Some((number, offset)) => vec![self.module_place(number, Some(offset))],
            None => region.mappings.iter().map(|part| self.module_place(part.module, None)).collect(),
        }
    }

    fn modules_by(&self, wanted: impl Fn(&NdModule) -> bool) -> impl Iterator<Item = &NdModule> {
        self.inventory.buses.iter().flat_map(|bus| &bus.modules).filter(move |module| wanted(module))
    }

    fn module_place(&self, number: u32, offset: Option<u64>) -> ModulePlace {
        let module = self.modules_by(|module| module.number == number).next();
        let slot = module.and_then(|module| self.slots.get(&module.physical_id?));
        ModulePlace {
            number,
            handle: module.and_then(|module| module.handle),
            id: module.and_then(|module| module.id.clone()),
            slot: slot.filter(|slot| !slot.is_empty()).cloned(),
            offset,
        }
    }
}

/// Returns the name of a namespace's device, if it has one.
fn device(namespace: &NdNamespace) -> Option<String> {
    match &namespace.personality {
        NdPersonality::Devdax(_, region) => Some(region.as_ref()?.devices.first()?.name.clone()),
        _ => namespace.block_device.clone(),
    }
}

/// Returns the module, and the offset on it, of a byte of a region that is interleaved in lines.
fn in_lines(line: u64, mappings: &[NdMapping], offset: u64) -> Option<(u32, u64)> {
    let ways = u16::try_from(mappings.len()).ok()?;
    let piece = Interleave::new(ways, line, mappings.first()?.length).ok()?.piece_at(offset)?;
    let part = mappings.iter().find(|part| part.position == Some(piece.position.into()))?;
    Some((part.module, part.offset + piece.module_off))
}

/// Returns the namespace of a region that has this address. Page map and padding lie around the data.
fn namespace_at(region: &NdRegion, address: u64) -> Option<NamespacePlace> {
    let data = |namespace: &NdNamespace| {
        let (base, len) = namespace.place?;
        let offset = address.checked_sub(base).filter(|offset| *offset < len)?;
        Some(match namespace.personality {
            NdPersonality::Sector { .. } => NamespacePart::Btt(offset),
            _ => NamespacePart::Data(offset),
        })
    };
    let metadata = |namespace: &NdNamespace| {
        let offset = address.checked_sub(namespace.base?)?;
        (offset < namespace.span?).then_some(NamespacePart::Metadata)
    };
    let find = |part: &dyn Fn(&NdNamespace) -> Option<NamespacePart>| {
        region.namespaces.iter().find_map(|namespace| Some((namespace, part(namespace)?)))
    };
    let (namespace, part) = find(&data).or_else(|| find(&metadata))?;
    let device = device(namespace).filter(|_| namespace.enabled);
    Some(NamespacePlace { name: namespace.to_string(), mode: namespace.mode().as_str(), device, part })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::boot;
    use crate::goal::{self, GoalRequest};
    use crate::machine::Machine;

    /// Returns an NFIT with one range, which the module with this handle holds alone.
    fn table_of_one(handle: u32, base: u64, len: u64) -> Nfit {
        let mut bytes = vec![0; 40 + 56 + 48];
        let mut put = |off: usize, field: &[u8]| bytes[off..off + field.len()].copy_from_slice(field);
        put(0, b"NFIT");
        put(4, &144_u32.to_le_bytes());
        let (range, part) = (40, 96);
        put(range + 2, &56_u16.to_le_bytes());
        put(range + 4, &1_u16.to_le_bytes());
        put(range + 32, &base.to_le_bytes());
        put(range + 40, &len.to_le_bytes());
        put(part, &1_u16.to_le_bytes());
        put(part + 2, &48_u16.to_le_bytes());
        put(part + 4, &handle.to_le_bytes());
        put(part + 12, &1_u16.to_le_bytes());
        put(part + 16, &len.to_le_bytes());
        put(part + 42, &1_u16.to_le_bytes());
        bytes[9] = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg();
        Nfit::decode(&bytes).unwrap()
    }

    /// A bad range of a TiB took a step for each of its sectors if the table lacked a module of the region.
    #[test]
    fn module_that_the_table_lacks_costs_no_steps() {
        let text = Machine::included("lab-pair").unwrap();
        let mut platform = Platform::new(Machine::parse(text).unwrap());
        let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
        goal::create(&mut platform, goals);
        boot::reboot(&mut platform);
        let mut locator = Locator::of_platform(&platform);
        let whole = locator.at_address(platform.regions()[0].base).unwrap();
        let numbers = |locator: &Locator, sectors| {
            let found = locator.modules_of(&whole, sectors);
            found.iter().map(|module| module.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&locator, 8), [0], "one line");
        assert_eq!(numbers(&locator, 1 << 31), [0, 1]);
        let base = platform.regions()[0].base;
        locator.interleaving = Interleaving::Table(table_of_one(0x1, base, 1 << 40));
        assert_eq!(numbers(&locator, 1 << 31), [0]);
    }
}
