//! Modules of a socket that get the same goal.

use super::allocation::{Allocation, allocate, with_only};
use super::request::{NamespaceRequest, Rest};
use super::rule::RuleError;
use super::search::Uuids;
use crate::boot::reboot;
use crate::goal::{self, GoalError, GoalRequest, PersistentKind, Targets};
use crate::machine::Handle;
use crate::platform::Platform;
use crate::security;
use crate::state::{InterleaveSet, LabelVersion, Partition};

/// Modules of a socket that get the same goal, and the requests that are fulfilled on them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) modules: Vec<Handle>,
    pub(super) kind: PersistentKind,
    pub(super) requests: Vec<NamespaceRequest>,
    /// Volatile memory, in percent of each module.
    pub(super) memory_percent: u8,
    /// Capacity that stays unmapped, in percent of each module.
    pub(super) reserved_percent: u8,
}

/// Checks that firmware has applied the goals of these modules at a start.
///
/// # Errors
/// [`RuleError::Passphrase`].
pub(super) fn check_applied(platform: &Platform, modules: &[Handle]) -> Result<(), RuleError> {
    let mut waiting = platform.state.goals.iter().map(|goal| goal.module);
    if waiting.clone().any(|module| modules.contains(&module))
        && let Some(module) = waiting.find(|module| security::has_passphrase(platform, *module))
    {
        return Err(RuleError::Passphrase { module });
    }
    Ok(())
}

impl Group {
    /// Makes a group whose modules are completely mapped.
    pub(super) fn new(modules: &[Handle], kind: PersistentKind, requests: Vec<NamespaceRequest>) -> Group {
        Group { modules: modules.to_vec(), kind, requests, memory_percent: 0, reserved_percent: 0 }
    }

    /// Returns the goal request for the modules.
    pub(super) fn goal_request(&self) -> GoalRequest {
        GoalRequest {
            targets: Targets { modules: self.modules.clone(), sockets: Vec::new() },
            memory_percent: self.memory_percent,
            reserved_percent: self.reserved_percent,
            kind: self.kind,
            ..GoalRequest::default()
        }
    }

    /// Partitions the modules and fulfils the requests on a machine that has only these modules. Returns that machine
    /// and the namespaces.
    ///
    /// # Errors
    /// Fails if the goal is impossible, or a request does not fit.
    pub(super) fn attempt(
        &self,
        platform: &Platform,
        uuids: Uuids<'_>,
    ) -> Result<(Platform, Vec<Allocation>), RuleError> {
        let mut trial = with_only(platform, &self.modules);
        let goals = goal::plan(&trial, &self.goal_request())?;
        goal::create(&mut trial, goals);
        reboot(&mut trial);
        check_applied(&trial, &self.modules)?;
        let made = self
            .requests
            .iter()
            .map(|request| allocate(&mut trial, request, uuids))
            .collect::<Result<_, _>>()?;
        Ok((trial, made))
    }

    /// Gives `rest` as much capacity as the requests leave.
    pub(super) fn assign_rest(&mut self, rest: Rest, platform: &Platform, uuids: Uuids<'_>) {
        if rest == Rest::AppDirect {
            return;
        }
        // Less memory than DRAM is refused, but a larger percentage may be possible.
        let fits = |group: &Group, uuids: Uuids<'_>| {
            matches!(
                group.attempt(platform, uuids),
                Ok(_) | Err(RuleError::Goal(GoalError::LessThanDram { .. }))
            )
        };
        let (mut most, mut too_much) = (0_u8, 101_u8);
        while too_much - most > 1 {
            let percent = most.midpoint(too_much);
            self.set_percent(rest, percent);
            if fits(self, uuids) { most = percent } else { too_much = percent }
        }
        self.set_percent(rest, most);
        if self.attempt(platform, uuids).is_err() {
            self.set_percent(rest, 0);
        }
    }

    /// Takes back the memory beyond what the modules give now, as far as percentages allow.
    pub(super) fn limit_memory(&mut self, platform: &Platform, uuids: Uuids<'_>) {
        let partitions = self.modules.iter().filter_map(|module| platform.state.partition(*module));
        let now: u64 = partitions.map(|partition| partition.memory).sum();
        let gives_less = |group: &Group| {
            let goals = goal::plan(&with_only(platform, &group.modules), &group.goal_request());
            goals.is_ok_and(|goals| goals.iter().map(|goal| goal.memory).sum::<u64>() < now)
        };
        let most = self.memory_percent;
        // The capacity that is no memory stays persistent, so less memory leaves the requests their space.
        for percent in 0..most {
            self.memory_percent = percent;
            if !gives_less(self) && self.attempt(platform, uuids).is_ok() {
                return;
            }
        }
        self.memory_percent = most;
    }

    fn set_percent(&mut self, rest: Rest, percent: u8) {
        match rest {
            Rest::MemoryMode => self.memory_percent = percent,
            Rest::Unconfigured => self.reserved_percent = percent,
            Rest::AppDirect => {}
        }
    }

    /// Returns true if the modules are partitioned like this already. The version of their labels is ignored.
    pub(super) fn is_current(&self, platform: &Platform, uuids: Uuids<'_>) -> bool {
        let Ok((trial, _)) = self.attempt(platform, uuids) else { return false };
        let ours = |module: Handle| self.modules.contains(&module);
        let partitions = |platform: &Platform| {
            let all = platform.state.partitions.iter().copied();
            let mut found: Vec<Partition> = all.filter(|one| ours(one.module)).collect();
            found.sort_by_key(|partition| partition.module);
            found
        };
        let sets = |platform: &Platform| {
            let all = platform.state.sets.iter();
            let mut found: Vec<InterleaveSet> =
                all.filter(|set| set.members.iter().any(|member| ours(member.module))).cloned().collect();
            found.iter_mut().for_each(|set| set.labels = LabelVersion::default());
            found.sort_by_key(|set| set.members.first().map(|member| (member.module, member.offset)));
            found
        };
        !self.modules.iter().any(|module| platform.state.changes_at_reboot(*module))
            && partitions(&trial) == partitions(platform)
            && sets(&trial) == sets(platform)
    }
}
