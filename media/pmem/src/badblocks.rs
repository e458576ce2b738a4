//! The ranges of a medium that the kernel knows to be lost, in bytes.
//!
//! | medium          | list                              | counted from        | translated by               |
//! |-----------------|-----------------------------------|---------------------|-----------------------------|
//! | file            | `badblocks` of the block device   | the whole device    | partition start, FIEMAP     |
//! | device-DAX node | `badblocks` of the nd region      | the region          | `resource` of both (root)   |
//!
//! A file on a device that is composed of others (device mapper) is not translated. Its list is empty, and a lost range
//! shows as a fault.

use crate::extents::extents;
use crate::sysfs::Device;
use crate::sysfs_folder::{SECTOR, SysfsFolder};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Returns the lost ranges of a file on `device`, in bytes of the file.
pub(crate) fn of_file(device: &Device, file: BorrowedFd<'_>) -> io::Result<Vec<Range<u64>>> {
    let (whole, start) = device.whole();
    let lost = listed_in(&whole);
    if lost.is_empty() {
        return Ok(lost);
    }
    Ok(extents(file)?
        .iter()
        .flat_map(|extent| {
            let here = start.saturating_add(extent.device_off);
            lost.iter().filter_map(move |lost| {
                translated(lost, here..here.saturating_add(extent.len), extent.file_off)
            })
        })
        .collect())
}

/// Returns the lost ranges of a device-DAX node of `len` bytes, in bytes of the node. Empty if the kernel hides the
/// addresses from this user.
pub(crate) fn of_device(device: &Device, len: u64) -> Vec<Range<u64>> {
    let Some(region) = &device.region else { return Vec::new() };
    let lost = listed_in(region);
    let (Some(base), Some(here)) = (region.number("resource"), device.folder.number("resource")) else {
        return Vec::new();
    };
    let start = here.saturating_sub(base);
    lost.iter().filter_map(|lost| translated(lost, start..start.saturating_add(len), 0)).collect()
}

/// Returns the part of `lost` inside of `window`, shifted so that the window begins at `to`.
fn translated(lost: &Range<u64>, window: Range<u64>, to: u64) -> Option<Range<u64>> {
    let (start, end) = (lost.start.max(window.start), lost.end.min(window.end));
    (start < end).then(|| start - window.start + to..end - window.start + to)
}

/// Returns the lost ranges that a folder lists, in bytes.
fn listed_in(folder: &SysfsFolder) -> Vec<Range<u64>> {
    folder.bad_sectors().into_iter().filter_map(byte_range).collect()
}

/// Converts a range of sectors to bytes. Returns `None` for one that no medium is large enough for.
fn byte_range(sectors: Range<u64>) -> Option<Range<u64>> {
    Some(sectors.start.checked_mul(SECTOR)?..sectors.end.checked_mul(SECTOR)?)
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn badblock_lists_are_translated() {
        assert_eq!(byte_range(8..9), Some(4096..4608));
        assert_eq!(byte_range(16..u64::MAX), None);
        let lost = 100..200;
        for (window, to, found) in [
            (0..100, 0, None),
            (0..101, 0, Some(100..101)),
            (150..400, 1000, Some(1000..1050)),
            (50..300, 1000, Some(1050..1150)),
            (199..200, 0, Some(0..1)),
            (200..300, 0, None),
        ] {
            assert_eq!(translated(&lost, window.clone(), to), found, "{window:?}");
        }
    }

    #[test]
    fn device_badblocks_map_to_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 64 << 10]).unwrap();
        file.sync_all().unwrap();
        let Some(extent) = extents(file.as_fd()).ok().and_then(|extents| extents.first().copied()) else {
            println!("SKIP: the file system of the temporary folder doesn't tell its extents");
            return;
        };
        // A disk whose first partition begins at sector 2048. The file's second page and a sector before the file are
        // lost.
        let disk = tempfile::tempdir().unwrap();
        let partition = disk.path().join("vda1");
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("start"), "2048\n").unwrap();
        let first = extent.device_off / SECTOR + 2048;
        fs::write(disk.path().join("badblocks"), format!("{} 8\n{} 1\n", first + 8, first - 1)).unwrap();
        let device = Device { folder: SysfsFolder::new(partition), name: "vda1".to_owned(), region: None };
        assert_eq!(of_file(&device, file.as_fd()).unwrap(), std::slice::from_ref(&(4096..8192)));
        // Without partitions, the same numbers denote another place of the disk.
        let device = Device { folder: SysfsFolder::new(disk.path()), name: "vda".to_owned(), region: None };
        assert_eq!(
            of_file(&device, file.as_fd()).unwrap().iter().filter(|lost| lost.start == 4096).count(),
            0
        );
    }

    #[test]
    fn region_badblocks_map_to_device() {
        let region = tempfile::tempdir().unwrap();
        let dir = region.path().join("dax0.0");
        fs::create_dir(&dir).unwrap();
        fs::write(region.path().join("badblocks"), "0 1\n4104 2\n").unwrap();
        let device = Device {
            folder: SysfsFolder::new(dir.clone()),
            name: "dax0.0".to_owned(),
            region: Some(SysfsFolder::new(region.path())),
        };
        assert_eq!(of_device(&device, 4 << 20), Vec::<Range<u64>>::new());
        fs::write(region.path().join("resource"), "0x100000000\n").unwrap();
        fs::write(dir.join("resource"), "0x100200000\n").unwrap();
        assert_eq!(of_device(&device, 4 << 20), std::slice::from_ref(&(4096..5120)));
    }
}
