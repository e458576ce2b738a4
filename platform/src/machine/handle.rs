//! The number by which firmware calls a module.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number by which firmware calls a module: its place in the machine (ACPI 6.5, 5.2.25.2). Slot, channel,
/// controller and socket have four bits each, the lowest first; twelve bits above number nodes of 16 sockets.
///
/// ipmctl calls it DimmID, ndctl the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub u32);

impl Handle {
    /// The largest handle.
    pub const MAX: Handle = Handle(0xfff_ffff);

    /// The socket, from 0, counted through all nodes.
    pub fn socket(self) -> u16 {
        (self.0 >> 12) as u16
    }

    /// The node controller, from 0: the part above the 16 sockets of a node.
    pub fn node(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The memory controller of the socket, from 0.
    pub fn controller(self) -> u16 {
        (self.0 >> 8 & 0xf) as u16
    }

    /// The channel of the controller, from 0.
    pub fn channel(self) -> u16 {
        (self.0 >> 4 & 0xf) as u16
    }

    /// By what firmware orders the modules of a set: one of each controller in turn.
    pub(crate) fn turn(self) -> (u16, u16, u16) {
        (self.channel(), self.slot(), self.controller())
    }

    /// The slot of the channel, from 0.
    pub fn slot(self) -> u16 {
        (self.0 & 0xf) as u16
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
