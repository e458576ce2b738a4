//! The rule that the tests of every crate with assertions or unsafe code run in the build without assertions, too.

use super::Finding;
use super::tree::Tree;
use crate::workspace::Workspace;

/// The mark of code that a build without assertions compiles otherwise: of assertions and of their `cfg`.
const ASSERTION: &str = "debug_assert";

/// Finds crates that `workspace.metadata.release` lacks, each at its first file with an assertion or unsafe code.
pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let missing = workspace.packages.iter().filter(|package| {
        workspace.has_layer(package) && !workspace.rules.release.crates.contains(&package.name)
    });
    missing
        .filter_map(|package| {
            let sources = format!("{}/src/", package.folder.display());
            let mut files = tree.with_extension("rs").filter(|file| file.path.starts_with(&sources));
            let may_be_unsafe = |path: &str| {
                workspace.rules.unsafe_code.allowed.iter().any(|allowed| path.starts_with(allowed.as_str()))
            };
            let file = files.find(|file| may_be_unsafe(&file.path) || file.text.contains(ASSERTION))?;
            let advice = format!(
                "its tests do not run without assertions: add {} to workspace.metadata.release of Cargo.toml",
                package.name
            );
            Some(Finding::new(&file.path, 1, "release", advice))
        })
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workspace::{Allowed, Package, Release, Rules};

    #[test]
    fn crates_with_assertions_or_unsafe_code_are_found() {
        let names = ["plain", "asserting", "unsound", "listed"];
        let package =
            |name: &&str| Package { name: (*name).into(), folder: (*name).into(), ..Package::default() };
        let rules = Rules {
            layers: names.iter().map(|name| ((*name).to_owned(), 0)).collect(),
            unsafe_code: Allowed { allowed: vec!["unsound/src/".into()] },
            release: Release { crates: vec!["listed".into()], ..Release::default() },
            ..Rules::default()
        };
        let workspace =
            Workspace { packages: names.iter().map(package).collect(), rules, ..Workspace::default() };
        let tree = Tree::of(&[
            ("plain/src/lib.rs", "assert!(true);"),
            ("plain/tests/suite.rs", "debug_assert!(true);"),
            ("asserting/src/lib.rs", "debug_assert_eq!(1, 1);"),
            ("unsound/src/raw.rs", ""),
            ("listed/src/lib.rs", "debug_assert!(true);"),
        ]);
        let found: Vec<String> = check(&workspace, &tree).iter().map(ToString::to_string).collect();
        let advice = |name| {
            format!(
                "its tests do not run without assertions: add {name} to workspace.metadata.release of Cargo.toml"
            )
        };
        assert_eq!(
            found,
            [
                format!("asserting/src/lib.rs:1: release: {}", advice("asserting")),
                format!("unsound/src/raw.rs:1: release: {}", advice("unsound")),
            ]
        );
    }
}
