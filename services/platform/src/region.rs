//! Regions: ranges of physical addresses that are persistent memory.

use crate::dax;
use crate::machine::{Handle, Machine};
use crate::namespace::error::NamespaceError;
use crate::platform::Platform;
use crate::state::{InterleaveSet, LabelVersion, Member};
use lode_nvdimm::{Interleave, SetInfo, set_cookie, set_cookie_v1_1};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Bytes below 4 GiB that belong to devices. DRAM continues above 4 GiB.
const MMIO_HOLE: u64 = 2 << 30;
/// Bytes that the memory controller puts on one module before it continues on the next one.
pub(crate) const INTERLEAVE_LINE: u64 = Interleave::LINE;
/// First address above the device hole.
const HIGH_MEMORY: u64 = 4 << 30;

/// A range of physical addresses that is persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// N of regionN.
    pub number: u32,
    /// First physical address.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
    /// The socket, from 0.
    pub socket: u16,
    /// Backing of the region.
    pub origin: Origin,
    /// False if the region is disabled, or one of its modules is disabled, dead or locked.
    pub enabled: bool,
}

/// Backing of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An interleave set.
    Set {
        /// The id of the set, as used by firmware and labels.
        id: u64,
        /// Bytes that each module contributes.
        share: u64,
        /// The modules, by their position.
        members: Vec<Member>,
    },
    /// DRAM that the kernel uses as persistent memory (`memmap=`). It has no labels.
    Memmap,
}

impl Region {
    fn of_set(platform: &Platform, set: &InterleaveSet, number: u32, base: u64) -> Region {
        let modules = || set.members.iter().filter_map(|member| platform.machine.module(member.module));
        let handles: Vec<Handle> = set.members.iter().map(|member| member.module).collect();
        let id = set_id(&platform.machine, &handles, set.labels);
        Region {
            number,
            base,
            size: set.share * set.members.len() as u64,
            socket: set.members.first().map_or(0, |member| member.module.socket()),
            origin: Origin::Set { id, share: set.share, members: set.members.clone() },
            enabled: modules().all(|module| platform.is_enabled(module))
                && !platform.state.disabled_regions.contains(&number),
        }
    }

    /// Returns the kernel's name of the region.
    pub fn name(&self) -> String {
        format!("region{}", self.number)
    }

    /// Returns the modules by their position; empty for a region of DRAM.
    pub fn members(&self) -> &[Member] {
        match &self.origin {
            Origin::Set { members, .. } => members,
            Origin::Memmap => &[],
        }
    }

    /// Returns the interleaving over the modules; `None` for a region of DRAM.
    pub(crate) fn interleave(&self) -> Option<Interleave> {
        let Origin::Set { share, members, .. } = &self.origin else { return None };
        Interleave::new(members.len() as u16, INTERLEAVE_LINE, *share).ok()
    }

    /// Locates a byte of the region: its module, and its offset on that module's media. Returns `None` past the end of
    /// the region, and for a region without modules.
    pub(crate) fn place(&self, offset: u64) -> Option<(Handle, u64)> {
        let piece = self.interleave()?.piece_at(offset)?;
        let member = self.members().get(usize::from(piece.position))?;
        Some((member.module, member.offset + piece.module_off))
    }

    /// Locates a range of whole interleave lines: module, offset in its media, and bytes, for each module that holds a
    /// part of the range.
    pub(crate) fn ranges(&self, offset: u64, len: u64) -> impl Iterator<Item = (Handle, u64, u64)> {
        let (ways, lines) = (self.members().len() as u64, len / INTERLEAVE_LINE);
        (0..lines.min(ways)).filter_map(move |line| {
            let (module, off) = self.place(offset + line * INTERLEAVE_LINE)?;
            Some((module, off, (lines - line).div_ceil(ways) * INTERLEAVE_LINE))
        })
    }

    /// Returns true if a module is part of the region.
    pub fn has(&self, module: Handle) -> bool {
        self.members().iter().any(|member| member.module == module)
    }
}

/// Returns the id of the set of these modules, by their position.
pub(crate) fn set_id(machine: &Machine, members: &[Handle], labels: LabelVersion) -> u64 {
    let modules = members.iter().filter_map(|member| machine.module(*member));
    let identities = modules.filter_map(|module| module.identity).enumerate();
    let infos = identities
        .map(|(position, module)| SetInfo { region_off: position as u64 * INTERLEAVE_LINE, module })
        .collect::<Vec<_>>();
    match labels {
        LabelVersion::V1_1 => set_cookie_v1_1(&infos),
        LabelVersion::V1_2 => set_cookie(&infos),
    }
}

impl Platform {
    /// Returns the regions in the order of their numbers: those of interleave sets, then those of `memmap=`.
    pub fn regions(&self) -> Vec<Region> {
        let mut regions = Vec::new();
        let mut next = 0;
        for socket in self.machine.sockets() {
            next = after_dram(next, visible_dram(self, socket));
            next += self.memory_on(socket);
            for set in &self.state.sets {
                if set.members.first().is_none_or(|member| member.module.socket() != socket) {
                    continue;
                }
                let region = Region::of_set(self, set, regions.len() as u32, next);
                next += region.size;
                regions.push(region);
            }
        }
        for range in &self.machine.memmap {
            let number = regions.len() as u32;
            regions.push(Region {
                number,
                base: range.start,
                size: range.size,
                socket: socket_at(self, range.start),
                origin: Origin::Memmap,
                enabled: !self.state.disabled_regions.contains(&number),
            });
        }
        regions
    }
}

/// Enables or disables a region until the next reboot. Returns true if this changed its state.
///
/// # Errors
/// Those of [`enable_all`].
pub fn enable(platform: &mut Platform, number: u32, enable: bool) -> Result<bool, NamespaceError> {
    let before = platform.regions().iter().any(|region| region.number == number && region.enabled);
    enable_all(platform, &[number], enable)?;
    Ok(before != enable)
}

/// Enables or disables regions until the next reboot. If one is refused, others may have changed.
///
/// # Errors
/// Fails if a region does not exist, if it can't be enabled because one of its modules is disabled, dead or locked, or
/// if it can't be disabled because the kernel uses one of its namespaces as memory.
///
/// # Cost
/// The regions are derived once for all, since that takes a look at each module.
pub fn enable_all(platform: &mut Platform, numbers: &[u32], enable: bool) -> Result<(), NamespaceError> {
    let regions: BTreeMap<u32, Region> =
        platform.regions().into_iter().map(|region| (region.number, region)).collect();
    for number in numbers {
        let region = regions.get(number).ok_or(NamespaceError::UnknownRegion { region: *number })?;
        let disabled = region.members().iter().find(|member| platform.state.is_disabled(member.module));
        match disabled {
            Some(member) if enable => {
                return Err(NamespaceError::ModuleDisabled { region: *number, module: member.module });
            }
            _ if enable => {}
            _ => {
                dax::release(&mut platform.state, *number, None)?;
                forget_namespaces(platform, region);
            }
        }
    }
    let given: BTreeSet<u32> = numbers.iter().copied().collect();
    platform.state.disabled_regions.retain(|disabled| !given.contains(disabled));
    if !enable {
        platform.state.disabled_regions.extend(given);
        return Ok(());
    }
    let refused =
        platform.regions().into_iter().find(|region| given.contains(&region.number) && !region.enabled);
    refused.map_or(Ok(()), |region| Err(NamespaceError::RegionDisabled { region: region.number }))
}

/// Forgets numbers and states of a region's namespaces: a region that is enabled again finds them anew, as at a start.
fn forget_namespaces(platform: &mut Platform, region: &Region) {
    if platform.state.namespaces.is_empty() {
        return;
    }
    let inside: Vec<Uuid> = platform.namespaces(region).iter().filter_map(|one| one.uuid).collect();
    platform.state.namespaces.retain(|known| !inside.contains(&known.uuid));
}

/// Returns the bytes of a socket's DRAM that have addresses: 0 in Memory Mode, where DRAM is a cache.
fn visible_dram(platform: &Platform, socket: u16) -> u64 {
    if platform.memory_mode() { 0 } else { platform.machine.dram_capacity(socket) }
}

/// Returns the socket whose memory is at this physical address, or the last socket if the address has no memory.
fn socket_at(platform: &Platform, address: u64) -> u16 {
    let sockets = platform.machine.sockets();
    let mut end = 0;
    for socket in &sockets {
        end = after_dram(end, visible_dram(platform, *socket)) + platform.memory_on(*socket);
        let sets = platform.state.sets.iter().filter(|set| set.members[0].module.socket() == *socket);
        end += sets.map(|set| set.share * set.members.len() as u64).sum::<u64>();
        if address < end {
            return *socket;
        }
    }
    sockets.last().copied().unwrap_or(0)
}

/// Returns the first address after a socket's DRAM that begins at `start`.
fn after_dram(start: u64, dram: u64) -> u64 {
    let below = MMIO_HOLE.saturating_sub(start);
    if start < HIGH_MEMORY && dram > below { start.max(HIGH_MEMORY) + dram - below } else { start + dram }
}
