//! The rule that every crate in the tree is built and tested: it is in this workspace, or a workspace of its own.

use super::Finding;
use super::tree::Tree;
use crate::workspace::Workspace;

/// Finds manifests of crates that cargo does not know.
pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let is_member = |path: &str| {
        workspace.packages.iter().any(|package| path == format!("{}/Cargo.toml", package.folder.display()))
    };
    let is_alone = |text: &str| text.lines().any(|line| line.starts_with("[workspace"));
    let advice = "no member of the workspace: add its folder to `members` of Cargo.toml";
    manifests
        .filter(|file| !is_member(&file.path) && !is_alone(&file.text))
        .map(|file| Finding::new(&file.path, 1, "members", advice))
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workspace::Package;

    #[test]
    fn non_member_crates_are_found() {
        let low = Package { name: "low".into(), folder: "low".into(), ..Package::default() };
        let workspace = Workspace { packages: vec![low], ..Workspace::default() };
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]"),
            ("alone/Cargo.toml", "[package]\n[workspace]\n"),
            ("lost/Cargo.toml", "[package]"),
            ("low/Cargo.toml", "[package]"),
        ]);
        let found: Vec<String> = check(&workspace, &tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "lost/Cargo.toml:1: members: no member of the workspace: add its folder to `members` of Cargo.toml"
            ]
        );
    }
}
