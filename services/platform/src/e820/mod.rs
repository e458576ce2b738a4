//! Firmware's memory map, and RAM that is reserved to emulate persistent memory.

pub(crate) mod error;
mod kernel_log;
mod kind;
mod listing;
mod map;
mod reservation;

pub use error::MemoryMapError;
pub use kernel_log::{KERNEL_LOG, kernel_log};
pub use kind::MemoryKind;
pub use map::{MemoryMap, MemoryRange, NodeRange};
pub use reservation::{Reservation, ReservationRequest, SECTION};
