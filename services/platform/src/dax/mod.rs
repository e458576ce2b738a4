//! Character devices (device DAX): one for each devdax namespace, and any number in memory that firmware reserves.
//!
//! ```text
//!   stored    what the state has of devices    hold      namespaces whose devices are memory
//!   device    a device                         region    the regions of a machine, with their devices
//!   memory    memory blocks                    space     ranges of devices in a region
//!   find      searches devices                 reconfigure, online, lifetime   the commands of daxctl
//! ```
//!
//! A state has a device only while it differs from the one that the kernel makes at a start. So a start forgets them
//! all.

mod device;
pub(crate) mod error;
mod find;
mod hold;
mod lifetime;
mod memory;
mod online;
mod reconfigure;
mod region;
mod space;
mod stored;

pub use device::{Device, DeviceId};
pub use error::DaxError;
pub(crate) use hold::release;
pub use lifetime::{Destroyed, create, create_of, destroy, enable};
pub use memory::block_size;
pub(crate) use memory::whole_blocks;
pub use online::{offline, online};
pub(crate) use reconfigure::PAGES;
pub use reconfigure::{AlreadyDone, Reconfigured, reconfigure, reshape};
pub use region::{DeviceRegion, regions};
pub(crate) use region::{namespace_region, target_node};
pub use stored::{Driver, MemoryZone, StoredDevice, StoredRange};
