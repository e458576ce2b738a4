//! Assignment of requests to sockets, in free ranges or after the modules are partitioned again.

use super::allocation::{Allocation, allocate};
use super::existing::Existing;
use super::fit::Extent;
use super::group::Group;
use super::impossible::{Obstacle, Unusable};
use super::request::{NamespaceRequest, Rest};
use super::rule::RuleError;
use super::search::{Allocator, Uuids, first_success};
use crate::goal::{GoalError, PersistentKind};
use crate::machine::{Handle, Module, ModuleError, Security};
use crate::namespace::{MapLocation, Mode, Namespace, labels_of, size_rules};
use crate::platform::Platform;
use crate::region::Region;
use crate::state::{LabelVersion, Partition};
use lode_nvdimm::PageMapLocation;
use std::collections::BTreeMap;

/// Assignment of requests to sockets.
#[derive(Clone)]
pub(super) struct Assignment<'p> {
    /// The machine before the plan.
    platform: &'p Platform,
    /// A copy of the machine, in which the requests that fit into free ranges are carried out one after the other.
    in_place: Platform,
    pub(super) sockets: BTreeMap<u16, SocketPlan>,
    /// True if the modules are partitioned again in any case.
    repartition: bool,
}

/// Plan of a socket.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketPlan {
    /// Modules that answer and are not locked.
    pub(super) modules: Vec<Handle>,
    /// New partitioning of its modules; empty if they keep theirs.
    pub(super) groups: Vec<Group>,
    /// The requests that are fulfilled on this socket, in their order.
    pub(super) requests: Vec<NamespaceRequest>,
    /// Positions of those that existing namespaces fulfil while the modules keep their partitioning.
    fulfilled: Vec<usize>,
    /// True if a namespace on the socket fulfils a request, so that no other request takes its modules.
    kept: bool,
    /// A locked module, which keeps the socket from new goals.
    locked: Option<Handle>,
}

impl<'p> Assignment<'p> {
    /// Makes an empty assignment. With `repartition`, the modules of these sockets are partitioned again in any case.
    pub(super) fn new(platform: &'p Platform, sockets: &[u16], repartition: bool) -> Assignment<'p> {
        let plan = |socket: u16| {
            let on = |module: &&Module| module.handle.socket() == socket && module.usable();
            let modules: Vec<Handle> =
                platform.machine.modules.iter().filter(on).map(|module| module.handle).collect();
            let is_locked = |one: &&Module| one.handle.socket() == socket && one.security == Security::Locked;
            let locked = platform.machine.modules.iter().find(is_locked).map(|module| module.handle);
            let all = || Group::new(&modules, PersistentKind::AppDirect, Vec::new());
            let divides = repartition && !modules.is_empty() && locked.is_none();
            let groups = if divides { vec![all()] } else { Vec::new() };
            SocketPlan { modules, groups, locked, ..SocketPlan::default() }
        };
        let sockets = sockets.iter().map(|socket| (*socket, plan(*socket))).collect();
        Assignment { platform, in_place: platform.clone(), sockets, repartition }
    }

    /// Returns the sockets that a request may be tried on. With `repartition`, these are sockets that would have to be
    /// partitioned again, those with the least data to lose first.
    fn candidates(&self, request: &NamespaceRequest, repartition: bool) -> Vec<u16> {
        let named =
            self.sockets.iter().filter(|(socket, _)| request.socket.is_none_or(|one| one == **socket));
        if !repartition {
            return named.map(|(socket, _)| *socket).collect();
        }
        let mut others: Vec<u16> = named
            .filter(|(_, plan)| plan.groups.is_empty() && !plan.kept)
            .map(|(socket, _)| *socket)
            .collect();
        others.sort_by_cached_key(|socket| self.bytes_lost(*socket));
        others
    }

    /// Returns the bytes of namespaces and volatile memory that a new partitioning of a socket would lose.
    fn bytes_lost(&self, socket: u16) -> u64 {
        let regions = self.platform.module_regions();
        let here = regions.iter().filter(|region| region.socket == socket && !region.members().is_empty());
        let namespaces: u64 =
            here.flat_map(|region| self.platform.namespaces(region)).map(|namespace| namespace.size).sum();
        let partitions = self.platform.state.partitions.iter();
        let memory: u64 =
            partitions.filter(|one| one.module.socket() == socket).map(|partition| partition.memory).sum();
        namespaces + memory
    }

    fn add_to(
        &mut self,
        socket: u16,
        request: &NamespaceRequest,
        repartition: bool,
        uuids: Uuids<'_>,
    ) -> Result<Extent, RuleError> {
        let Some(plan) = self.sockets.get(&socket) else {
            return Err(GoalError::from(ModuleError::UnknownSocket { socket }).into());
        };
        let mut request = NamespaceRequest { socket: Some(socket), ..request.clone() };
        if plan.groups.is_empty() && !repartition {
            let made = allocate(&mut self.in_place, &request, uuids)?;
            request.fix_largest(&made.parameters);
            if let Some(plan) = self.sockets.get_mut(&socket) {
                plan.requests.push(request);
            }
            return Ok(made.extent());
        }
        if let Some(module) = plan.locked.filter(|_| !plan.modules.is_empty()) {
            return Err(GoalError::from(ModuleError::LockedModule { module }).into());
        }
        let mut plan = plan.clone();
        plan.requests.push(request);
        let extent = plan.divide(self.platform, uuids)?;
        self.sockets.insert(socket, plan);
        Ok(extent)
    }

    /// Gives the remaining capacity to `rest`. `None` keeps as much memory as there is. Keeps the partitioning of a socket
    /// if it is equal already and the requests fit into its free ranges.
    pub(super) fn assign_rest(&mut self, requested: Option<Rest>, uuids: Uuids<'_>) {
        let platform = self.platform;
        for (socket, plan) in &mut self.sockets {
            let rest = requested.unwrap_or_else(|| {
                let partitions = &platform.state.partitions;
                let gives = |one: &Partition| one.module.socket() == *socket && one.memory > 0;
                if partitions.iter().any(gives) { Rest::MemoryMode } else { Rest::AppDirect }
            });
            for group in &mut plan.groups {
                group.assign_rest(rest, platform, uuids);
                if requested.is_none() {
                    group.limit_memory(platform, uuids);
                }
            }
            if rest == Rest::Unconfigured && plan.requests.is_empty() {
                let blank = |module: &Handle| {
                    platform.state.partition(*module).is_none() && platform.state.goal(*module).is_none()
                };
                plan.groups.retain(|group| !group.modules.iter().all(blank));
            }
            if plan.groups.is_empty() || !plan.groups.iter().all(|group| group.is_current(platform, uuids)) {
                continue;
            }
            let mut attempt = self.in_place.clone();
            let all = plan.requests.iter().enumerate();
            let open: Vec<NamespaceRequest> = all
                .filter(|(position, _)| !plan.fulfilled.contains(position))
                .map(|(_, request)| request.clone())
                .collect();
            if open.iter().all(|request| allocate(&mut attempt, request, uuids).is_ok()) {
                self.in_place = attempt;
                plan.groups.clear();
                plan.requests = open;
            }
        }
    }
}

impl Allocator for Assignment<'_> {
    fn add(&mut self, request: &NamespaceRequest, uuids: Uuids<'_>) -> Result<Extent, RuleError> {
        let places: Vec<(u16, bool)> = [false, true]
            .into_iter()
            .flat_map(|repartition| {
                self.candidates(request, repartition).into_iter().map(move |socket| (socket, repartition))
            })
            .collect();
        let attempts =
            places.into_iter().map(|(socket, repartition)| self.add_to(socket, request, repartition, uuids));
        first_success(request.want().unwrap_or(0), attempts)
    }

    fn named(&self, name: &str) -> Vec<Existing> {
        let regions = self.platform.module_regions();
        regions.iter().flat_map(|region| existing_in(self.platform, region, name)).collect()
    }

    fn keep(&mut self, existing: &Existing) {
        if let Some(plan) = self.sockets.get_mut(&existing.socket) {
            plan.kept = true;
        }
    }

    fn add_kept(
        &mut self,
        existing: &Existing,
        request: &NamespaceRequest,
        uuids: Uuids<'_>,
    ) -> Result<(), RuleError> {
        match self.sockets.get_mut(&existing.socket) {
            Some(plan) if !plan.groups.is_empty() => plan.fulfilled.push(plan.requests.len()),
            _ => return Ok(()),
        }
        self.add_to(existing.socket, request, true, uuids).map(drop)
    }

    fn has_requests(&self) -> bool {
        self.sockets.values().any(|plan| plan.kept || !plan.requests.is_empty())
    }

    fn known_sockets(&self) -> Vec<u16> {
        self.platform.machine.sockets()
    }

    fn with_socket(&self, socket: u16) -> Self {
        Assignment::new(self.platform, &[socket], self.repartition)
    }

    fn unusable(&self, socket: Option<u16>) -> Vec<Unusable> {
        let on = |module: &&Module| socket.is_none_or(|socket| socket == module.handle.socket());
        self.platform.machine.modules.iter().filter(on).filter_map(Unusable::of).collect()
    }

    fn obstacle(&self, request: &NamespaceRequest) -> Option<Obstacle> {
        let socket = request.socket;
        let counts = self.sockets.iter().filter(|(known, _)| socket.is_none_or(|one| one == **known));
        let most = counts.map(|(_, plan)| plan.modules.len()).max().unwrap_or(0);
        let together = request.kind == Some(PersistentKind::AppDirect);
        match most {
            0 => Some(Obstacle::NoModules { socket, unusable: self.unusable(socket) }),
            1 if together => Some(Obstacle::OneModule { socket, unusable: self.unusable(socket) }),
            _ => None,
        }
    }
}

impl SocketPlan {
    /// Partitions the modules so that all requests fit. Returns the bytes that the last one gets.
    fn divide(&mut self, platform: &Platform, uuids: Uuids<'_>) -> Result<Extent, RuleError> {
        use PersistentKind::{AppDirect, AppDirectNotInterleaved};
        let (single, together): (Vec<NamespaceRequest>, Vec<NamespaceRequest>) =
            self.requests.iter().cloned().partition(is_alone);
        let count = self.modules.len();
        if count == 0 {
            return Err(GoalError::NoModules.into());
        }
        let splits: Vec<usize> = match (single.is_empty(), together.is_empty()) {
            (true, _) => vec![count],
            (false, true) => vec![0],
            (false, false) => (1..count).rev().collect(),
        };
        let want = self.requests.last().and_then(NamespaceRequest::want).unwrap_or(0);
        let last_is_single = self.requests.last().is_some_and(is_alone);
        let attempts = splits.into_iter().map(|split| {
            let (shared, own) = self.modules.split_at(split);
            let mut groups = Vec::new();
            if !shared.is_empty() {
                groups.push(Group::new(shared, AppDirect, together.clone()));
            }
            if !own.is_empty() {
                groups.push(Group::new(own, AppDirectNotInterleaved, single.clone()));
            }
            let (mut extent, mut own_extent) = (None, None);
            for group in &mut groups {
                let made = allocate_all(group, platform, uuids)?;
                let last = if group.kind == AppDirect { &mut extent } else { &mut own_extent };
                *last = made;
            }
            Ok((groups, if last_is_single { own_extent } else { extent }))
        });
        let (groups, extent) = first_success(want, attempts)?;
        self.fix_sizes(&groups);
        self.groups = groups;
        Ok(extent.unwrap_or(Extent { size: 0, usable: 0 }))
    }

    /// Copies the sizes that the requests for the maximum size got.
    fn fix_sizes(&mut self, groups: &[Group]) {
        let allocated =
            |kind| groups.iter().filter(move |group| group.kind == kind).flat_map(|one| &one.requests);
        let mut shared = allocated(PersistentKind::AppDirect);
        let mut own = allocated(PersistentKind::AppDirectNotInterleaved);
        for request in &mut self.requests {
            let fitted = if is_alone(request) { own.next() } else { shared.next() };
            if let Some(fitted) = fitted {
                request.fix_largest(&fitted.namespace);
            }
        }
    }
}

/// Returns true if a request excludes interleaving.
fn is_alone(request: &NamespaceRequest) -> bool {
    request.kind == Some(PersistentKind::AppDirectNotInterleaved)
}

/// Fulfils the requests of a group. This fixes the sizes of those that are as large as possible. Returns the bytes of
/// the last one.
fn allocate_all(
    group: &mut Group,
    platform: &Platform,
    uuids: Uuids<'_>,
) -> Result<Option<Extent>, RuleError> {
    let (_, made) = group.attempt(platform, uuids)?;
    for (request, made) in group.requests.iter_mut().zip(&made) {
        request.fix_largest(&made.parameters);
    }
    Ok(made.last().map(Allocation::extent))
}

/// Returns the namespaces of a region that have this name.
fn existing_in(platform: &Platform, region: &Region, name: &str) -> Vec<Existing> {
    let rules = size_rules(platform, region);
    let changes = region.members().iter().any(|member| platform.state.changes_at_reboot(member.module));
    let labels = labels_of(platform, region);
    let existing = |namespace: Namespace| Existing {
        device: namespace.device(),
        mode: namespace.mode(),
        extent: Extent { size: namespace.size, usable: namespace.usable() },
        socket: region.socket,
        rules,
        map: namespace.page_map().map(|map| match map.location {
            PageMapLocation::Dram => MapLocation::Mem,
            PageMapLocation::Namespace => MapLocation::Dev,
        }),
        align: namespace.page_map().map(|map| map.align.into()),
        // Labels of version 1.1 do not have it.
        sector_size: (namespace.mode() == Mode::Sector || labels == LabelVersion::V1_2)
            .then(|| namespace.user_sector_size()),
        fault: match (namespace.enabled, changes) {
            (false, _) => Some("is disabled"),
            (true, true) => Some("is lost when its modules change at the next start"),
            (true, false) => None,
        },
    };
    let namespaces = platform.namespaces(region).into_iter().filter(|namespace| namespace.name == name);
    namespaces.map(existing).collect()
}
