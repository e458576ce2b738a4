//! A folder for the stores of a test.

use lode_fsck::check_pool;
use lode_index::StoreLayout;
use lode_pool::{Access, OpenOptions, map_unchecked};
use lodestone::{Durability, Options, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder with a store. Its content is lost with the folder.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn options() -> Options {
        Store::options().durability(Durability::None).clone()
    }

    pub(crate) fn open(&self) -> Store {
        Place::options().open(self.path()).unwrap()
    }

    /// Checks the closed store: no damage, no leak, and this many keys in all trees.
    pub(crate) fn check(&self, keys: u64) {
        self.check_at(&self.path(), keys);
    }

    /// Checks the closed store at `path`, as [`check`](Place::check) does.
    pub(crate) fn check_at(&self, path: &Path, keys: u64) {
        let private_view = map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).unwrap();
        let report = check_pool(Arc::new(private_view), &[&StoreLayout]);
        assert_eq!(report.worst(), None, "{report}");
        assert_eq!(report.counts.objects, report.counts.reached, "{report}");
        assert_eq!(report.counts.keys, keys, "{report}");
    }
}
