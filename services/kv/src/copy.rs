//! A compact copy of a store, in a new pool.

use crate::STORE_SIZE_MIN;
use crate::error::KvError;
use crate::snapshot::StoreSnapshot;
use crate::store::{Store, make_tree};
use lode_heap::{Heap, HeapError, OpenError, Pool};
use lode_index::{IndexError, Tree};
use lode_layout::{Durability, PoolOffset, TREE_CELLS_OFF};
use lode_pmem::Medium;
use lode_pool::CreateOptions;
use std::path::Path;

/// Receiver of the events of a copy.
pub trait CopyEvents {
    /// Reports that this number of keys was copied since the last call.
    fn copied(&self, keys: u64);

    /// Returns true if the copy must end early. The copy asks before each transaction.
    fn stopped(&self) -> bool;
}

/// A finished copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// Number of keys.
    pub keys: u64,
    /// Size of the new pool in bytes.
    pub size: u64,
}

/// The reason why there is no copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The store could not be read.
    #[error("the store can't be read: {0}")]
    Source(#[source] KvError),
    /// The new pool could not be made.
    #[error(transparent)]
    Target(KvError),
    /// The receiver of the events stopped the copy.
    #[error("the copy was stopped")]
    Stopped,
}

impl From<OpenError> for CopyError {
    fn from(error: OpenError) -> CopyError {
        CopyError::Target(error.into())
    }
}

impl From<IndexError> for CopyError {
    fn from(error: IndexError) -> CopyError {
        CopyError::Target(error.into())
    }
}

fn source_error(error: impl Into<KvError>) -> CopyError {
    CopyError::Source(error.into())
}

fn target_error(error: impl Into<KvError>) -> CopyError {
    CopyError::Target(error.into())
}

impl CopyError {
    /// Returns true if the new pool is too small.
    fn is_too_small(&self) -> bool {
        let CopyError::Target(KvError::Index(IndexError::Heap(error))) = self else { return false };
        error.is_out_of_space() || matches!(error, HeapError::TooLarge { .. })
    }
}

impl<M: Medium> Store<M> {
    /// Makes a new pool at `path` with the keys and values of one commit, while others change this store. The pool takes
    /// as much space as they need, and a reserve of about an eighth. It grows by itself. It has an identity of its own,
    /// and no progress of a load.
    ///
    /// # Errors
    /// [`CopyError`]. No file is left then. A file that exists is not replaced.
    ///
    /// # Durability
    /// The pool and its name are durable on return. A crash before that leaves no pool or a whole one.
    ///
    /// # Cost
    /// A transaction for every 65,536 keys or 1 MiB. What others change meanwhile is kept in memory, as for each
    /// [snapshot](Store::snapshot). If they removed much since the copy began, the first pool may prove too small, and the
    /// copy begins again with a larger one.
    pub fn copy_to(
        &self,
        path: &Path,
        durability: Option<Durability>,
        events: &impl CopyEvents,
    ) -> Result<CopyReport, CopyError> {
        let snapshot = self.snapshot().map_err(CopyError::Source)?;
        let count_at = self.tree().map_err(source_error)?.root().plus(TREE_CELLS_OFF);
        let mut size = self.heap().stats().map_err(source_error)?.used_bytes();
        loop {
            // The log takes a sixteenth, and the superblocks are not quite full.
            size += size / 8 + STORE_SIZE_MIN;
            let options = CreateOptions { durability, ..CreateOptions::new(size, Store::layout_name()) };
            let mut keys = 0;
            let made: Result<Pool, CopyError> = Pool::create_with(path, &options, |heap| {
                keys = fill(heap, &snapshot, count_at, events)?;
                Ok(())
            });
            match made {
                Err(error) if error.is_too_small() => {}
                made => {
                    let pool = made?;
                    let size = pool.header().geometry.size();
                    pool.close()?;
                    return Ok(CopyReport { keys, size });
                }
            }
        }
    }
}

/// Makes a tree in `heap` with all that the snapshot shows. Returns the number of keys. The store has counted its keys at
/// `count_at`.
fn fill<T: Medium, M: Medium>(
    heap: &Heap<T>,
    snapshot: &StoreSnapshot<'_, M>,
    count_at: PoolOffset,
    events: &impl CopyEvents,
) -> Result<u64, CopyError> {
    let root = heap.run(make_tree).map_err(CopyError::Target)?;
    let tree = Tree::open(heap, root).map_err(target_error)?;
    let source = snapshot.tree().map_err(CopyError::Source)?;
    // The keys of a batch are reported when the next one begins.
    let mut batch = 0;
    let keys = tree.load_sorted(source.iter().map(|entry| entry.map_err(source_error)), |next| {
        events.copied(std::mem::replace(&mut batch, next) as u64);
        if events.stopped() { Err(CopyError::Stopped) } else { Ok(()) }
    })?;
    let counted = source.count().map_err(source_error)?;
    if keys != counted {
        return Err(CopyError::Source(KvError::Count { counted, found: keys, at: count_at }));
    }
    Ok(keys)
}
