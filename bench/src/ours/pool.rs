//! Pools of our own: a file and the heap in it, opened together.

use anyhow::Result;
use lode_heap::Heap;
use lode_layout::{LayoutName, PoolOffset};
use lode_pmem::{Mapping, Medium, Rung};
use lode_pool::{Access, CreateOptions, OpenOptions, PoolFile};
use std::path::Path;
use std::sync::Arc;

/// What heaps store through when nobody counts or times it.
pub(super) type Mapped = Arc<Mapping>;

/// An open pool. `M` is what its heap stores through.
pub(super) struct Pool<M: Medium> {
    // In this order: the heap goes before the lock on the file does.
    heap: Heap<M>,
    _file: PoolFile,
}

/// Bytes of a page, the unit in which the kernel brings memory in.
const PAGE: usize = 4096;

impl Pool<Mapped> {
    /// A pool of `size` bytes with an empty heap, on the rung that is asked for.
    pub(super) fn create(path: &Path, size: u64, rung: Rung) -> Result<Pool<Mapped>> {
        Pool::create_through(path, size, rung, |mapping| mapping)
    }
}

impl<M: Medium> Pool<M> {
    /// As [`Pool::create`]; the heap stores through what `wrap` makes of the mapping.
    pub(super) fn create_through(
        path: &Path,
        size: u64,
        rung: Rung,
        wrap: impl FnOnce(Mapped) -> M,
    ) -> Result<Pool<M>> {
        let mut options = CreateOptions::new(size, LayoutName::new("lode-bench")?);
        options.rung = Some(rung);
        let file = PoolFile::create(path, &options, |mapping, header| -> Result<()> {
            Ok(Heap::format(mapping, &header.geometry, header.uuid.as_bytes(), life())?)
        })?;
        Pool::over(file, wrap)
    }

    /// Opens the pool at `path`, on the rung that is asked for.
    pub(super) fn open_through(path: &Path, rung: Rung, wrap: impl FnOnce(Mapped) -> M) -> Result<Pool<M>> {
        let mut options = OpenOptions::new(Access::ReadWrite);
        options.rung = Some(rung);
        Pool::over(PoolFile::open(path, &options)?, wrap)
    }

    fn over(file: PoolFile, wrap: impl FnOnce(Mapped) -> M) -> Result<Pool<M>> {
        let header = file.header();
        let medium = wrap(Arc::clone(file.medium()));
        let (heap, _) = Heap::open(medium, &header.geometry, header.uuid.into_bytes(), life())?;
        Ok(Pool { heap, _file: file })
    }

    /// The heap.
    pub(super) fn heap(&self) -> &Heap<M> {
        &self.heap
    }

    /// Brings all pages in, ready to be stored to.
    pub(super) fn touch(&self) -> Result<()> {
        let medium = self.heap.medium();
        for page in (0..medium.memory().len()).step_by(PAGE) {
            let at = PoolOffset::new(page);
            medium.store8(at, medium.memory().load8(at));
        }
        // ORDER: nothing has to be durable; the first lap must not pay for the pages that this made dirty.
        Ok(medium.drain()?)
    }

    /// The heap alone, for those who need to own it; the lock on the file goes.
    pub(super) fn into_heap(self) -> Heap<M> {
        self.heap
    }
}

/// A number that no other life of the log has.
fn life() -> [u64; 2] {
    [fastrand::u64(..), fastrand::u64(..)]
}
