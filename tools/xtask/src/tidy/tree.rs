//! The text files of the project, without those that git ignores.

use anyhow::Result;
use ignore::WalkBuilder;
use std::fs;
use std::path::Path;

/// All text files below the root.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<Text>,
}

/// A text file.
#[derive(Debug)]
pub(super) struct Text {
    /// Path relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    /// Reads the files below `root`. Files that are not UTF-8 are left out.
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        for entry in WalkBuilder::new(root).hidden(false).require_git(false).build() {
            let entry = entry?;
            let path = entry.path().strip_prefix(root)?;
            if path.starts_with(".git") || !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            if let Ok(text) = String::from_utf8(fs::read(entry.path())?) {
                files.push(Text { path: path.to_string_lossy().into_owned(), text });
            }
        }
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Tree { files })
    }

    /// Returns the file at this path.
    pub(super) fn get(&self, path: &str) -> Option<&Text> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the files whose names end in this extension.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &Text> {
        let extension = format!(".{extension}");
        self.files.iter().filter(move |file| file.path.ends_with(&extension))
    }

    /// Returns true if a file or a folder is at this path.
    pub(super) fn holds(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty() || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// Returns a tree of these paths and texts.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let text = |(path, text): &(&str, &str)| Text { path: (*path).into(), text: (*text).into() };
        Tree { files: files.iter().map(text).collect() }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn tree_excludes_ignored_folders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.get("tools/xtask/src/tidy/tree.rs").is_some());
        assert!(tree.get(".gitignore").is_some());
        assert!(
            tree.holds("tools/xtask/src")
                && !tree.holds("tools/xtask/sr")
                && !tree.holds("target")
                && !tree.holds(".git")
        );
    }
}
