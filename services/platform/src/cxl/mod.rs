//! CXL memory of emulated machines: devices below host bridges and switches, address windows, and regions of them.
//!
//! ```text
//!   stored     what the state has                       topology   ports, with numbers and PCI addresses
//!   window     root decoders: addresses, free ranges    decode     decoders of host bridges and switches
//!   dpa        memory that decoders of devices hold     region     regions
//!   memdev     devices and ports                        labels, label_text   label storage areas, their files
//!   nvdimm     modules and regions of libnvdimm             poison     poison lists
//!   inventory  plain data, emulated    from the state   filter, find, list   names, and `cxl list`
//! ```
//!
//! A start forgets regions, reservations and disabled devices, as the kernel does: it finds no decoder in use. Labels,
//! poison and the division of capacity stay.

mod decode;
mod dpa;
mod emulated;
mod error;
mod filter;
mod find;
mod inventory;
mod label_text;
mod labels;
mod list;
mod memdev;
mod nvdimm;
mod poison;
mod region;
mod stored;
mod topology;
mod validate;
mod window;

pub use dpa::{DpaRequest, free, reserve};
pub use emulated::inventory;
pub(crate) use emulated::{RamRegion, ram_regions};
pub use error::{CxlErrno, CxlError};
pub use inventory::{
    CxlDecoder, CxlInventory, CxlListRequest, CxlMapping, CxlMemdev, CxlPartitionView, CxlPortLevel,
    CxlPortView, CxlRegion, CxlWindowView,
};
pub(crate) use label_text::{area as area_of_text, digits as text_of_area};
pub use labels::{read_labels, write_labels};
pub use memdev::{PartitionRequest, disable, disable_port, enable, enable_port, set_partition};
pub(crate) use nvdimm::{PmemRegion, has_bus, is_nvdimm, is_nvdimm_enabled, nvdimms, pmem_regions};
pub use poison::{clear_poison, inject_poison};
pub use region::{CxlRegionRequest, create, destroy, set_enabled};
pub use stored::{Allocation, CxlKind, CxlPartition, CxlPoison, CxlState, StoredCxlRegion};
pub use topology::Dport;
pub(crate) use validate::CxlCheck;

/// Returns the number that a whole word is, in the notation of C.
pub fn number_alone(word: &str) -> Option<u64> {
    let (digits, base) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if word.len() > 1 && word.starts_with('0') => (&word[1..], 8),
        None => (word, 10),
    };
    // from_str_radix takes a sign.
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, base).ok())?
}
