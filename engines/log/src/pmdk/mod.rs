//! PMDK's log pools: bytes without records, in the format of libpmemlog.
//!
//! An append takes two drains: its bytes, then the word that commits them. The crash table is in `lode-layout`'s
//! `pmdk_log.md`.

mod check;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod log;
mod pool;
mod view;

pub use check::{check, check_content};
pub use error::PmemLogError;
pub use log::PmemLog;
pub use pool::{PmemLogPool, PmemLogPoolError};
pub use view::PmemLogView;
