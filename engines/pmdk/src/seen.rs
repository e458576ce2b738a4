//! The files of a set that its lines have named so far.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files and folders of a set. A link of any kind is no file of its own.
#[derive(Default)]
pub(crate) struct Seen {
    inodes: HashSet<(u64, u64)>,
    /// Those that are not there.
    paths: HashSet<PathBuf>,
}

impl Seen {
    /// Adds a file or folder. Returns false if it is known.
    pub(crate) fn insert(&mut self, path: &Path, metadata: Option<&fs::Metadata>) -> bool {
        match metadata {
            Some(found) => self.inodes.insert((found.dev(), found.ino())),
            None => self.paths.insert(path.to_owned()),
        }
    }
}
