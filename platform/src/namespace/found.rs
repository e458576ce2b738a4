//! Finding namespaces.

use crate::contents::INFO_BLOCK;
use crate::machine::Handle;
use crate::platform::Platform;
use crate::region::{INTERLEAVE_LINE, Origin, Region};
use lode_layout::{
    BttGeometry, BttInfo, BttVersion, Label, LabelFlags, NamespaceLabel, PAGE_MAP_OFF, PageMapInfo,
    PageMapUser,
};
use uuid::Uuid;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The number of its region.
    pub region: u32,
    /// Its number in the region.
    pub number: u32,
    /// Who it is; none if it has no labels, but is all of a region.
    pub uuid: Option<Uuid>,
    /// What its user called it.
    pub name: String,
    /// Where it begins, in bytes from the start of its region.
    pub offset: u64,
    /// Bytes, those that are kept for its own purposes included.
    pub size: u64,
    /// Bytes of a sector as its labels say; 512 where they don't.
    pub sector_size: u64,
    /// What is made of it.
    pub personality: Personality,
    /// Whether it can be used: neither it nor its region is disabled.
    pub enabled: bool,
}

/// What is made of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Personality {
    /// A block device, without page map and without atomic sectors.
    Raw,
    /// A block device with a page map in DRAM, by itself: what the kernel makes of ranges without labels.
    Legacy,
    /// A block device or a character device with a page map.
    PageMap(PageMapInfo),
    /// A block device with atomic sectors.
    Sectors {
        /// Who it is.
        uuid: Uuid,
        /// Which kind of table makes them atomic.
        version: BttVersion,
        /// Bytes of a sector.
        sector_size: u32,
        /// Sectors.
        sector_count: u64,
    },
}

impl Namespace {
    /// Its name in the kernel.
    pub fn device(&self) -> String {
        format!("namespace{}.{}", self.region, self.number)
    }

    /// Bytes that its user gets.
    pub fn usable(&self) -> u64 {
        match &self.personality {
            Personality::Raw | Personality::Legacy => self.size,
            Personality::PageMap(info) => info.data_len(self.size),
            Personality::Sectors { sector_size, sector_count, .. } => u64::from(*sector_size) * sector_count,
        }
    }

    /// Bytes of a sector as its user sees them.
    pub fn user_sector_size(&self) -> u64 {
        match &self.personality {
            Personality::Sectors { sector_size, .. } => u64::from(*sector_size),
            _ => self.sector_size,
        }
    }

    /// Its page map, if it has one that lies in it.
    pub fn page_map(&self) -> Option<&PageMapInfo> {
        match &self.personality {
            Personality::PageMap(info) => Some(info),
            _ => None,
        }
    }

    /// The name of its block device in /dev; none if it has a character device.
    pub fn block_device(&self) -> Option<String> {
        let suffix = match &self.personality {
            Personality::PageMap(info) if info.user == PageMapUser::Device => return None,
            Personality::Sectors { .. } => "s",
            _ => "",
        };
        let number = if self.number == 0 { String::new() } else { format!(".{}", self.number) };
        Some(format!("pmem{}{number}{suffix}", self.region))
    }

    /// The name of its character device in /dev, if it has one.
    pub fn character_device(&self) -> Option<String> {
        if self.block_device().is_some() { None } else { Some(format!("dax{}.{}", self.region, self.number)) }
    }
}

impl Platform {
    /// The namespaces of a region, in the order in which they lie in it.
    pub fn namespaces(&self, region: &Region) -> Vec<Namespace> {
        let Origin::Set { .. } = &region.origin else { return vec![self.whole(region, Personality::Legacy)] };
        if !self.has_labels(region) {
            // Without labels it has no identity, and an info block for it names none.
            return vec![self.whole(region, self.personality(region, 0, region.size, Uuid::nil()))];
        }
        let mut found = self.labelled(region);
        let known = |uuid: Uuid| self.state.namespaces.iter().find(move |known| known.uuid == uuid);
        let mut taken: Vec<u32> =
            found.iter().filter_map(|label| known(label.uuid)).map(|known| known.number).collect();
        found.sort_by_key(|label| label.dpa);
        let mut namespaces = Vec::new();
        for label in found {
            let known = known(label.uuid);
            let number = known.map_or_else(
                || (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX),
                |known| known.number,
            );
            taken.push(number);
            let disabled = known.is_some_and(|known| known.disabled);
            namespaces.push(self.of_label(region, &label, number, region.enabled && !disabled));
        }
        namespaces
    }

    /// Whether all modules of a region have label areas.
    pub fn has_labels(&self, region: &Region) -> bool {
        let members = region.members();
        !members.is_empty() && members.iter().all(|member| self.contents.area(member.module).is_ok())
    }

    /// All of a region that has no labels.
    fn whole(&self, region: &Region, personality: Personality) -> Namespace {
        Namespace {
            region: region.number,
            number: 0,
            uuid: None,
            name: String::new(),
            offset: 0,
            size: region.size,
            sector_size: 512,
            personality,
            enabled: region.enabled,
        }
    }

    /// The labels on the first module of those namespaces of which every module has one, none still being written.
    pub(crate) fn labelled(&self, region: &Region) -> Vec<NamespaceLabel> {
        let Origin::Set { id, share, members } = &region.origin else { return Vec::new() };
        let ways = members.len() as u16;
        let of_position = |position: u16, module: Handle, offset: u64| {
            let area = self.contents.area(module).into_iter();
            let labels = area.flat_map(|area| area.labels().map(|(_, label)| *label));
            labels.filter_map(move |label| match label {
                Label::Namespace(label)
                    if label.set_cookie == *id
                        && label.label_count == ways
                        && label.position == position
                        && !label.flags.has(LabelFlags::UPDATING)
                        && label.dpa >= offset
                        && label.dpa.saturating_add(label.raw_size) <= offset + share =>
                {
                    Some(NamespaceLabel { dpa: label.dpa - offset, ..label })
                }
                _ => None,
            })
        };
        let mut found: Vec<NamespaceLabel> = Vec::new();
        for (position, member) in members.iter().enumerate() {
            let here: Vec<_> = of_position(position as u16, member.module, member.offset).collect();
            if position == 0 {
                found = here;
            } else {
                let same = |first: &NamespaceLabel, other: &NamespaceLabel| {
                    (first.uuid, first.dpa, first.raw_size) == (other.uuid, other.dpa, other.raw_size)
                };
                found.retain(|first| here.iter().any(|other| same(first, other)));
            }
        }
        found
    }

    fn of_label(&self, region: &Region, label: &NamespaceLabel, number: u32, enabled: bool) -> Namespace {
        let ways = region.members().len() as u64;
        let (offset, size) = (label.dpa * ways, label.raw_size * ways);
        Namespace {
            region: region.number,
            number,
            uuid: Some(label.uuid),
            name: label.name.text().into_owned(),
            offset,
            size,
            sector_size: if label.lba_size == 0 { 512 } else { label.lba_size },
            personality: self.personality(region, offset, size, label.uuid),
            enabled,
        }
    }

    /// What the first blocks of a namespace say that was made of it.
    fn personality(&self, region: &Region, offset: u64, size: u64, uuid: Uuid) -> Personality {
        let block = |at: u64| {
            let (module, off) = region.place(offset + at)?;
            self.contents.block(module, off)
        };
        if let Some(bytes) = block(PAGE_MAP_OFF)
            && let Ok(info) = PageMapInfo::decode(bytes)
            && info.parent_uuid == uuid
        {
            return Personality::PageMap(info);
        }
        for version in [BttVersion::V2_0, BttVersion::V1_1] {
            if let Some(bytes) = block(version.arenas_off())
                && let Ok(info) = BttInfo::decode(bytes)
                && info.version == version
                && info.parent_uuid == uuid
            {
                let sector_size = info.geometry.external_lbasize();
                let arenas = BttGeometry::plan(size, sector_size, version).unwrap_or_default();
                let sector_count = arenas.iter().map(|(_, arena)| u64::from(arena.external_nlba())).sum();
                return Personality::Sectors { uuid: info.uuid, version, sector_size, sector_count };
            }
        }
        Personality::Raw
    }

    /// Where the blocks lie that say what was made of the namespaces: module and offset in its media.
    pub(crate) fn info_places(&self) -> Vec<(Handle, u64)> {
        let mut places = Vec::new();
        for region in self.regions() {
            let ways = region.members().len() as u64;
            let starts: Vec<u64> = if self.has_labels(&region) {
                self.labelled(&region).iter().map(|label| label.dpa * ways).collect()
            } else {
                vec![0]
            };
            let blocks = starts.into_iter().flat_map(|start| [start, start + INFO_BLOCK]);
            places.extend(blocks.filter_map(|at| region.place(at)));
        }
        places
    }
}

impl Region {
    /// Where a byte of the region lies: on which module, and where in its media. None behind the region, or where it
    /// has no modules.
    pub(crate) fn place(&self, offset: u64) -> Option<(Handle, u64)> {
        let piece = self.interleave()?.piece_at(offset)?;
        let member = self.members().get(usize::from(piece.position))?;
        Some((member.module, member.offset + piece.module_off))
    }

    /// Where a range of whole lines of the region lies: one range on each module that has a part of it, as module, offset
    /// in its media, and bytes.
    pub(crate) fn ranges(&self, offset: u64, len: u64) -> impl Iterator<Item = (Handle, u64, u64)> {
        let (ways, lines) = (self.members().len() as u64, len / INTERLEAVE_LINE);
        (0..lines.min(ways)).filter_map(move |line| {
            let (module, off) = self.place(offset + line * INTERLEAVE_LINE)?;
            Some((module, off, (lines - line).div_ceil(ways) * INTERLEAVE_LINE))
        })
    }
}
