//! The persistent memory below a file or a device-DAX node that a program has open.

use crate::badblocks;
use crate::sysfs::{Device, Sysfs};
use crate::sysfs_folder::SysfsFolder;
use crate::{DurabilityEvidence, DurabilityReport};
use lode_layout::Durability;
use rustix::fs::{self as rfs, FallocateFlags};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Attributes with a module's identity, one for each kind of module.
const ID_FILES: [&str; 3] = ["nfit/id", "cxl/id", "papr/id"];
/// _IOWR('N', ND_CMD_ARS_CAP, struct nd_cmd_ars_cap) of linux/ndctl.h.
const ND_IOCTL_ARS_CAP: u32 = 0xc020_4e01;
/// _IOWR('N', ND_CMD_CLEAR_ERROR, struct nd_cmd_clear_error) of linux/ndctl.h.
const ND_IOCTL_CLEAR_ERROR: u32 = 0xc020_4e04;

/// struct nd_cmd_ars_cap.
#[repr(C)]
#[derive(Default)]
struct ArsCap {
    address: u64,
    len: u64,
    status: u32,
    max_ars_out: u32,
    clear_err_unit: u32,
    flags: u16,
    reserved: u16,
}

/// struct nd_cmd_clear_error.
#[repr(C)]
#[derive(Default)]
struct ClearError {
    address: u64,
    len: u64,
    status: u32,
    reserved: u32,
    cleared: u64,
}

/// The devices below an open file, or an open device-DAX node.
#[derive(Clone, Debug)]
pub struct ProgramBacking {
    devices: Vec<Device>,
    is_node: bool,
    /// True if the file's block device is composed of `devices`, at offsets that are not known.
    is_composed: bool,
    sysfs: Sysfs,
}

impl ProgramBacking {
    /// Finds the devices below a file on the block device `dev`.
    pub fn of_file(sysfs: &Sysfs, dev: u64) -> ProgramBacking {
        let (devices, is_composed) = (sysfs.block_devices(dev), sysfs.whole_device(dev).is_none());
        ProgramBacking { devices, is_node: false, is_composed, sysfs: sysfs.clone() }
    }

    /// Finds the device of the device-DAX node with the device number `rdev`.
    pub fn of_node(sysfs: &Sysfs, rdev: u64) -> ProgramBacking {
        let devices = sysfs.char_device(rdev).into_iter().collect();
        ProgramBacking { devices, is_node: true, is_composed: false, sysfs: sysfs.clone() }
    }

    /// Returns the durability of a direct mapping, and its evidence.
    pub fn report(&self) -> DurabilityReport {
        let backing = self.devices.iter().map(Device::backing).collect();
        match self.devices.first() {
            _ if !self.is_node => DurabilityReport::of_direct(backing, DurabilityEvidence::MapSync),
            Some(device) if device.region.is_none() => {
                let name = device.name.clone();
                DurabilityReport::plain(Durability::None, DurabilityEvidence::VolatileDevice { name })
            }
            _ => DurabilityReport::of_direct(backing, DurabilityEvidence::DeviceDax),
        }
    }

    /// Returns true if this is a device-DAX node.
    pub fn is_dax_node(&self) -> bool {
        let is_dax = |device: &Device| device.folder.target("subsystem").is_some_and(|name| name == "dax");
        self.is_node && self.devices.iter().any(is_dax)
    }

    /// Returns an attribute of the device-DAX node, or of the region of such nodes that has it; `None` if neither tells it.
    pub fn node_text(&self, name: &str) -> Option<String> {
        let device = self.devices.first().filter(|_| self.is_node)?;
        let above = device.folder.path().ancestors().skip(1);
        let of_region =
            || above.map(|dir| SysfsFolder::new(dir.join("dax_region"))).find_map(|dir| dir.text(name));
        device.folder.text(name).or_else(of_region)
    }

    /// Returns true if the device is, or all of the devices are, in an nd region.
    pub fn has_region(&self) -> bool {
        !self.devices.is_empty() && self.devices.iter().all(|device| device.region.is_some())
    }

    /// Returns the NUMA node of the first region; -1 if the kernel does not know it. `None` if there is no region.
    pub fn numa_node(&self) -> Option<i32> {
        let region = self.regions().next()?;
        Some(region.text("numa_node").and_then(|text| text.parse().ok()).unwrap_or(-1))
    }

    /// Returns the sum of the modules' dirty shutdown counts; `None` if one does not tell it.
    pub fn dirty_shutdowns(&self) -> Option<u64> {
        let counts = self.devices.iter().map(|device| self.sysfs.dirty_shutdowns(device));
        self.has_region().then(|| counts.sum())?
    }

    /// Returns the identities of the modules, one after the other; `None` if one does not tell it.
    pub fn module_ids(&self) -> Option<String> {
        if !self.has_region() {
            return None;
        }
        let mut ids = String::new();
        for region in self.regions() {
            for index in 0..region.number("mappings")? {
                // "nmem0,0,1073741824,0": module, start, size, position.
                let mapping = region.text(&format!("mapping{index}"))?;
                let module = self.sysfs.root().join("bus/nd/devices").join(mapping.split(',').next()?);
                let module = SysfsFolder::new(module);
                ids.push_str(&ID_FILES.iter().find_map(|file| module.text(file))?);
            }
        }
        Some(ids)
    }

    /// Returns the attribute whose store empties the memory controller's queues: that of a device-DAX node's region.
    pub fn deep_flush(&self) -> Option<PathBuf> {
        self.regions().next().filter(|_| self.is_node).map(|region| region.path().join("deep_flush"))
    }

    /// Returns the lost ranges, in bytes of the file or of the node. Those of a file are whole blocks of its file system.
    ///
    /// # Errors
    /// The error of the call that reads the file's extents. `EOPNOTSUPP` if a device has lost ranges and is a part of the
    /// file's device, `EACCES` if a node's region has some and the kernel hides its addresses from this user.
    pub fn lost_ranges(&self, file: BorrowedFd<'_>) -> io::Result<Vec<Range<u64>>> {
        if !self.has_region() {
            return Ok(Vec::new());
        }
        if self.is_node {
            let is_hidden = |folder: &SysfsFolder| folder.number("resource").is_none();
            let has_lost = self.regions().any(|region| !region.bad_sectors().is_empty());
            if has_lost
                && self.devices.iter().map(|device| &device.folder).chain(self.regions()).any(is_hidden)
            {
                return Err(Errno::ACCESS.into());
            }
            let ranges = |device: &Device| {
                let len = device.folder.number("size").unwrap_or(0);
                badblocks::of_device(device, len)
            };
            return Ok(self.devices.iter().flat_map(ranges).collect());
        }
        let device = match &*self.devices {
            [device] if !self.is_composed => device,
            parts if parts.iter().all(|part| part.whole().0.bad_sectors().is_empty()) => {
                return Ok(Vec::new());
            }
            _ => return Err(Errno::OPNOTSUPP.into()),
        };
        let block = u64::try_from(rfs::fstat(file)?.st_blksize).unwrap_or(1).max(1);
        let whole =
            |range: Range<u64>| range.start / block * block..range.end.div_ceil(block).saturating_mul(block);
        Ok(badblocks::of_file(device, file)?.into_iter().map(whole).collect())
    }

    /// Gives a lost range sound memory, with zeros in place of its content.
    ///
    /// # Errors
    /// The error of the call: of fallocate(2) for a file, of the bus for a node. `ENXIO` if a part stays lost.
    pub fn clear(&self, file: BorrowedFd<'_>, off: u64, len: u64) -> io::Result<()> {
        if !self.is_node {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            retry_on_intr(|| rfs::fallocate(file, hole, off, len))?;
            retry_on_intr(|| rfs::fallocate(file, FallocateFlags::KEEP_SIZE, off, len))?;
            return Ok(());
        }
        let device = self.devices.first().ok_or(Errno::NODEV)?;
        let address = device.folder.number("resource").ok_or(Errno::ACCESS)?;
        let bus = bus_number(device).ok_or(Errno::NODEV)?;
        let address = address.checked_add(off).ok_or(Errno::INVAL)?;
        clear_addresses(Path::new(&format!("/dev/ndctl{bus}")), address, len)
    }

    fn regions(&self) -> impl Iterator<Item = &SysfsFolder> {
        self.devices.iter().filter_map(|device| device.region.as_ref())
    }
}

/// Returns the number of the bus that has the device's region.
fn bus_number(device: &Device) -> Option<u32> {
    let names = device.region.as_ref()?.path().ancestors().filter_map(Path::file_name);
    names.filter_map(|name| name.to_str()?.strip_prefix("ndbus")?.parse().ok()).next()
}

/// Clears the errors of physical addresses by the bus's node. The bus decides about the unit.
fn clear_addresses(node: &Path, address: u64, len: u64) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(node)?;
    let mut cap = ArsCap { address, len, ..ArsCap::default() };
    // SAFETY: - the request reads and writes a struct nd_cmd_ars_cap, and `cap` is one.
    let asked = unsafe { libc::ioctl(file.as_raw_fd(), ND_IOCTL_ARS_CAP as _, &raw mut cap) };
    if asked < 0 {
        return Err(io::Error::last_os_error());
    }
    let unit = u64::from(cap.clear_err_unit).max(1);
    let start = address / unit * unit;
    let end =
        address.checked_add(len).and_then(|end| end.checked_next_multiple_of(unit)).ok_or(Errno::INVAL)?;
    let mut clear = ClearError { address: start, len: end - start, ..ClearError::default() };
    // SAFETY: - the request reads and writes a struct nd_cmd_clear_error, and `clear` is one.
    let cleared = unsafe { libc::ioctl(file.as_raw_fd(), ND_IOCTL_CLEAR_ERROR as _, &raw mut clear) };
    if cleared < 0 {
        return Err(io::Error::last_os_error());
    }
    if clear.cleared < clear.len { Err(Errno::NXIO.into()) } else { Ok(()) }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    /// A tree with a region of two modules, and the node 1:5 and the block device 7:9 in it.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        let region = root.path().join("devices/ndbus3/region1");
        let plain = [
            ("mappings", "2\n"),
            ("mapping0", "nmem0,0,4096,0\n"),
            ("mapping1", "nmem1,0,4096,1\n"),
            ("dax1.0/size", "8192\n"),
            ("dax1.0/align", "4096\n"),
            ("namespace1.0/block/pmem1/size", "16\n"),
        ];
        for (name, value) in plain.iter().chain(files) {
            let file = match name.strip_prefix("nmem") {
                Some(_) => root.path().join("bus/nd/devices").join(name),
                None => region.join(name),
            };
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, value).unwrap();
        }
        for (link, to) in [("char/1:5", "dax1.0"), ("block/7:9", "namespace1.0/block/pmem1")] {
            let link = root.path().join("dev").join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(region.join(to), link).unwrap();
        }
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    fn both(sysfs: &Sysfs) -> [ProgramBacking; 2] {
        [
            ProgramBacking::of_node(sysfs, rfs::makedev(1, 5)),
            ProgramBacking::of_file(sysfs, rfs::makedev(7, 9)),
        ]
    }

    #[test]
    fn modules_are_known_by_their_region() {
        let (_root, sysfs) = tree(&[("nmem0/nfit/id", "ab-1\n"), ("nmem0/nfit/dirty_shutdown", "3\n")]);
        for backing in both(&sysfs) {
            assert!(backing.has_region());
            assert_eq!((backing.module_ids(), backing.dirty_shutdowns()), (None, None));
            assert_eq!(backing.numa_node(), Some(-1));
        }
        let (_root, sysfs) = tree(&[
            ("nmem0/nfit/id", "ab-1\n"),
            ("nmem1/cxl/id", "cd-2\n"),
            ("nmem0/nfit/dirty_shutdown", "3\n"),
            ("nmem1/cxl/dirty_shutdown", "4\n"),
            ("numa_node", "1\n"),
        ]);
        for backing in both(&sysfs) {
            assert_eq!(backing.module_ids().as_deref(), Some("ab-1cd-2"));
            assert_eq!((backing.dirty_shutdowns(), backing.numa_node()), (Some(7), Some(1)));
        }
        let [node, file] = both(&sysfs);
        assert!(node.deep_flush().unwrap().ends_with("region1/deep_flush"));
        assert_eq!((file.deep_flush(), node.report().durability), (None, Durability::Line));
        let other = ProgramBacking::of_file(&sysfs, rfs::makedev(8, 1));
        assert_eq!((other.has_region(), other.module_ids(), other.dirty_shutdowns()), (false, None, None));
        assert_eq!((other.numa_node(), other.report().durability), (None, Durability::Line));
    }

    #[test]
    fn nodes_tell_their_attributes() {
        let (root, sysfs) = tree(&[("dax_region/align", "2097152\n")]);
        let [node, file] = both(&sysfs);
        assert_eq!((node.is_dax_node(), file.is_dax_node()), (false, false));
        symlink("../../bus/dax", root.path().join("devices/ndbus3/region1/dax1.0/subsystem")).unwrap();
        assert_eq!((node.is_dax_node(), file.is_dax_node()), (true, false));
        assert_eq!(node.node_text("size").as_deref(), Some("8192"));
        assert_eq!(node.node_text("align").as_deref(), Some("4096"));
        fs::remove_file(root.path().join("devices/ndbus3/region1/dax1.0/align")).unwrap();
        assert_eq!(node.node_text("align").as_deref(), Some("2097152"));
        assert_eq!((node.node_text("none"), file.node_text("size")), (None, None));
    }

    #[test]
    fn node_has_the_lost_ranges_of_its_region() {
        let (_root, sysfs) =
            tree(&[("badblocks", "8 1\n"), ("resource", "0x1000\n"), ("dax1.0/resource", "0x1200\n")]);
        let file = tempfile::tempfile().unwrap();
        let [node, _] = both(&sysfs);
        assert_eq!(node.lost_ranges(file.as_fd()).unwrap(), std::slice::from_ref(&(3584..4096)));
        let other = ProgramBacking::of_file(&sysfs, rfs::makedev(8, 1));
        assert!(other.lost_ranges(file.as_fd()).unwrap().is_empty());
    }

    /// A list that cannot be translated is no empty list.
    #[test]
    fn lost_ranges_that_cannot_be_placed_are_an_error() {
        let (root, sysfs) = tree(&[("badblocks", "8 1\n"), ("resource", "0x1000\n")]);
        let file = tempfile::tempfile().unwrap();
        let error = |backing: &ProgramBacking| backing.lost_ranges(file.as_fd()).unwrap_err().raw_os_error();
        assert_eq!(error(&both(&sysfs)[0]), Some(libc::EACCES));
        let region = root.path().join("devices/ndbus3/region1");
        fs::write(region.join("badblocks"), "\n").unwrap();
        assert!(both(&sysfs)[0].lost_ranges(file.as_fd()).unwrap().is_empty());
        // A composed device of one part, then of two.
        let part = region.join("namespace1.0/block/pmem1");
        let composed = root.path().join("devices/virtual/block/dm-0");
        fs::create_dir_all(composed.join("slaves")).unwrap();
        symlink(&composed, root.path().join("dev/block/253:0")).unwrap();
        for (index, name) in ["pmem1", "pmem2"].into_iter().enumerate() {
            let part = match index {
                0 => part.clone(),
                _ => region.join("namespace1.1/block/pmem2"),
            };
            fs::create_dir_all(&part).unwrap();
            symlink(&part, composed.join("slaves").join(name)).unwrap();
            let backing = ProgramBacking::of_file(&sysfs, rfs::makedev(253, 0));
            assert!(backing.has_region());
            assert!(backing.lost_ranges(file.as_fd()).unwrap().is_empty());
            fs::write(part.join("badblocks"), "8 1\n").unwrap();
            assert_eq!(error(&backing), Some(libc::EOPNOTSUPP));
            fs::remove_file(part.join("badblocks")).unwrap();
        }
    }

    #[test]
    fn clearing_leaves_zeros() {
        let (_root, sysfs) = tree(&[("dax1.0/resource", "0x1200\n")]);
        let [node, file] = both(&sysfs);
        let place = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut &place, &[1; 8192]).unwrap();
        match file.clear(place.as_fd(), 4096, 4096) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            answer => {
                answer.unwrap();
                let mut bytes = [2; 8192];
                std::os::unix::fs::FileExt::read_exact_at(&place, &mut bytes, 0).unwrap();
                assert!(bytes[..4096] == [1; 4096] && bytes[4096..] == [0; 4096]);
            }
        }
        // The machine of the test has no such bus.
        assert_eq!(node.clear(place.as_fd(), 0, 512).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
