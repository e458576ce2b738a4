//! Objects of a real machine, as far as its kernel and its SMBIOS table show them.

use super::scene::{
    Content, ModuleView, NamespaceView, Part, Piece, Place, RegionView, Scene, SocketView, Use, amount,
    size_text,
};
use crate::discovery::{MemoryDevice, Shown, Slot, socket_of};
use crate::machine::Handle;
use crate::ndctl::{NdBus, NdMapping, NdModule, NdNamespace, NdPersonality, NdRegion};
use crate::sysfs::CxlDevice;
use std::collections::{BTreeMap, BTreeSet};

impl Scene {
    /// Returns the picture of a real machine. Capacities of modules and of DRAM are drawn if the SMBIOS table tells
    /// them, and places of namespaces in their region if the kernel showed addresses, as it does to root.
    pub fn of_shown(shown: &Shown) -> Scene {
        let places = Places::of(shown);
        let mut regions: Vec<(&NdBus, &NdRegion)> = shown
            .inventory
            .buses
            .iter()
            .flat_map(|bus| bus.regions.iter().map(move |one| (bus, one)))
            .collect();
        regions.sort_by_key(|(_, region)| region.number);
        let mut modules = shown.inventory.modules();
        modules.sort_by_key(|module| (handle(module), module.number));
        let dram = dram(shown);
        let mut all: BTreeSet<Place> = dram.keys().map(|socket| Place::Socket(*socket)).collect();
        all.extend(modules.iter().map(|module| places.of_module(module)));
        all.extend(regions.iter().map(|(_, region)| places.of_region(region)));
        let socket = |place: Place| {
            let here = modules.iter().filter(|module| places.of_module(module) == place);
            let own = regions.iter().filter(|(_, region)| places.of_region(region) == place);
            SocketView {
                place,
                dram: match place {
                    Place::Socket(number) => dram.get(&number).copied(),
                    Place::Node(_) | Place::Unknown => None,
                },
                memory: 0,
                modules: here.map(|module| module_view(shown, module)).collect(),
                regions: own.map(|(bus, region)| region_view(shown, bus, region)).collect(),
            }
        };
        let sockets: Vec<SocketView> = all.into_iter().map(socket).collect();
        let views = || sockets.iter().flat_map(|socket| &socket.modules);
        Scene {
            name: shown.path.clone(),
            summary: summary(shown, &views().collect::<Vec<_>>()),
            largest: views().map(|module| module.capacity).max().unwrap_or(0),
            sockets,
            is_cache: false,
            cxl: shown.cxl.devices.iter().map(cxl_line).collect(),
        }
    }
}

/// Places of modules and regions: sockets by the handles of modules, NUMA nodes by the regions of these modules.
struct Places<'i> {
    /// The modules by number.
    modules: BTreeMap<u32, &'i NdModule>,
    /// NUMA nodes whose regions are on modules of this socket alone.
    sockets: BTreeMap<u64, Option<u16>>,
    /// NUMA nodes of the regions of modules.
    nodes: BTreeMap<u32, u64>,
}

impl Places<'_> {
    fn of(shown: &Shown) -> Places<'_> {
        let mut places = Places {
            modules: shown.inventory.modules().into_iter().map(|one| (one.number, one)).collect(),
            sockets: BTreeMap::new(),
            nodes: BTreeMap::new(),
        };
        for region in shown.inventory.regions() {
            let Some(node) = node(region) else { continue };
            for mapping in &region.mappings {
                places.nodes.entry(mapping.module).or_insert(node);
            }
            if let Some(socket) = places.socket(region) {
                let known = places.sockets.entry(node).or_insert(Some(socket));
                if *known != Some(socket) {
                    *known = None;
                }
            }
        }
        places
    }

    /// Returns the socket of a region's modules.
    fn socket(&self, region: &NdRegion) -> Option<u16> {
        let modules = region.mappings.iter().filter_map(|mapping| self.modules.get(&mapping.module));
        modules.into_iter().find_map(|module| handle(module)).map(Handle::socket)
    }

    fn of_region(&self, region: &NdRegion) -> Place {
        self.socket(region).map_or_else(|| self.of_node(node(region)), Place::Socket)
    }

    fn of_module(&self, module: &NdModule) -> Place {
        let node = self.nodes.get(&module.number).copied();
        handle(module).map_or_else(|| self.of_node(node), |handle| Place::Socket(handle.socket()))
    }

    fn of_node(&self, node: Option<u64>) -> Place {
        let Some(node) = node else { return Place::Unknown };
        self.sockets.get(&node).copied().flatten().map_or(Place::Node(node), Place::Socket)
    }
}

fn node(region: &NdRegion) -> Option<u64> {
    region.numa_node.and_then(|node| u64::try_from(node).ok())
}

fn handle(module: &NdModule) -> Option<Handle> {
    module.handle.and_then(|handle| u32::try_from(handle).ok()).map(Handle)
}

/// Returns the DRAM of sockets, in bytes. The names of slots tell the socket, if those of the modules are known.
fn dram(shown: &Shown) -> BTreeMap<u16, u64> {
    let modules = shown.inventory.modules();
    let slot = |module: &&NdModule| {
        let device = shown.memory_device(module).filter(|device| !device.locator.is_empty())?;
        Some(Slot { locator: &device.locator, socket: handle(module)?.socket() })
    };
    let slots: Vec<Slot<'_>> = modules.iter().filter_map(slot).collect();
    let mut dram = BTreeMap::new();
    if slots.is_empty() || slots.len() < modules.iter().filter(|module| handle(module).is_some()).count() {
        return dram;
    }
    for device in shown.memory.iter().filter(|device| !device.persistent && device.size > 0) {
        let sum: &mut u64 = dram.entry(socket_of(&device.locator, &slots)).or_default();
        *sum = sum.saturating_add(device.size);
    }
    dram
}

fn summary(shown: &Shown, modules: &[&ModuleView]) -> Vec<String> {
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let regions = shown.inventory.regions();
    let (mapped, others): (Vec<&NdRegion>, Vec<&NdRegion>) =
        regions.into_iter().partition(|region| !region.mappings.is_empty());
    let size = |regions: &[&NdRegion]| sum(&mut regions.iter().filter_map(|region| region.size));
    let mut parts = Vec::new();
    if !modules.is_empty() {
        let count = modules.len();
        let plural = if count == 1 { "" } else { "s" };
        let is_known = modules.iter().all(|module| module.capacity > 0 && !module.is_partial);
        let total = sum(&mut modules.iter().map(|module| module.capacity));
        let total = if is_known { format!(", {}", amount(total)) } else { String::new() };
        parts.push(format!("{count} module{plural}{total}"));
    }
    if !mapped.is_empty() {
        parts.push(format!("{} persistent", amount(size(&mapped))));
    }
    if !others.is_empty() {
        parts.push(format!("{} in regions without modules", amount(size(&others))));
    }
    if parts.is_empty() && shown.cxl.devices.is_empty() {
        parts.push("no persistent memory that the kernel knows of".to_owned());
    }
    parts
}

fn module_view(shown: &Shown, module: &NdModule) -> ModuleView {
    let regions = shown.inventory.regions();
    let on_module = |mapping: &&NdMapping| mapping.module == module.number;
    let mut mapped: Vec<(u64, Part)> = regions
        .iter()
        .flat_map(|region| region.mappings.iter().filter(on_module).map(|one| (region.number, one)))
        .map(|(region, one)| (one.offset, Part { what: Use::Region(region), size: one.length }))
        .collect();
    mapped.sort_by_key(|(offset, _)| *offset);
    let mut parts: Vec<Part> =
        mapped.into_iter().map(|(_, part)| part).filter(|part| part.size > 0).collect();
    let in_regions = parts.iter().map(|part| part.size).fold(0, u64::saturating_add);
    let device = shown.memory_device(module);
    let told = device.map(|device| device.size).filter(|size| *size >= in_regions && *size > 0);
    let rest = told.map_or(0, |told| told - in_regions);
    if rest > 0 {
        parts.push(Part { what: Use::Unknown, size: rest });
    }
    let (condition, well) = condition(module);
    ModuleView {
        number: module.number as usize,
        handle: handle(module),
        locator: device.map(|device| device.locator.clone()).unwrap_or_default(),
        capacity: told.unwrap_or(in_regions),
        is_partial: told.is_none(),
        has_news: parts.is_empty() || is_locked(module),
        parts,
        condition,
        well,
        is_dead: false,
        is_locked: is_locked(module),
        details: details(module, device),
    }
}

fn is_locked(module: &NdModule) -> bool {
    module.security.as_deref() == Some("locked")
}

/// Returns the condition of a module in a few words, and true if it is normal.
fn condition(module: &NdModule) -> (String, bool) {
    let flags = module.flags.iter().map(|flag| flag.trim_start_matches("flag_").replace('_', " "));
    let mut words: Vec<String> = flags.collect();
    words.extend(is_locked(module).then(|| "locked".to_owned()));
    words.extend((!module.enabled).then(|| "disabled".to_owned()));
    if words.is_empty() { ("enabled".to_owned(), true) } else { (words.join(", "), false) }
}

fn details(module: &NdModule, device: Option<&MemoryDevice>) -> Vec<String> {
    let mut details: Vec<String> = module.id.iter().cloned().collect();
    let frozen = if module.security_frozen { ", frozen" } else { "" };
    details.extend(module.security.as_ref().map(|word| format!("security {word}{frozen}")));
    let part = device.and_then(|device| device.part_number.as_ref());
    details.extend(part.map(|part| format!("part {part}")));
    let firmware = device.and_then(|device| device.firmware.as_ref());
    details.extend(firmware.map(|firmware| format!("firmware {firmware}")));
    details
}

fn region_view(shown: &Shown, bus: &NdBus, region: &NdRegion) -> RegionView {
    let modules = shown.inventory.modules();
    let mut mappings: Vec<&NdMapping> = region.mappings.iter().collect();
    mappings.sort_by_key(|mapping| mapping.position);
    let member = |mapping: &&NdMapping| {
        let module = modules.iter().find(|module| module.number == mapping.module);
        let name = module.and_then(|module| handle(module)).map(|handle| handle.to_string());
        (mapping.module as usize, name.unwrap_or_else(|| format!("nmem{}", mapping.module)))
    };
    let origin = if bus.provider.is_empty() { "unknown origin" } else { bus.provider.as_str() };
    RegionView {
        number: region.number,
        base: region.base.filter(|base| *base > 0),
        size: region.size,
        set: region.set_id.filter(|_| !mappings.is_empty()),
        origin: format!("memory of {origin}"),
        members: mappings.iter().map(member).collect(),
        enabled: region.enabled,
        pieces: pieces(region),
    }
}

/// Divides a region: by the addresses of its namespaces if they are known and do not overlap, or else by their numbers.
fn pieces(region: &NdRegion) -> Vec<Piece> {
    // An idle namespace has size 0. Only disabled regions may have others that the kernel does not show.
    let mut namespaces: Vec<&NdNamespace> =
        region.namespaces.iter().filter(|one| one.span.or(one.size) != Some(0)).collect();
    namespaces.sort_by_key(|one| one.number);
    if namespaces.is_empty() {
        let content = if region.enabled { Content::Free } else { Content::Unknown };
        return region
            .size
            .filter(|size| *size > 0)
            .map(|size| Piece { content, size })
            .into_iter()
            .collect();
    }
    let view = |one: &NdNamespace| {
        let size = one.span.or(one.size).unwrap_or(0);
        Piece { content: Content::Namespace(namespace_view(one)), size }
    };
    let gap = |size: u64| (size > 0).then_some(Piece { content: Content::Free, size });
    let Some(placed) = placed(region, &namespaces) else {
        let mut pieces: Vec<Piece> = namespaces.into_iter().map(view).collect();
        let used = pieces.iter().map(|piece| piece.size).fold(0, u64::saturating_add);
        pieces.extend(gap(region.size.unwrap_or(0).saturating_sub(used)));
        return pieces;
    };
    let (mut pieces, mut at) = (Vec::new(), 0);
    for (start, end, namespace) in placed {
        pieces.extend(gap(start - at));
        pieces.push(view(namespace));
        at = end;
    }
    pieces.extend(gap(region.size.unwrap_or(0).saturating_sub(at)));
    pieces
}

/// Returns the namespaces with their starts and ends in the region, ascending; `None` if they are unknown, or impossible.
fn placed<'n>(region: &NdRegion, namespaces: &[&'n NdNamespace]) -> Option<Vec<(u64, u64, &'n NdNamespace)>> {
    let (base, size) = (region.base.filter(|base| *base > 0)?, region.size?);
    let place = |one: &&'n NdNamespace| {
        let start = one.base?.checked_sub(base)?;
        let end = start.checked_add(one.span?).filter(|end| *end <= size)?;
        Some((start, end, *one))
    };
    let mut placed: Vec<_> = namespaces.iter().map(place).collect::<Option<_>>()?;
    placed.sort_by_key(|(start, _, _)| *start);
    placed.windows(2).all(|pair| pair[0].1 <= pair[1].0).then_some(placed)
}

fn namespace_view(namespace: &NdNamespace) -> NamespaceView {
    let characters = match &namespace.personality {
        NdPersonality::Devdax(_, Some(region)) => region.devices.as_slice(),
        _ => &[],
    };
    let characters = characters.iter().map(|device| device.name.clone());
    NamespaceView {
        region: namespace.region,
        number: namespace.number,
        mode: namespace.mode(),
        size: namespace.span.or(namespace.size),
        usable: namespace.size,
        devices: namespace.block_device.iter().cloned().chain(characters).collect(),
        name: namespace.name.clone(),
        uuid: namespace.uuid.filter(|uuid| !uuid.is_nil()),
        enabled: namespace.enabled,
    }
}

fn cxl_line(device: &CxlDevice) -> String {
    let mut parts = vec![format!("mem{}  CXL", device.number)];
    let sizes = [(device.persistent, "persistent"), (device.volatile, "volatile")];
    let sizes = sizes.into_iter().filter(|(bytes, _)| *bytes != Some(0));
    parts.extend(sizes.map(|(bytes, what)| format!("{} {what}", size_text(bytes))));
    parts.extend(device.serial.map(|serial| format!("serial {serial:#x}")));
    parts.extend(device.firmware.as_ref().map(|version| format!("firmware {version}")));
    parts.join(", ")
}
