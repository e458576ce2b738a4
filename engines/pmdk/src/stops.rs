//! Creations that stop at a chosen step and leave all as it is, as a kill does: for tests.

#[cfg(feature = "explore")]
mod chosen {
    use crate::error::PmdkError;
    use std::cell::{Cell, RefCell};
    use std::path::{Path, PathBuf};

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
        /// The folder was synced.
        Persisted(PathBuf),
    }

    thread_local! {
        static STEPS: Cell<Steps> = const { Cell::new(Steps::All) };
        static NAMES: RefCell<Vec<NameChange>> = const { RefCell::new(Vec::new()) };
    }

    /// Returns the changes of names by this thread since the last call.
    pub fn take_name_changes() -> Vec<NameChange> {
        NAMES.take()
    }

    pub(crate) fn name_made(path: &Path) {
        NAMES.with_borrow_mut(|names| names.push(NameChange::Made(path.to_owned())));
    }

    pub(crate) fn name_changed(from: &Path, to: &Path) {
        NAMES.with_borrow_mut(|names| names.push(NameChange::Renamed(from.to_owned(), to.to_owned())));
    }

    pub(crate) fn names_persisted(folder: &Path) {
        NAMES.with_borrow_mut(|names| names.push(NameChange::Persisted(folder.to_owned())));
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
pub use chosen::{NameChange, stopping_after, take_name_changes};
#[cfg(feature = "explore")]
pub(crate) use chosen::{is_stopped, name_changed, name_made, names_persisted, step};

#[cfg(not(feature = "explore"))]
mod shipped {
    use crate::error::PmdkError;
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

    /// Notes for a test that a folder was synced.
    pub(crate) fn names_persisted(_: &Path) {}
}

#[cfg(not(feature = "explore"))]
pub(crate) use shipped::{is_stopped, name_changed, name_made, names_persisted, step};
