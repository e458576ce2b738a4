//! A real machine's sysfs, read into a machine.
//!
//! ```text
//! bus/nd                     modules with handle, id and state; regions with their parts on modules; DRAM by memmap
//! bus/cxl                    devices, the ports above them, windows
//! firmware/dmi/tables/DMI    capacities, slots, DRAM: for root
//! ```

use super::Discovered;
use super::smbios::{MemoryDevice, memory_devices};
use super::sockets::{Slot, socket_of};
use crate::boot;
use crate::directory::{StateFault, state_fault};
use crate::machine::{
    AddressWindow, CxlHardware, CxlMemory, CxlPort, CxlSwitch, DEVICE_DECODERS, Dram, FIRMWARE_SPACE,
    FirmwareActivation, Handle, Health, HostBridge, IpmctlGeneration, KernelVersion, Machine, MachineError,
    Memmap, Module, PersistenceDomain, Profile, Security, Sensors,
};
use crate::namespace::format_labels;
use crate::ndctl::{Inventory, NdModule, NdRegion};
use crate::platform::Platform;
use crate::region::set_id;
use crate::state::{InterleaveSet, LabelVersion, Member, Partition};
use crate::sysfs::{Cxl, CxlDevice, Sysfs};
use std::fs;
use thiserror::Error;

/// Version of the kernel if none is known.
const KERNEL: KernelVersion = KernelVersion { major: 6, minor: 1 };
/// Unit of the capacity that firmware gives to goals, if the regions have it.
const ALIGNMENT: u64 = 1 << 30;
/// Unit of ranges of `memmap=` in machine files.
const MEMMAP_UNIT: u64 = 16 << 20;
/// Unit of capacities of CXL devices in machine files.
const CXL_UNIT: u64 = 256 << 20;

/// A sysfs from which no machine can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// There is no persistent memory.
    #[error("{path} shows no persistent memory: take the sysfs of a machine that has some")]
    Nothing {
        /// The sysfs.
        path: String,
    },
    /// The capacity of a module is in no readable table.
    #[error(
        "the capacity of nmem{module} is unknown: no region has it, and {path}/firmware/dmi/tables/DMI does not tell \
         it; read sysfs as root, or copy that file as root too"
    )]
    Capacity {
        /// N of nmemN.
        module: u32,
        /// The sysfs.
        path: String,
    },
    /// A region names a module that is not there.
    #[error("region{region} has parts on nmem{module}, which {path} does not show: copy sysfs as a whole")]
    UnknownModule {
        /// N of regionN.
        region: u32,
        /// N of nmemN.
        module: u32,
        /// The sysfs.
        path: String,
    },
    /// The regions can't be as shown.
    #[error("{path}: no machine can be as shown: {fault}; copy sysfs as a whole, at one moment")]
    Impossible {
        /// The sysfs.
        path: String,
        /// The fault.
        #[source]
        fault: StateFault,
    },
    /// A value is not one that machine files have.
    #[error("{path}: the machine file would be invalid, {error}")]
    Machine {
        /// The sysfs.
        path: String,
        /// The fault.
        #[source]
        error: MachineError,
    },
}

/// Makes a machine from a sysfs, the live one or a copy. `kernel` is the version of its kernel, if that is known.
///
/// # Errors
/// Fails if there is no persistent memory, if the capacity of a module is unknown, or if values contradict each other.
pub fn from_sysfs(
    name: &str,
    sysfs: &Sysfs,
    kernel: Option<KernelVersion>,
) -> Result<Discovered, DiscoveryError> {
    Shown::read(sysfs).discover(name, kernel)
}

/// A machine as its kernel shows it.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The sysfs, for messages.
    pub path: String,
    /// Modules, regions and namespaces.
    pub inventory: Inventory,
    /// CXL memory.
    pub cxl: Cxl,
    /// The memory devices of the SMBIOS table; empty if it can't be read.
    pub memory: Vec<MemoryDevice>,
}

impl Shown {
    /// Reads what a sysfs shows, with the permissions of the user.
    pub fn read(sysfs: &Sysfs) -> Shown {
        let table = fs::read(sysfs.root().join("firmware/dmi/tables/DMI"));
        Shown {
            path: sysfs.root().display().to_string(),
            inventory: sysfs.inventory(),
            cxl: sysfs.cxl(),
            memory: table.map(|table| memory_devices(&table)).unwrap_or_default(),
        }
    }

    /// Returns the entry of a module in the SMBIOS table.
    pub(crate) fn memory_device(&self, module: &NdModule) -> Option<&MemoryDevice> {
        let id = module.physical_id?;
        self.memory.iter().find(|device| device.persistent && u64::from(device.handle) == id)
    }

    /// Makes a machine.
    ///
    /// # Errors
    /// Those of [`from_sysfs`].
    pub fn discover(&self, name: &str, kernel: Option<KernelVersion>) -> Result<Discovered, DiscoveryError> {
        let mut notes = Vec::new();
        let mut assume = |what: &str| notes.push(what.to_owned());
        if kernel.is_none() {
            assume("The version of the kernel is assumed: sysfs does not tell it.");
        }
        assume(
            "The versions of ipmctl and ndctl, sensors and the sizes of label areas are assumed: sysfs does not tell them.",
        );
        let modules = self.modules(&mut notes)?;
        let slots =
            modules.iter().map(|module| Slot { locator: &module.locator, socket: module.handle.socket() });
        let dram = self.dram(&slots.collect::<Vec<_>>(), &mut notes);
        let regions = self.inventory.regions();
        let domains = regions.iter().filter(|region| !region.mappings.is_empty());
        let domain = domains.map(|region| region.persistence_domain).next();
        let domain = match domain {
            Some("cpu_cache") => PersistenceDomain::CpuCache,
            Some("memory_controller") | None => PersistenceDomain::MemoryController,
            Some(_) => PersistenceDomain::Unknown,
        };
        let machine = Machine {
            name: name.to_owned(),
            profile: Profile {
                ipmctl: IpmctlGeneration::Three,
                ndctl: 76,
                kernel: kernel.unwrap_or(KERNEL),
                domain,
            },
            alignment: alignment(&regions),
            modules,
            dram,
            memmap: memmap(&regions, &mut notes),
            soft_reserved: Vec::new(),
            cxl: cxl_hardware(&self.cxl, &mut notes),
            firmware_scrubs: true,
            firmware_activation: FirmwareActivation::default(),
        };
        if machine.modules.is_empty() && machine.memmap.is_empty() && machine.cxl.devices.is_empty() {
            return Err(DiscoveryError::Nothing { path: self.path.clone() });
        }
        let machine = Machine::parse(&machine.text(&[]))
            .map_err(|error| DiscoveryError::Machine { path: self.path.clone(), error })?;
        let mut platform = Platform::new(machine);
        self.provision(&mut platform, &mut notes)?;
        if regions
            .iter()
            .any(|region| region.namespaces.iter().any(|one| one.size.is_some_and(|size| size > 0)))
        {
            notes.push("Namespaces are left out: their labels are on the modules, not in sysfs.".to_owned());
        }
        Ok(Discovered { platform, notes })
    }

    /// Returns the modules with a handle, in the order of their numbers. The others are those of CXL devices.
    fn nfit_modules(&self) -> Vec<(Handle, &NdModule)> {
        let all = self.inventory.modules().into_iter();
        all.filter_map(|one| Some((Handle(u32::try_from(one.handle?).ok()?), one))).collect()
    }

    fn modules(&self, notes: &mut Vec<String>) -> Result<Vec<Module>, DiscoveryError> {
        let module = |(handle, shown): (Handle, &NdModule)| {
            let physical_id = shown.physical_id.and_then(|id| u16::try_from(id).ok()).unwrap_or(0);
            let device = self.memory.iter().find(|device| device.persistent && device.handle == physical_id);
            let security = match shown.security.as_deref() {
                _ if shown.security_frozen => Security::Frozen,
                Some("unlocked") => Security::Unlocked,
                Some("locked") => Security::Locked,
                Some("frozen") => Security::Frozen,
                _ => Security::Disabled,
            };
            let identity = shown.id.as_deref().and_then(|id| id.parse().ok());
            let is_dead = identity.is_none() || !shown.enabled && security != Security::Locked;
            if is_dead && identity.is_some() {
                let what = "no driver uses it. If it was only disabled, remove its `health`.";
                notes.push(format!("nmem{} is dead here: {what}", shown.number));
            }
            let capacity = match self.capacity(shown.number, device) {
                Some(capacity) => capacity,
                None if is_dead => 0,
                None => {
                    let (module, path) = (shown.number, self.path.clone());
                    return Err(DiscoveryError::Capacity { module, path });
                }
            };
            let locator = device.map(|device| device.locator.clone()).filter(|locator| !locator.is_empty());
            Ok(Module {
                handle,
                physical_id,
                locator: locator.unwrap_or_else(|| format!("DIMM {handle}")),
                capacity,
                identity,
                firmware: device.and_then(|device| device.firmware.clone()),
                part_number: device.and_then(|device| device.part_number.clone()),
                health: if is_dead { Health::NonFunctional } else { Health::Healthy },
                security,
                label_area: 128 << 10,
                sensors: Sensors::default(),
            })
        };
        let modules: Vec<Module> = self.nfit_modules().into_iter().map(module).collect::<Result<_, _>>()?;
        if !modules.is_empty() && self.memory.is_empty() {
            notes.push(
                "Capacities, slots and firmware of modules are assumed, and DRAM is left out: only root can read \
                 the SMBIOS table (firmware/dmi/tables/DMI)."
                    .to_owned(),
            );
        }
        Ok(modules)
    }

    /// Returns the capacity of a module: that in the SMBIOS table, or else the end of its last part in a region.
    fn capacity(&self, module: u32, device: Option<&MemoryDevice>) -> Option<u64> {
        let regions = self.inventory.regions();
        let parts = || regions.iter().flat_map(|one| &one.mappings).filter(|one| one.module == module);
        let end = parts().filter_map(|one| one.offset.checked_add(one.length)).max();
        let shift = self.shift(module);
        let end = end.and_then(|end| end.checked_add(shift));
        let size = device.map(|device| device.size).filter(|size| *size > 0);
        size.max(end)?.checked_next_multiple_of(64 << 10)
    }

    /// Returns the bytes by which the parts of a module move here: firmware keeps the start of the media, except that of
    /// virtual machines.
    fn shift(&self, module: u32) -> u64 {
        let regions = self.inventory.regions();
        let parts = regions.iter().flat_map(|one| &one.mappings).filter(|one| one.module == module);
        let first = parts.map(|one| one.offset).min();
        first.map_or(0, |first| FIRMWARE_SPACE.saturating_sub(first))
    }

    fn dram(&self, slots: &[Slot<'_>], notes: &mut Vec<String>) -> Vec<Dram> {
        let devices = self.memory.iter().filter(|one| !one.persistent && one.size >= 1 << 20);
        let dram = |device: &MemoryDevice| Dram {
            socket: socket_of(&device.locator, slots),
            physical_id: device.handle,
            locator: device.locator.clone(),
            capacity: device.size >> 20 << 20,
        };
        let dram: Vec<Dram> = devices.map(dram).collect();
        if !dram.is_empty() {
            notes.push("The sockets of DRAM are derived from the names of the slots.".to_owned());
        }
        dram
    }

    /// Takes over partitions and sets.
    fn provision(&self, platform: &mut Platform, notes: &mut Vec<String>) -> Result<(), DiscoveryError> {
        let handles = self.nfit_modules();
        for region in self.inventory.regions() {
            let mut mappings = region.mappings.clone();
            mappings.sort_by_key(|mapping| mapping.position);
            let of_cxl = |number| {
                self.inventory.modules().iter().any(|one| one.number == number && one.handle.is_none())
            };
            if mappings.is_empty() || mappings.iter().any(|mapping| of_cxl(mapping.module)) {
                continue;
            }
            let mut members = Vec::new();
            for mapping in &mappings {
                let found = handles.iter().find(|(_, module)| module.number == mapping.module);
                let (number, module, path) = (region.number, mapping.module, self.path.clone());
                let unknown = DiscoveryError::UnknownModule { region: number, module, path };
                let (module, _) = found.ok_or(unknown)?;
                let offset = mapping.offset.saturating_add(self.shift(mapping.module));
                members.push(Member { module: *module, offset });
            }
            let modules: Vec<Handle> = members.iter().map(|member| member.module).collect();
            let versions = [LabelVersion::V1_2, LabelVersion::V1_1];
            let is_same =
                |labels: &LabelVersion| Some(set_id(&platform.machine, &modules, *labels)) == region.set_id;
            let labels = versions.into_iter().find(is_same).unwrap_or_else(|| {
                notes.push(format!("The set of region{} has another id here.", region.number));
                LabelVersion::V1_2
            });
            platform.state.sets.push(InterleaveSet { share: mappings[0].length, labels, members });
        }
        for (handle, _) in &handles {
            let first = platform.state.sets_of(*handle).map(|(_, member)| member.offset).min();
            if let Some(first) = first {
                let memory = first.saturating_sub(FIRMWARE_SPACE);
                platform.state.partitions.push(Partition { module: *handle, memory, reserved: 0 });
            }
        }
        let impossible = |fault| DiscoveryError::Impossible { path: self.path.clone(), fault };
        state_fault(&platform.state, &platform.machine).map_err(impossible)?;
        boot::order(platform);
        for set in platform.state.sets.clone() {
            for member in &set.members {
                // An area that is too small for labels stays blank, as with firmware.
                let _ = format_labels(platform, member.module, set.labels);
            }
        }
        if platform.state.partitions.len() < handles.len() {
            let what = "Modules outside of all regions are not configured here; they may be volatile memory.";
            notes.push(format!("{what} `ipmctl show -a -dimm` tells it."));
        }
        Ok(())
    }
}

/// Returns the largest power of two, up to firmware's usual one, that divides all parts of regions.
fn alignment(regions: &[&NdRegion]) -> u64 {
    let lengths = regions.iter().flat_map(|region| &region.mappings).map(|mapping| mapping.length);
    let shift = lengths.map(u64::trailing_zeros).min().map_or(30, |zeros| zeros.clamp(20, 30));
    ALIGNMENT.min(1 << shift)
}

/// Returns the DRAM that the kernel uses as persistent memory.
fn memmap(regions: &[&NdRegion], notes: &mut Vec<String>) -> Vec<Memmap> {
    let mut ranges = Vec::new();
    for region in regions.iter().filter(|region| region.mappings.is_empty()) {
        match (region.base, region.size) {
            (Some(start), Some(size))
                if start % MEMMAP_UNIT == 0 && size % MEMMAP_UNIT == 0 && start > 0 && size > 0 =>
            {
                ranges.push(Memmap { start, size });
            }
            _ => notes.push(format!("region{} is left out: only root can read where it is.", region.number)),
        }
    }
    ranges
}

/// Returns the CXL memory.
fn cxl_hardware(shown: &Cxl, notes: &mut Vec<String>) -> CxlHardware {
    let mut cxl = CxlHardware::default();
    let socket = |device: &CxlDevice| device.numa_node.and_then(|node| u16::try_from(node).ok());
    let bridge = |cxl: &mut CxlHardware, id: u64, socket: Option<u16>| {
        if !cxl.bridges.iter().any(|known| known.id == id) {
            cxl.bridges.push(HostBridge { id, socket: socket.unwrap_or(0) });
        }
    };
    for device in &shown.devices {
        let endpoint = device.endpoint.as_ref();
        let Some((id, ports)) = endpoint.and_then(|end| Some((end.bridge?, &end.ports))) else {
            notes.push(format!("mem{} is left out: no port leads to it.", device.number));
            continue;
        };
        let (volatile, persistent) = (device.volatile.unwrap_or(0), device.persistent.unwrap_or(0));
        if volatile.saturating_add(persistent) == 0 || volatile % CXL_UNIT > 0 || persistent % CXL_UNIT > 0 {
            notes.push(format!(
                "mem{} is left out: its capacity is not a multiple of 256 MiB.",
                device.number
            ));
            continue;
        }
        bridge(&mut cxl, id, socket(device));
        let mut above = CxlPort::Bridge(id);
        // The first port is that of the host bridge, the others are those of switches.
        for name in ports.iter().skip(1) {
            if !cxl.switches.iter().any(|known| known.name == *name) {
                cxl.switches.push(CxlSwitch { name: name.clone(), above });
            }
            above = CxlPort::Switch(name.clone());
        }
        cxl.devices.push(CxlMemory {
            serial: device.serial.unwrap_or(0),
            above,
            volatile,
            persistent,
            label_area: device.label_area.unwrap_or(128 << 10),
            firmware: device.firmware.clone().filter(|version| !version.is_empty()),
            partition_alignment: 0,
            decoders: DEVICE_DECODERS,
        });
    }
    for window in &shown.windows {
        let Some(size) = window.size else {
            notes.push(format!("The window {} is left out: only root can read its size.", window.name));
            continue;
        };
        window.bridges.iter().for_each(|id| bridge(&mut cxl, *id, None));
        cxl.windows.push(AddressWindow {
            size,
            bridges: window.bridges.clone(),
            granularity: window.granularity.unwrap_or(256),
            volatile: window.volatile,
            persistent: window.persistent,
            accelerator: false,
        });
    }
    cxl
}
