//! Pools of our own, at the requested durability.

use anyhow::Result;
use lode_heap::Pool;
use lode_layout::{LayoutName, PoolOffset};
use lode_pmem::{Durability, Mapping, Medium};
use lode_pool::{Access, CreateOptions, OpenOptions};
use std::path::Path;
use std::sync::Arc;

/// The medium of heaps where nothing counts or times its calls.
pub(super) type Mapped = Arc<Mapping>;

/// Bytes of a page, the unit in which the kernel brings memory in.
const PAGE: usize = 4096;

/// A new pool of `size` bytes with an empty heap that stores through what `wrap` makes of the mapping.
pub(super) fn create<M: Medium>(
    path: &Path,
    size: u64,
    durability: Durability,
    wrap: impl FnOnce(Mapped) -> M,
) -> Result<Pool<M>> {
    let mut options = CreateOptions::new(size, LayoutName::new("lode-bench")?);
    options.durability = Some(durability);
    Pool::create(path, &options)?.close()?;
    open(path, durability, wrap)
}

/// Opens a pool; its heap stores through what `wrap` makes of the mapping.
pub(super) fn open<M: Medium>(
    path: &Path,
    durability: Durability,
    wrap: impl FnOnce(Mapped) -> M,
) -> Result<Pool<M>> {
    let mut options = OpenOptions::new(Access::ReadWrite);
    options.durability = Some(durability);
    Ok(Pool::open_through(path, &options, wrap)?)
}

/// Brings all pages of a pool in, ready to be stored to.
pub(super) fn touch<M: Medium>(pool: &Pool<M>) -> Result<()> {
    let medium = pool.heap().medium();
    for page in (0..medium.memory().len()).step_by(PAGE) {
        let at = PoolOffset::new(page);
        medium.memory().reading(|memory| medium.store8(at, memory.load8(at)))?;
    }
    // ORDER: nothing has to be durable; the first lap must not pay for the pages that this made dirty.
    Ok(medium.drain()?)
}

/// The medium as it is.
pub(super) fn plain(mapping: Mapped) -> Mapped {
    mapping
}
