//! Label storage areas of devices. Each is a file of hexadecimal digits, without the zeros at its end.

use super::dpa;
use super::error::CxlError;
use crate::directory::{Directory, cxl_labels_path};
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::platform::Platform;
use std::fs;
use std::io;
use std::ops::Range;

/// Reads the label area of a device, or the part from `off` on. `len` is its bytes, where 0 is all
/// up to the end.
///
/// # Errors
/// Fails if the device does not exist, if the area does not have the part, or if a system call fails.
pub fn read_labels(directory: &Directory, device: u32, off: u64, len: u64) -> Result<Vec<u8>, PlatformError> {
    let part = part(directory.platform(), device, off, len)?;
    let area = area(directory, device)?;
    Ok(area[part.start as usize..part.end as usize].to_vec())
}

/// Writes a part of the label area of a device, from `off` on.
///
/// # Errors
/// Fails if the device does not exist, if it is enabled and has persistent memory, which the kernel's libnvdimm then takes
/// for a module, if the area does not have the part, or if a system call fails.
///
/// # Durability
/// That of [`change`](Directory::change).
pub fn write_labels(
    directory: &mut Directory,
    device: u32,
    off: u64,
    bytes: &[u8],
) -> Result<(), PlatformError> {
    dpa::check_exists(directory.platform(), device)?;
    let is_enabled = !directory.platform().state.cxl.disabled_devices.contains(&device);
    if is_enabled && dpa::capacity(directory.platform(), device, super::CxlKind::Pmem) > 0 {
        return Err(CxlError::LabelsInUse { device }.into());
    }
    let part = part(directory.platform(), device, off, bytes.len() as u64)?;
    let mut area = area(directory, device)?;
    if !bytes.is_empty() {
        area[part.start as usize..part.end as usize].copy_from_slice(bytes);
    }
    let used = area.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text: String = area[..used].iter().map(|byte| format!("{byte:02x}")).collect();
    directory.change::<_, PlatformError>(|platform| {
        platform.contents.write_cxl_labels(device, text);
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

fn area(directory: &Directory, device: u32) -> Result<Vec<u8>, PlatformError> {
    dpa::check_exists(directory.platform(), device)?;
    let size = directory.platform().machine.cxl.devices[device as usize].label_area as usize;
    let file = cxl_labels_path(device);
    let path = directory.root().join(&file);
    let text = match directory.pending_text(&file) {
        Some(text) => text.to_owned(),
        None => match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(FileError { what: "reading", path, error }.into()),
        },
    };
    let digits = text.trim_end().as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let bytes = digits.chunks(2).map(|pair| Some(digit(&pair[0])? << 4 | digit(pair.get(1)?)?));
    let bytes: Option<Vec<u8>> = bytes.collect();
    match bytes {
        Some(mut bytes) if bytes.len() <= size => {
            bytes.resize(size, 0);
            Ok(bytes)
        }
        _ => Err(CxlError::CorruptLabels { path: path.display().to_string() }.into()),
    }
}
