//! Tests that every table of this crate matches the compiler: offset, length and name of each field, without gaps.

#[path = "../../layout/tests/table_checks/mod.rs"]
mod table_checks;

use lode_nvdimm::FORMAT_TABLES;

#[test]
fn tables_match_compiled_fields() {
    table_checks::compare_with_compiled_fields(FORMAT_TABLES);
}

#[test]
fn fields_leave_no_gaps() {
    table_checks::check_gaps(FORMAT_TABLES);
}

#[test]
fn every_table_is_listed() {
    table_checks::check_listed(FORMAT_TABLES);
}
