//! The rule that the tables of figures in README.md are those of the record.

use super::Finding;
use super::tree::Tree;
use crate::figures::{README, RECORD, with_tables};

/// Compares the tables with those that the record gives.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(readme), Some(record)) = (tree.get(README), tree.get(RECORD)) else { return Vec::new() };
    let advice = match with_tables(&readme.text, &record.text) {
        Ok(text) if text == readme.text => return Vec::new(),
        Ok(_) => format!("its figures are not those of {RECORD}: run `cargo xtask figures`"),
        Err(error) => format!("{error:#}"),
    };
    let line = readme.text.lines().position(|line| line.starts_with("<!-- figures")).unwrap_or_default();
    vec![Finding::new(README, line + 1, "figures", advice)]
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::figures::test::record;

    #[test]
    fn changed_figures_are_found() {
        let record = record();
        let readme = with_tables("a\n<!-- figures -->\n<!-- end of figures -->\n", &record).unwrap();
        let lines = |readme: &str, record: &str| {
            let found = check(&Tree::of(&[(README, readme), (RECORD, record)]));
            found.into_iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(&readme, &record), [0; 0]);
        assert_eq!(lines(&readme.replace("84.2", "42.1"), &record), [2]);
        assert_eq!(lines("no tables\n", &record), [1]);
        assert_eq!(lines(&readme, "{}"), [2]);
    }
}
