//! The rule that a crate depends only on crates of lower layers. Below layer 4, an outside crate needs a decision page.

use super::Finding;
use super::tree::Tree;
use crate::workspace::{Package, Workspace};

/// Lowest layer on which a crate may depend on outside crates without a page in docs/decisions.
const UNRESTRICTED_LAYER: u32 = 4;
/// Outside crates that every layer may use: the kernel's interface.
const ALLOWED_EVERYWHERE: [&str; 2] = ["libc", "rustix"];

/// Finds dependencies that break the rule. Dependencies for tests only are free.
pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    workspace.packages.iter().flat_map(|package| check_package(workspace, tree, package)).collect()
}

fn check_package(workspace: &Workspace, tree: &Tree, package: &Package) -> Vec<Finding> {
    let rules = &workspace.rules;
    if rules.tools.crates.contains(&package.name) {
        return Vec::new();
    }
    let manifest = format!("{}/Cargo.toml", package.folder.display());
    let Some(layer) = rules.layers.get(&package.name) else {
        let advice =
            format!("{} has no layer: add it to `workspace.metadata.layers` of Cargo.toml", package.name);
        return vec![Finding::new(&manifest, 1, "layers", advice)];
    };
    let mut findings = Vec::new();
    for dependency in package.dependencies.iter().filter(|dependency| !dependency.only_for_tests) {
        let name = dependency.name.as_str();
        let ours = workspace.packages.iter().any(|package| package.name == name);
        let advice = match rules.layers.get(name) {
            Some(lower) if lower < layer => continue,
            Some(other) => format!("layer {layer} must not depend on `{name}` of layer {other}"),
            None if ours => format!("`{name}` has no layer: no crate may depend on it"),
            None if *layer >= UNRESTRICTED_LAYER
                || ALLOWED_EVERYWHERE.contains(&name)
                || is_decided(tree, name) =>
            {
                continue;
            }
            None => format!(
                "`{name}` below layer {UNRESTRICTED_LAYER} needs a page in docs/decisions that names it"
            ),
        };
        findings.push(Finding::new(&manifest, line_of(tree, &manifest, name), "layers", advice));
    }
    findings
}

/// Returns true if a decision page names the crate.
fn is_decided(tree: &Tree, name: &str) -> bool {
    let name = format!("`{name}`");
    tree.files.iter().any(|file| file.path.starts_with("docs/decisions/") && file.text.contains(&name))
}

fn line_of(tree: &Tree, manifest: &str, name: &str) -> usize {
    let found = tree.get(manifest).and_then(|file| file.text.lines().position(|line| line.starts_with(name)));
    found.map_or(1, |index| index + 1)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workspace::{Crates, Dependency, Rules};

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency { name: (*name).to_owned(), only_for_tests: false };
        Package {
            name: name.into(),
            folder: name.into(),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    fn advice(package: Package) -> Vec<String> {
        let layers = [("low", 1), ("same", 3), ("mid", 3), ("high", 4)];
        let rules = Rules {
            layers: layers.map(|(name, layer)| (name.to_owned(), layer)).into(),
            tools: Crates { crates: vec!["tool".into()] },
            ..Rules::default()
        };
        let packages = vec![package, self::package("tool", &["high"])];
        let workspace = Workspace { packages, rules, ..Workspace::default() };
        let tree = Tree::of(&[
            ("docs/decisions/crc.md", "`crc32c` because"),
            ("mid/Cargo.toml", "[dependencies]\nlow = 1\nhigh = 1\n"),
        ]);
        check(&workspace, &tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn upward_dependencies_are_found() {
        assert!(advice(package("mid", &["low", "rustix", "crc32c"])).is_empty());
        assert_eq!(
            advice(package("mid", &["high"])),
            ["mid/Cargo.toml:3: layers: layer 3 must not depend on `high` of layer 4"]
        );
        assert_eq!(advice(package("mid", &["same"])).len(), 1);
        assert_eq!(
            advice(package("high", &["tool"])),
            ["high/Cargo.toml:1: layers: `tool` has no layer: no crate may depend on it"]
        );
        assert_eq!(advice(package("nowhere", &[])).len(), 1);
    }

    #[test]
    fn low_layer_dependencies_need_decisions() {
        assert_eq!(
            advice(package("mid", &["serde"])),
            ["mid/Cargo.toml:1: layers: `serde` below layer 4 needs a page in docs/decisions that names it"]
        );
        assert!(advice(package("high", &["serde"])).is_empty());
    }

    #[test]
    fn dev_dependencies_are_exempt() {
        let mut mid = package("mid", &["high", "serde"]);
        for dependency in &mut mid.dependencies {
            dependency.only_for_tests = true;
        }
        assert!(advice(mid).is_empty());
    }
}
