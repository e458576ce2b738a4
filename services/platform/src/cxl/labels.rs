//! Label storage areas of devices.

use super::error::CxlError;
use super::nvdimm;
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::machine::Handle;
use crate::platform::Platform;
use std::ops::Range;

/// Reads the label area of a device, or the part from `off` on. `len` is its bytes, where 0 is all
/// up to the end.
///
/// # Errors
/// Fails if the device does not exist, if the area does not have the part, or if a system call fails.
pub fn read_labels(directory: &Directory, device: u32, off: u64, len: u64) -> Result<Vec<u8>, PlatformError> {
    let part = part(directory.platform(), device, off, len)?;
    let area = directory.cxl_label_area(device)?;
    Ok(area[part.start as usize..part.end as usize].to_vec())
}

/// Writes a part of the label area of a device, from `off` on.
///
/// # Errors
/// Fails if the device does not exist, if the kernel's libnvdimm has it as a module, since it is enabled and has persistent
/// memory, if the area does not have the part, or if a system call fails.
///
/// # Durability
/// That of [`change`](Directory::change).
pub fn write_labels(
    directory: &mut Directory,
    device: u32,
    off: u64,
    bytes: &[u8],
) -> Result<(), PlatformError> {
    if nvdimm::is_nvdimm(directory.platform(), device) {
        return Err(CxlError::LabelsInUse { device }.into());
    }
    let part = part(directory.platform(), device, off, bytes.len() as u64)?;
    let mut area = directory.cxl_label_area(device)?;
    if !bytes.is_empty() {
        area[part.start as usize..part.end as usize].copy_from_slice(bytes);
    }
    directory.change::<_, PlatformError>(|platform| {
        platform.contents.replace(Handle::of_cxl(device), area);
        Ok(())
    })
}

/// Returns the bytes of a device's label area that a request has.
fn part(platform: &Platform, device: u32, off: u64, len: u64) -> Result<Range<u64>, CxlError> {
    let hardware = platform.machine.cxl.devices.get(device as usize);
    let size = hardware.ok_or(CxlError::UnknownDevice { device })?.label_area;
    let end = if len == 0 { Some(size) } else { off.checked_add(len) };
    match end {
        Some(end) if end <= size && off <= size => Ok(off..end),
        _ => Err(CxlError::LabelExtent { device, size, off, len }),
    }
}
