//! The place of a byte of persistent memory: from an address, a sector or a byte of a file to its module, and back.
//!
//! ```text
//!   query    what is asked: an address, a sector of a device, a byte of a file
//!   locator  address <-> region <-> namespace <-> sector; module and slot
//!   holders  the files that hold a range of a device          mappers   the processes that map a file
//! ```

pub(crate) mod error;
mod holders;
mod locator;
mod mappers;
mod query;

pub use error::LocateError;
pub use holders::{Holder, Holders, holders};
pub use locator::{Located, Locator, ModulePlace, NamespacePart, NamespacePlace, RegionPlace};
pub use mappers::{Mapper, mappers, mappers_of};
pub use query::Query;
