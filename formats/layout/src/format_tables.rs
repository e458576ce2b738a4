//! The list of all tables. Only tests and printers use it: no format imports it.

use crate::format_table::FormatTable;
use crate::{
    blocks, checkpoint_slot, header, log_descriptor, log_frame, log_state, obj_spill, obj_words, pmdk_blk,
    pmdk_header, pmdk_heap, pmdk_log, pmdk_obj, pmdk_obj_state, pmdk_object, pmdk_run, pmdk_ulog, raw_volume,
    record, span, tree_entry, tree_leaf, tree_node, type_table_header, typed_root,
};

/// Every format that has a table.
pub const FORMAT_TABLES: &[FormatTable] = &[
    header::TABLE,
    record::TABLE,
    checkpoint_slot::TABLE,
    span::TABLE,
    tree_leaf::TABLE,
    tree_node::TABLE_4,
    tree_node::TABLE_16,
    tree_node::TABLE_48,
    tree_node::TABLE_256,
    tree_node::TABLE_TREE,
    tree_entry::TABLE,
    typed_root::TABLE,
    type_table_header::TABLE,
    pmdk_header::TABLE,
    pmdk_blk::TABLE,
    pmdk_log::TABLE,
    pmdk_obj::TABLE,
    pmdk_obj_state::TABLE,
    pmdk_ulog::TABLE,
    pmdk_ulog::TABLE_ENTRY,
    pmdk_heap::TABLE_HEAP,
    pmdk_heap::TABLE_ZONE,
    pmdk_heap::TABLE_CHUNK,
    pmdk_run::TABLE,
    pmdk_object::TABLE_COMPACT,
    pmdk_object::TABLE_LEGACY,
    obj_words::TABLE,
    obj_spill::TABLE,
    obj_spill::TABLE_ENTRY,
    blocks::TABLE,
    log_descriptor::TABLE,
    log_state::TABLE,
    log_frame::TABLE,
    raw_volume::TABLE,
];
