//! libpmemblk 1.12, through the driver `c/pmemblk.c`.
//!
//! As in [`pmemobj`](super::pmemobj), `PMEM_IS_PMEM_FORCE` decides whether the library flushes lines or calls msync.

use crate::engine::BlockStore;
use anyhow::{Context, Result, anyhow, ensure};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

// As declared in c/pmemblk.c; opaque types are c_void.
unsafe extern "C" {
    fn bench_blk_error() -> *const c_char;
    fn bench_blk_create(path: *const c_char, block_size: usize, bytes: usize) -> c_int;
    fn bench_blk_open(path: *const c_char, block_size: usize) -> *mut c_void;
    fn bench_blk_count(pool: *mut c_void) -> usize;
    fn bench_blk_write(
        pool: *mut c_void,
        order: *const u32,
        count: usize,
        block: *mut u8,
        stamp: u64,
    ) -> c_int;
    fn bench_blk_read(
        pool: *mut c_void,
        order: *const u32,
        count: usize,
        block: *mut u8,
        digest: *mut u64,
    ) -> c_int;
    fn bench_blk_close(pool: *mut c_void);
}

/// Turns an error number of the driver into an error.
fn check(failed: c_int) -> Result<()> {
    if failed == 0 {
        return Ok(());
    }
    Err(anyhow!("libpmemblk: {}: {}", io::Error::from_raw_os_error(failed), message()))
}

/// The library's own words about what failed last in this thread.
fn message() -> String {
    // SAFETY: - the call has no requirement.
    let text = unsafe { bench_blk_error() };
    // SAFETY: - the library returns text that ends with a NUL, in a buffer of this thread that lives on.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A block pool that is open.
pub(crate) struct PmemBlocks {
    pool: NonNull<c_void>,
    block_size: usize,
    count: usize,
}

impl PmemBlocks {
    /// Makes a pool in a new file of `bytes` bytes.
    pub(crate) fn create(path: &Path, block_size: usize, bytes: u64) -> Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: - the path ends with a NUL.
        check(unsafe { bench_blk_create(path.as_ptr(), block_size, usize::try_from(bytes)?) })
    }

    /// Opens a pool.
    pub(crate) fn open(path: &Path, block_size: usize) -> Result<PmemBlocks> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: - the path ends with a NUL.
        let pool = unsafe { bench_blk_open(path.as_ptr(), block_size) };
        let pool = NonNull::new(pool).with_context(|| format!("libpmemblk: {}", message()))?;
        // SAFETY: - the pool is open.
        let count = unsafe { bench_blk_count(pool.as_ptr()) };
        Ok(PmemBlocks { pool, block_size, count })
    }

    fn check_arguments(&self, order: &[u32], block: &[u8]) -> Result<()> {
        ensure!(block.len() == self.block_size && order.iter().all(|lba| (*lba as usize) < self.count));
        Ok(())
    }
}

impl BlockStore for PmemBlocks {
    /// Each write is durable when the library returns, so batches change nothing.
    fn write(&mut self, order: &[u32], _batch: usize, block: &mut [u8], stamp: u64) -> Result<()> {
        self.check_arguments(order, block)?;
        let (pool, into) = (self.pool.as_ptr(), block.as_mut_ptr());
        // SAFETY: - the pool is open; the block has the pool's size, by the line above.
        check(unsafe { bench_blk_write(pool, order.as_ptr(), order.len(), into, stamp) })
    }

    fn read(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        self.check_arguments(order, block)?;
        let mut digest = 0;
        let (pool, into) = (self.pool.as_ptr(), block.as_mut_ptr());
        // SAFETY: - the pool is open; the block has the pool's size, by the line above; `digest` is a place for a word.
        check(unsafe { bench_blk_read(pool, order.as_ptr(), order.len(), into, &raw mut digest) })?;
        Ok(digest)
    }
}

impl Drop for PmemBlocks {
    fn drop(&mut self) {
        // SAFETY: - the pool is open, and this is its last use.
        unsafe { bench_blk_close(self.pool.as_ptr()) };
    }
}
