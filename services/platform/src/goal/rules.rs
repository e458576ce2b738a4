//! The rules by which ipmctl takes or refuses goals. `docs/ipmctl-rules.md` has the source of each.

use super::error::GoalError;
use super::request::{GoalRequest, PersistentKind, Targets};
use crate::machine::{Handle, Health, IpmctlGeneration, Machine, Module, ModuleError, Security};
use crate::platform::Platform;
use crate::region::Region;
use crate::state::Goal;

/// Returns the modules that targets name, for a command that takes no dead module.
///
/// # Errors
/// Fails if a module or a socket is unknown or named twice, a named module is dead, modules and sockets name
/// different modules, or no module is left.
pub(crate) fn target_modules<'m>(
    machine: &'m Machine,
    targets: &Targets,
) -> Result<Vec<&'m Module>, GoalError> {
    for (index, handle) in targets.modules.iter().enumerate() {
        let module = machine.module(*handle).ok_or(ModuleError::UnknownModule { module: *handle })?;
        if targets.modules[..index].contains(handle) {
            return Err(GoalError::DuplicateModule { module: *handle });
        }
        if !answers(module) {
            return Err(ModuleError::DeadModule { module: *handle }.into());
        }
    }
    let known = machine.sockets();
    for (index, socket) in targets.sockets.iter().enumerate() {
        if !known.contains(socket) {
            return Err(ModuleError::UnknownSocket { socket: *socket }.into());
        }
        if targets.sockets[..index].contains(socket) {
            return Err(GoalError::DuplicateSocket { socket: *socket });
        }
    }
    let mut found = Vec::new();
    for module in machine.modules.iter().filter(|module| answers(module)) {
        let named = targets.modules.contains(&module.handle);
        let on_socket = targets.sockets.contains(&module.handle.socket());
        let both = !targets.modules.is_empty() && !targets.sockets.is_empty();
        if both && named != on_socket {
            return Err(GoalError::TargetsDiffer { module: module.handle });
        }
        if named || on_socket || targets.modules.is_empty() && targets.sockets.is_empty() {
            found.push(module);
        }
    }
    if found.is_empty() { Err(GoalError::NoModules) } else { Ok(found) }
}

/// Returns true unless the module is dead. Goals ignore dead modules.
pub(super) fn answers(module: &Module) -> bool {
    module.health != Health::NonFunctional
}

/// Checks that no module is locked or overwrites its media.
///
/// # Errors
/// [`LockedModule`](ModuleError::LockedModule), [`OverwrittenModule`](ModuleError::OverwrittenModule).
pub(super) fn check_unlocked(modules: &[&Module]) -> Result<(), GoalError> {
    modules.iter().try_for_each(|found| match (found.security, found.handle) {
        (Security::Locked, module) => Err(ModuleError::LockedModule { module }.into()),
        (Security::Overwrite, module) => Err(ModuleError::OverwrittenModule { module }.into()),
        _ => Ok(()),
    })
}

/// Checks that new goals are allowed for these modules.
///
/// # Errors
/// The first rule that is violated, in ipmctl's order.
pub(crate) fn check_create(
    platform: &Platform,
    request: &GoalRequest,
    modules: &[&Module],
) -> Result<(), GoalError> {
    check_no_namespaces(platform, modules)?;
    for socket in sockets_of(modules) {
        if let Some(goal) = platform.state.goals.iter().find(|goal| {
            goal.module.socket() == socket && platform.machine.module(goal.module).is_some_and(answers)
        }) {
            return Err(GoalError::GoalPending { module: goal.module });
        }
    }
    check_unlocked(modules)?;
    for socket in sockets_of(modules) {
        check_whole(platform, request, modules, socket)?;
    }
    if request.memory_percent > 0 {
        for socket in sockets_of(modules) {
            if platform.machine.dram_capacity(socket) == 0 {
                return Err(GoalError::NoDram { socket });
            }
        }
    }
    for module in modules {
        let shared = platform.state.sets_of(module.handle).flat_map(|(set, _)| &set.members);
        for member in shared.filter(|member| !is_named(modules, member.module)) {
            if platform.machine.module(member.module).is_some_and(answers) {
                return Err(GoalError::SetSplit { module: module.handle, other: member.module });
            }
        }
    }
    Ok(())
}

fn check_no_namespaces(platform: &Platform, modules: &[&Module]) -> Result<(), GoalError> {
    let in_use: Vec<(Region, String)> = platform
        .module_regions()
        .into_iter()
        .filter_map(|region| {
            let namespaces = platform.namespaces(&region).into_iter();
            let name = namespaces.filter(|one| one.uuid.is_some()).map(|one| one.device()).next()?;
            Some((region, name))
        })
        .collect();
    for module in modules {
        if let Some((_, namespace)) = in_use.iter().find(|(region, _)| region.has(module.handle)) {
            let namespace = namespace.clone();
            return Err(GoalError::ModuleInUse { module: module.handle, namespace });
        }
    }
    Ok(())
}

/// Checks that a goal takes all modules of a socket, or all that are not configured. Later generations also take the rest
/// of a socket if the other modules are already partitioned in the same, simple way.
fn check_whole(
    platform: &Platform,
    request: &GoalRequest,
    modules: &[&Module],
    socket: u16,
) -> Result<(), GoalError> {
    let all =
        || platform.machine.modules.iter().filter(move |one| one.handle.socket() == socket && answers(one));
    let others: Vec<Handle> =
        all().map(|module| module.handle).filter(|module| !is_named(modules, *module)).collect();
    let is_configured = |module: Handle| platform.state.is_configured(module);
    let named_configured = all().any(|one| is_named(modules, one.handle) && is_configured(one.handle));
    if others.is_empty() || !named_configured && others.iter().all(|module| is_configured(*module)) {
        return Ok(());
    }
    if platform.machine.profile.ipmctl != IpmctlGeneration::One {
        let named = all().count() - others.len();
        let memory_of = |module: Handle| platform.state.partition(module).map_or(0, |one| one.memory);
        let first_set_ways =
            |module: Handle| platform.state.sets_of(module).next().map(|(set, _)| set.members.len());
        let alone = |module: &Handle| memory_of(*module) == 0 && first_set_ways(*module) == Some(1);
        let only_memory = |module: &Handle| memory_of(*module) > 0 && first_set_ways(*module).is_none();
        let maps = request.memory_percent + request.reserved_percent < 100;
        let by_itself = request.kind == PersistentKind::AppDirectNotInterleaved || named == 1;
        if maps && by_itself && request.memory_percent == 0 && others.iter().all(alone)
            || request.memory_percent == 100 && others.iter().all(only_memory)
        {
            return Ok(());
        }
    }
    Err(GoalError::PartOfSocket { socket, missing: others })
}

/// Checks that the memory of a socket is not less than its DRAM, which generation 3 refuses.
///
/// # Errors
/// [`LessThanDram`](GoalError::LessThanDram).
pub(crate) fn check_ratio(platform: &Platform, goals: &[Goal]) -> Result<(), GoalError> {
    if platform.machine.profile.ipmctl != IpmctlGeneration::Three {
        return Ok(());
    }
    for (socket, memory) in memory_by_socket(platform, goals) {
        let dram = platform.machine.dram_capacity(socket);
        if dram > memory {
            return Err(GoalError::LessThanDram { socket, memory, dram });
        }
    }
    Ok(())
}

/// Returns the bytes of memory on the modules of each socket that goals give any. Memory of modules without a goal
/// counts if the whole socket gives memory only.
pub(super) fn memory_by_socket(platform: &Platform, goals: &[Goal]) -> Vec<(u16, u64)> {
    let mut sockets: Vec<u16> = goals.iter().map(|goal| goal.module.socket()).collect();
    sockets.sort_unstable();
    sockets.dedup();
    let memory_of = |socket: u16| {
        let new: u64 =
            goals.iter().filter(|goal| goal.module.socket() == socket).map(|goal| goal.memory).sum();
        let all = platform.machine.modules.iter().filter(|one| one.handle.socket() == socket && answers(one));
        let others: Vec<Handle> = all
            .map(|module| module.handle)
            .filter(|module| !goals.iter().any(|goal| goal.module == *module))
            .collect();
        let is_memory = |module: &Handle| platform.state.sets_of(*module).next().is_none();
        let memory = |module: &Handle| platform.state.partition(*module).map_or(0, |one| one.memory);
        let old: u64 = others.iter().map(memory).sum();
        let counts = others.iter().all(|module| is_memory(module) && memory(module) > 0);
        new + if new > 0 && counts { old } else { 0 }
    };
    sockets.into_iter().map(|socket| (socket, memory_of(socket))).filter(|(_, memory)| *memory > 0).collect()
}

/// Checks that the goals of whole sockets are deleted, those of dead modules apart.
///
/// # Errors
/// [`PartOfGoals`](GoalError::PartOfGoals).
pub(super) fn check_delete(platform: &Platform, modules: &[&Module]) -> Result<(), GoalError> {
    check_unlocked(modules)?;
    let has_goal = |module: &Module| platform.state.goal(module.handle).is_some();
    for socket in sockets_of(modules) {
        let here = |module: &&Module| module.handle.socket() == socket && has_goal(module) && answers(module);
        let all = platform.machine.modules.iter().filter(here).map(|module| module.handle);
        let missing: Vec<Handle> = all.filter(|module| !is_named(modules, *module)).collect();
        let named = modules.iter().any(|module| module.handle.socket() == socket && has_goal(module));
        if named && !missing.is_empty() {
            return Err(GoalError::PartOfGoals { socket, missing });
        }
    }
    Ok(())
}

fn is_named(modules: &[&Module], handle: Handle) -> bool {
    modules.iter().any(|module| module.handle == handle)
}

fn sockets_of(modules: &[&Module]) -> Vec<u16> {
    let mut sockets: Vec<u16> = modules.iter().map(|module| module.handle.socket()).collect();
    sockets.sort_unstable();
    sockets.dedup();
    sockets
}
