//! The rule that a module with files below it is `NAME/mod.rs`, beside those.

use super::Finding;
use super::tree::Tree;

/// Finds modules in a file beside the folder of their parts.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_beside = |path: &str| {
        let folder = path.strip_suffix(".rs").map(|module| format!("{module}/"));
        let mut parts = tree.with_extension("rs");
        folder.is_some_and(|folder| parts.any(|file| file.path.starts_with(&folder)))
    };
    let sources = tree.with_extension("rs").filter(|file| file.path.contains("/src/"));
    sources
        .filter(|file| is_beside(&file.path))
        .map(|file| Finding::new(&file.path, 1, "modules", "move it to `mod.rs` in the folder of its parts"))
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn module_files_beside_folders_are_found() {
        let tree = Tree::of(&[
            ("x/src/a.rs", ""),
            ("x/src/a/part.rs", ""),
            ("x/src/ab.rs", ""),
            ("x/src/b/mod.rs", ""),
            ("x/src/b/part.rs", ""),
            ("x/tests/c.rs", ""),
            ("x/tests/c/part.rs", ""),
        ]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["x/src/a.rs:1: modules: move it to `mod.rs` in the folder of its parts"]);
    }
}
