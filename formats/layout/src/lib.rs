//! Layer 0: every format of pools, as bytes and as validated values.
//!
//! It does: encode and decode offsets, headers, checkpoint slots, log records, heap words, tree nodes and leaves. It
//! does not: read a file, map memory, or know an instruction. So a tool can print a broken pool without opening it.
#![forbid(unsafe_code)]

#[cfg(not(target_endian = "little"))]
compile_error!("media are little-endian, and so must the CPU be: words are loaded where they lie");

pub mod bug;
mod chunk;
mod contradiction;
#[doc(hidden)]
pub mod drawing;
mod drawings;
mod durability;
mod flip;
mod geometry;
pub mod header;
mod kv_load;
mod layout_name;
mod offset;
mod record;
mod slot;
mod span;
mod tree_leaf;
mod tree_node;
mod tree_slot;
mod word;

pub use chunk::{Descriptor, decode_root, encode_root};
pub use contradiction::{Contradiction, Want};
pub use drawing::{Drawing, Field};
pub use drawings::DRAWINGS;
pub use durability::Durability;
pub use flip::flipped_bit_of;
pub use geometry::{CHUNK, Extent, Geometry, GeometryError};
pub use header::{Header, HeaderError};
pub use kv_load::{KV_LOAD_OFF, KV_LOAD_WORDS, KvDamage, KvLoad};
pub use layout_name::{LayoutName, LayoutNameError};
pub use offset::{BLOCK, LINE, PoolOffset, WORD, align_down, align_up};
pub use record::{
    ENTRY_WORDS_MAX, Entries, Entry, EntryError, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, RECORD_LONG_WORDS,
    Record, RecordSeal, record_checksum, turned,
};
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
