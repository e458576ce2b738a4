//! The rule that a test compares each drawing of a media format with the bytes.

use super::Finding;
use super::tree::Tree;

/// The test that compares the drawings with the compiled fields, and fails on an unknown drawing.
const TEST: &str = "layout/tests/drawings.rs";
/// Folder in which that test looks for drawings.
const HOME: &str = "layout/src/";

/// Finds drawings that no test reads.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let tested = tree.get(TEST).is_some();
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        let at_home = file.path.strip_prefix(HOME).is_some_and(|name| !name.contains('/'));
        if let Some(index) = file.text.lines().position(is_row).filter(|_| !(at_home && tested)) {
            let advice =
                format!("no test compares this drawing with the bytes: draw it in {HOME}, for {TEST}");
            findings.push(Finding::new(&file.path, index + 1, "drawings", advice));
        }
    }
    findings
}

/// Returns true if the line is a row of a drawing: a table whose first column is an offset.
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
    fn a_format_is_drawn_where_the_test_reads() {
        let files = [(TEST, ""), ("layout/src/header.md", ROWS), ("README.md", "| a | 0x0 |\n")];
        assert_eq!(found(&files), []);
        assert_eq!(found(&files[1..]), [("layout/src/header.md".into(), 5)], "no test");
        for path in ["docs/header.md", "layout/src/inner/header.md"] {
            assert_eq!(found(&[files[0], (path, ROWS)]), [(path.into(), 5)]);
        }
    }
}
