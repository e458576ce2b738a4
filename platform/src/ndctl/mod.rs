//! What ndctl and daxctl say of a machine.

mod device;
mod json;
mod list;
mod order;

pub use list::{Included, ListFilter, ListRequest};
pub(crate) use order::sort_as_listed;
