//! The list of all tables. Only tests and printers use it: no format imports it.

use crate::{btt_flog, btt_info, btt_map, label, label_cxl, label_index, page_map, set_info};
use lode_layout::format_table::FormatTable;

/// Every format that has a table.
pub const FORMAT_TABLES: &[FormatTable] = &[
    btt_flog::TABLE,
    btt_info::TABLE,
    btt_map::TABLE,
    label::TABLE_1_1,
    label::TABLE_1_2,
    label_cxl::TABLE_NAMESPACE,
    label_cxl::TABLE_REGION,
    label_index::TABLE,
    page_map::TABLE,
    set_info::TABLE,
];
