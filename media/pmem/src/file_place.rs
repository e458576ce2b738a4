//! The place of a file on a block device.

use crate::Sysfs;
use crate::extents::{FileExtent, extents};
use rustix::fs::{Dev, FileType, SeekFrom, fstat, seek};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// The place of a file on a block device, or of a device node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The kernel's name of the device: that of the whole device, not that of a partition.
    pub device: String,
    /// The parts of the file that lie on the device as they are, in the order of the file. Their offsets count from the
    /// start of the whole device.
    pub extents: Vec<FileExtent>,
}

impl FilePlace {
    /// Returns the place of a file, a block device or a device-DAX node. `None` if the file does not lie on one block
    /// device alone, as on tmpfs, on a network or on a device that is composed of others.
    ///
    /// # Errors
    /// Errors of FS_IOC_FIEMAP.
    ///
    /// # Cost
    /// Writes what waits in the page cache for this file.
    pub fn of(file: &File, sysfs: &Sysfs) -> io::Result<Option<FilePlace>> {
        let status = fstat(file)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::CharacterDevice => {
                let device = sysfs.char_device(status.st_rdev);
                let size = |device: &crate::sysfs::Device| device.folder.number("size").unwrap_or(u64::MAX);
                Ok(device
                    .map(|device| FilePlace { extents: vec![all(0, size(&device))], device: device.name }))
            }
            FileType::BlockDevice => {
                let len = seek(file, SeekFrom::End(0))?;
                let whole = sysfs.whole_device(status.st_rdev);
                Ok(whole.map(|(device, start)| FilePlace { device, extents: vec![all(start, len)] }))
            }
            _ => {
                let Some((device, start)) = sysfs.whole_device(status.st_dev) else { return Ok(None) };
                let mut extents = extents(file.as_fd())?;
                for extent in &mut extents {
                    extent.device_off = extent.device_off.saturating_add(start);
                }
                Ok(Some(FilePlace { device, extents }))
            }
        }
    }

    /// Returns the offset on the device of this byte of the file; `None` in a hole, after the end, and where the
    /// content does not lie on the device as it is.
    pub fn device_off(&self, file_off: u64) -> Option<u64> {
        self.extents.iter().find_map(|extent| {
            let into = file_off.checked_sub(extent.file_off).filter(|into| *into < extent.len)?;
            extent.device_off.checked_add(into)
        })
    }
}

impl Sysfs {
    /// Returns true if the block device with the number `dev` is `device`, or a partition of it.
    pub fn is_on(&self, dev: Dev, device: &str) -> bool {
        self.whole_device(dev).is_some_and(|(whole, _)| whole == device)
    }

    /// Returns true if a device that is composed of others uses the block device, as those of device mapper do.
    pub fn is_used_by_another(&self, device: &str) -> bool {
        !self.block_folder(device).folder("holders").names().is_empty()
    }
}

fn all(start: u64, len: u64) -> FileExtent {
    FileExtent { file_off: 0, device_off: start, len }
}

#[cfg(test)]
mod test {
    use super::*;
    use rustix::fs::{major, minor};
    use std::fs;
    use std::io::Write;

    #[test]
    fn files_are_placed_on_whole_devices() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 64 << 10]).unwrap();
        file.sync_all().unwrap();
        let Some(first) = extents(file.as_fd()).ok().and_then(|extents| extents.first().copied()) else {
            println!("SKIP: the file system of the temporary folder doesn't tell its extents");
            return;
        };
        let dev = fstat(&file).unwrap().st_dev;
        let root = tempfile::tempdir().unwrap();
        let partition = root.path().join("devices/pmem0/pmem0p1");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("start"), "4096\n").unwrap();
        let numbers = root.path().join("dev/block");
        fs::create_dir_all(&numbers).unwrap();
        let sysfs = Sysfs::at(root.path());
        assert_eq!(FilePlace::of(&file, &sysfs).unwrap(), None, "the device is unknown");
        std::os::unix::fs::symlink(&partition, numbers.join(format!("{}:{}", major(dev), minor(dev))))
            .unwrap();
        let place = FilePlace::of(&file, &sysfs).unwrap().unwrap();
        assert_eq!(place.device, "pmem0");
        assert_eq!(place.device_off(first.file_off), Some(first.device_off + 4096 * 512));
        assert_eq!(place.device_off(1 << 40), None);
        assert!(sysfs.is_on(dev, "pmem0") && !sysfs.is_on(dev, "pmem0p1"));
        // A device that is composed of others has no such place.
        fs::create_dir_all(partition.join("slaves/vda")).unwrap();
        assert_eq!(FilePlace::of(&file, &sysfs).unwrap(), None);
    }
}
