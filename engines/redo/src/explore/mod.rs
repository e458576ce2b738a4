//! Workloads for the crash explorer.

mod cover;
mod log;

pub use cover::CoverSubject;
pub use log::LogSubject;
