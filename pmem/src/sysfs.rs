//! What the kernel tells about the persistent memory below a file or a device, read from sysfs: no root, no
//! library, no control device.

use crate::Backing;
use rustix::fs::{Dev, major, minor};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the modules of each kind say how often they lost power with data on the way to the media.
const SHUTDOWN_FILES: [&str; 4] =
    ["dirty_shutdown", "nfit/dirty_shutdown", "cxl/dirty_shutdown", "papr/dirty_shutdown"];

/// A sysfs tree.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Sysfs {
        Sysfs::at("/sys")
    }
}

/// A device in a sysfs tree.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    /// The folder of the nd region that it is part of.
    pub(crate) region: Option<PathBuf>,
}

impl Sysfs {
    /// The tree at `root`; any other than /sys is for tests.
    pub fn at(root: impl Into<PathBuf>) -> Sysfs {
        let root = root.into();
        Sysfs { root: fs::canonicalize(&root).unwrap_or(root) }
    }

    /// The block device with the number `dev`, or the ones that it is put together from.
    pub(crate) fn block_devices(&self, dev: Dev) -> Vec<Device> {
        let Some(dir) = self.numbered("block", dev) else { return Vec::new() };
        let mut found = Vec::new();
        self.add_lowest(dir, &mut found, 8);
        found
    }

    /// The character device with the number `dev`.
    pub(crate) fn char_device(&self, dev: Dev) -> Option<Device> {
        self.numbered("char", dev).map(|dir| self.device(dir))
    }

    /// How often the modules below `device` lost power with data on the way to the media; nothing if any of
    /// them doesn't tell.
    pub(crate) fn dirty_shutdowns(&self, device: &Device) -> Option<u64> {
        let region = device.region.as_deref()?;
        let count: u32 = number(&region.join("mappings"))?.try_into().ok()?;
        let modules = (0..count).map(|index| {
            // "nmem0,0,1073741824,0": module, start, size, position.
            let mapping = text(&region.join(format!("mapping{index}")))?;
            let module = self.root.join("bus/nd/devices").join(mapping.split(',').next()?);
            SHUTDOWN_FILES.iter().find_map(|file| number(&module.join(file)))
        });
        if count == 0 { None } else { modules.sum() }
    }

    fn numbered(&self, kind: &str, dev: Dev) -> Option<PathBuf> {
        let link = self.root.join("dev").join(kind).join(format!("{}:{}", major(dev), minor(dev)));
        fs::canonicalize(link).ok()
    }

    /// Device-mapper and md devices name what they are put together from in `slaves`.
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
        let region = dir
            .ancestors()
            .take_while(|above| above.starts_with(&self.root) && *above != self.root)
            .find(|above| is_region(above))
            .map(Path::to_owned);
        let name = file_name(&dir);
        Device { dir, name, region }
    }
}

impl Device {
    /// What a report says of it.
    pub(crate) fn backing(&self) -> Backing {
        let name = self.region.as_deref().map_or_else(|| self.name.clone(), file_name);
        let domain = self.region.as_deref().and_then(|region| text(&region.join("persistence_domain")));
        Backing { name, domain }
    }

    /// The number in one of its attributes.
    pub(crate) fn number(&self, attribute: &str) -> Option<u64> {
        number(&self.dir.join(attribute))
    }
}

/// Whether a folder is that of an nd region: `dax_region`, which device-DAX puts in between, has no number.
fn is_region(dir: &Path) -> bool {
    let name = file_name(dir);
    let digits = name.strip_prefix("region").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && dir.join("mappings").exists()
}

fn file_name(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The content of an attribute, without the end of the line.
pub(crate) fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

/// The number in an attribute, decimal or 0x-prefixed.
pub(crate) fn number(path: &Path) -> Option<u64> {
    let text = text(path)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
