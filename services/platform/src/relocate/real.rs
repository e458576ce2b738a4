//! Evacuations of real machines, planned from what their kernel shows. Only their commands are printed.

use super::error::RelocateError;
use super::evacuate::{Destination, PlannedMove};
use super::origin::parameters_of;
use super::record::{Place, Relocation, Stage};
use crate::error::PlatformError;
use crate::machine::{Handle, ModuleError};
use crate::namespace::{CreateNamespace, MapLocation, Mode, NamespaceError, align_over};
use crate::ndctl::{Inventory, NdNamespace, NdPersonality, NdRegion};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Alignment of page maps that ndctl takes without a request, in bytes.
const ALIGN: u64 = 2 << 20;

/// The plan of an evacuation of a real machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealEvacuation {
    /// The modules that share a region with it: N of nmemN.
    pub together: Vec<u32>,
    /// Numbers of the regions that become empty.
    pub regions: Vec<u32>,
    /// The moves.
    pub moves: Vec<PlannedMove>,
}

/// Plans the evacuation of the module nmemN of a real machine. `uuids` generates unused UUIDs.
///
/// # Errors
/// Fails if the module or a destination does not exist, a region or a namespace is disabled, a namespace has no labels, or
/// there is no room.
pub fn real_evacuation(
    inventory: &Inventory,
    module: u32,
    to: &[Destination],
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<RealEvacuation, PlatformError> {
    let found = inventory.buses.iter().flat_map(|bus| &bus.modules).find(|one| one.number == module);
    let found = found.ok_or(ModuleError::UnknownDevice { index: module as usize })?;
    let handle = found.handle.and_then(|number| Handle::of_number(number).ok()).unwrap_or(Handle(module));
    let all: Vec<&NdRegion> = inventory.buses.iter().flat_map(|bus| &bus.regions).collect();
    let (home, others): (Vec<&NdRegion>, Vec<&NdRegion>) =
        all.into_iter().partition(|region| region.mappings.iter().any(|one| one.module == module));
    let mut free: BTreeMap<u32, u64> = others
        .iter()
        .map(|region| (region.number, region.largest_available.or(region.available).unwrap_or(0)))
        .collect();
    let mut moves = Vec::new();
    for region in &home {
        let namespaces = region.namespaces.iter().filter(|one| one.span.is_none_or(|span| span > 0));
        for namespace in namespaces {
            if !region.enabled {
                return Err(NamespaceError::RegionDisabled { region: region.number }.into());
            }
            if !namespace.enabled {
                return Err(RelocateError::Disabled { device: namespace.to_string() }.into());
            }
            moves.push(place(region, namespace, handle, to, &others, &mut free, uuids)?);
        }
    }
    let mut together: Vec<u32> =
        home.iter().flat_map(|region| &region.mappings).map(|one| one.module).collect();
    together.sort_unstable();
    together.dedup();
    Ok(RealEvacuation { together, regions: home.iter().map(|region| region.number).collect(), moves })
}

fn place(
    region: &NdRegion,
    namespace: &NdNamespace,
    handle: Handle,
    to: &[Destination],
    others: &[&NdRegion],
    free: &mut BTreeMap<u32, u64>,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<PlannedMove, PlatformError> {
    let device = format!("namespace{}.{}", namespace.region, namespace.number);
    let unlabelled = || RelocateError::Unlabelled { device: device.clone() };
    let uuid = namespace.uuid.ok_or_else(unlabelled)?;
    let any: Vec<Destination> = others
        .iter()
        .filter(|one| takes_namespaces(one))
        .map(|one| Destination::Region(one.number))
        .collect();
    for destination in if to.is_empty() { &any } else { to } {
        match destination {
            Destination::Region(number) => {
                let target = target_region(region, others, *number, handle)?;
                let other = uuids();
                let relocation = relocation(region, namespace, uuid, handle, Place::Namespace(other));
                let size = size_in(target, &relocation);
                let room = free.entry(*number).or_default();
                if let Some(size) = size.filter(|size| size <= room) {
                    *room -= size;
                    let parameters = CreateNamespace {
                        region: Some(*number),
                        size: Some(size),
                        uuid: Some(other),
                        ..parameters_of(&relocation)
                    };
                    let target = format!("a namespace in region{number}");
                    return Ok(PlannedMove {
                        relocation,
                        parameters: Some(parameters),
                        target,
                        begun: false,
                    });
                }
            }
            Destination::Folder(folder) => {
                let path = folder.join(format!("{uuid}.img"));
                let relocation = relocation(region, namespace, uuid, handle, Place::File(path));
                return Ok(PlannedMove { relocation, parameters: None, target: String::new(), begun: false });
            }
        }
    }
    let free =
        free.iter().filter(|(_, bytes)| **bytes > 0).map(|(region, bytes)| (*region, *bytes)).collect();
    Err(RelocateError::NoRoom {
        device,
        size: namespace.span.or(namespace.size).unwrap_or(0),
        free,
        unconfigured: Vec::new(),
    }
    .into())
}

fn takes_namespaces(region: &NdRegion) -> bool {
    region.enabled && region.has_labels && !region.mappings.is_empty() && !region.read_only
}

/// Returns the region that the user names, if it takes namespaces.
fn target_region<'r>(
    home: &NdRegion,
    others: &[&'r NdRegion],
    number: u32,
    module: Handle,
) -> Result<&'r NdRegion, PlatformError> {
    let found = others.iter().find(|one| one.number == number);
    match found {
        Some(region) if takes_namespaces(region) => Ok(region),
        Some(region) if !region.enabled => Err(NamespaceError::RegionDisabled { region: number }.into()),
        Some(_) => Err(NamespaceError::NoLabels { region: number }.into()),
        None if home.number == number => Err(RelocateError::SameModule { region: number, module }.into()),
        None => Err(NamespaceError::UnknownRegion { region: number }.into()),
    }
}

/// Returns the size of a namespace with room for another one in a region; `None` if there is no such size.
fn size_in(region: &NdRegion, one: &Relocation) -> Option<u64> {
    let ways = region.mappings.len() as u64;
    let of_map = one.align.unwrap_or(0).max(ALIGN).checked_mul(ways)?;
    let unit = region.align.unwrap_or(0).max(align_over(ways)).max(of_map);
    one.size.checked_next_multiple_of(unit)
}

fn relocation(
    region: &NdRegion,
    namespace: &NdNamespace,
    uuid: Uuid,
    module: Handle,
    place: Place,
) -> Relocation {
    let (mode, map) = match &namespace.personality {
        NdPersonality::Raw => (Mode::Raw, None),
        NdPersonality::Legacy => (Mode::Fsdax, None),
        NdPersonality::Fsdax(map) => (Mode::Fsdax, Some(*map)),
        NdPersonality::Devdax(map, _) => (Mode::Devdax, Some(*map)),
        NdPersonality::Sector { .. } => (Mode::Sector, None),
    };
    let usable = namespace.size.unwrap_or(0);
    Relocation {
        uuid,
        device: format!("namespace{}.{}", namespace.region, namespace.number),
        module: Some(module),
        grow_to: None,
        name: namespace.name.clone(),
        mode,
        ways: region.mappings.len(),
        size: namespace.span.unwrap_or(usable),
        usable,
        map: map.and_then(|map| map.location).unwrap_or(MapLocation::Dev),
        align: map.and_then(|map| map.align),
        sector_size: namespace.sector_size.filter(|size| mode == Mode::Sector || *size != 512),
        place,
        stage: Stage::Leaving,
        returns: false,
        exchanged: None,
        digest: None,
    }
}
