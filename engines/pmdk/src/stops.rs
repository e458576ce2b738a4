//! Creations that stop at a chosen step and leave all as it is, as a kill does: for tests.

#[cfg(feature = "explore")]
mod chosen {
    use crate::error::PmdkError;
    use std::cell::Cell;

    /// The steps of a creation.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Steps {
        All,
        Left(u64),
        Stopped,
    }

    thread_local! {
        static STEPS: Cell<Steps> = const { Cell::new(Steps::All) };
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
pub use chosen::stopping_after;
#[cfg(feature = "explore")]
pub(crate) use chosen::{is_stopped, step};

/// Passes a step of a creation.
#[cfg(not(feature = "explore"))]
#[allow(clippy::unnecessary_wraps, reason = "a test stops here")]
pub(crate) fn step() -> Result<(), crate::error::PmdkError> {
    Ok(())
}

/// Returns true if a test has stopped the creation: nothing is cleaned up then.
#[cfg(not(feature = "explore"))]
pub(crate) fn is_stopped() -> bool {
    false
}
