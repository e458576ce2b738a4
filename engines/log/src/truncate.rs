//! Dropping records, and closing.

use crate::append_log::AppendLog;
use crate::area::index_in;
use crate::bugs;
use crate::error::AppendLogError;
use lode_layout::{LogFrameHeader, LogState};
use lode_pmem::sync::Ordering;
use lode_pmem::{Medium, hold};

impl<M: Medium> AppendLog<M> {
    /// Drops all records before `position`, which an append or a walk returned. The space of frames without other
    /// records is free then. A position before the [head](AppendLog::head) drops nothing.
    ///
    /// # Errors
    /// [`AppendLogError::NoRecord`] if no record begins there, and the log does not end there. With
    /// [`AppendLogError::InDoubt`] they may or may not be dropped when the pool is opened again, and the handle accepts no
    /// more changes. With any other error nothing was changed.
    ///
    /// # Durability
    /// Durable on return. A crash before that leaves all records or drops all of these. With a volatile cache, appends before
    /// `position` are made durable first.
    ///
    /// # Cost
    /// One drain; with a volatile cache a sync before it if appends before `position` are not durable.
    pub fn truncate(&self, position: u64) -> Result<(), AppendLogError> {
        self.check_accepts()?;
        let end = self.end();
        if position > end {
            return Err(AppendLogError::NoRecord { position });
        }
        if position > self.durable() {
            self.persist()?;
        }
        let mut state = hold(&self.state, self.medium());
        self.check_accepts()?;
        if position <= state.head {
            return Ok(());
        }
        if position < end {
            let frame = LogFrameHeader::frame_of(position);
            let header = self.medium().memory().reading(|memory| self.area.header(memory, frame, end))?;
            header
                .and_then(|header| index_in(&header, position))
                .ok_or(AppendLogError::NoRecord { position })?;
        }
        self.change_state(&mut state, position)
    }

    /// Drops all records and returns the position of the next one.
    ///
    /// # Errors
    /// As [`truncate`](AppendLog::truncate).
    ///
    /// # Durability
    /// Durable on return, as for [`truncate`](AppendLog::truncate).
    ///
    /// # Cost
    /// That of [`truncate`](AppendLog::truncate).
    pub fn rewind(&self) -> Result<u64, AppendLogError> {
        let end = self.end();
        self.truncate(end)?;
        Ok(end)
    }

    /// Makes a state durable that begins at `head`, and then gives its space free.
    fn change_state(&self, state: &mut LogState, head: u64) -> Result<(), AppendLogError> {
        let end = if bugs::END_NOT_DURABLE.is_active() { self.end() } else { self.durable() };
        let new = LogState { head, end, ..*state };
        if bugs::HEAD_BEFORE_STATE.is_active() {
            // ORDER: none: a seeded bug.
            self.head.store(head, Ordering::Release);
        }
        self.commit_state(&new)?;
        *state = new;
        // ORDER: the state is durable before an append overwrites what it drops. Stop here: the space is free after the next
        // opening. Releases: an append that finds the new head stores after this, and so after a reader that found the old one.
        self.head.store(head, Ordering::Release);
        Ok(())
    }

    /// Makes all appends durable, and notes the end, so that the next opening has nothing to look for. A log that is dropped
    /// instead leaves what a crash would leave.
    ///
    /// # Errors
    /// As [`persist`](AppendLog::persist).
    ///
    /// # Durability
    /// All records are durable on return.
    ///
    /// # Cost
    /// Three drains; with a volatile cache a sync before them if anything waits for one.
    pub fn close(self) -> Result<(), AppendLogError> {
        self.persist()?;
        let mut state = hold(&self.state, self.medium());
        let head = state.head;
        self.change_state(&mut state, head)?;
        drop(state);
        Ok(self.redo.close()?)
    }
}
