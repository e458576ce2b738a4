//! Regions: ranges of physical addresses that are persistent memory.

use crate::cxl;
use crate::dax;
use crate::machine::{Handle, Machine};
use crate::namespace::error::NamespaceError;
use crate::platform::Platform;
use crate::state::{InterleaveSet, LabelVersion, Member};
use lode_nvdimm::{Interleave, SetInfo, set_cookie, set_cookie_v1_1};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
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
    /// A region of persistent CXL memory. Labels of its devices divide it.
    Cxl {
        /// The id in labels, of the devices and of the places of their shares.
        id: u64,
        /// Bytes that each device contributes.
        share: u64,
        /// Bytes on one device before the region continues on the next one.
        granularity: u64,
        /// The devices, by their position, with the address of the share on the device.
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
            Origin::Set { members, .. } | Origin::Cxl { members, .. } => members,
            Origin::Memmap => &[],
        }
    }

    /// Returns the id of its set in labels; `None` for a region of DRAM.
    pub fn set_id(&self) -> Option<u64> {
        match &self.origin {
            Origin::Set { id, .. } | Origin::Cxl { id, .. } => Some(*id),
            Origin::Memmap => None,
        }
    }

    /// Returns the bytes that each module contributes; 0 for a region of DRAM.
    pub fn share(&self) -> u64 {
        match &self.origin {
            Origin::Set { share, .. } | Origin::Cxl { share, .. } => *share,
            Origin::Memmap => 0,
        }
    }

    /// Returns true for a region of CXL memory.
    pub fn is_cxl(&self) -> bool {
        matches!(self.origin, Origin::Cxl { .. })
    }

    /// Returns the bytes on one module before the region continues on the next one.
    pub(crate) fn line(&self) -> u64 {
        match &self.origin {
            Origin::Cxl { granularity, .. } => *granularity,
            Origin::Set { .. } | Origin::Memmap => INTERLEAVE_LINE,
        }
    }

    /// Returns the interleaving over the modules; `None` for a region of DRAM.
    pub(crate) fn interleave(&self) -> Option<Interleave> {
        Interleave::new(self.members().len() as u16, self.line(), self.share()).ok()
    }

    /// Locates a range of the region: module, offset in its media, and bytes, for each module that holds a part of it.
    pub(crate) fn ranges(&self, offset: u64, len: u64) -> impl Iterator<Item = (Handle, u64, u64)> {
        let interleave = self.interleave();
        (0..).zip(self.members()).filter_map(move |(position, member)| {
            let share = interleave?.share(position, offset..offset.saturating_add(len));
            let len = share.end - share.start;
            (len > 0).then_some((member.module, member.offset + share.start, len))
        })
    }

    /// Locates a range of the region, in the order of its bytes: module, offset in its media, and the bytes of the range
    /// that lie there.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Vec<(Handle, u64, Range<usize>)> {
        let Some(interleave) = self.interleave() else { return Vec::new() };
        let start = range.start;
        let pieces = interleave.pieces(range).filter_map(|piece| {
            let member = self.members().get(usize::from(piece.position))?;
            let from = (piece.region_off - start) as usize;
            Some((member.module, member.offset + piece.module_off, from..from + piece.len as usize))
        });
        pieces.collect()
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
    /// Returns the regions in the order of their numbers: those of interleave sets, those of `memmap=`, then those of
    /// persistent CXL memory.
    pub fn regions(&self) -> Vec<Region> {
        let mut regions = self.module_regions();
        regions.extend(cxl::pmem_regions(self).into_iter().map(|one| self.cxl_region(one)));
        regions
    }

    fn cxl_region(&self, one: cxl::PmemRegion) -> Region {
        let member = |(device, offset)| Member { module: Handle::of_cxl(device), offset };
        let (number, base, size, socket) = (one.number, one.start, one.size, one.socket);
        let share = size / one.members.len().max(1) as u64;
        let (id, granularity) = (one.cookie, one.granularity);
        let enabled = !self.state.disabled_regions.contains(&number)
            && one.members.iter().all(|(device, _)| cxl::is_nvdimm_enabled(self, *device));
        let members = one.members.into_iter().map(member).collect();
        Region {
            number,
            base,
            size,
            socket,
            origin: Origin::Cxl { id, share, granularity, members },
            enabled,
        }
    }

    /// Returns the regions without those of CXL memory, in the order of their numbers.
    pub fn module_regions(&self) -> Vec<Region> {
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

/// Takes a region of CXL memory away from libnvdimm, with its namespaces. Their labels stay.
///
/// # Errors
/// [`MemoryOnline`](NamespaceError::MemoryOnline) if the kernel uses one of its namespaces as memory.
pub(crate) fn withdraw(platform: &mut Platform, number: u32) -> Result<(), NamespaceError> {
    dax::release(&mut platform.state, number, None)?;
    if let Some(region) = platform.regions().iter().find(|region| region.number == number && region.is_cxl())
    {
        forget_namespaces(platform, region);
        platform.state.disabled_regions.retain(|disabled| *disabled != number);
    }
    Ok(())
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
