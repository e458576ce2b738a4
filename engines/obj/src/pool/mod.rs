//! An open object pool: objects, transactions and persists over memory that its program stores to in place.
//!
//! ```text
//!   open:    PMDK's recovery -> lanes anew -> mark in the header -> words and slots -> the log, where the lanes are
//!   begin -> add_range, allocate, free -> the program stores -> commit: one record with ranges, new objects, bits of the heap
//!   close:   checkpoint -> slot of a closed log -> state -> lanes anew -> mark off
//! ```

mod allocation;
mod continued;
mod growth;
mod lanes;
mod log_space;
mod marker;
mod open;
mod root;
mod spill;
mod transaction;

pub(crate) use marker::is_in_use;
pub use transaction::Transaction;

pub use crate::action::{Action, Reservation};
pub use crate::request::Request;

use crate::error::ObjError;
use crate::heap::Heap;
use lode_layout::{ObjWords, PoolOffset};
use lode_pmem::Medium;
use lode_pmem::sync::SpinMutex;
use lode_redo::cover::{Cover, CoverError, Mode};
use std::sync::Arc;

/// An open object pool.
///
/// Threads share it. A store of the program, in place, is visible at once, and durable after a [`persist`](Pool::persist) or the
/// commit of a transaction that has added the range.
#[derive(Debug)]
pub struct Pool<M: Medium> {
    pub(crate) cover: Cover<Arc<M>>,
    pub(crate) heap: Heap,
    medium: Arc<M>,
    /// The place of the words that the log covers.
    pub(crate) words: ObjWords,
    uuid: [u8; 16],
    run_id: u64,
    /// For each word of a spill, whether a transaction has it.
    spill_words: SpinMutex<Vec<bool>>,
    /// Held while the root is made or grows.
    root: SpinMutex<()>,
}

impl<M: Medium> Pool<M> {
    /// Returns the medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Chooses the mode before the first call that changes the pool. In careful mode a store counts, too, that its program has flushed
    /// by itself, and a call leaves nothing that recovery would rewrite.
    pub fn set_mode(&mut self, mode: Mode) {
        self.cover.set_mode(mode);
    }

    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.cover.mode()
    }

    /// Returns true if the pool accepts no more changes, after an error that only the next open can mend.
    pub fn has_failed(&self) -> bool {
        self.cover.has_failed()
    }

    /// Returns the number of this run: even, and another one at each open. Locks of other runs count as free.
    pub fn run_id(&self) -> u64 {
        self.run_id
    }

    /// Makes the bytes of a range durable, as they are now. Bytes of open transactions keep their old state, and parts that are the
    /// library's, before the heap and in its log, are left out.
    ///
    /// # Errors
    /// [`ObjError::Cover`] if the range is not in the pool, or can't be made durable.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain; another one if the log covers a part of the range.
    pub fn persist(&self, at: PoolOffset, len: u64) -> Result<(), ObjError> {
        self.of_program(at, len, |at, len| self.cover.persist(at, len))
    }

    /// Calls `with` for the parts of a range that are the program's.
    #[inline]
    fn of_program(
        &self,
        at: PoolOffset,
        len: u64,
        with: impl Fn(PoolOffset, u64) -> Result<(), CoverError>,
    ) -> Result<(), ObjError> {
        let (from, to) = (at.get(), at.get().saturating_add(len));
        let heap = self.words.start().get() + ObjWords::LEN;
        let log = self.cover.log_area();
        let log = log.start.get()..log.start.get() + log.len;
        if from >= heap && (to <= log.start || from >= log.end) {
            // An absent error is not copied: a load of its bytes, which nothing has stored, waits for the drain.
            return match with(at, len) {
                Ok(()) => Ok(()),
                Err(error) => Err(error.into()),
            };
        }
        for (from, to) in [(from.max(heap), to.min(log.start)), (from.max(heap).max(log.end), to)] {
            if from < to {
                with(PoolOffset::new(from), to - from)?;
            }
        }
        Ok(())
    }

    /// Makes the bytes of a range durable as [`persist`](Pool::persist) does, if the caller has flushed them or stored them past the cache.
    ///
    /// # Errors
    /// As [`persist`](Pool::persist).
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// As [`persist`](Pool::persist), without the flush.
    pub fn persist_flushed(&self, at: PoolOffset, len: u64) -> Result<(), ObjError> {
        self.of_program(at, len, |at, len| self.cover.persist_flushed(at, len))
    }

    /// Makes all changes so far durable at home. The log is short after that, so an open after a crash is fast.
    ///
    /// # Errors
    /// [`ObjError::Cover`].
    ///
    /// # Cost
    /// That of a checkpoint of the log.
    pub fn checkpoint(&self) -> Result<(), ObjError> {
        Ok(self.cover.checkpoint()?)
    }
}
