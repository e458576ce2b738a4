//! The value of `--durability`.

use clap::ValueEnum;
use lode_layout::Durability;

/// The value of `--durability`: a durability to force, or `Auto` for the one that the medium offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityOption {
    /// The durability that the medium offers; an error if the medium is volatile
    Auto,
    /// Durable when visible: the CPU's caches are saved when power fails
    Byte,
    /// Durable when written back from the cache: persistent memory
    Line,
    /// Durable after a sync: ordinary files
    Commit,
    /// Never durable: tmpfs, anonymous memory
    None,
}

impl DurabilityOption {
    /// Returns the durability that the user named, or `None` for `Auto`.
    pub(crate) fn forced(self) -> Option<Durability> {
        match self {
            DurabilityOption::Auto => None,
            DurabilityOption::Byte => Some(Durability::Byte),
            DurabilityOption::Line => Some(Durability::Line),
            DurabilityOption::Commit => Some(Durability::Commit),
            DurabilityOption::None => Some(Durability::None),
        }
    }
}
