//! Regions: ranges of physical addresses that are persistent memory.

use crate::machine::Handle;
use crate::platform::Platform;
use crate::state::{InterleaveSet, LabelVersion, Member};
use lode_nvdimm::{Interleave, SetInfo, set_cookie, set_cookie_v1_1};

/// Bytes below 4 GiB that belong to devices. DRAM continues above 4 GiB.
const DEVICE_HOLE: u64 = 2 << 30;
/// Bytes that the memory controller puts on one module before it continues on the next one.
pub(crate) const INTERLEAVE_LINE: u64 = Interleave::LINE;
/// First address above the device hole.
const HIGH: u64 = 4 << 30;

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
    /// False if the region is disabled, or one of its modules is dead or locked.
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
    /// Returns the regions of a machine, in the order of their numbers.
    pub(crate) fn all(platform: &Platform) -> Vec<Region> {
        let mut regions = Vec::new();
        let mut next = 0;
        for socket in platform.machine.sockets() {
            next = after_dram(next, platform.visible_dram(socket));
            next += platform.memory_on(socket);
            for set in &platform.state.sets {
                if set.members.first().is_none_or(|member| member.module.socket() != socket) {
                    continue;
                }
                let region = Region::of_set(platform, set, regions.len() as u32, next);
                next += region.size;
                regions.push(region);
            }
        }
        for range in &platform.machine.memmap {
            let number = regions.len() as u32;
            regions.push(Region {
                number,
                base: range.start,
                size: range.size,
                socket: platform.socket_at(range.start),
                origin: Origin::Memmap,
                enabled: !platform.state.disabled_regions.contains(&number),
            });
        }
        regions
    }

    fn of_set(platform: &Platform, set: &InterleaveSet, number: u32, base: u64) -> Region {
        let modules = || set.members.iter().filter_map(|member| platform.machine.module(member.module));
        let identities = modules().filter_map(|module| module.identity).enumerate();
        let infos = identities
            .map(|(position, module)| SetInfo { region_off: position as u64 * INTERLEAVE_LINE, module })
            .collect::<Vec<_>>();
        let id = match set.labels {
            LabelVersion::V1_1 => set_cookie_v1_1(&infos),
            LabelVersion::V1_2 => set_cookie(&infos),
        };
        Region {
            number,
            base,
            size: set.share * set.members.len() as u64,
            socket: set.members.first().map_or(0, |member| member.module.socket()),
            origin: Origin::Set { id, share: set.share, members: set.members.clone() },
            enabled: modules().all(|module| module.usable())
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

    /// Returns true if a module is part of the region.
    pub fn has(&self, module: Handle) -> bool {
        self.members().iter().any(|member| member.module == module)
    }
}

impl Platform {
    /// Returns the bytes of volatile memory that the modules of a socket contribute.
    pub(crate) fn memory_on(&self, socket: u16) -> u64 {
        let partitions = self.state.partitions.iter().filter(|partition| partition.module.socket() == socket);
        partitions.map(|partition| partition.memory).sum()
    }

    /// Returns the bytes of a socket's DRAM that have addresses: 0 in Memory Mode, where DRAM is a cache.
    fn visible_dram(&self, socket: u16) -> u64 {
        if self.memory_mode() { 0 } else { self.machine.dram_capacity(socket) }
    }

    /// Returns the socket whose memory is at this physical address, or the last socket if the address has no memory.
    fn socket_at(&self, address: u64) -> u16 {
        let sockets = self.machine.sockets();
        let mut end = 0;
        for socket in &sockets {
            end = after_dram(end, self.visible_dram(*socket)) + self.memory_on(*socket);
            let sets = self.state.sets.iter().filter(|set| set.members[0].module.socket() == *socket);
            end += sets.map(|set| set.share * set.members.len() as u64).sum::<u64>();
            if address < end {
                return *socket;
            }
        }
        sockets.last().copied().unwrap_or(0)
    }
}

/// Returns the first address after a socket's DRAM that begins at `start`.
fn after_dram(start: u64, dram: u64) -> u64 {
    let below = DEVICE_HOLE.saturating_sub(start);
    if start < HIGH && dram > below { start.max(HIGH) + dram - below } else { start + dram }
}
