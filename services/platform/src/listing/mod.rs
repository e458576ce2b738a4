//! Listings as ipmctl prints them: the same records as a table, as a list, or as XML.

mod capacity;
mod one_line;
mod records;

pub(crate) use capacity::Precision;
pub use capacity::Unit;
pub use one_line::one_line;
pub use records::Format;
pub(crate) use records::{Column, Record, Records};
