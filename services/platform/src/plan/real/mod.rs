//! Plans for a real machine, from what its kernel shows in sysfs.
//!
//! sysfs does not show how firmware partitions modules. So these plans begin with the existing regions, and with the
//! CXL devices that can form regions.
//!
//! ```text
//!   lineup    wishes by region
//!   site      an existing region, or a new one                names    kernel's names of new namespaces
//!   cxl       regions that CXL devices can form               outcome  steps, losses, notes and table
//! ```

pub(crate) mod cxl;
mod lineup;
mod names;
mod outcome;
mod plan;
mod site;
mod socket;

pub use cxl::CxlRegion;
pub use plan::for_real;
