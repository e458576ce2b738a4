//! The list of the files and functions that are longer than allowed, and of crates with cycles of files. It may only
//! shrink.

use super::Finding;
use super::size::{FILE_LINES, FUNCTION_LINES, Size};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

pub(super) const LIST: &str = "tools/xtask/tidy-excess.toml";

/// The list: lines of code by file, and by `FILE::FUNCTION`; files in cycles by crate.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Excess {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
    pub(super) cycles: BTreeMap<String, usize>,
}

impl Excess {
    /// Reads the list.
    pub(super) fn read(root: &Path) -> Result<Excess> {
        let text = fs::read_to_string(root.join(LIST)).context(LIST)?;
        toml::from_str(&text).context(LIST)
    }

    /// Finds code that is too long and not listed, longer than listed, or listed with more lines than it has.
    pub(super) fn compare(&self, sizes: &[Size]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut seen = BTreeSet::new();
        for size in sizes {
            let (name, listed, limit) = match &size.function {
                None => (size.path.clone(), &self.files, FILE_LINES),
                Some(function) => (format!("{}::{function}", size.path), &self.functions, FUNCTION_LINES),
            };
            let allowed = listed.get(&name).copied();
            let have = size.code_lines;
            let mut add = |advice| findings.push(Finding::new(&size.path, size.line, "size", advice));
            if have > allowed.unwrap_or(limit) {
                add(format!("{have} lines of code, {} allowed: split it", allowed.unwrap_or(limit)));
            } else if allowed.is_some_and(|_| have <= limit) {
                add(format!("{have} lines of code now: take it off {LIST}"));
            } else if allowed.is_some_and(|allowed| have < allowed) {
                add(format!("{have} lines of code now: write that into {LIST}"));
            }
            seen.insert(name);
        }
        let listed = self.files.keys().chain(self.functions.keys());
        let gone = listed.filter(|name| !seen.contains(*name));
        findings
            .extend(gone.map(|name| Finding::new(LIST, 1, "size", format!("{name} is gone: take it off"))));
        findings
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn check(function: &str, code_lines: usize) -> Vec<String> {
        let list = "[files]\n[functions]\n\"a.rs::old\" = 90\n[cycles]\n";
        let excess: Excess = toml::from_str(list).unwrap();
        let size = |name: &str, code_lines| Size {
            path: "a.rs".into(),
            function: Some(name.into()),
            line: 7,
            code_lines,
        };
        let mut sizes = vec![size(function, code_lines)];
        if function == "new" {
            sizes.push(size("old", 90));
        }
        excess.compare(&sizes).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn listed_sizes_only_shrink() {
        assert!(check("new", FUNCTION_LINES).is_empty());
        assert_eq!(check("new", 71), ["a.rs:7: size: 71 lines of code, 70 allowed: split it"]);
        assert!(check("old", 90).is_empty());
        assert_eq!(check("old", 91), ["a.rs:7: size: 91 lines of code, 90 allowed: split it"]);
        assert_eq!(
            check("old", 89),
            ["a.rs:7: size: 89 lines of code now: write that into tools/xtask/tidy-excess.toml"]
        );
        assert_eq!(
            check("old", 70),
            ["a.rs:7: size: 70 lines of code now: take it off tools/xtask/tidy-excess.toml"]
        );
        assert_eq!(
            check("other", 1),
            ["tools/xtask/tidy-excess.toml:1: size: a.rs::old is gone: take it off"]
        );
    }

    #[test]
    fn long_files_are_found() {
        let size = |code_lines| Size { path: "b.rs".into(), function: None, line: 1, code_lines };
        assert!(Excess::default().compare(&[size(FILE_LINES)]).is_empty());
        assert_eq!(Excess::default().compare(&[size(FILE_LINES + 1)]).len(), 1);
    }
}
