//! Plans of evacuations: what lies on a module, and the place that each namespace gets.

use super::error::RelocateError;
use super::origin::{parameters_of, record_of};
use super::record::{Place, Relocation, Stage, is_settled, set_away};
use crate::dax;
use crate::error::PlatformError;
use crate::machine::{Handle, ModuleError};
use crate::namespace::{self, CreateNamespace, Namespace, NamespaceError, largest_free, size_rules, usable};
use crate::plan::NamespaceRequest;
use crate::plan::fit::fitted;
use crate::platform::Platform;
use crate::region::{Origin, Region};
use crate::security;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A place where namespaces may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The region with this number.
    Region(u32),
    /// Files in this folder.
    Folder(PathBuf),
}

/// Parameters of an evacuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvacuationRequest {
    /// The module.
    pub module: Handle,
    /// The places, in the order in which they are tried; all other regions if empty.
    pub to: Vec<Destination>,
    /// True if the module is to be exchanged. Then all modules that get their goal with it are evacuated, too, and the
    /// machine is started before the namespaces come back: modules with a passphrase are locked then.
    pub exchange: bool,
    /// True if namespaces that can't be read, since a module is dead, are given up.
    pub force: bool,
}

impl EvacuationRequest {
    /// Returns the modules whose regions become empty.
    fn modules(&self, platform: &Platform) -> Vec<Handle> {
        if self.exchange { connected(platform, self.module) } else { vec![self.module] }
    }
}

/// A move that is part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// The namespace and its place.
    pub relocation: Relocation,
    /// The namespace to make there; `None` for a file, and if the move has begun already.
    pub parameters: Option<CreateNamespace>,
    /// The kernel's name of that namespace; empty for a file.
    pub target: String,
    /// True if the move has begun already.
    pub begun: bool,
}

/// The plan of an evacuation.
#[derive(Clone, Debug)]
pub struct Evacuation {
    /// The module.
    pub module: Handle,
    /// The modules that share an interleave set with it: all that lies on them moves together.
    pub together: Vec<Handle>,
    /// Numbers of the regions that become empty.
    pub regions: Vec<u32>,
    /// The moves that are left to do, in their order.
    pub moves: Vec<PlannedMove>,
    /// The kernel's names of the namespaces that are given up, since a module is dead.
    pub lost: Vec<String>,
    /// The machine afterwards.
    pub after: Platform,
}

/// Plans the evacuation of a module. `uuids` generates unused UUIDs.
///
/// # Errors
/// Fails if the module does not exist, is dead, locked or overwrites its media, if a region of it is disabled, if one
/// of its namespaces has no labels or is used as memory, or if there is no room.
pub(super) fn evacuation(
    platform: &Platform,
    request: &EvacuationRequest,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Evacuation, PlatformError> {
    let module = request.module;
    platform.machine.module(module).ok_or(ModuleError::UnknownModule { module })?;
    let home = regions_of(platform, &request.modules(platform));
    check_destinations(platform, request, &home)?;
    let mut after = platform.clone();
    let mut moves = under_way(&mut after, module)?;
    let (mut left, mut lost): (Vec<(Region, Namespace)>, Vec<String>) = (Vec::new(), Vec::new());
    for region in &home {
        let mut namespaces = after.namespaces(region);
        namespaces.retain(|one| one.uuid.is_some());
        if namespaces.is_empty() {
            continue;
        }
        match readable(platform, region) {
            Ok(()) => left.extend(namespaces.into_iter().map(|one| (region.clone(), one))),
            Err(PlatformError::Module(ModuleError::DeadModule { .. })) if request.force => {
                lost.extend(namespaces.iter().map(Namespace::device));
            }
            Err(PlatformError::Module(ModuleError::DeadModule { module })) => {
                let devices = namespaces.iter().map(Namespace::device).collect();
                return Err(RelocateError::DataLost { module, devices }.into());
            }
            Err(error) => return Err(error),
        }
    }
    // The largest comes first, as long as there is much room.
    left.sort_by_key(|(_, namespace)| std::cmp::Reverse(namespace.size));
    for (region, namespace) in left {
        dax::release(&mut after.state, region.number, Some(namespace.number))?;
        if namespace.uuid.is_some_and(|uuid| !is_settled(&after.state.relocations, uuid)) {
            return Err(RelocateError::Unfinished { device: namespace.device() }.into());
        }
        let planned = place(&mut after, request, &region, &namespace, uuids)?;
        destroy_home(&mut after, &planned.relocation)?;
        after.state.relocations.push(planned.relocation.clone());
        set_away(&mut after.state.relocations, &planned.relocation);
        moves.push(planned);
    }
    let mut together: Vec<Handle> =
        home.iter().flat_map(Region::members).map(|member| member.module).collect();
    together.sort_by_key(|member| platform.machine.module_index(*member));
    together.dedup();
    let regions = home.iter().map(|region| region.number).collect();
    Ok(Evacuation { module, together, regions, moves, lost, after })
}

/// Checks that the data of a region can be read.
fn readable(platform: &Platform, region: &Region) -> Result<(), PlatformError> {
    for member in region.members() {
        let module = platform.machine.module(member.module);
        module.map_or(Ok(()), |module| module.check_usable())?;
    }
    if region.enabled { Ok(()) } else { Err(NamespaceError::RegionDisabled { region: region.number }.into()) }
}

/// Returns the regions that have one of these modules.
pub(super) fn regions_of(platform: &Platform, modules: &[Handle]) -> Vec<Region> {
    let has = |region: &Region| modules.iter().any(|module| region.has(*module));
    platform.regions().into_iter().filter(has).collect()
}

fn check_destinations(
    platform: &Platform,
    request: &EvacuationRequest,
    home: &[Region],
) -> Result<(), PlatformError> {
    let regions = platform.regions();
    for destination in &request.to {
        match destination {
            Destination::Region(number) => {
                let found = regions.iter().find(|region| region.number == *number);
                let region = found.ok_or(NamespaceError::UnknownRegion { region: *number })?;
                if home.iter().any(|one| one.number == *number) {
                    let (region, module) = (*number, request.module);
                    return Err(RelocateError::SameModule { region, module }.into());
                }
                let locked = region.members().iter().map(|member| member.module);
                if let Some(module) = locked
                    .into_iter()
                    .find(|module| request.exchange && security::has_passphrase(platform, *module))
                {
                    return Err(RelocateError::Passphrase { module }.into());
                }
                if region.is_cxl() {
                    return Err(NamespaceError::OfCxl { region: *number }.into());
                }
                if region.origin == Origin::Memmap {
                    return Err(NamespaceError::NoLabels { region: *number }.into());
                }
                if !region.enabled {
                    return Err(NamespaceError::RegionDisabled { region: *number }.into());
                }
            }
            Destination::Folder(path) if path.is_dir() => {}
            Destination::Folder(path) => return Err(RelocateError::NoPlace { path: path.clone() }.into()),
        }
    }
    Ok(())
}

/// Returns the moves from a module that have begun and are not done, and completes them on the copy of the machine.
fn under_way(after: &mut Platform, module: Handle) -> Result<Vec<PlannedMove>, PlatformError> {
    let begun: Vec<Relocation> = after
        .state
        .relocations
        .iter()
        .filter(|one| one.module == Some(module) && one.stage < Stage::Away)
        .cloned()
        .collect();
    let mut moves = Vec::new();
    for relocation in begun {
        let target = match &relocation.place {
            Place::Namespace(uuid) => {
                find(after, *uuid).map_or(String::new(), |(_, namespace)| namespace.device())
            }
            Place::File(_) => String::new(),
        };
        let (region, namespace) = find(after, relocation.uuid)
            .ok_or_else(|| NamespaceError::UnknownNamespace { name: relocation.device.clone() })?;
        dax::release(&mut after.state, region.number, Some(namespace.number))?;
        destroy_home(after, &relocation)?;
        set_away(&mut after.state.relocations, &relocation);
        moves.push(PlannedMove { relocation, parameters: None, target, begun: true });
    }
    Ok(moves)
}

/// Chooses the place of a namespace, and makes the namespace there on the copy of the machine.
fn place(
    after: &mut Platform,
    request: &EvacuationRequest,
    region: &Region,
    namespace: &Namespace,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<PlannedMove, PlatformError> {
    let device = namespace.device();
    let unlabelled = || RelocateError::Unlabelled { device: device.clone() };
    let destinations = match request.to.as_slice() {
        [] => other_regions(after, request, region),
        some => some.to_vec(),
    };
    let mut free = Vec::new();
    for destination in destinations {
        match destination {
            Destination::Region(number) => {
                let uuid = uuids();
                let relocation = record_of((region, namespace), Some(request.module), Place::Namespace(uuid))
                    .ok_or_else(unlabelled)?;
                let regions = after.regions();
                let Some(to) = regions.iter().find(|region| region.number == number) else { continue };
                let wanted = CreateNamespace { uuid: Some(uuid), ..parameters_of(&relocation) };
                match make_in(after, to, wanted, relocation.usable, uuids) {
                    Ok((parameters, target)) => {
                        let parameters = Some(parameters);
                        return Ok(PlannedMove { relocation, parameters, target, begun: false });
                    }
                    Err(NamespaceError::NoSpace { largest, .. }) => free.push((number, largest)),
                    // A region whose labels are full, blank or damaged.
                    Err(NamespaceError::Labels { .. } | NamespaceError::NoLabels { .. })
                        if request.to.is_empty() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Destination::Folder(folder) => {
                let path = file_in(&folder, namespace).ok_or_else(unlabelled)?;
                if path.symlink_metadata().is_ok() {
                    return Err(RelocateError::FileExists { path, device }.into());
                }
                let relocation = record_of((region, namespace), Some(request.module), Place::File(path))
                    .ok_or_else(unlabelled)?;
                let target = String::new();
                return Ok(PlannedMove { relocation, parameters: None, target, begun: false });
            }
        }
    }
    let modules = after.machine.modules.iter();
    let unused = modules.filter(|one| one.usable() && !after.state.is_configured(one.handle));
    let unconfigured = unused.map(|one| one.handle).filter(|one| *one != request.module).collect();
    Err(RelocateError::NoRoom { device, size: namespace.size, free, unconfigured }.into())
}

/// Returns the path of the file with the data of a namespace.
fn file_in(folder: &Path, namespace: &Namespace) -> Option<PathBuf> {
    Some(folder.join(format!("{}.img", namespace.uuid?)))
}

/// Returns the regions without the module that take namespaces, those of the same socket first, and of these the one with
/// the least room: large gaps stay for large namespaces.
fn other_regions(after: &Platform, request: &EvacuationRequest, from: &Region) -> Vec<Destination> {
    let is_lasting = |region: &Region| {
        !request.exchange
            || !region.members().iter().any(|member| security::has_passphrase(after, member.module))
    };
    let moving = request.modules(after);
    let takes = |region: &Region| {
        region.enabled
            && matches!(region.origin, Origin::Set { .. })
            && namespace::has_labels(after, region)
            && !moving.iter().any(|module| region.has(*module))
            && is_lasting(region)
    };
    let mut regions: Vec<Region> = after.regions().into_iter().filter(takes).collect();
    regions.sort_by_key(|region| (region.socket != from.socket, largest_free(after, region)));
    regions.iter().map(|region| Destination::Region(region.number)).collect()
}

/// Returns the modules that share sets with a module, directly or through others: they get their goals together.
pub(super) fn connected(platform: &Platform, module: Handle) -> Vec<Handle> {
    let mut found = vec![module];
    let mut next = 0;
    while let Some(one) = found.get(next).copied() {
        next += 1;
        let members = platform.state.sets_of(one).flat_map(|(set, _)| &set.members);
        let new: Vec<Handle> =
            members.map(|member| member.module).filter(|member| !found.contains(member)).collect();
        for member in new {
            if !found.contains(&member) {
                found.push(member);
            }
        }
    }
    found.sort_by_key(|module| platform.machine.module_index(*module));
    found
}

/// Makes a namespace with room for so many usable bytes in a region. Returns its parameters and the kernel's name.
pub(super) fn make_in(
    platform: &mut Platform,
    region: &Region,
    namespace: CreateNamespace,
    want: u64,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<(CreateNamespace, String), NamespaceError> {
    let request = NamespaceRequest { namespace, usable: Some(want), ..NamespaceRequest::default() };
    let rules = size_rules(platform, region);
    let parameters = fitted(&rules, &request, |parameters, size| usable(platform, region, parameters, size))?;
    let made = namespace::create(platform, &parameters, uuids)?;
    Ok((parameters, made.device()))
}

/// Destroys the namespace at home.
pub(super) fn destroy_home(platform: &mut Platform, relocation: &Relocation) -> Result<(), NamespaceError> {
    let unknown = || NamespaceError::UnknownNamespace { name: relocation.device.clone() };
    let (_, namespace) = find(platform, relocation.uuid).ok_or_else(unknown)?;
    namespace::destroy(platform, &namespace.device(), true)
}

/// Returns the namespace with this UUID, and its region.
pub(super) fn find(platform: &Platform, uuid: Uuid) -> Option<(Region, Namespace)> {
    platform.regions().into_iter().find_map(|region| {
        let found = platform.namespaces(&region).into_iter().find(|one| one.uuid == Some(uuid))?;
        Some((region, found))
    })
}
