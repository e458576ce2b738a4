//! `ndctl monitor`: the events of modules, as they come.
//!
//! ```text
//!   config.rs      the file of --config-file
//!   observer.rs    compares what a module reports now with what it reported before: which events came
//!   notification.rs   the JSON of one notification
//! ```
//!
//! A module counts its events, so an observer that looks late misses none: several between two looks make one notification,
//! which has the values of the last, and [`Observed::coalesced`] tells of the others. A real module has no such count that
//! everyone may read. Its kernel shows flags, whose change is that of its health state.

mod config;
mod notification;
mod observer;

pub use config::{ConfigFault, MonitorConfig};
pub use notification::Notification;
pub use observer::{Observed, Observer, Subject};
