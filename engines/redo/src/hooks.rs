//! Callbacks from the middle of a commit.

/// Called by [`Log::commit_in`](crate::Log::commit_in) between the phases of a commit. `()` does nothing.
pub trait CommitHooks {
    /// Called with a lane held, before the record gets its number. Returns false to give up the commit.
    #[inline]
    fn admits(&mut self) -> bool {
        true
    }

    /// Called when the record has its number. Returns true if
    /// [`before_write_back`](CommitHooks::before_write_back) is to be called.
    #[inline]
    fn wants_entries(&mut self) -> bool {
        false
    }

    /// Called with some entries of the record `sequence`, and then with the others, before any of them is written back.
    fn before_write_back(&mut self, sequence: u64, entries: &[u64]) {
        let _ = (sequence, entries);
    }

    /// Called at durability commit when the record `sequence` with these entries has its place in the log, and is not
    /// written back yet. From now on it becomes durable, or no later one does.
    fn appended(&mut self, sequence: u64, entries: &[u64]) {
        let _ = (sequence, entries);
    }

    /// Called after [`appended`](CommitHooks::appended) when the record is durable and written back.
    fn written_back(&mut self, sequence: u64, entries: &[u64]) {
        let _ = (sequence, entries);
    }
}

impl CommitHooks for () {}
