//! Layer 0: every on-media format of Lodestone, as bytes and as validated values.
//!
//! It does: encode and decode offsets, headers, checkpoint slots, log records, heap words, tree nodes and leaves, and
//! the labels and info blocks that firmware and kernel keep on modules. It does not: read a file, map memory, or know
//! an instruction. So a tool can print a broken pool without opening it.
#![forbid(unsafe_code)]

#[cfg(not(target_endian = "little"))]
compile_error!("media are little-endian, and so must the CPU be: words are loaded where they lie");

mod btt_census;
mod btt_damage;
mod btt_flog;
mod btt_info;
mod btt_map;
pub mod bug;
mod chunk;
mod drawing;
mod drawings;
mod fletcher;
mod flip;
mod geometry;
pub mod header;
mod info_block_error;
mod interleave;
mod kv_load;
mod label;
mod label_area;
mod label_cxl;
mod label_error;
mod label_fields;
mod label_format;
mod label_index;
mod layout_name;
mod offset;
mod page_map;
mod record;
mod rung;
mod set_info;
mod slot;
mod span;
mod tree_leaf;
mod tree_node;
mod tree_slot;
mod word;

pub use btt_census::BttCensus;
pub use btt_damage::BttDamage;
pub use btt_flog::{BttFlog, BttFlogEntry, BttFlogPlaces};
pub use btt_info::{BttGeometry, BttInfo, BttVersion};
pub use btt_map::{BttBlockState, BttMapEntry};
pub use chunk::{Descriptor, decode_root, encode_root};
pub use drawing::{Drawing, Field};
pub use drawings::DRAWINGS;
pub use fletcher::{fletcher64, fletcher64_seal};
pub use flip::flipped_bit_of;
pub use geometry::{CHUNK, Contradiction, Extent, Geometry, GeometryError, Want};
pub use header::{Header, HeaderError};
pub use info_block_error::InfoBlockError;
pub use interleave::{Interleave, InterleavePiece};
pub use kv_load::{KV_LOAD_OFF, KV_LOAD_WORDS, KvDamage, KvLoad};
pub use label::{Label, NamespaceLabel};
pub use label_area::{LabelArea, LabelUpdate, LabelWrite};
pub use label_cxl::{CxlNamespaceLabel, CxlRegionLabel};
pub use label_error::{IndexDamage, LabelDamage, LabelError};
pub use label_fields::{Abstraction, LabelFlags, LabelName, PERSISTENT_MEMORY};
pub use label_format::LabelFormat;
pub use label_index::{LabelGeometry, LabelIndex};
pub use layout_name::{LayoutName, LayoutNameError};
pub use offset::{BLOCK, LINE, PoolOffset, WORD, align_down, align_up};
pub use page_map::{PAGE_MAP_OFF, PageMapInfo, PageMapPlace, PageMapRule, PageMapUser};
pub use record::{
    ENTRY_WORDS_MAX, Entries, Entry, EntryError, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, RECORD_LONG_WORDS,
    Record, RecordSeal, record_checksum, turned,
};
pub use rung::Rung;
pub use set_info::{ModuleId, ModuleIdError, SetInfo, set_cookie, set_cookie_v1_1};
pub use slot::{SLOT_BLOCKS, SLOT_COPY_STRIDE, SLOT_WORDS, Slot};
pub use span::{Huge, SPAN_HEADER, SpanHeaderWords, Superblock};
pub use tree_leaf::{
    KEY_LEN_MAX, LEAF_HEADER, LeafHeader, encode_leaf, leaf_crc, leaf_crc_append, leaf_words,
};
pub use tree_node::{
    META_DEAD, NODE_BODY, NODE_END, NODE_META, TREE_CELLS, TREE_CELLS_OFF, TREE_SIZE, TYPE_LEAF, TYPE_TREE,
    tree_meta,
};
pub use tree_slot::{NodeKind, SKIP_MAX, SLOT_REACH, SlotKind, TreeSlot};
pub use word::{CHECKED_BITS, checked, payload, unchecked};
