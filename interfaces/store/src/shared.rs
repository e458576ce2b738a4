//! An open store, as its handles, snapshots and transactions share it.

use crate::engine::{EngineResult, Medium};
use crate::error::{Error, Result};
use crate::later::{Flusher, Ticket};
use crate::reclaimer::Reclaimer;
use crate::tree_pool::TreePool;
use lode_follow::{FollowError, Server};
use lode_heap::{Heap, LogPosition, Pool, Snapshot, Tx};
use lode_index::Trees;
use lode_layout::PoolOffset;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An open store. Dropping it closes the pool.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Serves snapshots to other processes, or the reason why it does not. Its threads have the pool, too.
    server: Option<std::result::Result<Server, FollowError>>,
    /// Makes transactions durable that have returned before; made for the first one.
    flusher: OnceLock<Option<Flusher>>,
    /// The time after which they are durable.
    later_interval: Duration,
    /// `None` once it is closed.
    pool: Option<Arc<Pool>>,
    /// The root object of the table of trees; null in a store without one that was opened for reading.
    table: PoolOffset,
    reclaimer: Reclaimer,
}

impl Shared {
    pub(crate) fn new(pool: Pool, table: PoolOffset, later_interval: Duration) -> Result<Shared> {
        let has_dropped = !pool.heap().is_read_only() && Trees::open(pool.heap(), table)?.has_dropped()?;
        let reclaimer = Reclaimer::new(has_dropped);
        let pool = Arc::new(pool);
        let server = Some(Server::start(&pool));
        let (pool, flusher) = (Some(pool), OnceLock::new());
        Ok(Shared { server, flusher, later_interval, pool, table, reclaimer })
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("only closing and dropping take the pool")
    }

    /// Returns the path of the socket of other processes, or the reason why there is none.
    pub(crate) fn socket(&self) -> std::result::Result<&Path, &FollowError> {
        let server = self.server.as_ref().expect("only closing and dropping take the server");
        server.as_ref().map(Server::path)
    }

    pub(crate) fn heap(&self) -> &Heap<Medium> {
        self.pool().heap()
    }

    /// Returns the ticket of a transaction that has returned, at `position` in the log.
    pub(crate) fn ticket(&self, position: LogPosition) -> Result<Ticket> {
        let heap = self.heap();
        if heap.is_durable(position) {
            return Ok(Ticket::durable());
        }
        let pool = self.pool.as_ref().expect("only closing and dropping take the pool");
        match self.flusher.get_or_init(|| Flusher::start(pool, self.later_interval).ok()) {
            Some(flusher) => Ok(flusher.ticket(position, heap.exceeds_half_of_waiting_max())),
            // The system gives no thread.
            None => {
                heap.make_durable(position).map_err(|error| self.located(error))?;
                Ok(Ticket::durable())
            }
        }
    }

    /// Adds the path to an error.
    pub(crate) fn located(&self, error: impl Into<Error>) -> Error {
        error.into().at(self.pool().path())
    }

    /// Gives space back after a transaction has committed, as [`Reclaimer::after_commit`] does.
    pub(crate) fn after_commit(&self, has_dropped: bool) {
        self.reclaimer.after_commit(has_dropped, || self.trees());
    }

    /// Closes the pool.
    pub(crate) fn close(mut self) -> Result<()> {
        self.close_pool()
    }

    fn close_pool(&mut self) -> Result<()> {
        if let (Some(Some(flusher)), Some(pool)) = (self.flusher.take(), &self.pool) {
            // Makes all durable. A failure shows again below.
            flusher.end(pool.heap());
        }
        match self.pool.take() {
            Some(pool) => {
                Ok(Server::stop(self.server.take().and_then(std::result::Result::ok), pool)?.close()?)
            }
            None => Ok(()),
        }
    }
}

impl TreePool for Shared {
    fn heap(&self) -> &Heap<Medium> {
        self.heap()
    }

    fn path(&self) -> &Path {
        self.pool().path()
    }

    fn trees(&self) -> EngineResult<Trees<'_, Medium>> {
        Trees::open(self.heap(), self.table)
    }

    fn reclaimer(&self) -> &Reclaimer {
        &self.reclaimer
    }

    fn table_in(&self, _tx: &Tx<'_, Medium>) -> EngineResult<PoolOffset> {
        Ok(self.table)
    }

    fn table_or_create_in(&self, _tx: &Tx<'_, Medium>) -> EngineResult<Option<PoolOffset>> {
        Ok(Some(self.table))
    }

    fn table_at(&self, _snapshot: &Snapshot<'_, Medium>) -> EngineResult<PoolOffset> {
        Ok(self.table)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A pool that was not closed is recovered when it is opened, so an error loses nothing.
        let _ = self.close_pool();
    }
}
