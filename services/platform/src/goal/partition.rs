//! Computes, creates and deletes goals.

use super::error::GoalError;
use super::request::{GoalRequest, PersistentKind, Targets};
use super::rules;
use crate::machine::Handle;
use crate::platform::Platform;
use crate::state::{Goal, Share};
use lode_layout::{align_down, align_up};

/// Numbers of modules over which a memory controller can interleave, descending.
pub(crate) const WAYS: [usize; 8] = [16, 12, 8, 6, 4, 3, 2, 1];

/// Computes the goals for a request.
///
/// # Errors
/// Fails if ipmctl would refuse the goal: `docs/ipmctl-rules.md` has its rules.
pub fn plan(platform: &Platform, request: &GoalRequest) -> Result<Vec<Goal>, GoalError> {
    let (memory, reserved) = (request.memory_percent, request.reserved_percent);
    if u32::from(memory) + u32::from(reserved) > 100 {
        return Err(GoalError::Percentages { memory, reserved });
    }
    let modules = rules::target_modules(&platform.machine, &request.targets)?;
    rules::check_create(platform, request, &modules)?;
    let mut goals = Vec::new();
    let mut rest = Vec::new();
    for module in &modules {
        let usable = platform.machine.usable_capacity(module);
        let (memory, reserved) = parts(usable, platform.machine.alignment, memory, reserved);
        rest.push(usable - memory - reserved);
        let labels = request.labels;
        goals.push(Goal { module: module.handle, memory, reserved, labels, shares: Vec::new() });
    }
    let first = platform.state.goals.iter().flat_map(|goal| &goal.shares).map(|share| share.set + 1).max();
    let mut sets = Sets { goals: &mut goals, rest, next: first.unwrap_or(0) };
    match request.kind {
        PersistentKind::AppDirectNotInterleaved => sets.add_not_interleaved(),
        PersistentKind::AppDirect => sets.add_interleaved(),
    }
    rules::check_ratio(platform, &goals)?;
    Ok(goals)
}

/// Returns the bytes of memory and the bytes that stay unmapped, in units of firmware's alignment. A goal for some
/// memory gives one unit at least, and a goal for some persistent memory leaves one unit at least. Percentages of 100
/// together leave no persistent memory.
pub(crate) fn parts(usable: u64, alignment: u64, memory: u8, reserved: u8) -> (u64, u64) {
    let nearest = |percent: u8| {
        let exact = (u128::from(usable) * u128::from(percent) / 100) as u64;
        let (below, above) = (align_down(exact, alignment), align_up(exact, alignment));
        if exact - below < above - exact { below } else { above }
    };
    let mut bytes = nearest(memory);
    if memory > 0 {
        bytes = bytes.max(alignment);
    }
    if memory < 100 && bytes >= usable && usable > alignment {
        bytes = usable - alignment;
    }
    let bytes = bytes.min(usable);
    let left = usable - bytes;
    (bytes, if memory + reserved == 100 { left } else { nearest(reserved).min(left) })
}

/// Adds goals, which take effect at the next reboot.
pub fn create(platform: &mut Platform, goals: Vec<Goal>) {
    platform.state.goals.extend(goals);
}

/// Deletes the goals of these modules. Returns the modules that had one.
///
/// # Errors
/// Fails if a module or a socket does not exist or can't be used, only some of the goals of a socket would be deleted,
/// or no module has a goal.
pub fn delete(platform: &mut Platform, targets: &Targets) -> Result<Vec<Handle>, GoalError> {
    let modules = rules::target_modules(&platform.machine, targets)?;
    rules::check_delete(platform, &modules)?;
    let (deleted, others): (Vec<Handle>, Vec<Handle>) =
        modules.iter().map(|module| module.handle).partition(|module| platform.state.goal(*module).is_some());
    if deleted.is_empty() {
        return Err(GoalError::NoGoal { modules: others });
    }
    platform.state.goals.retain(|goal| !deleted.contains(&goal.module));
    Ok(deleted)
}

/// Deletes the configuration data of modules. They count as not configured at once, and lose their partitions and sets
/// at the next reboot. Returns the modules.
///
/// # Errors
/// Fails if a module does not exist or can't be used.
pub fn clear(platform: &mut Platform, targets: &Targets) -> Result<Vec<Handle>, GoalError> {
    let modules = rules::target_modules(&platform.machine, targets)?;
    rules::check_unlocked(&modules)?;
    let modules: Vec<Handle> = modules.iter().map(|module| module.handle).collect();
    let state = &mut platform.state;
    state.goals.retain(|goal| !modules.contains(&goal.module));
    let configured = |module: &Handle| state.partitions.iter().any(|one| one.module == *module);
    let new: Vec<Handle> =
        modules.iter().copied().filter(|one| configured(one) && !state.cleared.contains(one)).collect();
    state.cleared.extend(new);
    Ok(modules)
}

/// Divides the persistent capacity of goals into interleave sets.
struct Sets<'a> {
    goals: &'a mut [Goal],
    /// Bytes of each goal's module that are in no set yet.
    rest: Vec<u64>,
    /// The number of the next set.
    next: u32,
}

impl Sets<'_> {
    fn add_not_interleaved(&mut self) {
        for index in 0..self.goals.len() {
            self.add(&[index], self.rest[index]);
        }
    }

    /// Interleaves the capacity that all modules of a socket have in common. The remainder of each larger module is
    /// a second set.
    fn add_interleaved(&mut self) {
        let mut sockets: Vec<u16> = self.goals.iter().map(|goal| goal.module.socket()).collect();
        sockets.dedup();
        for socket in sockets {
            let left = |index: &usize| self.goals[*index].module.socket() == socket && self.rest[*index] > 0;
            let members: Vec<usize> = (0..self.goals.len()).filter(left).collect();
            let share = members.iter().map(|index| self.rest[*index]).min().unwrap_or(0);
            let mut open = members.as_slice();
            while let Some(ways) = WAYS.into_iter().find(|ways| *ways <= open.len()) {
                let (set, others) = open.split_at(ways);
                self.add(set, share);
                open = others;
            }
            for index in members {
                self.add(&[index], self.rest[index]);
            }
        }
    }

    fn add(&mut self, members: &[usize], share: u64) {
        if share == 0 {
            return;
        }
        for index in members {
            self.goals[*index].shares.push(Share { set: self.next, size: share });
            self.rest[*index] -= share;
        }
        self.next += 1;
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::boot::reboot;
    use crate::machine::{INCLUDED, Machine, ModuleError};

    const GIB: u64 = 1 << 30;

    fn platform(text: &str) -> Platform {
        Platform::new(Machine::parse(text).unwrap())
    }

    /// Module, GiB of memory, and set and GiB of each share.
    type Brief = (u32, u64, Vec<(u32, u64)>);

    fn shares(goals: &[Goal]) -> Vec<Brief> {
        let gib = |share: &Share| (share.set, share.size / GIB);
        let goal = |goal: &Goal| (goal.module.0, goal.memory / GIB, goal.shares.iter().map(gib).collect());
        goals.iter().map(goal).collect()
    }

    #[test]
    fn dead_modules_are_skipped_or_refused() {
        let platform = platform(INCLUDED[0].1);
        let all = plan(&platform, &GoalRequest::default()).unwrap();
        let expected = [(1, 0, vec![(0, 252)]), (0x101, 0, vec![(0, 252)]), (0x1001, 0, vec![(1, 252)])];
        assert_eq!(shares(&all), expected);
        let targets = Targets { modules: vec![Handle(0x1101)], ..Targets::default() };
        let refused = plan(&platform, &GoalRequest { targets, ..GoalRequest::default() });
        assert!(
            matches!(refused, Err(GoalError::Module(ModuleError::DeadModule { module: Handle(0x1101) }))),
            "{refused:?}"
        );
    }

    #[test]
    fn partitions_round_to_firmware_alignment() {
        let platform = platform(INCLUDED[2].1);
        let request = GoalRequest { memory_percent: 33, reserved_percent: 10, ..GoalRequest::default() };
        let goals = plan(&platform, &request).unwrap();
        assert_eq!((goals[0].memory, goals[0].reserved), (42 * GIB, 13 * GIB), "41.58 and 12.6 of 126");
        assert_eq!(goals[0].shares[0].size, 71 * GIB);
        let all = GoalRequest { memory_percent: 100, ..GoalRequest::default() };
        assert_eq!(shares(&plan(&platform, &all).unwrap())[3], (0x1101, 126, vec![]));
    }

    #[test]
    fn impossible_percentages_are_refused() {
        let platform = platform(INCLUDED[4].1);
        let request = |memory_percent, reserved_percent| GoalRequest {
            memory_percent,
            reserved_percent,
            ..GoalRequest::default()
        };
        let refused = plan(&platform, &request(60, 41));
        assert!(matches!(refused, Err(GoalError::Percentages { memory: 60, reserved: 41 })), "{refused:?}");
        let small = plan(&platform, &request(1, 0)).unwrap();
        assert_eq!(small[0].memory, GIB, "some memory is one unit at least");
        assert!(plan(&platform, &request(50, 0)).is_ok());
    }

    #[test]
    fn unequal_modules_form_two_sets() {
        let text = INCLUDED[4].1.replacen("1344MiB", "3344MiB", 1);
        let goals = plan(&platform(&text), &GoalRequest::default()).unwrap();
        assert_eq!(shares(&goals), [(1, 0, vec![(0, 1), (1, 2)]), (0x101, 0, vec![(0, 1)])]);
    }

    #[test]
    fn set_sizes_match_interleave_ways() {
        let mut text = INCLUDED[4].1.to_owned();
        for slot in 2..7 {
            let module = format!(
                "[[module]]\nhandle = 0x0{slot}01\nphysical_id = 1\nlocator = \"X\"\ncapacity = \"1344MiB\"\n"
            );
            text += &format!("{module}id = \"8089-a2-2140-0000001{slot}\"\n");
        }
        let goals = plan(&platform(&text), &GoalRequest::default()).unwrap();
        let sets: Vec<u32> = goals.iter().map(|goal| goal.shares[0].set).collect();
        assert_eq!(sets, [0, 0, 0, 0, 0, 0, 1], "six and one of seven");
    }

    #[test]
    fn pending_goal_and_part_of_socket_are_refused() {
        let mut platform = platform(INCLUDED[2].1);
        let goals = plan(&platform, &GoalRequest::default()).unwrap();
        create(&mut platform, goals);
        let refused = plan(&platform, &GoalRequest::default());
        assert!(matches!(refused, Err(GoalError::GoalPending { module: Handle(1) })), "{refused:?}");
        reboot(&mut platform);
        let targets = Targets { modules: vec![Handle(0x101)], ..Targets::default() };
        let refused = plan(&platform, &GoalRequest { targets, ..GoalRequest::default() });
        let Err(GoalError::PartOfSocket { socket: 0, missing }) = refused else { panic!("{refused:?}") };
        assert!(missing.contains(&Handle(1)) && !missing.contains(&Handle(0x101)), "{missing:?}");
    }
}
