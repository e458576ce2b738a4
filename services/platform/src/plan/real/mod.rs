//! Plans for a real machine, from what its kernel shows in sysfs.
//!
//! sysfs does not show how firmware partitions modules. So these plans begin with the existing regions, and with the
//! CXL devices that can form regions.
//!
//! ```text
//!   placement         requests by region
//!   planned_region    an existing region, or a new one
//!   namespace_numbers kernel's numbers of new namespaces
//!   cxl               regions that CXL devices can form
//!   outcome           steps, losses, notes and table
//!   after             the machine after a plan
//! ```

mod after;
pub(crate) mod cxl;
mod namespace_numbers;
mod outcome;
mod placement;
mod plan;
mod planned_region;
mod socket;

pub use cxl::CxlRegion;
pub use plan::for_real;
