//! Reboot: firmware applies the goals.

use crate::firmware;
use crate::machine::Handle;
use crate::namespace::format_labels;
use crate::platform::Platform;
use crate::security;
use crate::smart;
use crate::state::{Goal, InterleaveSet, Member, Partition};

/// Reboots the machine. Firmware applies the goals, except those of modules with a passphrase and of the sets that they are
/// part of, which stay pending. The modules of the applied goals leave their sets, are partitioned again, form new
/// sets and get new label areas. The labels and namespaces on them are lost. Modules without configuration data lose
/// their partitions and sets. Disabled modules, regions and namespaces become enabled, character devices get the modes in
/// which the kernel makes them, namespaces are numbered by their offset, and the kernel finds all media errors. Modules
/// with a passphrase are locked, and freezes end. Injections into health reports end, and staged firmware runs. Returns the modules
/// that were partitioned again.
pub fn reboot(platform: &mut Platform) -> Vec<Handle> {
    let goals = std::mem::take(&mut platform.state.goals);
    let (goals, waiting) = split_goals(platform, goals);
    platform.state.goals = waiting;
    let mut changed: Vec<Handle> = goals.iter().map(|goal| goal.module).collect();
    let cleared = std::mem::take(&mut platform.state.cleared);
    changed.extend(cleared.into_iter().filter(|module| !goals.iter().any(|goal| goal.module == *module)));
    let state = &mut platform.state;
    state.boots += 1;
    state.disabled_modules.clear();
    state.disabled_regions.clear();
    state.namespaces.clear();
    state.dax_devices.clear();
    state.cxl.start();
    state.restart_errors();
    state.sets.retain(|set| !set.members.iter().any(|member| changed.contains(&member.module)));
    state.partitions.retain(|partition| !changed.contains(&partition.module));
    let mut new: Vec<(u32, InterleaveSet)> = Vec::new();
    for goal in &goals {
        let (module, memory, reserved) = (goal.module, goal.memory, goal.reserved);
        state.partitions.push(Partition { module, memory, reserved });
        let mut offset = Platform::persistent_start(memory);
        for share in &goal.shares {
            let member = Member { module, offset };
            match new.iter_mut().find(|(number, _)| *number == share.set) {
                Some((_, set)) => set.members.push(member),
                None => {
                    let set = InterleaveSet { share: share.size, labels: goal.labels, members: vec![member] };
                    new.push((share.set, set));
                }
            }
            offset += share.size;
        }
    }
    for (_, set) in &mut new {
        set.members.sort_by_key(|member| member.module.listing_order());
    }
    state.sets.extend(new.into_iter().map(|(_, set)| set));
    order(platform);
    for goal in &goals {
        // An area that is too small for labels stays blank, as with firmware.
        let _ = format_labels(platform, goal.module, goal.labels);
    }
    security::start(platform);
    smart::start(platform);
    firmware::start(platform);
    changed
}

/// Splits goals into those that firmware applies, and those that wait: the goals of modules with a passphrase, and of the
/// sets that they are part of. ipmctl warns of them when it creates them.
fn split_goals(platform: &Platform, goals: Vec<Goal>) -> (Vec<Goal>, Vec<Goal>) {
    let with_passphrase = goals.iter().filter(|goal| security::has_passphrase(platform, goal.module));
    let mut waiting: Vec<Handle> = with_passphrase.map(|goal| goal.module).collect();
    loop {
        let (held, free): (Vec<&Goal>, Vec<&Goal>) =
            goals.iter().partition(|goal| waiting.contains(&goal.module));
        let is_in_set = |goal: &&&Goal| {
            let mut sets = held.iter().flat_map(|held| &held.shares);
            sets.any(|one| goal.shares.iter().any(|share| share.set == one.set))
        };
        let more: Vec<Handle> = free.iter().filter(is_in_set).map(|goal| goal.module).collect();
        if more.is_empty() {
            break;
        }
        waiting.extend(more);
    }
    goals.into_iter().partition(|goal| !waiting.contains(&goal.module))
}

/// Sorts sets and partitions as firmware does.
pub(crate) fn order(platform: &mut Platform) {
    let machine = &platform.machine;
    let place = |set: &InterleaveSet| {
        let first = set.members.iter().map(|member| machine.module_index(member.module)).min();
        (set.members[0].module.socket(), first, set.members[0].offset)
    };
    platform.state.sets.sort_by_key(place);
    platform.state.partitions.sort_by_key(|partition| machine.module_index(partition.module));
}

#[cfg(test)]
mod test {
    use super::reboot;
    use crate::goal::{self, GoalRequest, PersistentKind, Targets};
    use crate::machine::{Handle, INCLUDED, Machine, Security};
    use crate::platform::{Capacities, Platform};
    use crate::region::Region;

    const GIB: u64 = 1 << 30;

    /// ipmctl and ndctl showed both ids on the real machine. They are derived from the modules' identities.
    #[test]
    fn interleave_set_ids_are_derived() {
        let mut platform = Platform::new(Machine::parse(INCLUDED[0].1).unwrap());
        let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
        goal::create(&mut platform, goals);
        assert!(platform.state.sets.is_empty(), "a goal waits for the next start");
        assert_eq!(reboot(&mut platform).len(), 3);
        let regions = platform.regions();
        let ids: Vec<_> = regions.iter().map(Region::set_id).collect();
        assert_eq!(ids, [Some(0x8baa_eeb8_535e_2444), Some(0x7fe0_da90_c532_8a22), None, None]);
        assert_eq!(regions[0].size, 504 * GIB);
        assert_eq!(regions[3].base, 1176 * GIB);
        assert_eq!(regions[3].socket, 1);
        assert!(platform.state.goals.is_empty());
    }

    #[test]
    fn goal_replaces_set_and_partition() {
        let mut platform = Platform::new(Machine::parse(INCLUDED[2].1).unwrap());
        for percent in [0, 50] {
            let request = GoalRequest { memory_percent: percent, ..GoalRequest::default() };
            let goals = goal::plan(&platform, &request).unwrap();
            goal::create(&mut platform, goals);
            reboot(&mut platform);
        }
        let module = &platform.machine.modules[0];
        let expected = Capacities {
            total: module.capacity,
            memory: 63 * GIB,
            app_direct: 63 * GIB,
            inaccessible: module.capacity - 126 * GIB,
            ..Capacities::default()
        };
        assert_eq!(platform.capacities(module), expected);
        assert_eq!(platform.state.sets[0].members[1].offset, 63 * GIB + (256 << 20));
        assert_eq!((platform.regions().len(), platform.state.boots), (2, 3));
        assert!(platform.memory_mode());
    }

    #[test]
    fn goal_changes_one_socket_only() {
        let mut platform = Platform::new(Machine::parse(INCLUDED[2].1).unwrap());
        let targets = Targets { sockets: vec![1], ..Targets::default() };
        let kind = PersistentKind::AppDirectNotInterleaved;
        let request = GoalRequest { targets, kind, ..GoalRequest::default() };
        let goals = goal::plan(&platform, &request).unwrap();
        goal::create(&mut platform, goals);
        reboot(&mut platform);
        let goals = goal::plan(
            &platform,
            &GoalRequest {
                targets: Targets { sockets: vec![0], ..Targets::default() },
                ..GoalRequest::default()
            },
        );
        goal::create(&mut platform, goals.unwrap());
        reboot(&mut platform);
        let sizes: Vec<_> =
            platform.regions().iter().map(|region| (region.socket, region.size / GIB)).collect();
        assert_eq!(sizes, [(0, 252), (1, 126), (1, 126)], "socket 0 comes first though it came last");
        assert!(platform.regions()[0].has(Handle(0x101)));
    }

    /// A module with a passphrase keeps its goal, with the other modules of its set, and only those.
    #[test]
    fn goals_of_modules_with_passphrase_wait() {
        let pair = |security: &str| {
            let text = INCLUDED[2].1.replacen("locator", &format!("security = \"{security}\"\nlocator"), 1);
            Platform::new(Machine::parse(&text).unwrap())
        };
        for security in ["Unlocked", "Frozen"] {
            let mut platform = pair(security);
            let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
            let first = platform.machine.modules[0].handle;
            goal::create(&mut platform, goals.clone());
            let changed = reboot(&mut platform);
            let mut waiting = platform.state.goals.iter().map(|goal| goal.module);
            assert!(waiting.clone().any(|module| module == first), "{security}");
            assert!(waiting.all(|module| module.socket() == first.socket() && !changed.contains(&module)));
            assert_eq!(changed.len() + platform.state.goals.len(), goals.len());
            assert!(!changed.is_empty(), "the other socket");
            assert!(platform.state.sets.iter().all(|set| set.members[0].module.socket() != first.socket()));
            platform.machine.modules[0].security = Security::Disabled;
            assert_eq!(reboot(&mut platform).len() + changed.len(), goals.len(), "no passphrase is left");
            assert!(platform.state.goals.is_empty());
        }
        let mut platform = pair("Not supported");
        let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
        goal::create(&mut platform, goals.clone());
        assert_eq!(reboot(&mut platform).len(), goals.len());
    }

    #[test]
    fn module_in_two_sets_has_two_ranges() {
        let text = INCLUDED[4].1.replacen("1344MiB", "3344MiB", 1);
        let mut platform = Platform::new(Machine::parse(&text).unwrap());
        let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
        goal::create(&mut platform, goals);
        reboot(&mut platform);
        let first = Handle(1);
        let shares: Vec<_> =
            platform.state.sets_of(first).map(|(set, member)| (set.share / GIB, member.offset)).collect();
        assert_eq!(shares, [(1, 256 << 20), (2, (256 << 20) + GIB)]);
    }
}
