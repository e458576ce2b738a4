//! The list of all drawings. Only tests and printers use it: no format imports it.

use crate::drawing::Drawing;
use crate::{
    btt_flog, btt_info, btt_map, header, label, label_cxl, label_index, page_map, record, set_info, slot,
    span, tree_leaf, tree_node,
};

/// Every format that has a drawing.
pub const DRAWINGS: &[Drawing] = &[
    btt_flog::DRAWING,
    btt_info::DRAWING,
    btt_map::DRAWING,
    header::DRAWING,
    label::DRAWING_1_1,
    label::DRAWING_1_2,
    label_cxl::DRAWING_NAMESPACE,
    label_cxl::DRAWING_REGION,
    label_index::DRAWING,
    page_map::DRAWING,
    record::DRAWING,
    set_info::DRAWING,
    slot::DRAWING,
    span::DRAWING,
    tree_leaf::DRAWING,
    tree_node::DRAWING_4,
    tree_node::DRAWING_16,
    tree_node::DRAWING_48,
    tree_node::DRAWING_256,
    tree_node::DRAWING_TREE,
];
