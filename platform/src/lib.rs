//! Floor 3: modules, goals, regions and namespaces of persistent memory, emulated in a directory.
//!
//! ```text
//!   lode (cli)                 arguments and printing
//!        |  Directory, Platform, listings as text
//!   lode-platform              machine files, goals, regions, namespaces; one journal for each change
//!        |  labels, cookies            |  files, locks
//!   lode-layout                kernel
//! ```
//!
//! It does: describe a machine, keep its state in a directory so that each change is done or not done, take
//! goals into effect at a reboot as firmware does, and say what ipmctl and ndctl say of it. It does not:
//! print, start a thread, or touch a real machine.
#![forbid(unsafe_code)]

pub mod machine;

mod boot;
mod contents;
mod directory;
mod error;
mod goal;
pub mod ipmctl;
mod listing;
mod namespace;
pub mod ndctl;
mod overview;
mod platform;
mod region;
mod state;

pub use directory::{Directory, Purpose};
pub use error::PlatformError;
pub use goal::{GoalRequest, PersistentKind, Targets};
pub use listing::{Format, Unit};
pub use machine::{Handle, nearest};
pub use namespace::{CreateNamespace, MapPlace, Mode, Namespace, Personality};
pub use platform::{Capacities, Platform};
pub use region::{Origin, Region};
pub use state::{
    Goal, InterleaveSet, LabelVersion, Member, NamespaceState, Partition, STATE_FORMAT, Share, State,
};
