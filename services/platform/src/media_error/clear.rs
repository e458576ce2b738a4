//! Clearing of the media errors of a namespace, as by `ndctl clear-errors`.

use super::error::MediaFault;
use super::inject::{check_bus, data_of, region_bad_blocks, set};
use super::{Injection, scrub};
use crate::namespace::error::NamespaceError;
use crate::namespace::{Mode, enable};
use crate::ndctl::inventory::SECTOR;
use crate::platform::Platform;
use crate::region::Origin;

/// Clears the errors that the kernel knows in the data of a namespace. With `scrubs`, the kernel first finds all errors
/// of the media. The content of cleared sectors is lost. Returns the number of cleared sectors.
///
/// A disabled namespace is treated as raw: errors in its page map are cleared, too. The namespace is enabled
/// afterwards, as by ndctl. Ranges that are partly outside of the data are left.
///
/// # Errors
/// Fails if the namespace does not exist, its region is disabled or has no modules, or if it is in mode sector.
pub fn clear(platform: &mut Platform, name: &str, scrubs: bool) -> Result<u64, MediaFault> {
    let (region, namespace) = platform.namespace(name)?;
    if !region.enabled {
        return Err(NamespaceError::RegionDisabled { region: region.number }.into());
    }
    if region.origin == Origin::Memmap {
        return Err(MediaFault::NoModules { region: region.number });
    }
    check_bus(&region)?;
    if namespace.enabled && namespace.mode() == Mode::Sector {
        return Err(MediaFault::SectorMode { name: name.to_owned() });
    }
    if scrubs {
        scrub(platform);
    }
    let data = match namespace.enabled {
        true => data_of(platform, name)?.1,
        false => namespace.offset..namespace.offset + namespace.size,
    };
    let mut cleared = 0;
    for blocks in region_bad_blocks(platform, &region) {
        let range = blocks.offset * SECTOR..(blocks.offset + blocks.count) * SECTOR;
        if data.start <= range.start && range.end <= data.end {
            set(platform, &region, range, Injection::Clear)?;
            cleared += blocks.count;
        }
    }
    if namespace.uuid.is_some() {
        enable(platform, name, true)?;
    }
    Ok(cleared)
}
