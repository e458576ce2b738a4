//! The argument of `--durability`.

use clap::ValueEnum;
use lode_layout::Rung;

/// A rung of the durability ladder, or `Auto` for the one that the medium offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// The rung that the medium offers; an error if the medium is volatile
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

impl Durability {
    /// Returns the rung that the user named, or `None` for `Auto`.
    pub(crate) fn rung(self) -> Option<Rung> {
        match self {
            Durability::Auto => None,
            Durability::Byte => Some(Rung::Byte),
            Durability::Line => Some(Rung::Line),
            Durability::Commit => Some(Rung::Commit),
            Durability::None => Some(Rung::None),
        }
    }
}
