//! Inventory of an emulated machine, for the tool versions of its profile.

use super::inventory::{
    DaxDevice, DaxMapping, DaxMemory, DaxMode, DaxRegion, Inventory, NdActivation, NdBus, NdCapabilities,
    NdFirmware, NdHealth, NdMapping, NdModule, NdNamespace, NdNextFirmware, NdPageMap, NdPersonality,
    NdRegion,
};
use super::list::Included;
use crate::cxl;
use crate::dax::{self, Device, DeviceRegion, Driver, MemoryZone};
use crate::firmware::{self, ActivationState, FirmwareVersion};
use crate::machine::{FirmwareActivation, Handle, Module, PersistenceDomain, Security};
use crate::media_error::region_bad_blocks;
use crate::namespace::{
    MapLocation, Namespace, Personality, free, free_number, has_labels, largest_free, region_align,
};
use crate::nmem;
use crate::platform::Platform;
use crate::region::{Origin, Region};
use crate::security;
use crate::smart;
use lode_nvdimm::{LabelArea, PageMapInfo, PageMapLocation};
use uuid::Uuid;

/// First ndctl version that lists the alignment of regions.
const ALIGN_SINCE: u32 = 69;
/// First ndctl version that lists the free space of regions without labels, as 0.
const ZERO_AVAILABLE_SINCE: u32 = 65;
/// First ndctl version that lists whether firmware can be updated, and its activation.
const FIRMWARE_UPDATE_SINCE: u32 = 69;
/// First ndctl version that lists the mode of character devices.
const DAX_MODE_SINCE: u32 = 66;
/// First ndctl version that lists the alignment of character devices.
const DAX_ALIGN_SINCE: u32 = 70;
/// First ndctl version that lists the serial number of CXL devices.
const CXL_ID_SINCE: u32 = 76;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Returns the inventory that `ndctl list` would find.
pub fn inventory(platform: &Platform) -> Inventory {
    let all = platform.regions();
    let of_bus = |is_on: fn(&Origin) -> bool| -> Vec<NdRegion> {
        let regions = all.iter().filter(|region| is_on(&region.origin));
        regions.map(|region| nd_region(platform, region)).collect()
    };
    let mut buses = Vec::new();
    // A machine that has CXL memory alone has no table of modules.
    let has_windows = platform.machine.cxl.windows.iter().any(|window| window.persistent);
    if !(has_windows && platform.machine.modules.is_empty()) {
        buses.push(NdBus {
            number: 0,
            firmware: nd_activation(platform),
            provider: "ACPI.NFIT".to_owned(),
            scrub_active: platform.machine.firmware_scrubs.then_some(false),
            modules: (0..)
                .zip(&platform.machine.modules)
                .map(|(number, one)| nd_module(platform, number, one))
                .collect(),
            regions: of_bus(|origin| matches!(origin, Origin::Set { .. })),
        });
    }
    let memmap = of_bus(|origin| *origin == Origin::Memmap);
    if !memmap.is_empty() {
        let (number, provider) = (buses.len() as u32, "e820".to_owned());
        buses.push(NdBus { number, provider, regions: memmap, ..NdBus::default() });
    }
    if cxl::has_bus(platform) {
        buses.push(NdBus {
            number: buses.len() as u32,
            provider: "CXL".to_owned(),
            modules: cxl_modules(platform),
            regions: of_bus(|origin| matches!(origin, Origin::Cxl { .. })),
            ..NdBus::default()
        });
    }
    let dax_regions = dax::regions(platform).iter().map(|region| dax_region(platform, region)).collect();
    Inventory { buses, dax_regions }
}

/// Returns ndctl's output for a new or existing namespace.
pub fn describe(platform: &Platform, namespace: &Namespace) -> String {
    let included = Included { dax: true, ..Included::default() };
    inventory(platform).describe(&namespace.device(), &included, false)
}

fn nd_module(platform: &Platform, number: u32, module: &Module) -> NdModule {
    let security = security::reported(platform, module);
    NdModule {
        number,
        id: module.identity.map(|identity| identity.to_string()),
        handle: Some(module.handle.0.into()),
        physical_id: Some(module.physical_id.into()),
        enabled: platform.is_enabled(module),
        security: security.map(|(word, _)| word.to_owned()),
        security_frozen: security.is_some_and(|(_, frozen)| frozen),
        firmware: nd_firmware(platform, module),
        health: Some(NdHealth::Known(smart::report(platform, module))),
        has_label_area: module.label_area > 0,
        free_slots: platform.contents.area(module.handle).ok().map(LabelArea::slots_left),
        ..NdModule::default()
    }
}

/// Returns the modules of CXL devices. Their health and firmware are not those of ndctl, but of `cxl list`.
fn cxl_modules(platform: &Platform) -> Vec<NdModule> {
    let profile = &platform.machine.profile;
    let lists_serial = profile.kernel.numbers_cxl_modules() && profile.ndctl >= CXL_ID_SINCE;
    let module = |device: u32| {
        let handle = Handle::of_cxl(device);
        let area = platform.contents.area(handle);
        let hardware = platform.machine.cxl.devices.get(device as usize)?;
        Some(NdModule {
            number: nmem::number(platform, handle)?,
            // The kernel prints the number with a sign.
            id: lists_serial.then(|| (hardware.serial as i64).to_string()),
            enabled: cxl::is_nvdimm_enabled(platform, device),
            has_label_area: hardware.label_area > 0,
            free_slots: area.ok().map(LabelArea::slots_left),
            ..NdModule::default()
        })
    };
    let devices = cxl::nvdimms(platform).into_iter().filter(|device| cxl::is_nvdimm(platform, *device));
    devices.filter_map(module).collect()
}

/// Returns the firmware that a module reports. Modules of virtual machines have no such report.
fn nd_firmware(platform: &Platform, module: &Module) -> Option<NdFirmware> {
    if module.security == Security::Unsupported {
        return None;
    }
    let Some(running) = firmware::updates(module) else { return Some(NdFirmware::Unknown) };
    let entry = firmware::entry(platform, module);
    let is_live =
        lists_activation(platform) && firmware::activation(&platform.machine) != FirmwareActivation::Reset;
    let state = if entry.armed { ActivationState::Armed } else { ActivationState::Idle };
    let next = |staged: FirmwareVersion| NdNextFirmware {
        version: staged.number(),
        state: is_live.then_some(state),
    };
    Some(NdFirmware::Known {
        version: running.number(),
        can_update: lists_activation(platform).then_some(true),
        next: entry.staged.map(next),
    })
}

/// Returns the activation of the bus with the modules; `None` if none takes updates.
fn nd_activation(platform: &Platform) -> Option<NdActivation> {
    let takes_updates = platform.machine.modules.iter().any(|module| firmware::updates(module).is_some());
    let method = firmware::activation(&platform.machine);
    let state = (method != FirmwareActivation::Reset).then(|| firmware::bus_state(platform));
    (lists_activation(platform) && takes_updates).then_some(NdActivation { method, state })
}

fn lists_activation(platform: &Platform) -> bool {
    platform.machine.profile.ndctl >= FIRMWARE_UPDATE_SINCE
}

fn nd_region(platform: &Platform, region: &Region) -> NdRegion {
    let profile = &platform.machine.profile;
    let lists_free = region.origin != Origin::Memmap || profile.ndctl >= ZERO_AVAILABLE_SINCE;
    let share = region.share();
    let members = (0..).zip(region.members());
    let mappings = members.map(|(position, member)| NdMapping {
        module: nmem::number(platform, member.module).unwrap_or(0),
        offset: member.offset,
        length: share,
        position: Some(position),
    });
    // The kernel reads the free space from the labels of the modules that it uses.
    let has_disabled = region.members().iter().any(|member| platform.state.is_disabled(member.module));
    let available = |bytes: u64| lists_free.then_some(if has_disabled { 0 } else { bytes });
    NdRegion {
        number: region.number,
        base: Some(region.base),
        size: Some(region.size),
        align: region_align(platform, region).filter(|_| profile.ndctl >= ALIGN_SINCE),
        available: available(free(platform, region)),
        largest_available: available(largest_free(platform, region)),
        numa_node: Some(region.socket.into()),
        target_node: Some(dax::target_node(platform, region.number)),
        has_labels: has_labels(platform, region),
        set_id: region.set_id(),
        line: Some(region.line()),
        mappings: mappings.collect(),
        enabled: region.enabled,
        read_only: false,
        persistence_domain: match region.origin {
            Origin::Set { .. } => profile.domain,
            Origin::Cxl { .. } => PersistenceDomain::MemoryController,
            Origin::Memmap => PersistenceDomain::Unknown,
        }
        .as_str(),
        capabilities: Some(NdCapabilities {
            sector_sizes: vec![512, 520, 528, 4096, 4104, 4160, 4224],
            fsdax_alignments: vec![4096, 2 << 20, 1 << 30],
            devdax_alignments: vec![4096, 2 << 20, 1 << 30],
        }),
        bad_blocks: region_bad_blocks(platform, region),
        seed: has_labels(platform, region).then(|| free_number(platform, region)),
        namespaces: nd_namespaces(platform, region),
    }
}

/// Returns the namespaces that the kernel shows. A region with labels also has an idle namespace of size 0, the
/// seed. A disabled region shows none.
fn nd_namespaces(platform: &Platform, region: &Region) -> Vec<NdNamespace> {
    if !region.enabled {
        return Vec::new();
    }
    let found = platform.namespaces(region);
    let mut namespaces: Vec<_> = found.iter().map(|one| nd_namespace(platform, region, one)).collect();
    if has_labels(platform, region) {
        let next = NdNamespace::new(region.number, free_number(platform, region));
        namespaces.push(NdNamespace {
            size: Some(0),
            span: Some(0),
            uuid: Some(Uuid::nil()),
            sector_size: Some(512),
            enabled: false,
            numa_node: Some(region.socket.into()),
            target_node: Some(dax::target_node(platform, region.number)),
            ..next
        });
    }
    namespaces
}

fn nd_namespace(platform: &Platform, region: &Region, namespace: &Namespace) -> NdNamespace {
    // The kernel shows the use of a namespace only while it is enabled.
    let namespace = &Namespace {
        personality: match &namespace.personality {
            Personality::PageMap(_) | Personality::Sectors { .. } if !namespace.enabled => Personality::Raw,
            personality => personality.clone(),
        },
        ..namespace.clone()
    };
    let (start, len) = (region.base + namespace.offset, namespace.size);
    let page_map = |info: &PageMapInfo| {
        let location =
            if info.location == PageMapLocation::Dram { MapLocation::Mem } else { MapLocation::Dev };
        NdPageMap { uuid: info.uuid, location: Some(location), align: Some(info.align.into()) }
    };
    let (personality, place) = match &namespace.personality {
        Personality::Raw => (NdPersonality::Raw, (start, len)),
        Personality::Legacy => (NdPersonality::Legacy, (start, len)),
        Personality::Sectors { uuid, .. } => (NdPersonality::Sector { uuid: *uuid }, (start, len)),
        Personality::PageMap(info) => {
            let map = page_map(info);
            let usable = namespace.usable();
            let devices = dax::namespace_region(platform, region, namespace);
            let personality = match devices {
                Some(devices) => NdPersonality::Devdax(map, Some(dax_region(platform, &devices))),
                None => NdPersonality::Fsdax(map),
            };
            // The page map precedes the data.
            (personality, (start + info.data_start(), usable))
        }
    };
    let sector_size = namespace.character_device().is_none().then(|| namespace.user_sector_size());
    NdNamespace {
        personality,
        size: Some(namespace.usable()),
        span: Some(namespace.size),
        uuid: namespace.uuid,
        sector_size,
        block_device: namespace.block_device().filter(|_| namespace.enabled),
        name: namespace.name.clone(),
        enabled: namespace.enabled,
        numa_node: Some(region.socket.into()),
        target_node: Some(dax::target_node(platform, region.number)),
        place: Some(place),
        base: Some(start),
        ..NdNamespace::new(namespace.region, namespace.number)
    }
}

/// Returns the region of character devices as daxctl of this version shows it.
fn dax_region(platform: &Platform, region: &DeviceRegion) -> DaxRegion {
    let available = region.namespace.is_none().then(|| region.available());
    DaxRegion {
        number: region.number,
        // The path of a namespace depends on firmware.
        path: match region.window {
            Some(window) => Some(format!(
                "/platform/ACPI0017:00/root0/decoder0.{window}/region{0}/dax_region{0}",
                region.number
            )),
            None => region.namespace.is_none().then(|| format!("/platform/hmem.{}", region.number)),
        },
        size: Some(region.size()),
        available,
        align: Some(region.align),
        devices: region.devices.iter().map(|device| dax_device(platform, region, device)).collect(),
    }
}

fn dax_device(platform: &Platform, region: &DeviceRegion, device: &Device) -> DaxDevice {
    let ndctl = platform.machine.profile.ndctl;
    let lists_mode = ndctl >= DAX_MODE_SINCE;
    let mode = if device.is_memory() { DaxMode::SystemRam } else { DaxMode::Devdax };
    let total = dax::whole_blocks(&device.ranges, dax::block_size(&platform.machine));
    let memory = DaxMemory {
        online: if device.online.is_some() { total } else { 0 },
        total,
        movable: device.online.map(|zone| zone == MemoryZone::Movable),
    };
    let mut page_off = 0;
    let mappings = device.ranges.iter().map(|range| {
        let mapping = DaxMapping { page_off, start: range.start, last: range.end - 1 };
        page_off += (range.end - range.start) / PAGE;
        mapping
    });
    DaxDevice {
        name: device.id.to_string(),
        size: device.size(),
        target_node: lists_mode.then_some(region.target_node),
        align: Some(device.align).filter(|_| ndctl >= DAX_ALIGN_SINCE),
        mode: lists_mode.then_some(mode),
        memory: device.is_memory().then_some(memory),
        mappings: mappings.collect(),
        enabled: device.driver != Driver::None,
    }
}
