//! The kernel's information about the persistent memory below a file or a device, read from sysfs. This needs no root,
//! no library and no control device.

use crate::Backing;
use crate::sysfs_folder::{SECTOR, SysfsFolder};
use rustix::fs::{Dev, major, minor};
use std::fs;
use std::path::{Path, PathBuf};

/// Attributes with a module's dirty shutdown count, one for each kind of module: power losses with data in flight to
/// the media.
const SHUTDOWN_FILES: [&str; 4] =
    ["dirty_shutdown", "nfit/dirty_shutdown", "cxl/dirty_shutdown", "papr/dirty_shutdown"];

/// A sysfs tree.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: SysfsFolder,
}

impl Default for Sysfs {
    fn default() -> Sysfs {
        Sysfs::at("/sys")
    }
}

/// A device in a sysfs tree.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) folder: SysfsFolder,
    pub(crate) name: String,
    /// Folder of the nd region that contains the device.
    pub(crate) region: Option<SysfsFolder>,
}

impl Sysfs {
    /// Returns the tree at `root`; tests pass a root other than /sys.
    pub fn at(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs { root: SysfsFolder::new(root) }
    }

    /// Returns the tree's root.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the block device with the number `dev`; for a composed device, its lowest components.
    pub(crate) fn block_devices(&self, dev: Dev) -> Vec<Device> {
        let Some(dir) = self.numbered("block", dev) else { return Vec::new() };
        let mut found = Vec::new();
        self.add_lowest(dir, &mut found, 8);
        found
    }

    /// Returns the folder of a block device.
    pub(crate) fn block_folder(&self, device: &str) -> SysfsFolder {
        self.root.folder("block").folder(device)
    }

    /// Returns the name of the whole device that has the block device `dev`, and the offset of `dev` on it, in bytes.
    /// `None` if it is unknown or composed of others.
    pub(crate) fn whole_device(&self, dev: Dev) -> Option<(String, u64)> {
        let dir = self.numbered("block", dev)?;
        if fs::read_dir(dir.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some()) {
            return None;
        }
        let (whole, start) = self.device(dir).whole();
        Some((file_name(&fs::canonicalize(whole.path()).ok()?), start))
    }

    /// Returns the character device with the number `dev`.
    pub(crate) fn char_device(&self, dev: Dev) -> Option<Device> {
        self.numbered("char", dev).map(|dir| self.device(dir))
    }

    /// Returns the sum of the dirty shutdown counts of the modules below `device`: power losses with data in flight to
    /// the media. Returns `None` if there is no module, or if any module does not report its count.
    pub(crate) fn dirty_shutdowns(&self, device: &Device) -> Option<u64> {
        let region = device.region.as_ref()?;
        let count: u32 = region.number("mappings")?.try_into().ok()?;
        let modules = (0..count).map(|index| {
            // "nmem0,0,1073741824,0": module, start, size, position.
            let mapping = region.text(&format!("mapping{index}"))?;
            let module = self.root.folder("bus/nd/devices").folder(mapping.split(',').next()?);
            SHUTDOWN_FILES.iter().find_map(|file| module.number(file))
        });
        if count == 0 { None } else { modules.sum() }
    }

    fn numbered(&self, kind: &str, dev: Dev) -> Option<PathBuf> {
        let link = self.root.path().join("dev").join(kind).join(format!("{}:{}", major(dev), minor(dev)));
        fs::canonicalize(link).ok()
    }

    /// Adds the lowest devices below `dir`. Device-mapper and md devices list their components in `slaves`.
    fn add_lowest(&self, dir: PathBuf, found: &mut Vec<Device>, depth: u32) {
        let slaves = fs::read_dir(dir.join("slaves")).into_iter().flatten().flatten();
        let below: Vec<_> = slaves.filter_map(|slave| fs::canonicalize(slave.path()).ok()).collect();
        if below.is_empty() || depth == 0 {
            found.push(self.device(dir));
            return;
        }
        below.into_iter().for_each(|dir| self.add_lowest(dir, found, depth - 1));
    }

    fn device(&self, dir: PathBuf) -> Device {
        // The path `dir` has its links resolved, so it must be compared with a resolved root.
        let root = fs::canonicalize(self.root.path()).unwrap_or_default();
        let region = dir
            .ancestors()
            .take_while(|above| *above != root)
            .find(|above| is_region(above))
            .map(SysfsFolder::new);
        let name = file_name(&dir);
        Device { folder: SysfsFolder::new(dir), name, region }
    }
}

impl Device {
    /// Returns the folder of the whole device if this is a partition, and otherwise its own, and the offset of the
    /// partition, in bytes.
    pub(crate) fn whole(&self) -> (SysfsFolder, u64) {
        match self.folder.number("start") {
            Some(sectors) => (self.folder.folder(".."), sectors.saturating_mul(SECTOR)),
            None => (self.folder.clone(), 0),
        }
    }

    /// Returns the device's description for a report.
    pub(crate) fn backing(&self) -> Backing {
        let name = self.region.as_ref().map_or_else(|| self.name.clone(), |region| file_name(region.path()));
        let of_region = |attribute| self.region.as_ref().and_then(|region| region.text(attribute));
        let read_only = of_region("read_only").as_deref() == Some("1");
        Backing { name, domain: of_region("persistence_domain"), read_only }
    }
}

/// Returns true if the folder is that of an nd region. Device-DAX adds a `dax_region` in between, which has no number.
fn is_region(dir: &Path) -> bool {
    let name = file_name(dir);
    let digits = name.strip_prefix("region").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && dir.join("mappings").exists()
}

fn file_name(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod test {
    use super::*;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;

    /// Returns a tree with files that hold `content`, and links.
    fn tree(files: &[(&str, &str)], links: &[(&str, &str)]) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        let place = |path: &str| {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            place
        };
        for (path, content) in files {
            fs::write(place(path), content).unwrap();
        }
        for (path, to) in links {
            symlink(root.path().join(to), place(path)).unwrap();
        }
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    const NFIT: &str = "devices/LNXSYSTM:00/ndbus0";

    /// Two regions of an NFIT bus; pmem0 on the first, pmem1 on the second, dm-0 over both, dax1.0 on the second.
    fn two_regions(files: &[(&str, &str)]) -> (tempfile::TempDir, Sysfs) {
        let [block0, block1] = [0, 1].map(|n| format!("{NFIT}/region{n}/namespace{n}.0/block/pmem{n}"));
        let partition = format!("{block0}/pmem0p1/start");
        let dax = format!("{NFIT}/region1/dax1.0/dax1.0");
        let mappings = [0, 1].map(|n| format!("{NFIT}/region{n}/mappings"));
        let mut all = vec![(mappings[0].as_str(), "2\n"), (&mappings[1], "1\n"), (&partition, "2048\n")];
        let dax_size = format!("{dax}/size");
        let block1_size = format!("{block1}/size");
        all.extend([(dax_size.as_str(), "4194304\n"), (&block1_size, "8\n")]);
        let files: Vec<_> =
            files.iter().map(|(path, content)| (format!("{NFIT}/{path}"), *content)).collect();
        all.extend(files.iter().map(|(path, content)| (path.as_str(), *content)));
        let nmems = ["nmem0", "nmem1", "nmem2"]
            .map(|nmem| (format!("bus/nd/devices/{nmem}"), format!("{NFIT}/{nmem}")));
        let partition = format!("{block0}/pmem0p1");
        let mut links = vec![
            ("dev/block/259:0", block0.as_str()),
            ("dev/block/259:1", &block1),
            ("dev/block/259:2", &partition),
            ("dev/block/253:0", "devices/virtual/block/dm-0"),
            ("devices/virtual/block/dm-0/slaves/pmem0", &block0),
            ("devices/virtual/block/dm-0/slaves/pmem1", &block1),
            ("dev/char/252:7", &dax),
        ];
        links.extend(nmems.iter().map(|(path, to)| (path.as_str(), to.as_str())));
        tree(&all, &links)
    }

    fn domains(devices: &[Device]) -> Vec<(String, Option<String>)> {
        devices.iter().map(Device::backing).map(|backing| (backing.name, backing.domain)).collect()
    }

    #[test]
    fn regions_are_found_below_devices() {
        let (_root, sysfs) = two_regions(&[("region0/persistence_domain", "cpu_cache\n")]);
        let first = ("region0".to_owned(), Some("cpu_cache".to_owned()));
        let second = ("region1".to_owned(), None);
        assert_eq!(domains(&sysfs.block_devices(makedev(259, 0))), std::slice::from_ref(&first));
        assert_eq!(domains(&sysfs.block_devices(makedev(259, 2))), std::slice::from_ref(&first));
        assert_eq!(domains(&sysfs.block_devices(makedev(259, 1))), std::slice::from_ref(&second));
        let mut both = domains(&sysfs.block_devices(makedev(253, 0)));
        both.sort();
        assert_eq!(both, [first, second.clone()]);
        assert_eq!(domains(&[sysfs.char_device(makedev(252, 7)).unwrap()]), [second]);
        assert!(sysfs.block_devices(makedev(8, 0)).is_empty());
        assert!(sysfs.char_device(makedev(8, 0)).is_none());
    }

    #[test]
    fn dirty_shutdown_counts_are_summed() {
        let mut files = vec![
            ("region0/mapping0", "nmem0,0,1073741824,0\n"),
            ("region0/mapping1", "nmem1,0,1073741824,1\n"),
            ("region1/mapping0", "nmem2,0,1073741824,0\n"),
            ("nmem0/nfit/dirty_shutdown", "3\n"),
            ("nmem2/cxl/dirty_shutdown", "0x10\n"),
        ];
        let count = |files: &[(&str, &str)], minor| {
            let (_root, sysfs) = two_regions(files);
            sysfs.dirty_shutdowns(&sysfs.block_devices(makedev(259, minor))[0])
        };
        assert_eq!((count(&files, 0), count(&files, 1)), (None, Some(16)));
        files.push(("nmem1/dirty_shutdown", "4\n"));
        assert_eq!(count(&files, 0), Some(7));
    }

    #[test]
    fn device_without_region_is_volatile() {
        let dax = "devices/platform/hmem.0/dax0.0";
        let size = format!("{dax}/size");
        let (_root, sysfs) = tree(&[(&size, "4096\n")], &[("dev/char/252:0", dax)]);
        let device = sysfs.char_device(makedev(252, 0)).unwrap();
        assert_eq!((device.region, device.name.as_str()), (None, "dax0.0"));
    }
}
