//! Tests that every drawing of this crate matches the compiler: offset, length and name of each field, without gaps.

#[path = "../../layout/tests/drawn/mod.rs"]
mod drawn;

use lode_nvdimm::DRAWINGS;

#[test]
fn drawings_match_the_compiled_fields() {
    drawn::match_the_compiled_fields(DRAWINGS);
}

#[test]
fn fields_cover_the_format_without_gaps() {
    drawn::cover_the_format_without_gaps(DRAWINGS);
}

#[test]
fn every_drawing_is_listed() {
    drawn::are_listed(DRAWINGS);
}
