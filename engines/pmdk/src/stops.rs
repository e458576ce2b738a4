//! Creations that stop at a chosen step and leave all as it is, as a kill does: for tests.

#[cfg(feature = "explore")]
mod chosen {
    use crate::error::PmdkError;
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    /// The contents of files that a power cut leaves.
    #[derive(Clone, Debug, Default)]
    pub struct DurableContents {
        /// Content by inode number. A file that is not here was never synced.
        pub by_inode: HashMap<u64, Vec<u8>>,
        /// The file that was synced last, and its durable content before that, if no name has changed since. A power cut in that sync leaves
        /// any of the sectors that it wrote.
        pub last: Option<(u64, Vec<u8>)>,
    }

    /// The steps of a creation.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Steps {
        All,
        Left(u64),
        Stopped,
    }

    /// A change of the names in folders. A power cut may lose each that its folder was not synced after.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum NameChange {
        /// A file was made.
        Made(PathBuf),
        /// A file got another name.
        Renamed(PathBuf, PathBuf),
        /// A file was removed.
        Removed(PathBuf),
        /// The folder was synced.
        Persisted(PathBuf),
    }

    thread_local! {
        static STEPS: Cell<Steps> = const { Cell::new(Steps::All) };
        static NAMES: RefCell<Vec<NameChange>> = const { RefCell::new(Vec::new()) };
        /// The durable contents, while a test wants them.
        static CONTENTS: RefCell<DurableContents> = RefCell::default();
        /// True while a test wants them: a library of C that is built beside the tests keeps none, and no destructor.
        static IS_CONTENT_NOTED: Cell<bool> = const { Cell::new(false) };
        /// True once a test has asked for changes: a library of C that is built beside the tests keeps none.
        static IS_NOTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Returns the changes of names by this thread since the last call. Changes before the first call are not noted.
    pub fn take_name_changes() -> Vec<NameChange> {
        IS_NOTED.set(true);
        NAMES.take()
    }

    fn note(change: impl FnOnce() -> NameChange) {
        if IS_CONTENT_NOTED.get() {
            CONTENTS.with_borrow_mut(|contents| contents.last = None);
        }
        if IS_NOTED.get() {
            NAMES.with_borrow_mut(|names| names.push(change()));
        }
    }

    pub(crate) fn name_made(path: &Path) {
        note(|| NameChange::Made(path.to_owned()));
    }

    pub(crate) fn name_changed(from: &Path, to: &Path) {
        note(|| NameChange::Renamed(from.to_owned(), to.to_owned()));
    }

    pub(crate) fn name_removed(path: &Path) {
        note(|| NameChange::Removed(path.to_owned()));
    }

    pub(crate) fn names_persisted(folder: &Path) {
        note(|| NameChange::Persisted(folder.to_owned()));
    }

    /// Notes each content that this thread syncs while it runs `make`, besides those in `contents`, by inode number, which are durable
    /// before. Returns the result, and what is durable after it.
    pub fn noting_contents<R>(
        contents: HashMap<u64, Vec<u8>>,
        make: impl FnOnce() -> R,
    ) -> (R, DurableContents) {
        CONTENTS.set(DurableContents { by_inode: contents, last: None });
        IS_CONTENT_NOTED.set(true);
        let result = make();
        IS_CONTENT_NOTED.set(false);
        (result, CONTENTS.take())
    }

    pub(crate) fn content_persisted(file: &File) {
        if !IS_CONTENT_NOTED.get() {
            return;
        }
        // The file may be open for writing alone, and have no name.
        let found = file.metadata().and_then(|found| {
            fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).map(|bytes| (found.ino(), bytes))
        });
        let Ok((inode, bytes)) = found else { return };
        CONTENTS.with_borrow_mut(|contents| {
            let before = contents.by_inode.insert(inode, bytes);
            contents.last = Some((inode, before.unwrap_or_default()));
        });
    }

    /// Runs `make` on this thread, which stops before the step after so many. Returns the result, and whether it was
    /// stopped.
    pub fn stopping_after<R>(steps: u64, make: impl FnOnce() -> R) -> (R, bool) {
        STEPS.set(Steps::Left(steps));
        let result = make();
        (result, STEPS.replace(Steps::All) == Steps::Stopped)
    }

    pub(crate) fn step() -> Result<(), PmdkError> {
        match STEPS.get() {
            Steps::All => Ok(()),
            Steps::Left(0) | Steps::Stopped => {
                STEPS.set(Steps::Stopped);
                Err(PmdkError::Stopped)
            }
            Steps::Left(left) => {
                STEPS.set(Steps::Left(left - 1));
                Ok(())
            }
        }
    }

    pub(crate) fn is_stopped() -> bool {
        STEPS.get() == Steps::Stopped
    }
}

#[cfg(feature = "explore")]
pub use chosen::{DurableContents, NameChange, noting_contents, stopping_after, take_name_changes};
#[cfg(feature = "explore")]
pub(crate) use chosen::{
    content_persisted, is_stopped, name_changed, name_made, name_removed, names_persisted, step,
};

#[cfg(not(feature = "explore"))]
mod shipped {
    use crate::error::PmdkError;
    use std::fs::File;
    use std::path::Path;

    /// Passes a step of a creation.
    #[allow(clippy::unnecessary_wraps, reason = "a test stops here")]
    pub(crate) fn step() -> Result<(), PmdkError> {
        Ok(())
    }

    /// Returns true if a test has stopped the creation: nothing is cleaned up then.
    pub(crate) fn is_stopped() -> bool {
        false
    }

    /// Notes for a test that a file was made.
    pub(crate) fn name_made(_: &Path) {}

    /// Notes for a test that a file got another name.
    pub(crate) fn name_changed(_: &Path, _: &Path) {}

    /// Notes for a test that a file was removed.
    pub(crate) fn name_removed(_: &Path) {}

    /// Notes for a test that a folder was synced.
    pub(crate) fn names_persisted(_: &Path) {}

    /// Notes for a test that the content of a file was synced.
    pub(crate) fn content_persisted(_: &File) {}
}

#[cfg(not(feature = "explore"))]
pub(crate) use shipped::{
    content_persisted, is_stopped, name_changed, name_made, name_removed, names_persisted, step,
};
