//! Discovery of namespaces from labels and info blocks.

use super::error::NamespaceError;
use super::found::{Namespace, Personality};
use super::info::read_at;
use crate::contents::INFO_BLOCK;
use crate::machine::Handle;
use crate::platform::Platform;
use crate::region::{Origin, Region};
use lode_nvdimm::{
    BttGeometry, BttInfo, BttVersion, Label, LabelFlags, NamespaceLabel, PAGE_MAP_OFF, PageMapInfo,
};
use uuid::Uuid;

impl Platform {
    /// Returns the namespaces of a region, in the order of their offsets.
    pub fn namespaces(&self, region: &Region) -> Vec<Namespace> {
        if region.origin == Origin::Memmap {
            return vec![whole_region(region, Personality::Legacy)];
        }
        if !has_labels(self, region) {
            // Without labels the namespace has no UUID, and its info block has a nil parent UUID.
            return vec![whole_region(region, personality(self, region, 0, region.size, Uuid::nil()))];
        }
        let mut found = region_labels(self, region);
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
            namespaces.push(from_label(self, region, &label, number, region.enabled && !disabled));
        }
        namespaces
    }

    /// Returns the namespace with the kernel's name, as `namespace0.0`, and its region.
    ///
    /// # Errors
    /// [`UnknownNamespace`](NamespaceError::UnknownNamespace).
    pub fn namespace(&self, name: &str) -> Result<(Region, Namespace), NamespaceError> {
        for region in self.regions() {
            let found = self.namespaces(&region).into_iter().find(|namespace| namespace.device() == name);
            if let Some(namespace) = found {
                return Ok((region, namespace));
            }
        }
        Err(NamespaceError::UnknownNamespace { name: name.to_owned() })
    }
}

/// Returns true if labels divide a region: all its modules have label areas, or they are CXL devices, whose label areas
/// the kernel formats for the first namespace.
pub fn has_labels(platform: &Platform, region: &Region) -> bool {
    let members = region.members();
    region.is_cxl()
        || !members.is_empty() && members.iter().all(|member| platform.contents.area(member.module).is_ok())
}

/// Returns the namespace that is a whole region without labels.
fn whole_region(region: &Region, personality: Personality) -> Namespace {
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
pub(crate) fn region_labels(platform: &Platform, region: &Region) -> Vec<NamespaceLabel> {
    let (Some(id), share, members) = (region.set_id(), region.share(), region.members()) else {
        return Vec::new();
    };
    let ways = members.len() as u16;
    let of_position = |position: u16, module: Handle, offset: u64| {
        let area = platform.contents.area(module).into_iter();
        let labels = area.flat_map(|area| area.labels().map(|(_, label)| *label));
        labels.filter_map(move |label| match label {
            Label::Namespace(label)
                if label.set_cookie == id
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

fn from_label(
    platform: &Platform,
    region: &Region,
    label: &NamespaceLabel,
    number: u32,
    enabled: bool,
) -> Namespace {
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
        personality: personality(platform, region, offset, size, label.uuid),
        enabled,
    }
}

/// Determines the use of a namespace from its info blocks.
fn personality(platform: &Platform, region: &Region, offset: u64, size: u64, uuid: Uuid) -> Personality {
    let block = |at: u64| read_at(platform, region, offset + at);
    if let Some(bytes) = block(PAGE_MAP_OFF)
        && let Ok(info) = PageMapInfo::decode(&bytes)
        && info.parent_uuid == uuid
    {
        return Personality::PageMap(info);
    }
    for version in [BttVersion::V2_0, BttVersion::V1_1] {
        if let Some(bytes) = block(version.arenas_off())
            && let Ok(info) = BttInfo::decode(&bytes)
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

/// Returns the places of all info blocks: module, offset in its media, and bytes. A block of a region with a finer
/// interleaving has several.
pub(crate) fn info_block_locations(platform: &Platform) -> Vec<(Handle, u64, u64)> {
    let mut places = Vec::new();
    for region in platform.regions() {
        let ways = region.members().len() as u64;
        let starts: Vec<u64> = if has_labels(platform, &region) {
            region_labels(platform, &region).iter().map(|label| label.dpa * ways).collect()
        } else {
            vec![0]
        };
        let blocks = starts.into_iter().flat_map(|start| [start, start + INFO_BLOCK]);
        for at in blocks {
            let pieces = region.pieces(at..at + INFO_BLOCK).into_iter();
            places.extend(pieces.map(|(module, off, part)| (module, off, part.len() as u64)));
        }
    }
    places
}

/// Returns the lowest number that no namespace of the region has.
pub(crate) fn free_number(platform: &Platform, region: &Region) -> u32 {
    let taken: Vec<u32> = platform.namespaces(region).iter().map(|namespace| namespace.number).collect();
    (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
}

/// Returns the names of all namespaces that the kernel shows, or of those in some regions.
pub fn names(platform: &Platform, takes: impl Fn(&Region) -> bool) -> Vec<String> {
    let regions = platform.regions().into_iter().filter(|region| region.enabled && takes(region));
    regions.flat_map(|region| platform.namespaces(&region)).map(|namespace| namespace.device()).collect()
}

/// Returns the names of all namespaces with labels, or of those in one region.
pub fn labelled_names(platform: &Platform, region: Option<u32>) -> Vec<String> {
    let regions =
        platform.regions().into_iter().filter(|one| region.is_none_or(|number| one.number == number));
    let namespaces = regions.flat_map(|region| platform.namespaces(&region));
    namespaces.filter(|namespace| namespace.uuid.is_some()).map(|namespace| namespace.device()).collect()
}
