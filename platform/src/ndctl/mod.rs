//! Listings of ndctl and daxctl.

mod dax;
mod device;
mod emulated;
mod inventory;
mod json;
mod list;
mod media_errors;
mod order;

pub use dax::DaxRequest;
pub use inventory::{
    BadBlocks, DaxDevice, DaxMode, DaxRegion, Inventory, NdBus, NdCapabilities, NdHealth, NdMapping,
    NdModule, NdNamespace, NdPageMap, NdPersonality, NdRegion, SECTOR,
};
pub use list::{Included, ListFilter, ListRequest};
pub(crate) use order::sort_as_listed;
