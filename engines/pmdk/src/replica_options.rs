//! Options of repairs of replicas and of changes of sets.

use lode_pmem::{ByAddress, Sysfs};

/// The options of [`repair_replicas`](crate::repair_replicas) and [`transform`](crate::transform()).
#[derive(Clone, Debug, Default)]
pub struct ReplicaOptions {
    /// True if nothing is written: the parts are only examined.
    pub is_dry_run: bool,
    /// True if ranges that are lost are restored from another replica.
    pub fixes_bad_blocks: bool,
    /// As [`OpenOptions::program`](crate::OpenOptions::program).
    pub program: Option<ByAddress>,
    /// As [`OpenOptions::sysfs`](crate::OpenOptions::sysfs).
    pub sysfs: Sysfs,
}
