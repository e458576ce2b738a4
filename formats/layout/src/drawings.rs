//! The list of all drawings. Only tests and printers use it: no format imports it.

use crate::drawing::Drawing;
use crate::{header, record, slot, span, tree_leaf, tree_node};

/// Every format that has a drawing.
pub const DRAWINGS: &[Drawing] = &[
    header::DRAWING,
    record::DRAWING,
    slot::DRAWING,
    span::DRAWING,
    tree_leaf::DRAWING,
    tree_node::DRAWING_4,
    tree_node::DRAWING_16,
    tree_node::DRAWING_48,
    tree_node::DRAWING_256,
    tree_node::DRAWING_TREE,
];
