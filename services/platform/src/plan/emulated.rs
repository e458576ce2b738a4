//! Plans for an emulated machine, made by carrying them out on a copy.

use super::allocation::allocate;
use super::assignment::{Assignment, SocketPlan};
use super::error::PlanError;
use super::group::check_applied;
use super::impossible::{Impossible, Obstacle};
use super::loss::Loss;
use super::note::{Note, notes};
use super::request::{PlanRequest, Rest};
use super::rule::RuleError;
use super::search::{Uuids, add_all, no_socket};
use super::sequence::Plan;
use super::step::Step;
use super::table::Table;
use crate::goal::{GoalError, GoalRequest, Targets};
use crate::machine::{Handle, Health};
use crate::platform::Platform;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Plans the steps of an emulated machine to the requested namespaces. `uuids` generates unused UUIDs.
///
/// # Errors
/// [`Impossible`](PlanError::Impossible): a request can't be fulfilled, with the reason.
///
/// # Cost
/// Makes each namespace, and partitions each socket with requests, a few times in DRAM.
pub fn for_emulated(
    platform: &Platform,
    request: &PlanRequest,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Plan, PlanError> {
    let repartition = request.rest.is_some();
    let mut assignment = Assignment::new(platform, &sockets_of(platform, request), repartition);
    let fulfilled = add_all(&mut assignment, &request.namespaces, uuids)?;
    let known = platform.machine.sockets();
    if let Some(socket) = assignment.sockets.keys().find(|socket| !known.contains(socket)) {
        return Err(no_socket(&assignment, *socket, None, uuids).into());
    }
    if request.rest == Some(Rest::MemoryMode) {
        check_dram(platform, &assignment)?;
    }
    assignment.assign_rest(request.rest, uuids);
    let (steps, after, rounded) = build_steps(platform, &assignment, uuids).map_err(|error| {
        let obstacle = Obstacle::Rule(Box::new(error));
        Impossible { request: None, obstacle, nearest: None }
    })?;
    let mut losses = Loss::between(platform, &after);
    losses.extend(steps.iter().filter_map(|step| match step {
        Step::DeleteGoals { modules } => Some(Loss::Goals { modules: modules.clone() }),
        _ => None,
    }));
    // Namespaces on modules that are partitioned again are made again.
    let stays = |socket: u16| assignment.sockets.get(&socket).is_none_or(|plan| plan.groups.is_empty());
    let mut all: Vec<Note> = fulfilled
        .into_iter()
        .filter(|(_, existing)| stays(existing.socket))
        .map(|(request, existing)| Note::Fulfilled { request: Box::new(request), device: existing.device })
        .collect();
    all.extend(rounded);
    all.extend(notes(platform, request, &assignment, &after));
    Ok(Plan { losses, notes: all, table: Table::of(&after), steps })
}

/// Checks that the sockets have DRAM, which memory mode needs.
///
/// # Errors
/// [`NoDram`](GoalError::NoDram).
fn check_dram(platform: &Platform, assignment: &Assignment<'_>) -> Result<(), PlanError> {
    let lacks = |socket: &u16| platform.machine.dram_capacity(*socket) == 0;
    let with_modules = assignment.sockets.iter().filter(|(_, plan)| !plan.modules.is_empty());
    match with_modules.map(|(socket, _)| *socket).find(lacks) {
        Some(socket) => {
            let obstacle = Obstacle::Rule(Box::new(GoalError::NoDram { socket }.into()));
            Err(Impossible { request: None, obstacle, nearest: None }.into())
        }
        None => Ok(()),
    }
}

/// Returns the sockets that a plan applies to.
fn sockets_of(platform: &Platform, request: &PlanRequest) -> Vec<u16> {
    let named: BTreeSet<u16> = match request.namespaces.as_slice() {
        [] => request.sockets.iter().copied().collect(),
        requests if requests.iter().any(|one| one.socket.is_none()) => BTreeSet::new(),
        requests => requests.iter().filter_map(|one| one.socket).collect(),
    };
    if named.is_empty() { platform.machine.sockets() } else { named.into_iter().collect() }
}

/// Returns the steps that perform the assignment, the machine after them, and remarks on sizes.
fn build_steps(
    platform: &Platform,
    assignment: &Assignment<'_>,
    uuids: Uuids<'_>,
) -> Result<(Vec<Step>, Platform, Vec<Note>), RuleError> {
    let mut steps = Vec::new();
    let mut after = platform.clone();
    let changed = || assignment.sockets.values().flat_map(|plan| &plan.groups);
    let modules: Vec<Handle> = changed().flat_map(|group| group.modules.iter().copied()).collect();
    for region in platform.module_regions() {
        if !modules.iter().any(|module| region.has(*module)) {
            continue;
        }
        for one in platform.namespaces(&region).into_iter().filter(|one| one.uuid.is_some()) {
            let (name, mode) = (one.device(), one.mode());
            steps.push(Step::DestroyNamespace { name, mode, size: one.size });
        }
    }
    let pending: Vec<Handle> =
        modules.iter().copied().filter(|module| platform.state.goal(*module).is_some()).collect();
    if !pending.is_empty() {
        steps.push(Step::DeleteGoals { modules: pending });
    }
    let split = split_sockets(assignment);
    let first = split.iter().map(|(_, second, _)| Step::CreateGoals { request: second.clone() });
    let first: Vec<Step> = first.collect();
    if !first.is_empty() {
        steps.extend(first);
        steps.push(Step::Reboot);
    }
    for (first, _, modules) in split {
        steps.push(Step::ClearConfiguration { modules });
        steps.push(Step::CreateGoals { request: first });
    }
    steps
        .extend(goal_requests(platform, assignment).into_iter().map(|request| Step::CreateGoals { request }));
    if !modules.is_empty() {
        steps.push(Step::Reboot);
    }
    steps.iter().try_for_each(|step| step.run(&mut after, uuids))?;
    check_applied(&after, &modules)?;
    let mut rounded = Vec::new();
    for request in assignment.sockets.values().flat_map(|plan| &plan.requests) {
        let made = allocate(&mut after, request, uuids)?;
        rounded.extend(Note::of_size(request, made.namespace.size));
        let name = made.namespace.device();
        steps.push(Step::CreateNamespace { parameters: made.parameters, socket: made.socket, name });
    }
    Ok((steps, after, rounded))
}

/// Returns the goals of sockets with two groups: that of the first group, that of the second group for the whole socket,
/// and the modules of the first.
///
/// A goal takes all modules of a socket, or all that are not configured. So the whole socket gets the second goal, and
/// after a reboot, the first group loses its configuration and gets the first one.
fn split_sockets(assignment: &Assignment<'_>) -> Vec<(GoalRequest, GoalRequest, Vec<Handle>)> {
    let split = assignment.sockets.iter().filter_map(|(socket, plan)| match plan.groups.as_slice() {
        [first, second] => {
            let targets = Targets { modules: Vec::new(), sockets: vec![*socket] };
            let whole = GoalRequest { targets, ..second.goal_request() };
            Some((first.goal_request(), whole, first.modules.clone()))
        }
        _ => None,
    });
    split.collect()
}

/// Returns the goals of the sockets with one group. Equal goals for whole sockets are merged into one.
fn goal_requests(platform: &Platform, assignment: &Assignment<'_>) -> Vec<GoalRequest> {
    let mut requests: Vec<GoalRequest> = Vec::new();
    for (socket, plan) in &assignment.sockets {
        if let [group] = plan.groups.as_slice() {
            let mut request = group.goal_request();
            if is_whole(platform, *socket, plan) {
                request.targets = Targets { modules: Vec::new(), sockets: vec![*socket] };
                let same = |other: &&mut GoalRequest| {
                    let targets = request.targets.clone();
                    !other.targets.sockets.is_empty()
                        && GoalRequest { targets, ..(**other).clone() } == request
                };
                if let Some(other) = requests.iter_mut().find(same) {
                    other.targets.sockets.push(*socket);
                    continue;
                }
            }
            requests.push(request);
        }
    }
    let all: Vec<u16> = platform.machine.sockets();
    let has_modules = |socket: &u16| {
        platform
            .machine
            .modules
            .iter()
            .any(|one| one.handle.socket() == *socket && one.health != Health::NonFunctional)
    };
    let all: Vec<u16> = all.into_iter().filter(has_modules).collect();
    for request in requests.iter_mut().filter(|request| request.targets.sockets == all) {
        request.targets.sockets.clear();
    }
    requests
}

/// Returns true if the socket has one group, and a goal for the socket includes the same modules.
fn is_whole(platform: &Platform, socket: u16, plan: &SocketPlan) -> bool {
    let on = |handle: Handle| handle.socket() == socket;
    let alive = platform.machine.modules.iter().filter(|one| one.health != Health::NonFunctional);
    let all = alive.filter(|module| on(module.handle)).count();
    plan.groups.len() == 1 && plan.groups[0].modules.len() == all
}
