//! The rule that each mutant of `tools/xtask/mutants.toml` matches the sources, and has a killer or a reason to be
//! equivalent.

use super::Finding;
use super::tree::Tree;
use crate::mutants::list::{self, Killer, LIST, Mutant};
use crate::mutants::split::Functions;
use crate::workspace::Package;
use std::collections::BTreeSet;

/// Checks the list against the sources of the tree.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let Some(text) = tree.get(LIST) else { return Vec::new() };
    let mutants = match list::parse(&text.text) {
        Ok(mutants) => mutants,
        Err(error) => return vec![Finding::new(LIST, 1, "mutants", format!("{error:#}"))],
    };
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    let mut findings = Vec::new();
    for mutant in &mutants {
        let mut advice = check_position(tree, mutant);
        advice.extend(check_killer(tree, packages, mutant));
        if !names.insert(&mutant.name) {
            advice.push("the name is used twice: rename one".into());
        } else if !numbers.insert(mutant.number()) {
            advice.push("the name has the number of another one: rename it".into());
        }
        let key = format!("name = \"{}\"", mutant.name);
        let line = text.text.lines().position(|line| line.trim() == key).map_or(1, |index| index + 1);
        findings.extend(
            advice
                .into_iter()
                .map(|advice| Finding::new(LIST, line, "mutants", format!("{}: {advice}", mutant.name))),
        );
    }
    findings
}

/// Returns the reason if the mutant does not match its source.
fn check_position(tree: &Tree, mutant: &Mutant) -> Vec<String> {
    let file = &mutant.file;
    let Some(source) = tree.get(file) else { return vec![format!("there is no file {file}")] };
    match Functions::parse(&source.text).and_then(|functions| functions.position(mutant)) {
        Ok(_) => Vec::new(),
        Err(error) => vec![format!("{file}: {error:#}")],
    }
}

/// Returns the reason if the list names neither a valid killer nor a reason to be equivalent.
fn check_killer(tree: &Tree, packages: &[Package], mutant: &Mutant) -> Vec<String> {
    let text = match (&mutant.kills, &mutant.equivalent) {
        (Some(text), None) => text,
        (None, Some(reason)) if reason.starts_with("because ") => return Vec::new(),
        (None, Some(_)) => return vec!["equivalent = \"because ...\" says why it changes nothing".into()],
        (None, None) => {
            return vec![
                "neither kills nor equivalent: `cargo xtask mutants --search NAME` finds a killer".into(),
            ];
        }
        (Some(_), Some(_)) => return vec!["both kills and equivalent: one of them is wrong".into()],
    };
    let missing = match Killer::parse(text) {
        None => Some("kills is none of `crash ...`, `loom TEST`, `test PACKAGE/TEST [FILTER]`".to_owned()),
        Some(Killer::Crash(_)) => None,
        Some(Killer::Loom(test)) => {
            let head = format!("fn {}()", test.rsplit("::").next().unwrap_or_default());
            let is_there = tree
                .files
                .iter()
                .any(|file| file.path.starts_with("engines/heap/tests/models/") && file.text.contains(&head));
            (!is_there).then(|| format!("no test {test} in engines/heap/tests/models"))
        }
        Some(Killer::Test { package: name, test, .. }) => {
            let package = packages.iter().find(|package| package.name == name);
            let is_there = package.is_some_and(|package| test == "lib" || package.tests.contains(&test));
            (!is_there).then(|| format!("the package {name} has no test {test}"))
        }
    };
    missing.into_iter().collect()
}

#[cfg(test)]
mod test {
    use super::*;

    const SOURCE: &str = "fn f() {\n    one();\n    two();\n    two();\n}\n";

    fn advice(changes: &[(&str, &str)]) -> Vec<String> {
        let mut fields = vec![
            ("name", "a"),
            ("file", "a/src/lib.rs"),
            ("function", "f"),
            ("line", "one();"),
            ("mutated", ""),
            ("kills", "crash log"),
        ];
        for change in changes {
            fields.retain(|field| field.0 != change.0);
            fields.push(*change);
        }
        let fields = fields.iter().filter(|field| field.1 != "-");
        let entry: String = fields.map(|(key, value)| format!("{key} = {value:?}\n")).collect();
        of(&format!("[[mutant]]\n{entry}"))
    }

    fn of(list: &str) -> Vec<String> {
        let models = "#[test]\nfn known() {}\n";
        let tree =
            Tree::of(&[(LIST, list), ("a/src/lib.rs", SOURCE), ("engines/heap/tests/models/log.rs", models)]);
        let package = Package { name: "a".into(), tests: vec!["cut".into()], ..Package::default() };
        check(&tree, &[package]).into_iter().map(|finding| finding.advice).collect()
    }

    #[test]
    fn mutants_match_sources_and_have_killers() {
        assert_eq!(advice(&[]), [""; 0]);
        for kills in ["loom models::log::known", "test a/cut", "test a/lib some_test"] {
            assert_eq!(advice(&[("kills", kills)]), [""; 0], "{kills}");
        }
        assert_eq!(advice(&[("kills", "-"), ("equivalent", "because it is")]), [""; 0]);
        let cases: [(&[(&str, &str)], &str); 11] = [
            (&[("file", "a/src/gone.rs")], "there is no file"),
            (&[("function", "g")], "there is no function g"),
            (&[("line", "three();")], "no line `three();`"),
            (&[("line", "two();")], "2 lines `two();`"),
            (&[("mutated", "one();")], "the line itself"),
            (&[("kills", "-")], "neither kills nor equivalent"),
            (&[("equivalent", "because it is")], "both kills and equivalent"),
            (&[("kills", "-"), ("equivalent", "it is")], "says why"),
            (&[("kills", "explore log")], "none of"),
            (&[("kills", "loom models::log::gone")], "no test models::log::gone"),
            (&[("kills", "test a/gone")], "no test gone"),
        ];
        for (changes, wanted) in cases {
            let found = advice(changes);
            assert!(found.len() == 1 && found[0].contains(wanted), "{changes:?}: {found:?}");
        }
    }

    #[test]
    fn mutant_names_are_unique() {
        let entry = "[[mutant]]\nname = \"a\"\nfile = \"a/src/lib.rs\"\nfunction = \"f\"\nline = \"one();\"\nmutated = \"\"\nkills = \"crash log\"\n";
        assert_eq!(of(&entry.repeat(2)), ["a: the name is used twice: rename one"]);
        assert!(of(&entry.replace("kills", "kill"))[0].contains("unknown field"));
    }
}
