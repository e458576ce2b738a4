//! NFIT device handle of a module.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// NFIT device handle: a module's place in the machine (ACPI 6.5, 5.2.25.2). Slot, channel, controller and socket have
/// four bits each, the lowest first. The twelve bits above number nodes of 16 sockets.
///
/// ipmctl prints it as DimmID, ndctl as handle. The numbers above [`MAX`](Handle::MAX) stand for the CXL devices of a
/// machine, which have no such handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub u32);

/// A number is no handle of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no module can have the handle {number:#x}: the largest one is {}", Handle::MAX)]
pub struct LargeHandle {
    /// The number that was given.
    pub number: u64,
}

impl Handle {
    /// The largest handle.
    pub const MAX: Handle = Handle(0xfff_ffff);

    /// Returns the handle with this number.
    ///
    /// # Errors
    /// [`LargeHandle`]: larger ones stand for CXL devices.
    pub fn of_number(number: u64) -> Result<Handle, LargeHandle> {
        let handle = u32::try_from(number).ok().map(Handle).filter(|handle| *handle <= Handle::MAX);
        handle.ok_or(LargeHandle { number })
    }

    /// Returns the number in a word that begins with `0x`; `None` if the word is no such number. It may be too large for
    /// a handle.
    pub fn parse_number(word: &str) -> Option<u64> {
        // from_str_radix takes a sign.
        let digits = word.strip_prefix("0x").filter(|digits| !digits.starts_with('+'))?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Returns the handle that stands for the CXL device memN.
    pub(crate) fn of_cxl(device: u32) -> Handle {
        Handle(Handle::MAX.0.saturating_add(1).saturating_add(device))
    }

    /// Returns N of the CXL device memN that the handle stands for; `None` if it is that of a module.
    pub fn cxl_device(self) -> Option<u32> {
        self.0.checked_sub(Handle::MAX.0 + 1)
    }

    /// Returns the socket, from 0, counted through all nodes.
    pub fn socket(self) -> u16 {
        (self.0 >> 12) as u16
    }

    /// Returns the node controller, from 0: the bits above the 16 sockets of a node.
    pub fn node(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns the memory controller of the socket, from 0.
    pub fn controller(self) -> u16 {
        (self.0 >> 8 & 0xf) as u16
    }

    /// Returns the channel of the controller, from 0.
    pub fn channel(self) -> u16 {
        (self.0 >> 4 & 0xf) as u16
    }

    /// Returns firmware's sort key for the modules of a set, which alternates between controllers.
    pub(crate) fn listing_order(self) -> (u16, u16, u16) {
        (self.channel(), self.slot(), self.controller())
    }

    /// Returns the slot of the channel, from 0.
    pub fn slot(self) -> u16 {
        (self.0 & 0xf) as u16
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cxl_device() {
            Some(device) => write!(f, "mem{device}"),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}
