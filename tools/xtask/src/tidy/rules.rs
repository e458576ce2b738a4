//! The rules of the log: the page that argues for them, the seeded bugs that break them and the tests that find these
//! agree.

use super::Finding;
use super::tree::Tree;
use std::collections::BTreeSet;

const PAGE: &str = "docs/log.md";
const BUGS: &str = "engines/redo/src/bugs.rs";
/// The tests that find the bugs: those of each engine with rules of its own.
const TESTS: [&str; 3] = [
    "engines/heap/tests/seeded_bugs.rs",
    "engines/blocks/tests/seeded_bugs.rs",
    "engines/redo/tests/seeded_bugs.rs",
];

/// Compares the page's tables with the bugs and their tests, in both directions.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(PAGE) else { return Vec::new() };
    let (bugs, tests) = (text(tree, BUGS), TESTS.map(|path| text(tree, path)));
    let rows: Vec<Row<'_>> =
        page.text.lines().enumerate().filter_map(|(at, line)| Row::parse(at, line)).collect();
    let stated: BTreeSet<u64> = rows.iter().filter(|row| row.bug.is_none()).map(|row| row.rule).collect();
    let seeded: Vec<(u64, &str)> = seeded(bugs);
    let mut findings = Vec::new();
    let mut find = |path: &str, line, advice| findings.push(Finding::new(path, line, "rules", advice));
    for Row { line, rule, bug, test } in &rows {
        let Some(bug) = bug else {
            if !rows.iter().any(|row| row.rule == *rule && row.bug.is_some()) {
                find(PAGE, *line, format!("rule {rule} has no crash that shows what it is for"));
            }
            continue;
        };
        if !stated.contains(rule) {
            find(PAGE, *line, format!("there is no rule {rule}"));
        }
        if !seeded.contains(&(*rule, *bug)) {
            find(PAGE, *line, format!("{BUGS} has no bug `{bug}` of rule {rule}"));
        }
        let has = |test: &str| tests.iter().any(|tests| tests.contains(&format!("{test}: ")));
        if !test.is_some_and(has) {
            find(PAGE, *line, format!("{} has no such test for `{bug}`", TESTS.join(" or ")));
        }
    }
    for (rule, bug) in seeded {
        if !rows.iter().any(|row| row.rule == rule && row.bug == Some(bug)) {
            find(BUGS, 1, format!("{PAGE} has no crash for rule {rule} that the bug `{bug}` brings about"));
        }
    }
    findings
}

fn text<'a>(tree: &'a Tree, path: &str) -> &'a str {
    tree.get(path).map_or("", |file| file.text.as_str())
}

/// A row of a table that begins with the number of a rule.
struct Row<'a> {
    line: usize,
    rule: u64,
    /// The seeded bug and its test, in the table of crashes.
    bug: Option<&'a str>,
    test: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn parse(at: usize, line: &'a str) -> Option<Row<'a>> {
        let cells: Vec<&str> =
            line.strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim).collect();
        let rule = cells.first()?.parse().ok()?;
        // The table of crashes has five columns.
        let mut names = cells.get(4).map_or("", |cell| cell).split(", ").map(|name| name.trim_matches('`'));
        let (bug, test) = (names.next().filter(|name| !name.is_empty()), names.next());
        Some(Row { line: at + 1, rule, bug, test })
    }
}

/// The rule of each seeded bug, and its name.
fn seeded(source: &str) -> Vec<(u64, &str)> {
    let mut found = Vec::new();
    let mut rule = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("/// Rule ") {
            rule = rest.split(':').next().and_then(|number| number.parse().ok());
        }
        let name = line.split_once("Bug::new(\"").and_then(|(_, rest)| rest.split('"').next());
        found.extend(rule.zip(name));
    }
    found
}

#[cfg(test)]
mod test {
    use super::*;

    const RULES: &str = "| 1 | first | code |\n| 2 | second | code |\n\n";
    const CRASHES: &str = "| 1 | a | b | c | `one`, `one_test` |\n| 2 | a | b | c | `two`, `two_test` |\n";
    const SEEDED: &str = "/// Rule 1: a.\npub static ONE: Bug = Bug::new(\"one\", \"x\");\n/// Rule 2: b.\n\
                          pub static TWO: Bug =\n    Bug::new(\"two\", \"x\");\n";
    const TESTED: &str = "one_test: ONE in LOG;\ntwo_test: TWO in LOG;\n";

    fn lines(page: &str, bugs: &str, tests: &str) -> Vec<(String, usize)> {
        let found = check(&Tree::of(&[(PAGE, page), (BUGS, bugs), (TESTS[0], tests)]));
        found.into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn rules_match_seeded_bugs_and_tests() {
        let page = format!("{RULES}{CRASHES}");
        assert_eq!(lines(&page, SEEDED, TESTED), []);
        assert_eq!(lines(&page, SEEDED, "one_test: ONE in LOG;\n"), [(PAGE.into(), 5)], "no test");
        assert_eq!(
            lines(&page.replace("`one`", "`other`"), SEEDED, TESTED),
            [(PAGE.into(), 4), (BUGS.into(), 1)]
        );
        assert_eq!(lines(RULES, "", ""), [(PAGE.into(), 1), (PAGE.into(), 2)], "no crash");
        assert_eq!(lines(&page.replacen("| 2 | second", "| 3 | second", 1), SEEDED, TESTED).len(), 2);
    }
}
