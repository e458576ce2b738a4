//! Making and opening logs.

use crate::append_log::AppendLog;
use crate::area::Area;
use crate::bugs;
use crate::error::{AppendLogError, InDoubtCause};
use crate::plan::plan;
use crate::scan::{Tail, find_end};
use crate::{descriptor, state};
use lode_layout::{Durability, Geometry, LogDescriptor, LogState};
use lode_pmem::sync::{AtomicBool, AtomicU64, SpinMutex};
use lode_pmem::{Fault, FaultScope, Medium};
use lode_redo::{Log, LogArea, LogError};

/// Bytes that are copied at a time.
const PART: u64 = 64 << 10;

/// The result of opening a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecovery {
    /// True if the log had been closed, so there was nothing to look for.
    pub was_closed: bool,
    /// Bytes of records that were found after the end that was noted last.
    pub found: u64,
}

impl<M: Medium> AppendLog<M> {
    /// Makes an empty log in a new pool of layout `log`, whose extents are zeroed where they have tables. For the content of
    /// [`lode_pool::format()`]. `key` and `log_epoch` are random numbers.
    ///
    /// # Errors
    /// Fails if there is no room, or if the medium can't be written.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// Two drains.
    pub fn format(
        medium: &M,
        geometry: &Geometry,
        uuid: &[u8; 16],
        key: [u64; 2],
        log_epoch: [u64; 2],
    ) -> Result<(), AppendLogError> {
        AppendLog::format_as(medium, geometry, uuid, &plan(geometry, key)?, log_epoch)
    }

    /// Makes an empty log as this descriptor says.
    pub(crate) fn format_as(
        medium: &M,
        geometry: &Geometry,
        uuid: &[u8; 16],
        planned: &LogDescriptor,
        log_epoch: [u64; 2],
    ) -> Result<(), AppendLogError> {
        descriptor::write(medium, geometry, planned)?;
        state::write(medium, geometry, uuid, &LogState { epoch: 1, head: 0, end: 0 })?;
        // ORDER: descriptor and state before the slot; the caller writes the header that makes this a pool after it.
        medium.drain().map_err(LogError::from)?;
        Ok(Log::format(medium, LogArea::of(geometry), uuid, log_epoch)?)
    }

    /// Opens the log of the pool `uuid`: finds its end, and begins the log epoch `log_epoch`, a random number. On a private
    /// view the log is read-only.
    ///
    /// # Errors
    /// Fails if the descriptor, the state or the redo log is damaged: the medium is as it was then. Fails if memory is lost where
    /// the log may end, or if a drain does: then the redo log may have begun an epoch, and every record is as it was. Damaged
    /// records are no error of the opening.
    ///
    /// # Durability
    /// Every append that had returned is there; with a volatile cache, every one that was persisted. All records that are there
    /// are durable on return.
    ///
    /// # Cost
    /// Reads the records since the last opening, truncation or closing, and as many bytes after them as an append may have.
    /// Three drains; one more if there were records that nothing proves durable.
    pub fn open(
        medium: M,
        geometry: &Geometry,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
    ) -> Result<(AppendLog<M>, LogRecovery), AppendLogError> {
        let descriptor = descriptor::read(&medium, geometry)?;
        let area = Area::new(&descriptor, &uuid);
        let state = state::newest(&medium, geometry, &uuid, &descriptor)?;
        let tail = find_end(&area, medium.memory(), &state)?;
        let epoch = state.epoch.checked_add(1).ok_or(AppendLogError::Epochs)?;
        let (mut redo, recovery) = Log::recover(medium, LogArea::of(geometry), uuid, log_epoch)?;
        if redo.medium().memory().is_private_view() {
            redo.set_read_only();
        }
        let mut log = AppendLog {
            is_cached: redo.medium().durability() == Durability::Commit,
            redo,
            uuid,
            places: state::places(geometry),
            area,
            epoch,
            state: SpinMutex::new(state),
            head: AtomicU64::new(state.head),
            reserved: SpinMutex::new(tail.end),
            visible: AtomicU64::new(tail.end),
            durable: AtomicU64::new(tail.end),
            persisting: SpinMutex::new(()),
            failed: AtomicBool::new(false),
        };
        if !log.redo.is_read_only() {
            log.settle(&state, &tail)?;
            if bugs::EPOCH_KEPT.is_active() {
                log.epoch = state.epoch;
            }
            let new = LogState { epoch: log.epoch, end: tail.end, ..state };
            log.commit_state(&new)?;
            log.state = SpinMutex::new(new);
        }
        let found = tail.end - state.end;
        Ok((log, LogRecovery { was_closed: recovery.was_closed, found }))
    }

    /// Makes all records up to the end durable.
    fn settle(&self, state: &LogState, tail: &Tail) -> Result<(), AppendLogError> {
        let proven = tail.proven.max(state.end);
        if proven >= tail.end {
            return Ok(());
        }
        // A sync that failed, or a process that ended before its drain, may have left them visible only.
        FaultScope::run(|| self.store_again(proven, tail.end))??;
        // ORDER: the records before the state that notes their end. Stop here: the next opening finds the same end.
        self.medium().drain().map_err(|error| self.fail(InDoubtCause::Drain(error)))?;
        Ok(())
    }

    /// Stores the bytes of records again.
    fn store_again(&self, from: u64, to: u64) -> Result<(), Fault> {
        let mut part = Vec::new();
        for position in (from..to).step_by(PART as usize) {
            part.resize(PART.min(to - position) as usize, 0);
            self.medium().memory().reading(|memory| self.area.read(memory, position, &mut part))?;
            self.area.copy(self.medium(), position, &part);
        }
        Ok(())
    }
}
