//! Listings of ndctl and daxctl.

mod dax;
mod device;
mod device_number;
mod emulated;
mod info_block;
pub(crate) mod inventory;
mod label_area;
mod list;
mod media_errors;
pub(crate) mod order;

pub use dax::DaxRequest;
pub use device_number::device_number;
pub use emulated::{describe, inventory};
pub use info_block::info_blocks;
pub use inventory::{
    BadBlocks, DaxDevice, DaxMapping, DaxMemory, DaxMode, DaxRegion, Inventory, NdActivation, NdBus,
    NdCapabilities, NdFirmware, NdHealth, NdMapping, NdModule, NdNamespace, NdNextFirmware, NdPageMap,
    NdPersonality, NdRegion, SECTOR,
};
pub use label_area::{LabelAreaBytes, index_area_len, label_areas};
pub(crate) use list::print_array;
pub use list::{Included, ListFilter, ListRequest, RegionType};
