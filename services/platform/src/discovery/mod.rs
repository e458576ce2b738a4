//! Machines from what real ones show of themselves, so that their changes can be rehearsed elsewhere.
//!
//! ```text
//!   saved listings of ipmctl --> entries --+
//!                                          +--> Machine, partitions, sets, goals  -->  Discovered
//!   sysfs, with its SMBIOS table ----------+
//! ```
//!
//! Values that the source does not tell are derived or assumed, and a note says so. Namespaces are not taken over.

mod amount;
mod entry;
mod error;
mod listing;
mod listing_text;
mod listing_xml;
mod merged;
mod provision;
mod smbios;
mod sockets;
mod sysfs;

pub use error::{ListingError, ListingFault};
pub use listing::from_ipmctl;
pub use smbios::{MemoryDevice, memory_devices};
pub(crate) use sockets::{Slot, socket_of};
pub use sysfs::{DiscoveryError, Shown, from_sysfs};

use crate::platform::Platform;

/// A machine that was made from a real one.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The machine, its partitions, sets and goals.
    pub platform: Platform,
    /// Assumptions and omissions, each with the source that would tell it.
    pub notes: Vec<String>,
}

impl Discovered {
    /// Returns the machine file, with the notes as comments.
    pub fn text(&self) -> String {
        self.platform.machine.text(&self.notes)
    }
}
