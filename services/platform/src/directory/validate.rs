//! Validation of a state file against its machine: a user may have edited either.

use super::error::StateFault;
use crate::cxl::{CxlCheck, CxlKind};
use crate::dax::{DeviceId, Driver, PAGES, StoredDevice, StoredRange};
use crate::error_log::{ENTRIES_MAX, LoggedError, LoggedKind};
use crate::goal::WAYS;
use crate::machine::{FIRMWARE_SPACE, Handle, Machine, Module};
use crate::media_error::MediaError;
use crate::region::INTERLEAVE_LINE;
use crate::relocate::{Place, Relocation, Stage};
use crate::security::{ModuleSecurity, TRIES};
use crate::smart::{CELSIUS, ModuleSmart, PERCENT_MAX};
use crate::state::{Goal, InterleaveSet, Partition, Share, State};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::path::{Component, Path};
use toml::Spanned;

/// Shares of a goal: at most two, as in firmware.
const SHARES_MAX: usize = 2;

/// A list of the state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Partition,
    Set,
    Goal,
    Cleared,
    DisabledModule,
    Namespace,
    MediaError,
    KnownError,
    DaxDevice,
    Security,
    Smart,
    Error,
    Firmware,
    Relocation,
    CxlRegion,
    CxlAllocation,
    CxlPartition,
    CxlPoison,
    /// The values of CXL memory that are in no list of tables, and have no line.
    CxlNumbers,
}

/// An entry of the state file: its list, and its position in it.
type Entry = (List, usize);

/// Checks that the state fits the machine. Returns the line of the wrong entry, from 1, and the fault.
pub(super) fn check(state: &State, machine: &Machine, text: &str) -> Result<(), (Option<usize>, StateFault)> {
    Check { state, machine }.all().map_err(|(entry, fault)| (line_of(text, entry), fault))
}

/// Checks that the state fits the machine.
pub(crate) fn state_fault(state: &State, machine: &Machine) -> Result<(), StateFault> {
    Check { state, machine }.all().map_err(|(_, fault)| fault)
}

/// Returns the line of an entry.
fn line_of(text: &str, (list, index): Entry) -> Option<usize> {
    #[derive(Deserialize)]
    struct Lists {
        #[serde(default)]
        partition: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        set: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        goal: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        cleared: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        disabled_modules: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        namespace: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        media_error: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        known_error: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        dax_device: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        security: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        smart: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        error: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        firmware: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        relocation: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        cxl: CxlLists,
    }
    #[derive(Default, Deserialize)]
    struct CxlLists {
        #[serde(default)]
        region: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        allocation: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        partition: Vec<Spanned<IgnoredAny>>,
        #[serde(default)]
        poison: Vec<Spanned<IgnoredAny>>,
    }
    let lists: Lists = toml::from_str(text).ok()?;
    let list = match list {
        List::Partition => &lists.partition,
        List::Set => &lists.set,
        List::Goal => &lists.goal,
        List::Cleared => &lists.cleared,
        List::DisabledModule => &lists.disabled_modules,
        List::Namespace => &lists.namespace,
        List::MediaError => &lists.media_error,
        List::KnownError => &lists.known_error,
        List::DaxDevice => &lists.dax_device,
        List::Security => &lists.security,
        List::Smart => &lists.smart,
        List::Error => &lists.error,
        List::Firmware => &lists.firmware,
        List::Relocation => &lists.relocation,
        List::CxlRegion => &lists.cxl.region,
        List::CxlAllocation => &lists.cxl.allocation,
        List::CxlPartition => &lists.cxl.partition,
        List::CxlPoison => &lists.cxl.poison,
        List::CxlNumbers => return None,
    };
    let before = text.get(..list.get(index)?.span().start)?;
    Some(before.matches('\n').count() + 1)
}

struct Check<'a> {
    state: &'a State,
    machine: &'a Machine,
}

type Checked = Result<(), (Entry, StateFault)>;

impl Check<'_> {
    fn all(&self) -> Checked {
        each(List::Partition, &self.state.partitions, |one| self.partition(one))?;
        unique(List::Partition, self.state.partitions.iter().map(|one| one.module))?;
        each(List::Set, &self.state.sets, |one| self.set(one))?;
        each(List::Partition, &self.state.partitions, |one| self.uses(one))?;
        each(List::Goal, &self.state.goals, |one| self.goal(one))?;
        unique(List::Goal, self.state.goals.iter().map(|one| one.module))?;
        each(List::Cleared, &self.state.cleared, |module| self.configured(*module).map(drop))?;
        unique(List::Cleared, self.state.cleared.iter().copied())?;
        each(List::DisabledModule, &self.state.disabled_modules, |module| self.any_module(*module))?;
        unique(List::DisabledModule, self.state.disabled_modules.iter().copied())?;
        each(List::MediaError, &self.state.media_errors, |one| self.media_error(one))?;
        each(List::KnownError, &self.state.known_errors, |one| self.media_error(one))?;
        each(List::Security, &self.state.security, |one| self.security(one))?;
        unique(List::Security, self.state.security.iter().map(|one| one.module))?;
        each(List::DaxDevice, &self.state.dax_devices, |one| self.dax_device(one))?;
        each(List::Smart, &self.state.smart, |one| self.smart(one))?;
        unique(List::Smart, self.state.smart.iter().map(|one| one.module))?;
        each(List::Error, &self.state.errors, |one| self.logged(one))?;
        self.logs()?;
        each(List::Firmware, &self.state.firmware, |one| self.module(one.module).map(drop))?;
        unique(List::Firmware, self.state.firmware.iter().map(|one| one.module))?;
        each(List::Relocation, &self.state.relocations, |one| {
            one.module.map_or(Ok(()), |module| self.module(module).map(drop))
        })?;
        each(List::Relocation, &self.state.relocations, |one| self.relocation(one))?;
        let mut moving = BTreeSet::new();
        each(List::Relocation, &self.state.relocations, |one| {
            if moving.insert(one.uuid) { Ok(()) } else { Err(StateFault::SecondNamespace { uuid: one.uuid }) }
        })?;
        self.cxl()?;
        let mut uuids = BTreeSet::new();
        each(List::Namespace, &self.state.namespaces, |one| {
            if uuids.insert(one.uuid) { Ok(()) } else { Err(StateFault::SecondNamespace { uuid: one.uuid }) }
        })
    }

    fn cxl(&self) -> Checked {
        let state = &self.state.cxl;
        let check = CxlCheck::new(self.state, self.machine);
        let fault = |why| StateFault::Cxl { why };
        check.numbers().map_err(|why| ((List::CxlNumbers, 0), fault(why)))?;
        each(List::CxlRegion, &state.regions, |one| check.region(one).map_err(fault))?;
        each(List::CxlAllocation, &state.allocations, |one| check.allocation(one).map_err(fault))?;
        each(List::CxlPartition, &state.partitions, |one| check.partition(one).map_err(fault))?;
        check.poison().map_err(|(index, why)| ((List::CxlPoison, index), fault(why)))
    }

    fn module(&self, module: Handle) -> Result<&Module, StateFault> {
        self.machine.module(module).ok_or(StateFault::UnknownModule { module })
    }

    /// Checks that a module, or a CXL device, exists.
    fn any_module(&self, module: Handle) -> Result<(), StateFault> {
        match module.cxl_device() {
            Some(device) if (device as usize) < self.machine.cxl.devices.len() => Ok(()),
            _ => self.module(module).map(drop),
        }
    }

    fn configured(&self, module: Handle) -> Result<&Partition, StateFault> {
        self.module(module)?;
        self.state.partition(module).ok_or(StateFault::NotConfigured { module })
    }

    /// Checks that these bytes of a module are not more than firmware leaves of it.
    fn fits(&self, module: Handle, parts: impl IntoIterator<Item = u64>) -> Result<(), StateFault> {
        let usable = self.module(module)?.capacity.saturating_sub(FIRMWARE_SPACE);
        let sum = parts.into_iter().try_fold(0_u64, |sum, part| sum.checked_add(part));
        match sum {
            Some(used) if used <= usable => Ok(()),
            used => Err(StateFault::TooLarge { module, used: used.unwrap_or(u64::MAX), usable }),
        }
    }

    fn partition(&self, partition: &Partition) -> Result<(), StateFault> {
        self.fits(partition.module, [partition.memory, partition.reserved])
    }

    fn set(&self, set: &InterleaveSet) -> Result<(), StateFault> {
        let handles: Vec<Handle> = set.members.iter().map(|member| member.module).collect();
        let ways = handles.len();
        if !WAYS.contains(&ways) {
            return Err(StateFault::Ways { ways });
        }
        check_share(set.share)?;
        let mut members = BTreeSet::new();
        for member in &set.members {
            let module = member.module;
            let memory = self.configured(module)?.memory;
            if !members.insert(module) {
                return Err(StateFault::SecondEntry { module });
            }
            if module.socket() != handles[0].socket() {
                return Err(StateFault::OtherSocket { module, first: handles[0] });
            }
            self.fits(module, [set.share])?;
            let capacity = self.module(module)?.capacity;
            let start = FIRMWARE_SPACE + memory;
            let end = member.offset.checked_add(set.share);
            if member.offset < start || end.is_none_or(|end| end > capacity) {
                let (off, len) = (member.offset, set.share);
                return Err(StateFault::Outside { module, off, len, from: start, to: capacity });
            }
        }
        Ok(())
    }

    /// Checks that the uses of a module fit it together, and that its shares do not overlap.
    fn uses(&self, partition: &Partition) -> Result<(), StateFault> {
        let module = partition.module;
        let mut shares: Vec<(u64, u64)> =
            self.state.sets_of(module).map(|(set, member)| (member.offset, set.share)).collect();
        let sizes = shares.iter().map(|(_, share)| *share);
        self.fits(module, sizes.chain([partition.memory, partition.reserved]))?;
        shares.sort_unstable();
        match shares.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            Some(pair) => Err(StateFault::Overlap { module, off: pair[1].0 }),
            None => Ok(()),
        }
    }

    fn goal(&self, goal: &Goal) -> Result<(), StateFault> {
        let module = goal.module;
        let sizes = goal.shares.iter().map(|share| share.size);
        self.fits(module, sizes.chain([goal.memory, goal.reserved]))?;
        if goal.shares.len() > SHARES_MAX {
            return Err(StateFault::Shares { module, most: SHARES_MAX });
        }
        for share in &goal.shares {
            check_share(share.size)?;
            let others = self.state.goals.iter().filter(|other| other.module != module);
            let mut same = others.flat_map(|other| other.shares.iter().map(move |one| (other.module, one)));
            let differs = |(other, one): &(Handle, &Share)| {
                one.set == share.set && (one.size != share.size || other.socket() != module.socket())
            };
            if let Some((other, _)) = same.find(differs) {
                return Err(StateFault::UnequalShares { module, other, set: share.set });
            }
        }
        Ok(())
    }

    fn security(&self, security: &ModuleSecurity) -> Result<(), StateFault> {
        let module = security.module;
        self.module(module)?;
        match security {
            ModuleSecurity { user: None, locked, frozen, .. } if *locked || *frozen => {
                Err(StateFault::NoPassphrase { module })
            }
            security if security.user_failures.max(security.master_failures) > TRIES => {
                Err(StateFault::Tries { module, most: TRIES })
            }
            _ => Ok(()),
        }
    }

    /// Checks the record of a move, by which data is destroyed.
    fn relocation(&self, one: &Relocation) -> Result<(), StateFault> {
        let others = self.state.relocations.iter().filter(|other| other.place == one.place);
        let why = if one.place == Place::Namespace(one.uuid) {
            "its copy is the namespace itself"
        } else if others.count() > 1 {
            "its copy is that of another namespace"
        } else if matches!(&one.place, Place::File(path) if path.is_absolute() == one.is_growth() || !is_plain(path))
        {
            "its copy is no absolute path, or that of a growth is not in the directory"
        } else if one.stage == Stage::Copied && one.digest.is_none() {
            "its copy has no digest"
        } else if one.is_growth() && (one.module.is_some() || matches!(one.place, Place::Namespace(_))) {
            "a namespace that grows stays on its modules, and its copy is a file"
        } else {
            return Ok(());
        };
        Err(StateFault::Move { uuid: one.uuid, why })
    }

    /// Checks a character device. Its region may be one of namespaces, whose sizes are in their labels.
    fn dax_device(&self, one: &StoredDevice) -> Result<(), StateFault> {
        let device = DeviceId { region: one.region, number: one.number };
        let devices = &self.state.dax_devices;
        if devices.iter().filter(|other| (other.region, other.number) == (one.region, one.number)).count() > 1
        {
            return Err(StateFault::SecondDevice { device });
        }
        let fault = |why| Err(StateFault::Device { device, why });
        if one.online.is_some() && one.driver != Driver::SystemRam {
            return fault("only a device with driver system-ram has memory that is online");
        }
        let nd_regions = self.state.sets.len() + self.machine.memmap.len();
        let of_kind = |kind| {
            let region = self.state.cxl.region(one.region);
            region.filter(|region| region.enabled && region.kind == kind)
        };
        let index = (one.region as usize).checked_sub(nd_regions);
        let Some(index) = index.filter(|_| of_kind(CxlKind::Pmem).is_none()) else {
            return match one.ranges.is_empty() && one.align.is_none() {
                true => Ok(()),
                false => fault("a namespace has the range and the alignment of its device"),
            };
        };
        let of_cxl = || of_kind(CxlKind::Ram).map(|region| region.size);
        let reserved = self.machine.soft_reserved.get(index).map(|range| range.size);
        let Some(region_size) = reserved.or_else(of_cxl) else {
            return fault("the machine has no region of its number");
        };
        if one.align.is_none_or(|align| !PAGES.contains(&align)) {
            return fault("its alignment is 4096, 2097152 or 1073741824");
        }
        if one.ranges.is_empty() && one.driver != Driver::None {
            return fault("a device without ranges has no driver");
        }
        let ends = |range: &StoredRange| range.off.checked_add(range.len).map(|end| range.off..end);
        let mut taken = Vec::new();
        for range in devices.iter().filter(|other| other.region == one.region).flat_map(|other| &other.ranges)
        {
            match ends(range) {
                Some(bytes) if range.len > 0 && bytes.end <= region_size => taken.push(bytes),
                _ => return fault("a range of its region is empty or ends after the region"),
            }
        }
        taken.sort_by_key(|range| range.start);
        match taken.windows(2).any(|pair| pair[0].end > pair[1].start) {
            true => fault("ranges of its region overlap"),
            false => Ok(()),
        }
    }

    fn smart(&self, smart: &ModuleSmart) -> Result<(), StateFault> {
        let module = smart.module;
        self.module(module)?;
        let celsius = [smart.media_celsius, smart.controller_celsius].into_iter().flatten();
        let mut celsius = celsius.chain([smart.media_alarm.threshold, smart.controller_alarm.threshold]);
        let mut percent = smart.spares_percent.into_iter().chain([smart.spares_alarm.threshold]);
        if celsius.all(|value| CELSIUS.contains(&value))
            && percent.all(|value| (0..=PERCENT_MAX).contains(&value))
        {
            Ok(())
        } else {
            Err(StateFault::Smart { module })
        }
    }

    fn logged(&self, entry: &LoggedError) -> Result<(), StateFault> {
        let module = entry.module;
        let capacity = self.module(module)?.capacity;
        let is_sound = match entry.what {
            LoggedKind::Temperature { celsius, .. } => CELSIUS.contains(&celsius),
            LoggedKind::Uncorrectable { dpa, len, .. } => {
                len.is_power_of_two() && dpa.checked_add(len).is_some_and(|end| end <= capacity)
            }
            LoggedKind::PercentageRemaining | LoggedKind::HealthChange => true,
        };
        if is_sound && entry.sequence > 0 { Ok(()) } else { Err(StateFault::ErrorLog { module }) }
    }

    /// Checks that the entries of each log have numbers one after another, and are not too many.
    fn logs(&self) -> Checked {
        let mut logs: Vec<(&LoggedError, usize)> = Vec::new();
        for (index, entry) in self.state.errors.iter().enumerate() {
            let of = |last: &LoggedError| (last.module, last.what.is_thermal(), last.level);
            match logs.iter_mut().find(|(last, _)| of(last) == of(entry)) {
                None => logs.push((entry, 1)),
                Some((last, count))
                    if entry.sequence == LoggedError::after(last.sequence) && *count < ENTRIES_MAX =>
                {
                    (*last, *count) = (entry, *count + 1);
                }
                Some(_) => {
                    return Err(((List::Error, index), StateFault::ErrorLog { module: entry.module }));
                }
            }
        }
        Ok(())
    }

    fn media_error(&self, error: &MediaError) -> Result<(), StateFault> {
        let (module, off, len) = (error.module, error.off, error.len);
        let to = self.module(module)?.capacity;
        match off.checked_add(len) {
            Some(end) if len > 0 && end <= to => Ok(()),
            _ => Err(StateFault::Outside { module, off, len, from: 0, to }),
        }
    }
}

/// Returns true if a path is one of a file and does not go up.
fn is_plain(path: &Path) -> bool {
    path.file_name().is_some() && path.components().all(|part| part != Component::ParentDir)
}

/// Checks all entries of a list.
fn each<T>(list: List, entries: &[T], mut check: impl FnMut(&T) -> Result<(), StateFault>) -> Checked {
    let mut all = entries.iter().enumerate();
    all.try_for_each(|(index, entry)| check(entry).map_err(|fault| ((list, index), fault)))
}

/// Checks that no module occurs twice.
fn unique(list: List, modules: impl Iterator<Item = Handle>) -> Checked {
    let mut known = BTreeSet::new();
    for (index, module) in modules.enumerate() {
        if !known.insert(module) {
            return Err(((list, index), StateFault::SecondEntry { module }));
        }
    }
    Ok(())
}

fn check_share(share: u64) -> Result<(), StateFault> {
    if share > 0 && share.is_multiple_of(INTERLEAVE_LINE) { Ok(()) } else { Err(StateFault::Share { share }) }
}
