//! Repairs that stop while they are written, as a power cut stops them: for tests.

#[cfg(test)]
pub(super) use chosen::{kept, stopping_after};
#[cfg(not(test))]
pub(super) use shipped::kept;

#[cfg(not(test))]
mod shipped {
    use lode_capi_entry::Failure;

    /// Returns the writes of a group that reach the medium: all.
    #[allow(clippy::unnecessary_wraps, reason = "a test stops here")]
    pub(in crate::check) fn kept<W: Clone>(group: &[W]) -> Result<Vec<W>, Failure> {
        Ok(group.to_vec())
    }
}

#[cfg(test)]
mod chosen {
    use lode_capi_entry::Failure;
    use std::cell::Cell;

    thread_local! {
        /// The number of writes before the stop, and the seed of those that the medium keeps of the last group.
        static LEFT: Cell<Option<(usize, u64)>> = const { Cell::new(None) };
    }

    /// Runs `repair` on this thread, which stops after so many writes. The medium keeps some of the writes that were not made
    /// durable before, by the seed.
    pub(in crate::check) fn stopping_after<R>(writes: usize, seed: u64, repair: impl FnOnce() -> R) -> R {
        LEFT.set(Some((writes, seed)));
        let result = repair();
        LEFT.set(None);
        result
    }

    /// Returns the writes of a group that reach the medium.
    pub(in crate::check) fn kept<W: Clone>(group: &[W]) -> Result<Vec<W>, Failure> {
        match LEFT.get() {
            None => Ok(group.to_vec()),
            Some((0, _)) => Err(Failure::broken()),
            Some((left, seed)) if left >= group.len() => {
                LEFT.set(Some((left - group.len(), seed)));
                Ok(group.to_vec())
            }
            Some((left, seed)) => {
                LEFT.set(Some((0, seed)));
                let is_kept = |index: &usize| seed >> (index % 64) & 1 == 1;
                Ok((0..left).filter(is_kept).map(|index| group[index].clone()).collect())
            }
        }
    }
}
