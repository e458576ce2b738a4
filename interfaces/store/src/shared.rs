//! An open store, as its handles, snapshots and transactions share it.

use crate::error::{Error, Result};
use crate::later::{Flusher, Ticket};
use lode_follow::{FollowError, Server};
use lode_heap::{Heap, HeapError, LogPosition, Pool};
use lode_index::{IndexError, Trees};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::Duration;

/// The medium of all stores.
pub(crate) type Medium = Arc<Mapping>;

/// Keys of dropped trees that one transaction deletes. In a full pool, which has no room for its log, fewer.
const RECLAIM_KEYS: usize = 1024;

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
    /// True if there may be dropped trees with keys.
    has_dropped: AtomicBool,
    /// Held by the thread that gives the space of dropped trees back.
    reclaiming: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(pool: Pool, table: PoolOffset, later_interval: Duration) -> Result<Shared> {
        let has_dropped = !pool.heap().is_read_only() && Trees::open(pool.heap(), table)?.has_dropped()?;
        let (has_dropped, reclaiming) = (AtomicBool::new(has_dropped), Mutex::new(()));
        let pool = Arc::new(pool);
        let server = Some(Server::start(&pool));
        let (pool, flusher) = (Some(pool), OnceLock::new());
        Ok(Shared { server, flusher, later_interval, pool, table, has_dropped, reclaiming })
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

    pub(crate) fn table(&self) -> PoolOffset {
        self.table
    }

    pub(crate) fn trees(&self) -> std::result::Result<Trees<'_, Medium>, IndexError> {
        Trees::open(self.heap(), self.table)
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

    /// Notes that a tree was dropped.
    fn note_dropped(&self) {
        // ORDER: none: the entry in the table is what counts, and is visible once its transaction has returned.
        self.has_dropped.store(true, Ordering::Relaxed);
    }

    /// Gives the space of dropped trees back, in transactions of their own. With `steps` at most so many of them; one
    /// step if another thread is at it. Returns true if any space was given back. An error ends it: the trees stay
    /// dropped, and a later call goes on.
    pub(crate) fn reclaim(&self, steps: usize) -> bool {
        // ORDER: none: as above.
        if !self.has_dropped.load(Ordering::Relaxed) {
            return false;
        }
        let _reclaiming = match self.reclaiming.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        // ORDER: none: a tree that is dropped from here on sets it again.
        self.has_dropped.store(false, Ordering::Relaxed);
        let Ok(trees) = self.trees() else { return false };
        let (mut done, mut keys) = (0, RECLAIM_KEYS);
        while done < steps {
            match trees.reclaim(keys) {
                Ok(true) => done += 1,
                Ok(false) => return done > 0,
                Err(IndexError::Heap(error)) if keys > 1 && needs_space(&error) => keys /= 8,
                Err(_) => break,
            }
        }
        self.note_dropped();
        done > 0
    }

    /// Gives space back after a transaction has committed: all of it if this one has dropped trees, and a part of what
    /// others have left.
    pub(crate) fn after_commit(&self, has_dropped: bool) {
        if has_dropped {
            self.note_dropped();
        }
        self.reclaim(if has_dropped { usize::MAX } else { 1 });
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

impl Drop for Shared {
    fn drop(&mut self) {
        // A pool that was not closed is recovered when it is opened, so an error loses nothing.
        let _ = self.close_pool();
    }
}

/// Returns true if a shorter transaction may have room.
fn needs_space(error: &HeapError) -> bool {
    error.is_out_of_space() || matches!(error, HeapError::TooLarge { .. })
}

/// A reference to an open store that leads to its heap.
#[derive(Clone, Debug)]
pub(crate) struct HeapRef(pub(crate) Arc<Shared>);

impl Deref for HeapRef {
    type Target = Heap<Medium>;

    fn deref(&self) -> &Heap<Medium> {
        self.0.heap()
    }
}
