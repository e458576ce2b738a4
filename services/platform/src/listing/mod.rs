//! Listings: records as a table, as a list, as XML or as JSON, and JSON in the format of ndctl.

mod capacity;
mod json;
mod one_line;
mod records;
mod value;

pub(crate) use capacity::Precision;
pub use capacity::Unit;
pub(crate) use json::{Fields, Json};
pub use one_line::one_line;
pub use records::Format;
pub(crate) use records::{Column, Record, Records};
pub(crate) use value::Value;
