//! The rule that each crate of a layer can be packaged: its manifest has what a registry asks for and shows.

use super::Finding;
use crate::workspace::Workspace;

/// Finds manifests of crates with a layer that lack something.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let published = workspace.packages.iter().filter(|package| workspace.has_layer(package));
    let incomplete = published.filter(|package| !package.lacks.is_empty());
    incomplete
        .map(|package| {
            let manifest = format!("{}/Cargo.toml", package.folder.display());
            let advice =
                format!("{} can't be published as it should: add {}", package.name, package.lacks.join(", "));
            Finding::new(&manifest, 1, "packages", advice)
        })
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workspace::{Package, Rules};

    #[test]
    fn incomplete_manifests_are_found() {
        let package = |name: &str, lacks: &[&'static str]| Package {
            name: name.into(),
            folder: name.into(),
            lacks: lacks.to_vec(),
            ..Package::default()
        };
        let packages = vec![
            package("whole", &[]),
            package("low", &["keywords", "categories"]),
            package("tool", &["keywords"]),
        ];
        let layers = ["whole", "low"].map(|name| (name.to_owned(), 0)).into();
        let workspace =
            Workspace { packages, rules: Rules { layers, ..Rules::default() }, ..Workspace::default() };
        let found: Vec<String> = check(&workspace).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["low/Cargo.toml:1: packages: low can't be published as it should: add keywords, categories"]
        );
    }
}
