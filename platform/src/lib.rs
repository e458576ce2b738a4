//! Layer 3: modules, goals, regions and namespaces of persistent memory, emulated in a directory.
//!
//! ```text
//!   lode (cli)                 arguments and printing
//!        |  Directory, Platform, listings as text
//!   lode-platform              machine files, goals, regions, namespaces; one journal for each change; sysfs
//!        |  labels, cookies            |  files, locks
//!   lode-layout                kernel
//! ```
//!
//! It does: describe a machine, keep its state in a directory in which each change is atomic, apply goals at a reboot
//! as firmware does, and format the output of ipmctl and ndctl for the emulated machine, and for a real one from its
//! sysfs. It does not: print to the terminal, start a thread, or change a real machine.
#![forbid(unsafe_code)]

pub mod machine;

mod boot;
mod contents;
mod directory;
pub mod e820;
mod error;
mod goal;
pub mod image;
pub mod ipmctl;
mod listing;
mod media_error;
mod namespace;
pub mod ndctl;
mod picture;
pub mod plan;
mod platform;
mod region;
mod state;
pub mod sysfs;

pub use directory::{Directory, Purpose};
pub use error::PlatformError;
pub use goal::{GoalRequest, PersistentKind, Targets};
pub use listing::{Format, Unit, one_line};
pub use machine::{Handle, nearest};
pub use media_error::{Injection, MediaError};
pub use namespace::{CreateNamespace, MapPlace, Mode, Namespace, Personality, SectorTable};
pub use picture::Palette;
pub use platform::{Capacities, Platform};
pub use region::{Origin, Region};
pub use state::{
    Goal, InterleaveSet, LabelVersion, Member, NamespaceState, Partition, STATE_FORMAT, Share, State,
};
