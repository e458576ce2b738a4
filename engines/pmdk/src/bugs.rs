//! Seeded bugs: each breaks one rule of replicas, and the crash tests of `lode-obj` must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// A drain makes changes durable in all replicas.
pub static REPLICAS_NOT_DRAINED: Bug =
    Bug::new("replicas-not-drained", "a replica alone lacks acknowledged changes");
/// Each replica is marked as long as a log takes the place of its lanes.
pub static MARK_NOT_MIRRORED: Bug =
    Bug::new("mark-not-mirrored", "a replica alone is taken for a closed pool");

/// Every bug.
pub static ALL: [&Bug; 2] = [&REPLICAS_NOT_DRAINED, &MARK_NOT_MIRRORED];
