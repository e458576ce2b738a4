//! Objects of an emulated machine.

use super::scene::{
    Content, ModuleView, NamespaceView, Part, Piece, Place, RegionView, Scene, SocketView, Use, amount,
};
use crate::machine::{Health, Module, Security};
use crate::namespace::Namespace;
use crate::nmem;
use crate::platform::Platform;
use crate::region::{Origin, Region};

impl Scene {
    /// Returns the picture of an emulated machine.
    pub fn of(platform: &Platform) -> Scene {
        let machine = &platform.machine;
        let regions = platform.regions();
        // A host bridge may be on a socket without other memory.
        let mut numbers = machine.sockets();
        numbers.extend(regions.iter().map(|region| region.socket));
        numbers.sort_unstable();
        numbers.dedup();
        let sockets = numbers.into_iter().map(|number| {
            let here = machine.modules.iter().enumerate().filter(|(_, one)| one.handle.socket() == number);
            let mut modules: Vec<ModuleView> =
                here.map(|(index, module)| module_view(platform, &regions, index, module)).collect();
            modules.sort_by_key(|one| one.handle);
            let own = regions.iter().filter(|region| region.socket == number);
            SocketView {
                place: Place::Socket(number),
                dram: Some(machine.dram_capacity(number)),
                memory: platform.memory_on(number),
                modules,
                regions: own.map(|region| region_view(platform, region)).collect(),
            }
        });
        Scene {
            name: machine.name.clone(),
            summary: summary(platform),
            sockets: sockets.collect(),
            largest: machine.modules.iter().map(|module| module.capacity).max().unwrap_or(0),
            is_cache: platform.memory_mode(),
            cxl: machine.cxl.device_lines(),
        }
    }
}

fn summary(platform: &Platform) -> Vec<String> {
    let uses = platform.all_capacities();
    let count = platform.machine.modules.len();
    let plural = if count == 1 { "" } else { "s" };
    let mut parts = vec![format!("{count} module{plural}, {}", amount(uses.total))];
    let all = [
        (uses.app_direct, "persistent"),
        (uses.memory, "volatile"),
        (uses.reserved, "reserved"),
        (uses.unconfigured, "not configured"),
    ];
    let used = all.into_iter().filter(|(bytes, _)| *bytes > 0);
    parts.extend(used.map(|(bytes, what)| format!("{} {what}", amount(bytes))));
    let boots = platform.state.boots;
    parts.push(format!("started {boots} time{}", if boots == 1 { "" } else { "s" }));
    parts
}

fn module_view(platform: &Platform, regions: &[Region], index: usize, module: &Module) -> ModuleView {
    let uses = platform.capacities(module);
    let mut parts = vec![Part { what: Use::Memory, size: uses.memory }];
    for region in regions {
        if let Origin::Set { share, .. } = region.origin
            && region.has(module.handle)
        {
            parts.push(Part { what: Use::Region(region.number), size: share });
        }
    }
    parts.push(Part { what: Use::Reserved, size: uses.reserved });
    parts.push(Part { what: Use::Unconfigured, size: uses.unconfigured });
    parts.push(Part { what: Use::Inaccessible, size: uses.inaccessible });
    parts.retain(|part| part.size > 0);
    let has_goal = platform.state.goal(module.handle).is_some();
    let (condition, well) = condition(module, has_goal);
    ModuleView {
        number: index,
        handle: Some(module.handle),
        locator: module.locator.clone(),
        capacity: module.capacity,
        is_partial: false,
        parts,
        condition,
        well,
        is_dead: module.health == Health::NonFunctional,
        is_locked: module.security == Security::Locked,
        has_news: has_goal || !module.usable(),
        details: module.firmware.iter().map(|firmware| format!("firmware {firmware}")).collect(),
    }
}

/// Returns the condition of a module in a few words, and true if it is normal.
fn condition(module: &Module, has_goal: bool) -> (String, bool) {
    let mut words = Vec::new();
    match module.health {
        Health::Healthy => {}
        Health::NonFunctional => words.push("dead"),
        other => words.push(other.as_str()),
    }
    if module.security == Security::Locked {
        words.push("locked");
    }
    let well = words.is_empty();
    if well {
        words.push("healthy");
    }
    if has_goal {
        words.push("goal waits");
    }
    (words.join(", "), well)
}

fn region_view(platform: &Platform, region: &Region) -> RegionView {
    let mut pieces = Vec::new();
    let mut at = 0;
    for namespace in platform.namespaces(region) {
        if namespace.offset > at {
            pieces.push(Piece { content: Content::Free, size: namespace.offset - at });
        }
        at = at.max(namespace.offset.saturating_add(namespace.size));
        pieces.push(Piece { size: namespace.size, content: Content::Namespace(namespace_view(namespace)) });
    }
    if at < region.size {
        pieces.push(Piece { content: Content::Free, size: region.size - at });
    }
    let member = |module| (nmem::number(platform, module).map(|number| number as usize), module.to_string());
    let members = region.members().iter().map(|one| member(one.module));
    RegionView {
        number: region.number,
        base: Some(region.base),
        size: Some(region.size),
        set: region.set_id(),
        origin: "DRAM, by memmap=".to_owned(),
        members: members.filter_map(|(number, name)| Some((number?, name))).collect(),
        enabled: region.enabled,
        pieces,
    }
}

fn namespace_view(namespace: Namespace) -> NamespaceView {
    let device = namespace.block_device().or_else(|| namespace.character_device());
    NamespaceView {
        region: namespace.region,
        number: namespace.number,
        mode: namespace.mode(),
        size: Some(namespace.size),
        usable: Some(namespace.usable()),
        devices: device.into_iter().collect(),
        uuid: namespace.uuid,
        enabled: namespace.enabled,
        name: namespace.name,
    }
}
