//! Labels of namespaces on the modules.

use super::error::NamespaceError;
use crate::machine::Handle;
use crate::nmem;
use crate::platform::Platform;
use crate::region::Region;
use crate::state::{InterleaveSet, LabelVersion};
use lode_nvdimm::{Label, LabelArea, LabelError, LabelFlags, LabelFormat, NamespaceLabel};
use std::ops::Range;
use uuid::Uuid;

/// Formats a module's label area, without labels.
///
/// # Errors
/// Fails if the size is not that of a label area.
pub(crate) fn format_labels(
    platform: &mut Platform,
    module: Handle,
    version: LabelVersion,
) -> Result<(), LabelError> {
    let size = nmem::label_area_len(platform, module);
    let update = LabelArea::format(size, version.format())?;
    platform.contents.erase(module, size);
    platform.contents.update(module, update);
    Ok(())
}

/// Formats the label areas of a region's modules that have no valid labels, as the kernel does for CXL devices.
///
/// # Errors
/// Fails if the size is not that of a label area.
pub(super) fn format_invalid(platform: &mut Platform, region: &Region) -> Result<(), NamespaceError> {
    for member in region.members() {
        let module = member.module;
        if platform.contents.area(module).is_err() {
            format_labels(platform, module, LabelVersion::V1_2)
                .map_err(|error| NamespaceError::Labels { module, error })?;
        }
    }
    Ok(())
}

/// Formats the label area of a module, or makes it blank without a version. Its namespaces are lost.
///
/// # Errors
/// Fails if the module does not exist, one of its regions is active, or the area holds labels and `force` is not set.
pub fn init_labels(
    platform: &mut Platform,
    index: usize,
    version: Option<LabelVersion>,
    force: bool,
) -> Result<(), NamespaceError> {
    let module = module_for_labels(platform, index)?;
    let labels = |error| NamespaceError::Labels { module, error };
    let (handle, size) = (module, nmem::label_area_len(platform, module));
    match version {
        Some(_) if platform.contents.area(handle).is_ok() && !force => {
            return Err(NamespaceError::LabelsExist { module });
        }
        Some(version) => format_labels(platform, handle, version).map_err(labels)?,
        None => platform.contents.erase(handle, size),
    }
    if let Some(version) = version {
        let sets = &mut platform.state.sets;
        let has = |set: &&mut InterleaveSet| set.members.iter().any(|member| member.module == handle);
        sets.iter_mut().filter(has).for_each(|set| set.labels = version);
    }
    Ok(())
}

/// Replaces a module's whole label area.
///
/// # Errors
/// Fails if the module does not exist, one of its regions is active, or the length is not that of the area.
pub fn write_labels(platform: &mut Platform, index: usize, bytes: Vec<u8>) -> Result<(), NamespaceError> {
    let module = module_for_labels(platform, index)?;
    let size = nmem::label_area_len(platform, module);
    if bytes.len() as u64 != size {
        return Err(NamespaceError::LabelAreaSize { module, size, found: bytes.len() as u64 });
    }
    replace_labels(platform, module, bytes);
    Ok(())
}

/// Replaces a module's whole label area by `bytes`, which have its length.
pub(crate) fn replace_labels(platform: &mut Platform, module: Handle, bytes: Vec<u8>) {
    platform.contents.replace(module, bytes);
    if let Ok(area) = platform.contents.area(module) {
        let version = match area.index().format() {
            LabelFormat::V1_1 => LabelVersion::V1_1,
            _ => LabelVersion::V1_2,
        };
        let has = |set: &&mut InterleaveSet| set.members.iter().any(|member| member.module == module);
        platform.state.sets.iter_mut().filter(has).for_each(|set| set.labels = version);
    }
}

/// Returns the part of a label area that `size` and `offset` select, where a size of 0 takes all up to the end; `None`
/// if the area does not have it.
pub fn label_extent(area_len: u64, size: u64, offset: u64) -> Option<Range<u64>> {
    let end = if size == 0 { area_len } else { offset.checked_add(size)? };
    (offset < end && end <= area_len).then_some(offset..end)
}

/// Returns the module nmemN if its labels may be changed: no region with it is active.
fn module_for_labels(platform: &Platform, index: usize) -> Result<Handle, NamespaceError> {
    let module = nmem::find_usable(platform, index)?;
    nmem::check_idle(platform, module)?;
    Ok(module)
}

/// Writes the labels of a namespace, one on each module of its region. All of them are first written with the flag
/// UPDATING, then without it. The range in `label` is relative to the region's share of each module. The function
/// sets cookie, count and position.
///
/// # Errors
/// Fails if an area has no free slot, or another namespace overlaps the range.
pub(crate) fn put_labels(
    platform: &mut Platform,
    region: &Region,
    label: &NamespaceLabel,
) -> Result<(), NamespaceError> {
    let (Some(id), members) = (region.set_id(), region.members()) else { return Ok(()) };
    for flags in [LabelFlags(label.flags.0 | LabelFlags::UPDATING.0), label.flags] {
        for (position, member) in members.iter().enumerate() {
            let label = Label::Namespace(NamespaceLabel {
                flags,
                label_count: members.len() as u16,
                position: position as u16,
                set_cookie: id,
                dpa: member.offset + label.dpa,
                ..*label
            });
            let module = member.module;
            let labels = |error| NamespaceError::Labels { module, error };
            let update = platform.contents.area(module).and_then(|area| area.put(&label)).map_err(labels)?;
            platform.contents.update(module, update);
        }
    }
    Ok(())
}

/// Removes the labels of a namespace from all modules of its region.
///
/// # Errors
/// Fails if a module has no label of the namespace.
pub(crate) fn remove_labels(
    platform: &mut Platform,
    region: &Region,
    uuid: Uuid,
) -> Result<(), NamespaceError> {
    for member in region.members() {
        let module = member.module;
        let update = platform.contents.area(module).and_then(|area| area.remove(uuid));
        platform.contents.update(module, update.map_err(|error| NamespaceError::Labels { module, error })?);
    }
    Ok(())
}

/// Returns the version of the labels on a region's modules.
pub(crate) fn labels_of(platform: &Platform, region: &Region) -> LabelVersion {
    let module = region.members().first().map(|member| member.module);
    if region.is_cxl() {
        let area = module.and_then(|module| platform.contents.area(module).ok());
        let is_old = area.is_some_and(|area| area.index().format() == LabelFormat::V1_1);
        return if is_old { LabelVersion::V1_1 } else { LabelVersion::V1_2 };
    }
    let set = module.and_then(|module| platform.state.sets_of(module).next());
    set.map_or(LabelVersion::V1_2, |(set, _)| set.labels)
}
