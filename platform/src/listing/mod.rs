//! Listings as ipmctl prints them: the same records as a table, as a list, or as XML.

mod capacity;
mod records;

pub(crate) use capacity::Digits;
pub use capacity::Unit;
pub use records::Format;
pub(crate) use records::{Column, Record, Records};
