//! Workloads for the crash explorer.

pub(crate) mod tree;
