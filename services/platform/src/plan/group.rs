//! Modules of a socket that get the same goal.

use super::rule::RuleError;
use super::search::Uuids;
use super::trial::{Made, grant, with_only};
use super::wish::{Rest, Wish};
use crate::boot::reboot;
use crate::goal::{self, GoalError, GoalRequest, PersistentKind, Targets};
use crate::machine::Handle;
use crate::platform::Platform;
use crate::state::{InterleaveSet, LabelVersion, Partition};

/// Modules of a socket that get the same goal, and the wishes that are fulfilled on them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) modules: Vec<Handle>,
    pub(super) kind: PersistentKind,
    pub(super) wishes: Vec<Wish>,
    /// Volatile memory, in percent of each module.
    pub(super) memory_percent: u8,
    /// Capacity that stays unmapped, in percent of each module.
    pub(super) reserved_percent: u8,
}

impl Group {
    /// Makes a group whose modules are completely mapped.
    pub(super) fn new(modules: &[Handle], kind: PersistentKind, wishes: Vec<Wish>) -> Group {
        Group { modules: modules.to_vec(), kind, wishes, memory_percent: 0, reserved_percent: 0 }
    }

    /// Returns the goal request for the modules.
    pub(super) fn request(&self) -> GoalRequest {
        GoalRequest {
            targets: Targets { modules: self.modules.clone(), sockets: Vec::new() },
            memory_percent: self.memory_percent,
            reserved_percent: self.reserved_percent,
            kind: self.kind,
            ..GoalRequest::default()
        }
    }

    /// Partitions the modules and fulfils the wishes on a machine that has only these modules. Returns that machine and
    /// the namespaces.
    ///
    /// # Errors
    /// The goal is impossible, or a wish does not fit.
    pub(super) fn attempt(
        &self,
        platform: &Platform,
        uuids: Uuids<'_>,
    ) -> Result<(Platform, Vec<Made>), RuleError> {
        let mut bench = with_only(platform, &self.modules);
        let goals = goal::plan(&bench, &self.request())?;
        goal::create(&mut bench, goals);
        reboot(&mut bench);
        let made = self.wishes.iter().map(|wish| grant(&mut bench, wish, uuids)).collect::<Result<_, _>>()?;
        Ok((bench, made))
    }

    /// Gives `rest` as much capacity as the wishes leave.
    pub(super) fn give_rest(&mut self, rest: Rest, platform: &Platform, uuids: Uuids<'_>) {
        if rest == Rest::AppDirect {
            return;
        }
        // A percentage below half of the alignment is refused, but a larger one may be possible.
        let fits = |group: &Group, uuids: Uuids<'_>| {
            matches!(
                group.attempt(platform, uuids),
                Ok(_) | Err(RuleError::Goal(GoalError::TooSmallShare { .. }))
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

    fn set_percent(&mut self, rest: Rest, percent: u8) {
        match rest {
            Rest::MemoryMode => self.memory_percent = percent,
            Rest::Unconfigured => self.reserved_percent = percent,
            Rest::AppDirect => {}
        }
    }

    /// Returns true if the modules are partitioned like this already. The version of their labels is ignored.
    pub(super) fn is_so(&self, platform: &Platform, uuids: Uuids<'_>) -> bool {
        let Ok((bench, _)) = self.attempt(platform, uuids) else { return false };
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
        !self.modules.iter().any(|module| platform.state.goal(*module).is_some())
            && partitions(&bench) == partitions(platform)
            && sets(&bench) == sets(platform)
    }
}
