//! The rung that the user asks for.

use clap::ValueEnum;
use lode_layout::Rung;

/// A rung of the durability ladder, or the one that the medium offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// What the medium offers, if that is durable at all
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
    /// The rung that was asked for by name.
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
