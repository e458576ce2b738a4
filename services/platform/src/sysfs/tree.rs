//! A sysfs, as the kernel mounts it or as a copy.

use super::cxl::{self, Cxl};
use super::error::SysfsError;
use super::{bus, dax};
use crate::ndctl::{Inventory, NdBus, NdPersonality};
use lode_pmem::SysfsFolder;
use std::path::{Path, PathBuf};

/// Root of a sysfs.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: SysfsFolder,
}

impl Sysfs {
    /// Mount point of this machine's sysfs.
    pub const LIVE: &'static str = "/sys";

    /// Opens a sysfs: `/sys`, or a copy of one.
    ///
    /// # Errors
    /// [`NoSysfs`](SysfsError::NoSysfs): the folder has no `bus` in it.
    pub fn open(root: &Path) -> Result<Sysfs, SysfsError> {
        let folder = SysfsFolder::new(root);
        if !folder.has("bus") {
            return Err(SysfsError::NoSysfs { path: root.to_owned() });
        }
        Ok(Sysfs { root: folder })
    }

    /// Returns the path of the folder.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Reads the inventory of persistent memory, with the permissions of the user.
    ///
    /// # Cost
    /// Reads about 30 small files for each module, region and namespace.
    pub fn inventory(&self) -> Inventory {
        let buses = self.root.folder("bus/nd/devices").numbered("ndbus");
        let mut buses: Vec<NdBus> =
            buses.into_iter().map(|(number, folder)| bus::read(number, &folder)).collect();
        let regions = buses.iter_mut().flat_map(|bus| &mut bus.regions);
        for namespace in regions.flat_map(|region| &mut region.namespaces) {
            if let NdPersonality::Devdax(_, Some(region)) = &mut namespace.personality {
                region.devices.iter_mut().for_each(|device| dax::add_memory(&self.root, device));
            }
        }
        Inventory { buses, dax_regions: dax::regions(&self.root) }
    }

    /// Returns the path of the flags of the module nmemN; `None` if its bus shows none. The kernel gives notice of their
    /// changes to those who poll the file.
    pub fn flags_path(&self, number: u32) -> Option<PathBuf> {
        let flags = format!("bus/nd/devices/nmem{number}/nfit/flags");
        Some(self.root().join(flags)).filter(|path| path.is_file())
    }

    /// Reads the CXL memory.
    pub fn cxl(&self) -> Cxl {
        cxl::read(&self.root)
    }
}
