//! Partitions, sets and goals from listings.

use super::Discovered;
use super::amount::Amount;
use super::error::ListingFault;
use super::merged::{Merged, Place, Placed, Values};
use crate::boot;
use crate::directory::state_fault;
use crate::machine::{FIRMWARE_SPACE, Handle, Machine};
use crate::namespace::format_labels;
use crate::region::{INTERLEAVE_LINE, set_id};
use crate::state::{Goal, InterleaveSet, LabelVersion, Member, Partition, Share};
use std::collections::{BTreeMap, BTreeSet};

/// Unit of the capacity that firmware gives to goals, in bytes.
pub(super) const ALIGNMENT: u64 = 1 << 30;

/// Takes over partitions, sets and goals.
pub(super) fn provision(discovered: &mut Discovered, merged: &Merged) -> Result<(), Placed> {
    let mut sets: Vec<(&Values, Vec<Handle>, LabelVersion, u64)> = Vec::new();
    for region in &merged.regions {
        let taken = sets.iter().flat_map(|(_, members, ..)| members.iter().copied()).collect();
        let (members, labels, share) = set(discovered, merged, region, &taken)?;
        sets.push((region, members, labels, share));
    }
    let members: BTreeSet<Handle> =
        sets.iter().flat_map(|(_, members, ..)| members.iter().copied()).collect();
    let partitions = partitions(discovered, merged, &members)?;
    let state = &mut discovered.platform.state;
    let mut next: BTreeMap<Handle, u64> = BTreeMap::new();
    for partition in &partitions {
        next.insert(partition.module, FIRMWARE_SPACE.saturating_add(partition.memory));
    }
    state.partitions = partitions;
    for (region, handles, labels, share) in sets {
        let mut members = Vec::new();
        for module in handles {
            let unknown = || (region.place_of("DimmID"), ListingFault::UnknownModule { module });
            let offset = next.get_mut(&module).ok_or_else(unknown)?;
            members.push(Member { module, offset: *offset });
            *offset = offset.saturating_add(share);
        }
        state.sets.push(InterleaveSet { share, labels, members });
    }
    for goal in &merged.goals {
        let goal = self::goal(&discovered.platform.machine, &merged.goals, goal)?;
        discovered.platform.state.goals.push(goal);
    }
    let platform = &mut discovered.platform;
    let first = |list: &[Values]| list.first().map_or(Place::default(), |values| values.place);
    let place = if merged.regions.is_empty() { first(&merged.modules) } else { first(&merged.regions) };
    let fault = state_fault(&platform.state, &platform.machine);
    fault.map_err(|fault| (place, ListingFault::Impossible(fault)))?;
    boot::order(platform);
    for set in platform.state.sets.clone() {
        for member in &set.members {
            // An area that is too small for labels stays blank, as with firmware.
            let _ = format_labels(platform, member.module, set.labels);
        }
    }
    Ok(())
}

/// Returns the modules of a region, the version of their labels, and the bytes of each.
fn set(
    discovered: &mut Discovered,
    merged: &Merged,
    region: &Values,
    taken: &BTreeSet<Handle>,
) -> Result<(Vec<Handle>, LabelVersion, u64), Placed> {
    let machine = &discovered.platform.machine;
    let candidates = candidates(machine, merged, region, taken)?;
    let id = region.parse("ISetID", 0, |word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(digits, 16).map_err(|_| "up to 16 hexadecimal digits")
    })?;
    let versions = [LabelVersion::V1_2, LabelVersion::V1_1];
    let all = candidates.iter().flat_map(|members| versions.map(|labels| (members, labels)));
    let found = all.into_iter().find(|(members, labels)| set_id(machine, members, *labels) == id);
    let (members, labels) = match found {
        Some((members, labels)) => (members.clone(), labels),
        None => {
            let first = candidates.into_iter().next();
            let first = first.ok_or((region.place, ListingFault::RegionModules))?;
            let what = "has another id here: the identities of its modules, or their order, are not those of the machine.";
            discovered.notes.push(format!("The set {id:#018x} {what}"));
            (first, LabelVersion::V1_2)
        }
    };
    let Some(amount) = region.amount("Capacity")? else {
        let (name, found) = ("Capacity".to_owned(), String::new());
        return Err((region.place, ListingFault::Value { name, found, want: "the capacity of the region" }));
    };
    let ways = members.len() as u64;
    Ok((members, labels, share(amount, ways)))
}

/// Returns the lists of modules that a region may have, the likely ones first.
fn candidates(
    machine: &Machine,
    merged: &Merged,
    region: &Values,
    taken: &BTreeSet<Handle>,
) -> Result<Vec<Vec<Handle>>, Placed> {
    let by_firmware = |mut members: Vec<Handle>| {
        members.sort_by_key(|module| module.listing_order());
        members
    };
    if let Some(words) = region.get("DimmID") {
        let place = region.place_of("DimmID");
        let handles = words.split(',').map(|word| merged.module(word.trim()));
        let handles = handles.collect::<Result<Vec<_>, _>>().map_err(|fault| (place, fault))?;
        if let Some(module) = handles.iter().find(|module| machine.module(**module).is_none()) {
            return Err((place, ListingFault::UnknownModule { module: *module }));
        }
        return Ok(vec![handles.clone(), by_firmware(handles)]);
    }
    let socket = region.parse("SocketID", 0, |word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u16::from_str_radix(digits, 16).map_err(|_| "a hexadecimal number, as 0x0001")
    })?;
    let modules = machine.modules.iter().filter(|one| one.handle.socket() == socket && one.capacity > 0);
    let handles: Vec<Handle> = modules.map(|module| module.handle).collect();
    let alone = handles.iter().filter(|module| !taken.contains(module));
    let alone: Vec<Vec<Handle>> = alone.map(|module| vec![*module]).collect();
    let kind = region.get("PersistentMemoryType").unwrap_or_default();
    Ok(if kind.eq_ignore_ascii_case("AppDirectNotInterleaved") {
        alone
    } else if handles.is_empty() {
        Vec::new()
    } else {
        vec![by_firmware(handles)]
    })
}

/// Returns the bytes of each module of a region.
fn share(region: Amount, ways: u64) -> u64 {
    let units = [ALIGNMENT, 1 << 20, INTERLEAVE_LINE].map(|unit| unit * ways);
    region.multiple_of(&units) / ways
}

/// Returns a capacity of a module's partition.
fn part(amount: Option<Amount>) -> u64 {
    amount.map_or(0, |amount| amount.multiple_of(&[ALIGNMENT, 1 << 20, INTERLEAVE_LINE]))
}

/// Returns the partitions of the configured modules.
fn partitions(
    discovered: &mut Discovered,
    merged: &Merged,
    members: &BTreeSet<Handle>,
) -> Result<Vec<Partition>, Placed> {
    let mut partitions = Vec::new();
    let mut unknown = Vec::new();
    for values in &merged.modules {
        let module = values.handle;
        if values.get("MemoryCapacity").is_none() {
            unknown.push(module);
            continue;
        }
        let (memory, reserved) =
            (part(values.amount("MemoryCapacity")?), part(values.amount("ReservedCapacity")?));
        let is_valid = values.get("ConfigurationStatus") == Some("Valid");
        if is_valid || members.contains(&module) || memory > 0 || reserved > 0 {
            partitions.push(Partition { module, memory, reserved });
        }
    }
    // A dead module tells nothing, and has a partition only in a set.
    let is_dead = |module: &Handle| {
        discovered.platform.machine.module(*module).is_none_or(|one| one.capacity == 0 || !one.usable())
    };
    let (dead, unknown): (Vec<_>, Vec<_>) = unknown.into_iter().partition(is_dead);
    let in_sets = dead.into_iter().filter(|module| members.contains(module));
    partitions.extend(in_sets.map(|module| Partition { module, memory: 0, reserved: 0 }));
    if unknown.is_empty() {
        return Ok(partitions);
    }
    let memory = memory_of_each(discovered, merged, &unknown)?;
    let configured = unknown.into_iter().filter(|module| memory > 0 || members.contains(module));
    partitions.extend(configured.map(|module| Partition { module, memory, reserved: 0 }));
    Ok(partitions)
}

/// Returns the volatile memory of each of these modules, from that of all.
fn memory_of_each(discovered: &mut Discovered, merged: &Merged, modules: &[Handle]) -> Result<u64, Placed> {
    let row = |one: &&Values| one.get("MemoryType").is_none_or(|kind| kind == "Volatile");
    let Some(all) = merged.resources.iter().find(row) else {
        let what = "The use of the modules is not listed: they are without volatile memory here.";
        discovered.notes.push(format!("{what} `ipmctl show -a -dimm` tells it."));
        return Ok(0);
    };
    let names = ["PMemModule", "DCPMM", "MemoryCapacity"];
    let name = names.into_iter().find(|name| all.get(name).is_some()).unwrap_or("MemoryCapacity");
    let Some(amount) = all.amount(name)? else { return Ok(0) };
    let machine = &discovered.platform.machine;
    let capacities: BTreeSet<u64> =
        modules.iter().filter_map(|module| machine.module(*module)).map(|one| one.capacity).collect();
    let total = part(Some(amount));
    if total > 0 && (capacities.len() > 1 || modules.len() < merged.modules.len()) {
        return Err((all.place_of(name), ListingFault::Uses));
    }
    if total > 0 {
        let what = "The volatile memory of each module is an equal part of that of all.";
        discovered.notes.push(format!("{what} `ipmctl show -a -dimm` tells it."));
    }
    Ok(share(amount, modules.len() as u64))
}

/// Returns a goal.
fn goal(machine: &Machine, goals: &[Values], values: &Values) -> Result<Goal, Placed> {
    let module = values.handle;
    let found = machine.module(module).ok_or((values.place, ListingFault::UnknownModule { module }))?;
    let memory = part(values.amount("MemorySize")?);
    let mut shares = Vec::new();
    for position in [1, 2] {
        let size = part(values.amount(&format!("AppDirect{position}Size"))?);
        if size > 0 {
            let set = goal_set(goals, values, position)?;
            shares.push(Share { set, size });
        }
    }
    // Goals divide all capacity that firmware gives.
    let used = shares.iter().fold(memory, |sum, share| sum.saturating_add(share.size));
    let reserved = machine.usable_capacity(found).saturating_sub(used);
    Ok(Goal { module, memory, reserved, labels: LabelVersion::V1_2, shares })
}

/// Returns the number of the set of a goal's share: the listed one, from 1; or that of the first goal on the socket
/// with a share of this size, which is interleaved with it. A second share is a set by itself.
fn goal_set(goals: &[Values], values: &Values, position: usize) -> Result<u32, Placed> {
    let listed = values.parse(&format!("AppDirect{position}Index"), None, |word| {
        word.parse::<u32>().ok().filter(|number| *number > 0).map(Some).ok_or("a number from 1")
    })?;
    if let Some(number) = listed {
        return Ok(number - 1);
    }
    let name = format!("AppDirect{position}Size");
    let same = |one: &Values| {
        one.handle == values.handle
            || position == 1
                && one.handle.socket() == values.handle.socket()
                && one.get(&name) == values.get(&name)
    };
    let first = goals.iter().position(same).unwrap_or(0);
    Ok((first * 2 + position - 1) as u32)
}
