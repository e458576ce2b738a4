//! Creation of namespaces, with the rules and defaults of ndctl and the kernel.

use super::error::NamespaceError;
use super::find::{free_number, has_labels};
use super::found::Namespace;
use super::info::write_at;
use super::labels::{format_invalid, labels_of, put_labels};
use super::mode::Mode;
use super::parameters::CreateNamespace;
use super::size::{SIZE_MIN, size_rules};
use super::space::{free_ranges, largest_free};
use crate::contents::INFO_BLOCK;
use crate::ndctl::order::sort_as_listed;
use crate::platform::Platform;
use crate::region::{Origin, Region};
use crate::state::{LabelVersion, NamespaceState};
use lode_nvdimm::{
    Abstraction, BttDialect, BttFlog, BttGeometry, BttInfo, BttVersion, LabelFlags, LabelName,
    NamespaceLabel, PAGE_MAP_OFF, PERSISTENT_MEMORY, PageMapInfo, PageMapRule,
};
use uuid::Uuid;

/// Creates a namespace. `uuids` generates unused UUIDs.
///
/// # Errors
/// Fails if no region has the space, the size is not aligned, the label areas are full or blank, or the region is
/// disabled.
pub fn create(
    platform: &mut Platform,
    parameters: &CreateNamespace,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Namespace, NamespaceError> {
    let regions = platform.regions();
    let region = match parameters.region {
        Some(number) => {
            let found = regions.into_iter().find(|region| region.number == number);
            found.ok_or(NamespaceError::UnknownRegion { region: number })?
        }
        None => region_with_space(platform, parameters, regions)?,
    };
    check_region(platform, &region)?;
    create_in(platform, &region, parameters, None, uuids)
}

/// Creates a namespace in a region that was checked. `former` is the namespace that it replaces: it keeps its number,
/// and its place if that has the room, as in the kernel.
///
/// # Errors
/// Those of [`create`].
pub(super) fn create_in(
    platform: &mut Platform,
    region: &Region,
    parameters: &CreateNamespace,
    former: Option<&Namespace>,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Namespace, NamespaceError> {
    let size = size_rules(platform, region).size(parameters)?;
    let kept = former.map(|one| one.offset).filter(|offset| is_free(platform, region, *offset, size));
    let offset = kept.or_else(|| first_fit(platform, region, size));
    let offset = offset.expect("the largest free range has the room");
    let uuid = parameters.uuid.unwrap_or_else(&mut *uuids);
    if platform
        .regions()
        .iter()
        .any(|region| platform.namespaces(region).iter().any(|one| one.uuid == Some(uuid)))
    {
        return Err(NamespaceError::UuidExists { uuid });
    }
    let number = former.map_or_else(|| free_number(platform, region), |one| one.number);
    write_new_labels(platform, region, parameters, uuid, offset, size)?;
    write_info(platform, region, parameters, uuid, uuids(), offset..offset + size)?;
    platform.state.namespaces.push(NamespaceState { uuid, number, disabled: false });
    let made = platform.namespaces(region).into_iter().find(|namespace| namespace.uuid == Some(uuid));
    Ok(made.expect("a namespace whose labels were written is found"))
}

/// Returns the offset of a new namespace of `size` bytes; `None` if no free range has the room.
fn first_fit(platform: &Platform, region: &Region, size: u64) -> Option<u64> {
    let mut free = free_ranges(platform, region).into_iter();
    free.find(|range| range.end - range.start >= size).map(|range| range.start)
}

/// Returns true if a free range has `size` bytes from `offset` on.
fn is_free(platform: &Platform, region: &Region, offset: u64, size: u64) -> bool {
    let mut free = free_ranges(platform, region).into_iter();
    free.any(|range| range.contains(&offset) && range.end - offset >= size)
}

/// Returns the bytes that the user of a new namespace of `size` bytes in a region would get.
///
/// # Errors
/// Fails if the free ranges do not have the room, the namespace is too small, or a parameter is invalid.
pub(crate) fn usable(
    platform: &Platform,
    region: &Region,
    parameters: &CreateNamespace,
    size: u64,
) -> Result<u64, NamespaceError> {
    let rules = size_rules(platform, region);
    rules.check_space(&CreateNamespace { size: Some(size), ..parameters.clone() })?;
    let start = region.base + first_fit(platform, region, size).unwrap_or(0);
    parameters.usable(page_map_rule(platform), btt_version(platform, region), start, size)
}

fn page_map_rule(platform: &Platform) -> PageMapRule {
    let by_sections = platform.machine.profile.kernel.rounds_to_sections();
    if by_sections { PageMapRule::Sections } else { PageMapRule::Pages }
}

fn btt_version(platform: &Platform, region: &Region) -> BttVersion {
    match labels_of(platform, region) {
        LabelVersion::V1_2 if has_labels(platform, region) => BttVersion::V2_0,
        LabelVersion::V1_1 | LabelVersion::V1_2 => BttVersion::V1_1,
    }
}

/// Returns the numbers of the regions, in the order in which ndctl tries them for a new namespace.
pub fn candidates(platform: &Platform) -> Vec<u32> {
    let mut regions = platform.regions();
    sort_as_listed(&mut regions, Region::name);
    regions.iter().map(|region| region.number).collect()
}

/// Returns the first usable region with the space, in ndctl's order.
fn region_with_space(
    platform: &Platform,
    parameters: &CreateNamespace,
    mut regions: Vec<Region>,
) -> Result<Region, NamespaceError> {
    sort_as_listed(&mut regions, Region::name);
    let checked: Vec<_> = regions.iter().map(|region| check_region(platform, region)).collect();
    if checked.iter().all(Result::is_err)
        && let Some(Err(error)) = checked.into_iter().next()
    {
        return Err(error);
    }
    regions.retain(|region| check_region(platform, region).is_ok());
    let largest = regions.iter().map(|region| largest_free(platform, region)).max().unwrap_or(0);
    let want = parameters.size.unwrap_or(SIZE_MIN);
    let fits = |region: &Region| largest_free(platform, region) >= want;
    regions.into_iter().find(fits).ok_or(NamespaceError::NoSpace { region: None, want, largest })
}

fn check_region(platform: &Platform, region: &Region) -> Result<(), NamespaceError> {
    if !region.enabled {
        return Err(NamespaceError::RegionDisabled { region: region.number });
    }
    // The kernel formats the label area of a CXL device that has no valid labels.
    for member in region.members().iter().filter(|_| !region.is_cxl()) {
        let module = member.module;
        platform.contents.area(module).map_err(|error| NamespaceError::Labels { module, error })?;
    }
    match region.origin {
        Origin::Set { .. } | Origin::Cxl { .. } => Ok(()),
        Origin::Memmap => Err(NamespaceError::NoLabels { region: region.number }),
    }
}

/// Writes the labels of a new namespace.
fn write_new_labels(
    platform: &mut Platform,
    region: &Region,
    parameters: &CreateNamespace,
    uuid: Uuid,
    offset: u64,
    size: u64,
) -> Result<(), NamespaceError> {
    let ways = region.members().len() as u64;
    let Some(first) = region.members().first() else { return Ok(()) };
    let name = LabelName::new(&parameters.name);
    let name = name.map_err(|error| NamespaceError::Labels { module: first.module, error })?;
    if region.is_cxl() {
        format_invalid(platform, region)?;
    }
    let is_new = labels_of(platform, region) == LabelVersion::V1_2;
    let label = NamespaceLabel {
        uuid,
        name,
        flags: LabelFlags::default(),
        label_count: 0,
        position: 0,
        set_cookie: 0,
        lba_size: if is_new { parameters.label_sector_size()? } else { 0 },
        dpa: offset / ways,
        raw_size: size / ways,
        alignment: 0,
        type_guid: if is_new { PERSISTENT_MEMORY } else { Uuid::nil() },
        abstraction: if is_new { abstraction(parameters.mode) } else { Abstraction::None },
    };
    put_labels(platform, region, &label)
}

/// Writes the info blocks of a namespace. Info blocks of earlier namespaces have other parent UUIDs, so they are
/// ignored.
pub(super) fn write_info(
    platform: &mut Platform,
    region: &Region,
    parameters: &CreateNamespace,
    parent_uuid: Uuid,
    uuid: Uuid,
    range: std::ops::Range<u64>,
) -> Result<(), NamespaceError> {
    let size = range.end - range.start;
    match parameters.mode {
        Mode::Raw => {}
        Mode::Fsdax | Mode::Devdax => {
            let planned = parameters.page_map(page_map_rule(platform), region.base + range.start, size)?;
            let info = PageMapInfo { uuid, parent_uuid, ..planned };
            write_at(platform, region, range.start + PAGE_MAP_OFF, &info.encode());
        }
        Mode::Sector => {
            let version = btt_version(platform, region);
            for (at, geometry) in parameters.arenas(version, size)? {
                let info = BttInfo { uuid, parent_uuid, is_read_only: false, version, geometry }.encode();
                write_at(platform, region, range.start + at, &info);
                write_arena(platform, region, range.start + at, &geometry);
                write_at(platform, region, range.start + at + geometry.infooff(), &info);
            }
        }
    }
    Ok(())
}

/// Writes map and flog of a new arena at `offset`, in their initial state.
fn write_arena(platform: &mut Platform, region: &Region, offset: u64, geometry: &BttGeometry) {
    let map_len = geometry.flogoff() - geometry.mapoff();
    for (module, off, len) in region.ranges(offset + geometry.mapoff(), map_len) {
        platform.contents.write_zeros(module, off, len);
    }
    let mut flog = BttFlog::new(geometry, BttDialect::Kernel).encode();
    flog.resize((geometry.infooff() - geometry.flogoff()) as usize, 0);
    for (block, at) in flog.chunks(INFO_BLOCK as usize).zip((0..).step_by(INFO_BLOCK as usize)) {
        write_at(platform, region, offset + geometry.flogoff() + at, block);
    }
}

fn abstraction(mode: Mode) -> Abstraction {
    match mode {
        Mode::Fsdax => Abstraction::PageMap,
        Mode::Devdax => Abstraction::DeviceDax,
        Mode::Sector => Abstraction::Btt2,
        Mode::Raw => Abstraction::None,
    }
}
