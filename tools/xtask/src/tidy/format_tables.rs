//! The rule that a test compares each table of a media format with the bytes.

use super::Finding;
use super::tree::Tree;

/// The crates of formats. Each has a test that compares the tables with the compiled fields, and fails on an unknown
/// table.
const CRATES: [&str; 2] = ["formats/layout/", "formats/nvdimm/"];
/// That test, in its crate.
const TEST: &str = "tests/format_tables.rs";
/// The folder in which the test looks for tables, in its crate.
const HOME: &str = "src/";

/// Finds tables that no test reads.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        let is_tested = CRATES.iter().any(|folder| {
            let name = file.path.strip_prefix(folder).and_then(|path| path.strip_prefix(HOME));
            name.is_some_and(|name| !name.contains('/')) && tree.get(&format!("{folder}{TEST}")).is_some()
        });
        if let Some(index) = file.text.lines().position(is_row).filter(|_| !is_tested) {
            let homes = CRATES.map(|folder| format!("{folder}{HOME}")).join(" or ");
            let advice =
                format!("no test compares this table with the bytes: move it to {homes}, for {TEST}");
            findings.push(Finding::new(&file.path, index + 1, "tables", advice));
        }
    }
    findings
}

/// Returns true if the line is a row of a format table: its first column is an offset.
fn is_row(line: &str) -> bool {
    line.strip_prefix('|').is_some_and(|cells| cells.trim_start().starts_with("0x"))
}

#[cfg(test)]
mod test {
    use super::*;

    const ROWS: &str = "A header.\n\n| off | len | field |\n|---|---|---|\n| 0x000 | 8 | magic |\n";

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        check(&Tree::of(files)).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn format_table_is_where_the_test_reads() {
        let files = [
            ("formats/layout/tests/format_tables.rs", ""),
            ("formats/layout/src/header.md", ROWS),
            ("README.md", "| a | 0x0 |\n"),
        ];
        assert_eq!(found(&files), []);
        assert_eq!(found(&files[1..]), [("formats/layout/src/header.md".into(), 5)], "no test");
        for path in ["docs/header.md", "formats/layout/src/inner/header.md"] {
            assert_eq!(found(&[files[0], (path, ROWS)]), [(path.into(), 5)]);
        }
    }
}
