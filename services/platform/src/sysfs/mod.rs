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

mod bad_blocks;
mod bus;
mod cxl;
mod dax;
pub(crate) mod error;
mod ipmctl;
mod namespace;
mod region;
mod tree;

pub use cxl::{Cxl, CxlDevice, CxlEndpoint, CxlWindow};
pub use error::SysfsError;
pub use tree::Sysfs;
