//! A medium with poison in it.

use crate::medium::SimMedium;
use lode_pmem::LossModel;
use std::ops::Range;

impl SimMedium {
    /// Switches the poison of the medium on or off, if it has one.
    pub(crate) fn arm_poison(&self, on: bool) {
        self.poison.iter().for_each(|poison| poison.arm(on));
    }

    /// Runs `access` with the poison switched off.
    pub(crate) fn without_poison<R>(&self, access: impl FnOnce() -> R) -> R {
        let was_armed = self.poison.as_ref().is_some_and(|poison| poison.is_armed());
        self.arm_poison(false);
        let result = access();
        self.arm_poison(was_armed);
        result
    }

    /// Notes that the engine is open.
    pub(crate) fn note_opened(&self) {
        if let Some(poison) = &self.poison {
            poison.note_opened();
        }
    }

    /// Returns the lost range that a store to `range` meets.
    pub(crate) fn lost_by_store(&self, range: &Range<u64>) -> Option<Range<u64>> {
        self.poison.as_ref()?.on_access(range.clone())
    }

    /// Returns true if a line was lost.
    pub(crate) fn has_lost_line(&self) -> bool {
        self.poison.as_ref().is_some_and(|poison| poison.line().is_some())
    }

    /// Returns the lost range if it overlaps `range`.
    pub(crate) fn lost(&self, range: &Range<u64>) -> Option<Range<u64>> {
        self.poison.as_ref()?.lost_range(range)
    }
}
