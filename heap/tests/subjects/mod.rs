//! Workloads for the crash explorer.

pub(crate) mod heap;
pub(crate) mod log;
