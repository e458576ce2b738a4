//! Discovery of namespaces from labels and info blocks.

use crate::contents::INFO_BLOCK;
use crate::machine::Handle;
use crate::platform::Platform;
use crate::region::{INTERLEAVE_LINE, Origin, Region};
use lode_nvdimm::{
    BttGeometry, BttInfo, BttVersion, Label, LabelFlags, NamespaceLabel, PAGE_MAP_OFF, PageMapInfo,
    PageMapUser,
};
use uuid::Uuid;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Number of its region.
    pub region: u32,
    /// Number in the region.
    pub number: u32,
    /// UUID; `None` for a namespace without labels, which is a whole region.
    pub uuid: Option<Uuid>,
    /// The user's name.
    pub name: String,
    /// Offset in bytes from the start of its region.
    pub offset: u64,
    /// Size in bytes, including page map and BTT metadata.
    pub size: u64,
    /// Sector size in bytes from its labels; 512 if they have none.
    pub sector_size: u64,
    /// Use of the namespace, from its info blocks.
    pub personality: Personality,
    /// True if neither the namespace nor its region is disabled.
    pub enabled: bool,
}

/// Use of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Personality {
    /// A block device without page map and BTT.
    Raw,
    /// A block device with a page map in DRAM and without info block, as the kernel makes of ranges without labels.
    Legacy,
    /// A block device or a character device with a page map.
    PageMap(PageMapInfo),
    /// A block device with a BTT.
    Sectors {
        /// UUID of the BTT.
        uuid: Uuid,
        /// Version of the BTT.
        version: BttVersion,
        /// Sector size in bytes.
        sector_size: u32,
        /// Number of sectors.
        sector_count: u64,
    },
}

impl Namespace {
    /// Returns the kernel's name.
    pub fn device(&self) -> String {
        format!("namespace{}.{}", self.region, self.number)
    }

    /// Returns the bytes that are available to its user.
    pub fn usable(&self) -> u64 {
        match &self.personality {
            Personality::Raw | Personality::Legacy => self.size,
            Personality::PageMap(info) => info.data_len(self.size),
            Personality::Sectors { sector_size, sector_count, .. } => u64::from(*sector_size) * sector_count,
        }
    }

    /// Returns the sector size in bytes that its user sees.
    pub fn user_sector_size(&self) -> u64 {
        match &self.personality {
            Personality::Sectors { sector_size, .. } => u64::from(*sector_size),
            _ => self.sector_size,
        }
    }

    /// Returns the page map's info block; `None` if the namespace has none.
    pub fn page_map(&self) -> Option<&PageMapInfo> {
        match &self.personality {
            Personality::PageMap(info) => Some(info),
            _ => None,
        }
    }

    /// Returns the name of its block device in /dev; `None` for a character device.
    pub fn block_device(&self) -> Option<String> {
        let suffix = match &self.personality {
            Personality::PageMap(info) if info.user == PageMapUser::Device => return None,
            Personality::Sectors { .. } => "s",
            _ => "",
        };
        let number = if self.number == 0 { String::new() } else { format!(".{}", self.number) };
        Some(format!("pmem{}{number}{suffix}", self.region))
    }

    /// Returns the name of its character device in /dev; `None` for a block device.
    pub fn character_device(&self) -> Option<String> {
        if self.block_device().is_some() { None } else { Some(format!("dax{}.{}", self.region, self.number)) }
    }
}

impl Platform {
    /// Returns the namespaces of a region, in the order of their offsets.
    pub fn namespaces(&self, region: &Region) -> Vec<Namespace> {
        let Origin::Set { .. } = &region.origin else { return vec![self.whole(region, Personality::Legacy)] };
        if !self.has_labels(region) {
            // Without labels the namespace has no UUID, and its info block has a nil parent UUID.
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

    /// Returns true if all modules of a region have label areas.
    pub fn has_labels(&self, region: &Region) -> bool {
        let members = region.members();
        !members.is_empty() && members.iter().all(|member| self.contents.area(member.module).is_ok())
    }

    /// Returns the namespace that is a whole region without labels.
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

    /// Returns the first module's labels of those namespaces that have a completely written label on every module.
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

    /// Determines the use of a namespace from its info blocks.
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

    /// Returns the places of all info blocks: module and offset in its media.
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
}
