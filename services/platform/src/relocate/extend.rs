//! Additions of modules: those of a file, or those of the machine that are not configured, get a goal.

use super::error::RelocateError;
use crate::boot::reboot;
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::goal::{self, GoalRequest, PersistentKind, Targets};
use crate::machine::{Handle, Health, Module};
use crate::platform::Platform;

/// Parameters of an addition of modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtensionRequest {
    /// The modules for empty slots.
    pub new: Vec<Module>,
    /// Volatile memory, in percent of each module.
    pub memory_percent: u8,
    /// Mapping of the remaining capacity.
    pub kind: PersistentKind,
}

/// The plan of an addition of modules.
#[derive(Clone, Debug)]
pub struct Extension {
    /// The modules for empty slots.
    pub new: Vec<Module>,
    /// The goal of the modules that are not configured.
    pub goal: GoalRequest,
    /// The machine afterwards.
    pub after: Platform,
}

/// Plans an addition of modules. The modules that are configured stay as they are.
///
/// # Errors
/// Fails if a slot is taken, an identity is that of another module, a goal is pending, no module would get a goal, or
/// ipmctl refuses the goal.
pub fn extension(platform: &Platform, request: &ExtensionRequest) -> Result<Extension, PlatformError> {
    let mut after = platform.clone();
    let pending = platform.machine.modules.iter().map(|one| one.handle);
    if let Some(module) = pending.into_iter().find(|one| platform.state.changes_at_reboot(*one)) {
        return Err(RelocateError::GoalPending { module }.into());
    }
    for new in &request.new {
        check_slot(platform, new)?;
        after.machine.modules.push(new.clone());
    }
    let sockets: Vec<u16> = request.new.iter().map(|one| one.handle.socket()).collect();
    let takes = |one: &&Module| {
        one.usable()
            && !after.state.is_configured(one.handle)
            && (sockets.is_empty() || sockets.contains(&one.handle.socket()))
    };
    let modules: Vec<Handle> = after.machine.modules.iter().filter(takes).map(|one| one.handle).collect();
    if modules.is_empty() {
        return Err(RelocateError::NothingNew.into());
    }
    let labels = after.state.sets.first().map(|set| set.labels).unwrap_or_default();
    let goal = GoalRequest {
        targets: Targets { modules, sockets: Vec::new() },
        memory_percent: request.memory_percent,
        reserved_percent: 0,
        kind: request.kind,
        labels,
    };
    let goals = goal::plan(&after, &goal)?;
    goal::create(&mut after, goals);
    reboot(&mut after);
    Ok(Extension { new: request.new.clone(), goal, after })
}

fn check_slot(platform: &Platform, new: &Module) -> Result<(), RelocateError> {
    let module = new.handle;
    let fault = |fault: String, remedy| RelocateError::NewModule { module, fault, remedy };
    if platform.machine.module(module).is_some() {
        return Err(RelocateError::SlotTaken { module });
    }
    if new.health == Health::NonFunctional {
        return Err(fault("is dead".to_owned(), "take another one"));
    }
    if !new.usable() {
        return Err(fault("is locked".to_owned(), "unlock and erase it in the machine that it is from"));
    }
    let other =
        platform.machine.modules.iter().find(|one| one.identity.is_some() && one.identity == new.identity);
    match other {
        Some(other) => {
            let what = format!("has the identity of {}", other.handle);
            Err(fault(what, "take it out of there first"))
        }
        None => Ok(()),
    }
}

impl Directory {
    /// Adds the modules, gives the goal, and starts the machine. All of it is one change.
    ///
    /// # Errors
    /// Fails if the machine has changed since the plan was made, or if a system call fails.
    ///
    /// # Durability
    /// After a crash, the machine is as before or as after.
    pub fn extend(&mut self, plan: &Extension) -> Result<(), PlatformError> {
        let (notes, mut machine) = self.machine_file()?;
        machine.modules.extend(plan.new.iter().cloned());
        let change = |platform: &mut Platform| {
            platform.machine.modules.extend(plan.new.iter().cloned());
            let goals = goal::plan(platform, &plan.goal)?;
            goal::create(platform, goals);
            reboot(platform);
            Ok::<_, PlatformError>(())
        };
        if plan.new.is_empty() {
            return self.change(change);
        }
        self.change_modules(&plan.new, machine.text(&notes), change)
    }
}
