//! Layer 3: modules, goals, regions and namespaces of persistent memory, emulated in a directory.
//!
//! ```text
//!   lode (cli)                 arguments and printing
//!        |  Directory, Platform, listings as text
//!   lode-platform              machine files, goals, regions, namespaces; one journal for each change; sysfs
//!        |  labels, cookies     |  new files, attributes     |  files, locks
//!   lode-layout           lode-pmem                    kernel
//! ```
//!
//! It does: describe a machine, keep its state in a directory in which each change is atomic, apply goals at a reboot
//! as firmware does, and format the output of ipmctl and ndctl for the emulated machine, and for a real one from its
//! sysfs. It does not: print to the terminal, start a thread, or change a real machine.
#![forbid(unsafe_code)]

mod contents;
mod directory;
mod error;
mod file;
mod listing;
mod platform;
mod state;

pub mod boot;
pub mod cxl;
pub mod dax;
pub mod discovery;
pub mod e820;
pub mod error_log;
pub mod firmware;
pub mod goal;
pub mod image;
pub mod info_block;
pub mod ipmctl;
pub mod locate;
pub mod machine;
pub mod media_error;
pub mod monitor;
pub mod namespace;
pub mod ndctl;
pub mod nmem;
pub mod picture;
pub mod plan;
pub mod preferences;
pub mod region;
pub mod relocate;
pub mod security;
pub mod smart;
pub mod sysfs;

pub use directory::{BttError, BttSummary, Directory, DirectoryError, Purpose, StateFault, Watch};
pub use error::PlatformError;
pub use file::error::FileError;
pub use goal::{GoalRequest, PersistentKind, Targets};
pub use listing::{Format, Unit, one_line};
pub use machine::{Handle, nearest};
pub use namespace::{CreateNamespace, MapLocation, Mode, Namespace, Personality};
pub use platform::{Capacities, Platform};
pub use region::{Origin, Region};
pub use state::{
    Goal, InterleaveSet, LabelVersion, Member, NamespaceState, Partition, STATE_FORMAT, Share, State,
};
