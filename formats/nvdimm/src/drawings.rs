//! The list of all drawings. Only tests and printers use it: no format imports it.

use crate::{btt_flog, btt_info, btt_map, label, label_cxl, label_index, page_map, set_info};
use lode_layout::drawing::Drawing;

/// Every format that has a drawing.
pub const DRAWINGS: &[Drawing] = &[
    btt_flog::DRAWING,
    btt_info::DRAWING,
    btt_map::DRAWING,
    label::DRAWING_1_1,
    label::DRAWING_1_2,
    label_cxl::DRAWING_NAMESPACE,
    label_cxl::DRAWING_REGION,
    label_index::DRAWING,
    page_map::DRAWING,
    set_info::DRAWING,
];
