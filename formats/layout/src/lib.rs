//! Layer 0: every format of pools, as bytes and as validated values.
//!
//! It does: encode and decode offsets, headers, checkpoint slots, log records, heap words, tree nodes and leaves, type tables,
//! descriptors and map words of blocks, descriptors, states and frames of append logs, and the headers of raw volumes and of PMDK's pools. It does not: read a file, map
//! memory, or know an instruction. So a tool can print a broken pool without opening it.
#![forbid(unsafe_code)]

// The other crates need more than the formats do. They all depend on this crate, so a build for a target that they do not
// know ends here, with one message.
#[cfg(not(target_os = "linux"))]
compile_error!("Lodestone runs on Linux only: build for a target such as x86_64-unknown-linux-gnu");
#[cfg(all(target_os = "linux", not(target_pointer_width = "64")))]
compile_error!("Lodestone maps whole pools into memory: build for a target with 64-bit addresses");
#[cfg(not(target_endian = "little"))]
compile_error!("media are little-endian, and so must the CPU be: words are loaded where they lie");

mod blocks;
pub mod bug;
mod checkpoint_slot;
mod chunk;
mod cover_entry;
mod durability;
mod fletcher;
mod flip;
#[doc(hidden)]
pub mod format_table;
mod format_tables;
mod geometry;
pub mod header;
mod invalid_field;
mod key;
mod kv_load;
mod layout_name;
mod log_descriptor;
mod log_frame;
mod log_state;
mod malformed;
mod obj_spill;
mod obj_words;
mod offset;
mod pmdk_blk;
mod pmdk_header;
mod pmdk_heap;
mod pmdk_log;
mod pmdk_obj;
mod pmdk_obj_state;
mod pmdk_object;
mod pmdk_part_header;
mod pmdk_run;
mod pmdk_ulog;
mod raw_volume;
mod record;
mod span;
mod stored_pmdk_header;
mod tree_entry;
mod tree_leaf;
mod tree_node;
mod tree_slot;
mod type_table;
mod type_table_header;
mod typed_root;
mod word;

pub use blocks::{BlockMapWord, BlocksDescriptor, BlocksDescriptorError};
pub use checkpoint_slot::{
    CHECKPOINT_COPY_STRIDE, CHECKPOINT_SLOT_WORDS, CHECKPOINT_SLOTS_OFF, CheckpointSlot,
};
pub use chunk::{ChunkDescriptor, decode_root, encode_root};
pub use cover_entry::CoverEntry;
pub use durability::Durability;
pub use fletcher::{fletcher64, fletcher64_with_hole, store_fletcher64};
pub use flip::flipped_bit_of;
pub use format_table::{Field, FormatTable};
pub use format_tables::FORMAT_TABLES;
pub use geometry::{CHUNK, Extent, Geometry, GeometryError};
pub use header::{Header, HeaderError};
pub use invalid_field::{InvalidField, Want};
pub use key::{AsKey, AsPrefix, Key, Place, encode_key};
pub use kv_load::{KV_LOAD_OFF, KV_LOAD_WORDS, KvLoad, KvLoadDamage};
pub use layout_name::{LayoutName, LayoutNameError};
pub use log_descriptor::{LogDescriptor, LogDescriptorError};
pub use log_frame::{LogFrame, LogFrameHeader, LogFrames};
pub use log_state::{LogState, LogStateError};
pub use malformed::Malformed;
pub use obj_spill::{ObjSpill, ObjSpillEntry};
pub use obj_words::ObjWords;
pub use offset::{BLOCK, LINE, PoolOffset, WORD, align_down, align_up};
pub use pmdk_blk::PmdkBlk;
pub use pmdk_header::{PmdkHeader, PmdkHeaderError, PmdkKind, PmdkShutdown, store_pmdk_checksum};
pub use pmdk_heap::{PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkObjectHeaderKind, PmdkZone};
pub use pmdk_log::PmdkLog;
pub use pmdk_obj::PmdkObj;
pub use pmdk_obj_state::PmdkObjState;
pub use pmdk_object::PmdkObjectHeader;
pub use pmdk_part_header::{PmdkFeatures, PmdkPartHeader, PmdkShutdownRecord};
pub use pmdk_run::PmdkRun;
pub use pmdk_ulog::{PmdkUlog, PmdkUlogEntry, PmdkWordChange};
pub use raw_volume::{RawVolume, RawVolumeError, VolumeClass, store_raw_volume_checksum};
pub use record::{
    ChecksumSeed, ENTRY_WORDS_MAX, Entries, Entry, EntryError, RECORD_HEADER_WORDS, RECORD_LINE_WORDS,
    RECORD_LONG_WORDS, Record, record_checksum, rotate_sums,
};
pub use span::{Huge, SPAN_HEADER, SpanHeaderWords, Superblock};
pub use stored_pmdk_header::{PmdkUuidField, StoredPmdkHeader};
pub use tree_entry::{TREE_NAME_LEN_MAX, TYPE_NAME_LEN_MAX, TreeEntry, TreeEntryDamage, TreeTableKey};
pub use tree_leaf::{
    KEY_LEN_MAX, LEAF_HEADER, LeafHeader, encode_leaf, leaf_crc, leaf_crc_append, leaf_words,
};
pub use tree_node::{
    META_DEAD, NODE_BODY, NODE_END, NODE_META, TREE_CELLS, TREE_CELLS_OFF, TREE_SIZE, TYPE_LEAF, TYPE_TREE,
    tree_meta,
};
pub use tree_slot::{NodeKind, PREFIX_LEN_MAX, SLOT_REACH, SlotKind, TreeSlot};
pub use type_table::{
    NumberKind, PoolType, ProgramTypes, Shape, TYPE_TABLE_LEN_MAX, TYPE_TYPE_TABLE, TypeComparison,
    TypeDifference, TypeField, TypeId, TypeRow, TypeTable, TypeTableBuilder, TypeTableError, TypeVariant,
};
pub use typed_root::{TYPE_TYPED_ROOT, TypedRoot};
pub use word::{CHECKED_BITS, checked, payload, unchecked};
