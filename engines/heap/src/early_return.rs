//! The heap's part of transactions that return before their sync: making them durable, and their last steps.
//! [`later`](crate::later) has the reasons.

use crate::error::HeapError;
use crate::heap::Heap;
use crate::later::{LogPosition, Watch};
use lode_pmem::Medium;
use lode_redo::bugs;

impl<M: Medium> Heap<M> {
    /// Sets the bytes of the log that may wait for their sync [default: 1 MiB]. A transaction above it waits. When half of the
    /// log is full, a checkpoint makes all durable.
    pub fn set_waiting_max(&self, bytes: u64) {
        self.later().set_waiting_max(bytes);
    }

    /// Returns the place in the log up to which transactions have returned.
    pub fn log_position(&self) -> LogPosition {
        LogPosition::new(self.later().last())
    }

    /// Returns true if all transactions up to `position` are durable, and visible to readers outside of transactions. After
    /// a failed sync it stays false, and so it does if memory that one of them changes is lost.
    pub fn is_durable(&self, position: LogPosition) -> bool {
        self.watch().is_durable(position)
    }

    /// Returns what tells which transactions are durable.
    pub fn watch(&self) -> Watch {
        Watch::new(self.log().written_back().cloned())
    }

    /// Returns true if more than half of the bytes wait that [may](Heap::set_waiting_max). It is found by each transaction
    /// that returns before its sync.
    pub fn exceeds_half_of_waiting_max(&self) -> bool {
        self.later().exceed_half_of_waiting_max()
    }

    /// Makes all transactions up to `position` durable. A position that is none of this heap, as it is open now, stands for
    /// one or all of its transactions.
    ///
    /// # Errors
    /// [`HeapError::InDoubt`] when a sync of them failed, now or before, or memory that they change is lost. They may or may not be
    /// there when the heap is opened again; those up to some place in the log are.
    ///
    /// # Durability
    /// Durable on return, and visible to readers outside of transactions.
    ///
    /// # Cost
    /// None if they are durable. Otherwise a synced write, shared with other threads.
    pub fn make_durable(&self, position: LogPosition) -> Result<(), HeapError> {
        let done = match (bugs::TICKET_BEFORE_SYNC.is_active(), bugs::TICKET_AFTER_FAILED_SYNC.is_active()) {
            (true, _) => Ok(()),
            (_, true) if self.is_durable(position) => Ok(()),
            _ => self.log().write_back_to(position.sequence()),
        };
        self.finish_written_back();
        Ok(done?)
    }

    /// Does the last steps of transactions that returned before their sync, and are written back. The caller has not locked
    /// its cache. Returns true if space was freed.
    pub(crate) fn finish_written_back(&self) -> bool {
        let (Some(pending), Some(written_back)) = (self.pending(), self.log().written_back()) else {
            return false;
        };
        let mut has_freed = false;
        while let Some(end) = self.later().pop(written_back) {
            let number = self.number_of(end.sequence);
            end.handed.iter().for_each(|stripe| self.locks().settle(*stripe, number));
            pending.remove(&end.entries);
            if let Some(freed) = end.freed {
                has_freed = true;
                self.allocator(&self.session()).retire_freed(freed, end.sequence);
            }
        }
        has_freed
    }

    /// Makes all transactions so far durable, so that the space that they have freed can be used again. Returns true if
    /// there was any.
    #[cold]
    pub(crate) fn finish_all(&self) -> bool {
        // After a failed sync nothing is freed.
        let _ = self.log().write_back_to(self.later().last());
        self.finish_written_back()
    }
}
