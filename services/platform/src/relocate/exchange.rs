//! The exchange of a module: what has to leave before it, the set that is made anew, and what comes back.

use super::carry::{check_place, make_home};
use super::error::RelocateError;
use super::evacuate::{Destination, Evacuation, EvacuationRequest, connected, evacuation, find, regions_of};
use super::record::{Place, Relocation, Stage};
use crate::boot::reboot;
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::file::progress::CopyProgress;
use crate::goal::{self, GoalRequest, PersistentKind, Targets};
use crate::machine::{Handle, Health, Module, ModuleError, Security, Sensors};
use crate::namespace;
use crate::platform::Platform;
use crate::security;
use lode_nvdimm::{Label, LabelArea, ModuleId};
use std::cmp::Reverse;
use uuid::Uuid;

/// Parameters of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeRequest {
    /// The slot.
    pub module: Handle,
    /// The new module; `None` for one like the old one, with a serial number that no other module has.
    pub new: Option<Module>,
    /// The label area of the new module, if it comes from another machine.
    pub labels: Option<Vec<u8>>,
    /// The places for namespaces meanwhile; all other regions if empty.
    pub to: Vec<Destination>,
    /// True to give up what can't be read, and what the labels of the new module describe.
    pub force: bool,
}

/// The plan of an exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The moves before it.
    pub evacuation: Evacuation,
    /// The old module; `None` if the exchange is done, and namespaces come back.
    pub old: Option<Module>,
    /// The module in the slot afterwards.
    pub new: Module,
    /// The modules that are partitioned anew.
    pub group: Vec<Handle>,
    /// The goal of these modules; `None` if the old one was not configured.
    pub goal: Option<GoalRequest>,
    /// The namespaces that are given up by force, since the place that they went to is gone.
    pub given_up: Vec<Uuid>,
    /// True to take data that has changed, in a file or at home, as it is.
    pub force: bool,
    /// The moves back, in this order.
    pub back: Vec<Relocation>,
    /// The machine afterwards.
    pub after: Platform,
}

impl Directory {
    /// Plans the exchange of a module. `uuids` generates unused UUIDs.
    ///
    /// # Errors
    /// Fails if the module does not exist, the new one can't be used, something on the old one can't leave or has no
    /// room when it comes back, or ipmctl refuses the goal.
    pub fn plan_exchange(
        &self,
        request: &ExchangeRequest,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Exchange, PlatformError> {
        let (platform, module) = (self.platform(), request.module);
        let found = platform.machine.module(module).ok_or(ModuleError::UnknownModule { module })?;
        let evacuation_request =
            EvacuationRequest { module, to: request.to.clone(), exchange: true, force: request.force };
        let group = connected(platform, module);
        let old = self.machine_module(module)?;
        if let Some(one) = platform.state.relocations.iter().find(|one| is_of(one, &group) && one.returns) {
            if one.exchanged != Some(module) {
                let module = one.module.unwrap_or(module);
                return Err(RelocateError::ReturnBegun { module }.into());
            }
            check_same(platform, &old, request.new.as_ref())?;
            return self.plan_return(found.clone(), request.force, uuids);
        }
        let new = request.new.clone().unwrap_or_else(|| successor(platform, &old));
        check_new(platform, &old, &new)?;
        check_labels(platform, request)?;
        let gone = self.gone(&group, request.force)?;
        let mut evacuation = self.plan_evacuation(&evacuation_request, uuids)?;
        check_group(platform, &group, module)?;
        let mut after = evacuation.after.clone();
        let given_up = give_up(&mut after, &gone);
        evacuation.lost.extend(gone.into_iter().map(|one| one.device));
        let goal = exchange(&mut after, &new)?;
        let back = bring_back(&mut after, &group, uuids)?;
        let force = request.force;
        Ok(Exchange { evacuation, old: Some(old), new, group, goal, given_up, force, back, after })
    }

    /// Plans the rest of an exchange that is done.
    fn plan_return(
        &self,
        new: Module,
        force: bool,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Exchange, PlatformError> {
        let module = new.handle;
        let group = connected(self.platform(), module);
        let gone = self.gone(&group, force)?;
        let mut after = self.platform().clone();
        let given_up = give_up(&mut after, &gone);
        let back = bring_back(&mut after, &group, uuids)?;
        let evacuation = Evacuation {
            module,
            together: vec![module],
            regions: Vec::new(),
            moves: Vec::new(),
            lost: gone.into_iter().map(|one| one.device).collect(),
            after: self.platform().clone(),
        };
        let group = Vec::new();
        Ok(Exchange { evacuation, old: None, new, group, goal: None, given_up, force, back, after })
    }

    /// Returns the moves of these modules that are to come back from a place that is gone. They are given up by force.
    fn gone(&self, group: &[Handle], force: bool) -> Result<Vec<Relocation>, PlatformError> {
        let mut gone = Vec::new();
        for one in self.platform().state.relocations.iter().filter(|one| is_of(one, group)) {
            if !matches!(one.stage, Stage::Away | Stage::Returning) {
                continue;
            }
            match check_place(self.platform(), one) {
                Err(PlatformError::Relocate(RelocateError::PlaceGone { .. })) if force => {
                    gone.push(one.clone())
                }
                checked => checked?,
            }
        }
        Ok(gone)
    }

    /// Plans that what was moved away from a module, and those of its sets, comes back. With `force`, what is gone is given
    /// up, and what has changed is taken as it is.
    ///
    /// # Errors
    /// [`NothingAway`](RelocateError::NothingAway), a place is gone, or there is no room.
    pub fn plan_back(
        &self,
        module: Handle,
        force: bool,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Exchange, PlatformError> {
        let found = self.platform().machine.module(module).ok_or(ModuleError::UnknownModule { module })?;
        let plan = self.plan_return(found.clone(), force, uuids)?;
        if plan.back.is_empty() && plan.given_up.is_empty() {
            Err(RelocateError::NothingAway { module }.into())
        } else {
            Ok(plan)
        }
    }

    /// Carries an exchange out: evacuates, exchanges, and brings back.
    ///
    /// # Errors
    /// Those of [`evacuate`](Directory::evacuate) and [`exchange_module`](Directory::exchange_module). What was done stays; a
    /// new plan has the rest.
    pub fn replace(
        &mut self,
        plan: &Exchange,
        uuids: &mut dyn FnMut() -> Uuid,
        progress: &mut CopyProgress<'_>,
        done: &mut dyn FnMut(Uuid, Option<Stage>),
    ) -> Result<(), PlatformError> {
        if plan.force {
            self.change(|platform| {
                let relocations = &mut platform.state.relocations;
                relocations.retain(|one| !plan.given_up.contains(&one.uuid));
                let back =
                    relocations.iter_mut().filter(|one| plan.back.iter().any(|back| back.uuid == one.uuid));
                back.filter(|one| one.stage >= Stage::Away).for_each(|one| one.digest = None);
                Ok::<_, PlatformError>(())
            })?;
        }
        self.evacuate(&plan.evacuation, uuids, progress, done)?;
        if plan.old.is_some() {
            self.exchange_module(&plan.new)?;
        } else if plan.back.iter().any(|one| !one.returns) {
            self.begin_return(plan.new.handle)?;
        }
        let back: Vec<Uuid> = plan.back.iter().map(|one| one.uuid).collect();
        self.finish_moves(&back, uuids, progress, done)
    }

    /// Marks what was moved away from a module, so that it comes back.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn begin_return(&mut self, module: Handle) -> Result<(), PlatformError> {
        self.change(|platform| {
            mark_returning(platform, module, None);
            Ok::<_, PlatformError>(())
        })
    }

    /// Exchanges the module, partitions the set anew, and starts the machine. All of it is one change. Everything has
    /// left the module before.
    ///
    /// # Errors
    /// Fails if the machine has changed since the plan was made, or if a system call fails.
    ///
    /// # Durability
    /// After a crash, the machine is as before or as after.
    pub fn exchange_module(&mut self, new: &Module) -> Result<(), PlatformError> {
        let (mut notes, mut machine) = self.machine_file()?;
        let module = new.handle;
        let index = machine.module_index(module).ok_or(ModuleError::UnknownModule { module })?;
        self.check_media_unmapped(&connected(self.platform(), module))?;
        let old = std::mem::replace(&mut machine.modules[index], new.clone());
        let name = |module: &Module| module.identity.map_or("unknown".to_owned(), |id| id.to_string());
        notes.push(format!("{module}: {} was exchanged for {}", name(&old), name(new)));
        self.change_modules(std::slice::from_ref(new), machine.text(&notes), |platform| {
            mark_returning(platform, module, Some(module));
            exchange(platform, new)?;
            Ok::<_, PlatformError>(())
        })
    }

    /// Returns the module that an exchange takes if none is described: one like that in the slot, with another serial number.
    ///
    /// # Errors
    /// Fails if there is no module in the slot.
    pub fn successor_of(&self, module: Handle) -> Result<Module, PlatformError> {
        Ok(successor(self.platform(), &self.machine_module(module)?))
    }

    /// Returns a module as the machine file describes it.
    fn machine_module(&self, module: Handle) -> Result<Module, PlatformError> {
        let (_, machine) = self.machine_file()?;
        let found = machine.modules.into_iter().find(|one| one.handle == module);
        Ok(found.ok_or(ModuleError::UnknownModule { module })?)
    }

    /// Plans the evacuation of a module. `uuids` generates unused UUIDs.
    ///
    /// # Errors
    /// Fails if the module does not exist, is locked or overwrites its media, if a region of it is disabled or has a dead
    /// module, if one of its namespaces has no labels, is mapped or is used as memory, or if there is no room.
    pub fn plan_evacuation(
        &self,
        request: &EvacuationRequest,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Evacuation, PlatformError> {
        let mut plan = evacuation(self.platform(), request, uuids)?;
        let modules =
            if request.exchange { connected(self.platform(), request.module) } else { vec![request.module] };
        for region in regions_of(self.platform(), &modules) {
            for namespace in self.platform().namespaces(&region) {
                let device = namespace.device();
                if plan.lost.contains(&device) {
                    continue;
                }
                let is_unlabelled = namespace.uuid.is_none();
                if is_unlabelled && self.media().next_data(&region, 0..region.size)?.is_some() {
                    if !request.force {
                        return Err(RelocateError::Unlabelled { device }.into());
                    }
                    plan.lost.push(device);
                }
                self.check_unmapped(&region, &namespace)?;
            }
        }
        Ok(plan)
    }
}

/// Marks what is away from a module, and those of its sets, so that it comes back. `exchanged` is the module that was
/// exchanged.
fn mark_returning(platform: &mut Platform, module: Handle, exchanged: Option<Handle>) {
    let group = connected(platform, module);
    let away = platform.state.relocations.iter_mut();
    for one in away.filter(|one| is_of(one, &group) && one.stage >= Stage::Away && !one.returns) {
        one.returns = true;
        one.exchanged = exchanged;
    }
}

/// Returns true if a namespace left one of these modules.
fn is_of(one: &Relocation, group: &[Handle]) -> bool {
    one.module.is_some_and(|module| group.contains(&module))
}

/// Drops moves. Returns their namespaces.
fn give_up(platform: &mut Platform, gone: &[Relocation]) -> Vec<Uuid> {
    let uuids: Vec<Uuid> = gone.iter().map(|one| one.uuid).collect();
    platform.state.relocations.retain(|one| !uuids.contains(&one.uuid));
    uuids
}

/// Checks that the module that is described is the one in the slot, whose exchange goes on.
fn check_same(platform: &Platform, found: &Module, new: Option<&Module>) -> Result<(), RelocateError> {
    let Some(new) = new else { return Ok(()) };
    let is_like = new.identity == successor(platform, found).identity;
    if new.capacity == found.capacity && (new.identity == found.identity || is_like) {
        return Ok(());
    }
    let fault = "is not the one that is in the slot, whose exchange is not done".to_owned();
    let remedy = "finish that exchange first, without a description of the module";
    Err(RelocateError::NewModule { module: found.handle, fault, remedy })
}

/// Makes the namespaces that come back on a copy of the machine. Returns their moves: in the order of their names, which
/// they get again then, or else the largest first.
fn bring_back(
    after: &mut Platform,
    group: &[Handle],
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Vec<Relocation>, PlatformError> {
    let away = after.state.relocations.iter();
    let mut back: Vec<Relocation> =
        away.filter(|one| is_of(one, group) && one.stage >= Stage::Away).cloned().collect();
    back.sort_by_key(|one| (Reverse(one.stage), device_number(&one.device)));
    let mut trial = after.clone();
    if make_all(&mut trial, &back, uuids).is_ok() {
        *after = trial;
        return Ok(back);
    }
    back.sort_by_key(|one| (Reverse(one.stage), Reverse(one.size)));
    make_all(after, &back, uuids)?;
    Ok(back)
}

/// Returns X and Y of namespaceX.Y.
fn device_number(device: &str) -> (u32, u32) {
    let (region, number) = device.trim_start_matches("namespace").split_once('.').unwrap_or_default();
    (region.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

fn make_all(
    after: &mut Platform,
    back: &[Relocation],
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<(), PlatformError> {
    for one in back {
        if one.stage == Stage::Away {
            make_home(after, one, None, uuids)?;
        }
        if let Place::Namespace(other) = one.place
            && let Some((_, copy)) = find(after, other)
        {
            namespace::destroy(after, &copy.device(), true)?;
        }
        after.state.relocations.retain(|other| other.uuid != one.uuid);
    }
    Ok(())
}

/// Returns a module like the old one, with a serial number that no other module has.
fn successor(platform: &Platform, old: &Module) -> Module {
    let taken: Vec<ModuleId> = platform.machine.modules.iter().filter_map(|one| one.identity).collect();
    let identity = old.identity.or_else(|| taken.first().copied()).map(|mut id| {
        while taken.contains(&id) {
            id.serial = u32::from_be_bytes(id.serial).wrapping_add(1).to_be_bytes();
        }
        id
    });
    let alike = platform.machine.modules.iter().filter(|one| one.handle.socket() == old.handle.socket());
    // A dead module may not report its capacity.
    let capacity =
        if old.capacity > 0 { old.capacity } else { alike.map(|one| one.capacity).max().unwrap_or(0) };
    Module {
        identity,
        capacity,
        health: Health::Healthy,
        security: match old.security {
            Security::Unsupported => Security::Unsupported,
            _ => Security::Disabled,
        },
        sensors: Sensors::default(),
        ..old.clone()
    }
}

fn check_new(platform: &Platform, old: &Module, new: &Module) -> Result<(), RelocateError> {
    let fault = |fault: String, remedy| RelocateError::NewModule { module: old.handle, fault, remedy };
    if new.handle != old.handle {
        let what = format!("is described for slot {}", new.handle);
        return Err(fault(what, "describe it with the handle of the slot"));
    }
    if new.capacity == 0 || !Module::is_capacity(new.capacity) {
        let what = format!("can't have {} bytes", new.capacity);
        return Err(fault(what, "give it whole pieces of 64 KiB, below 4 PiB"));
    }
    if new.health == Health::NonFunctional {
        return Err(fault("is dead".to_owned(), "take another one"));
    }
    match new.security {
        Security::Disabled | Security::Unsupported => {}
        Security::Locked => {
            return Err(fault("is locked".to_owned(), "unlock and erase it in the machine that it is from"));
        }
        _ => {
            let what = "has a passphrase".to_owned();
            return Err(fault(what, "remove the passphrase in the machine that it is from"));
        }
    }
    if new.identity.is_some() && new.identity == old.identity {
        return Err(fault("is the one that is in the slot".to_owned(), "there is nothing to exchange"));
    }
    let other = platform
        .machine
        .modules
        .iter()
        .find(|one| one.handle != old.handle && one.identity.is_some() && one.identity == new.identity);
    match other {
        Some(other) => {
            let what = format!("has the identity of {}, which is in another slot", other.handle);
            Err(fault(what, "take it out of there first"))
        }
        None => Ok(()),
    }
}

/// Refuses a new module whose labels describe namespaces, since the goal erases them.
fn check_labels(platform: &Platform, request: &ExchangeRequest) -> Result<(), RelocateError> {
    let area = request.labels.as_deref().map(LabelArea::read).and_then(Result::ok);
    let Some(area) = area.filter(|_| !request.force) else { return Ok(()) };
    let labels = area.labels().filter_map(|(_, label)| match label {
        Label::Namespace(label) => Some(label.set_cookie),
        _ => None,
    });
    let sets: Vec<u64> = labels.collect();
    let Some(set) = sets.first().copied() else { return Ok(()) };
    let mut regions = platform.module_regions().into_iter();
    let own = regions.any(|region| region.set_id() == Some(set) && region.has(request.module));
    Err(RelocateError::ForeignLabels { module: request.module, namespaces: sets.len(), set, own })
}

/// Checks that firmware will apply the goals of the modules.
fn check_group(platform: &Platform, group: &[Handle], module: Handle) -> Result<(), RelocateError> {
    let others = group.iter().copied().filter(|one| *one != module);
    if platform.state.is_configured(module)
        && let Some(module) = others.into_iter().find(|one| security::has_passphrase(platform, *one))
    {
        return Err(RelocateError::Passphrase { module });
    }
    let pending = |one: &&Handle| platform.state.changes_at_reboot(**one);
    // The exchange starts the machine, which would apply any other goal, too.
    match platform.machine.modules.iter().map(|one| one.handle).find(|one| pending(&one)) {
        Some(module) => Err(RelocateError::GoalPending { module }),
        None => Ok(()),
    }
}

/// Puts a blank module into a slot, partitions it and the modules of its sets anew, and starts the machine. Returns the
/// goal.
fn exchange(platform: &mut Platform, new: &Module) -> Result<Option<GoalRequest>, PlatformError> {
    let module = new.handle;
    let index = platform.machine.module_index(module).ok_or(ModuleError::UnknownModule { module })?;
    let group = connected(platform, module);
    let request = goal_of(platform, &group, module);
    let is_of_group = |one: Handle| group.contains(&one);
    let state = &mut platform.state;
    state.sets.retain(|set| !set.members.iter().any(|member| is_of_group(member.module)));
    state.partitions.retain(|one| !is_of_group(one.module));
    state.disabled_modules.retain(|one| *one != module);
    state.media_errors.retain(|one| one.module != module);
    state.known_errors.retain(|one| one.module != module);
    state.security.retain(|one| one.module != module);
    state.smart.retain(|one| one.module != module);
    state.errors.retain(|one| one.module != module);
    state.firmware.retain(|one| one.module != module);
    platform.machine.modules[index] = new.clone();
    platform.contents.forget(module);
    if let Some(request) = &request {
        let goals = goal::plan(platform, request)?;
        goal::create(platform, goals);
    }
    reboot(platform);
    Ok(request)
}

/// Returns the goal by which the modules would be partitioned as they are; `None` if the module was not configured.
fn goal_of(platform: &Platform, group: &[Handle], module: Handle) -> Option<GoalRequest> {
    let alive = |one: &&Handle| {
        **one == module
            || platform.machine.module(**one).is_some_and(|found| found.health != Health::NonFunctional)
    };
    let modules: Vec<Handle> = group.iter().filter(alive).copied().collect();
    let partition = platform.state.partition(module)?;
    let found = platform.machine.module(module)?;
    let usable = platform.machine.usable_capacity(found);
    let (memory_percent, reserved_percent) =
        percentages(usable, platform.machine.alignment, partition.memory, partition.reserved);
    let labels = platform.state.sets_of(module).next().map(|(set, _)| set.labels).unwrap_or_default();
    let kind =
        if modules.len() == 1 { PersistentKind::AppDirectNotInterleaved } else { PersistentKind::AppDirect };
    let targets = Targets { modules, sockets: Vec::new() };
    Some(GoalRequest { targets, memory_percent, reserved_percent, kind, labels })
}

/// Returns the percentages of a goal that give so many bytes of memory and of reserved capacity, or come nearest.
fn percentages(usable: u64, alignment: u64, memory: u64, reserved: u64) -> (u8, u8) {
    let all = (0..=100_u8).flat_map(|memory| (0..=100 - memory).map(move |reserved| (memory, reserved)));
    let distance = |(memory_percent, reserved_percent): &(u8, u8)| {
        let (found, left) = goal::parts(usable, alignment, *memory_percent, *reserved_percent);
        found.abs_diff(memory).saturating_add(left.abs_diff(reserved))
    };
    all.min_by_key(distance).unwrap_or((0, 0))
}
