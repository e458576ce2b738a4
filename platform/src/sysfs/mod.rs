//! Reader of a real machine's sysfs. Needs neither root nor a library. Unreadable values are unknown.
//!
//! ```text
//! bus/nd/devices/ndbusN     a link to the bus, which contains:
//!   nmemN                   modules
//!   regionN                 regions
//!     namespaceN.N          namespaces
//!     pfnN.N daxN.N bttN.N  page maps and BTTs in them
//! bus/dax/devices/daxN.N    a link to each character device
//! bus/cxl/devices/memN      a link to each CXL memory device
//! ```
//!
//! Documentation/ABI/testing/sysfs-bus-nvdimm, sysfs-bus-nfit, sysfs-bus-dax and sysfs-bus-cxl of Linux.

mod attribute;
mod bad_blocks;
mod bus;
mod cxl;
mod dax;
mod ipmctl;
mod namespace;
mod overview;
mod region;

pub use cxl::{Cxl, CxlDevice, CxlEndpoint, CxlWindow};

use crate::error::PlatformError;
use crate::ndctl::Inventory;
use attribute::Folder;
use std::path::Path;

/// Root of a sysfs.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: Folder,
}

impl Sysfs {
    /// Mount point of this machine's sysfs.
    pub const LIVE: &'static str = "/sys";

    /// Opens a sysfs: `/sys`, or a copy of one.
    ///
    /// # Errors
    /// [`NoSysfs`](PlatformError::NoSysfs): the folder has no `bus` in it.
    pub fn open(root: &Path) -> Result<Sysfs, PlatformError> {
        let folder = Folder::new(root);
        if !folder.has("bus") {
            return Err(PlatformError::NoSysfs { path: root.to_owned() });
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
        Inventory {
            buses: buses.into_iter().map(|(number, folder)| bus::read(number, &folder)).collect(),
            dax_regions: dax::regions(&self.root),
        }
    }

    /// Reads the CXL memory.
    pub fn cxl(&self) -> Cxl {
        cxl::read(&self.root)
    }
}
