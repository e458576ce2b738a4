//! The way in which a file's code makes stores durable by itself.

use std::fmt;

/// The first thing in a file by which it makes stores durable by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFlush {
    /// An instruction.
    Instruction {
        /// The name of the instruction, in capital letters.
        name: &'static str,
        /// The address that the file gives it.
        at: u64,
    },
    /// An import of msync(2).
    Msync,
}

impl fmt::Display for OwnFlush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnFlush::Instruction { name, at } => write!(f, "{name} at {at:#x}"),
            OwnFlush::Msync => f.write_str("an import of msync"),
        }
    }
}

/// The reason why a file's code can't be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub(crate) String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}
