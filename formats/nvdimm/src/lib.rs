//! Layer 1: every format of modules and namespaces, as bytes and as validated values.
//!
//! ```text
//!   module       label area: index blocks, labels (1.1, 1.2, CXL)       set_info: identity of an interleave set
//!   region       interleave: places on the modules of an address          nfit: firmware's table of them
//!   namespace    BTT: info block, map, flog                             page_map: info block of fsdax and devdax
//! ```
//!
//! It does: encode and decode what firmware and kernel keep on modules, and prove that a BTT is consistent. It does
//! not: read a file, map memory, or know pools. So an image can be listed without mounting it.
#![forbid(unsafe_code)]

mod btt_block_check;
mod btt_damage;
mod btt_dialect;
mod btt_flog;
mod btt_info;
mod btt_map;
mod format_tables;
mod info_block_error;
mod interleave;
mod label;
mod label_area;
mod label_cxl;
mod label_error;
mod label_fields;
mod label_format;
mod label_index;
mod nfit;
mod page_map;
mod set_info;

pub use btt_block_check::BttBlockCheck;
pub use btt_damage::BttDamage;
pub use btt_dialect::BttDialect;
pub use btt_flog::{BttFlog, BttFlogEntry, BttFlogLane, BttFlogSlots};
pub use btt_info::{BttGeometry, BttInfo, BttRules, BttVersion, StoredBtt};
pub use btt_map::{BttBlockState, BttMapEntry, block_number};
pub use format_tables::FORMAT_TABLES;
pub use info_block_error::InfoBlockError;
pub use interleave::{Interleave, InterleavePiece};
pub use label::{Label, NamespaceLabel, StoredLabel};
pub use label_area::{LabelArea, LabelUpdate, LabelWrite};
pub use label_cxl::{CxlNamespaceLabel, CxlRegionLabel};
pub use label_error::{IndexDamage, LabelDamage, LabelError};
pub use label_fields::{Abstraction, LabelFlags, LabelName, PERSISTENT_MEMORY};
pub use label_format::LabelFormat;
pub use label_index::{LabelGeometry, LabelIndex, StoredIndex};
pub use lode_layout::{fletcher64, store_fletcher64};
pub use nfit::{ModuleAddress, Nfit, NfitError};
pub use page_map::{PAGE_MAP_OFF, PageMapInfo, PageMapLocation, PageMapRule, PageMapUser, StoredPageMap};
pub use set_info::{ModuleId, ModuleIdError, SetInfo, set_cookie, set_cookie_v1_1};
