//! libpmemobj 1.12, and the tree of its examples, through the driver `c/pmemobj.c`.
//!
//! The environment variable `PMEM_IS_PMEM_FORCE`, read when the process starts, decides if the library takes a file
//! for persistent memory (cache-line flushes) or not (msync): see [`Durability`](crate::group::Durability).

use crate::engine::{AREA_WORDS, BLOCK_WORDS, SLOTS, Store, Transactions, Tree, VALUE_LEN, Value};
use crate::keys::Keys;
use anyhow::{Context, Result, anyhow, ensure};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

// As declared in c/pmemobj.c; opaque types are c_void.
unsafe extern "C" {
    fn bench_error() -> *const c_char;
    fn bench_area_create(path: *const c_char, bytes: usize, words: usize, slots: usize) -> *mut c_void;
    fn bench_area_change(area: *mut c_void, places: *const u32, count: usize, ranges: usize) -> c_int;
    fn bench_area_replace(area: *mut c_void, slots: *const u32, count: usize) -> c_int;
    fn bench_area_alloc_free(area: *mut c_void, times: usize) -> c_int;
    fn bench_area_word(area: *const c_void, place: u32) -> u64;
    fn bench_area_block_word(area: *const c_void, slot: u32, index: u32) -> u64;
    fn bench_area_close(area: *mut c_void);
    fn bench_tree_create(path: *const c_char, bytes: usize, touched: c_int) -> *mut c_void;
    fn bench_tree_insert(tree: *mut c_void, keys: *const u8, ends: *const u32, ids: *const u64, count: usize);
    fn bench_tree_lookup(
        tree: *mut c_void,
        keys: *const u8,
        ends: *const u32,
        count: usize,
        digest: *mut u64,
    ) -> c_int;
    fn bench_tree_close(tree: *mut c_void);
    fn bench_table_create(path: *const c_char, bytes: usize, buckets: usize) -> *mut c_void;
    fn bench_table_put(table: *mut c_void, key: u64, value: *const u8) -> c_int;
    fn bench_table_get(table: *mut c_void, key: u64, value: *mut u8) -> c_int;
    fn bench_table_close(table: *mut c_void);
}

/// Turns an error number of the driver into an error.
pub(super) fn check(failed: c_int) -> Result<()> {
    if failed == 0 {
        return Ok(());
    }
    Err(anyhow!("libpmemobj: {}: {}", io::Error::from_raw_os_error(failed), message()))
}

/// The library's own words about what failed last in this thread.
fn message() -> String {
    // SAFETY: - the call has no requirement.
    let text = unsafe { bench_error() };
    // SAFETY: - the library returns text that ends with a NUL, in a buffer of this thread that lives on.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A fresh pool, or the library's reason why there is none.
pub(super) fn created(pool: *mut c_void) -> Result<NonNull<c_void>> {
    NonNull::new(pool).with_context(|| format!("libpmemobj: {}", message()))
}

pub(super) fn c_path(path: &Path) -> Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// An area of words, and slots that hold blocks.
pub(crate) struct PmemobjArea {
    handle: NonNull<c_void>,
    words: u32,
}

impl PmemobjArea {
    /// An area of [`AREA_WORDS`] words.
    pub(crate) fn create(path: &Path) -> Result<PmemobjArea> {
        PmemobjArea::with_words(path, AREA_WORDS)
    }

    /// An area of so many words.
    pub(crate) fn with_words(path: &Path, words: u32) -> Result<PmemobjArea> {
        let path = c_path(path)?;
        let len = (112 << 20) + words as usize * size_of::<u64>();
        // SAFETY: - the path ends with a NUL.
        let handle = unsafe { bench_area_create(path.as_ptr(), len, words as usize, SLOTS as usize) };
        Ok(PmemobjArea { handle: created(handle)?, words })
    }
}

impl Transactions for PmemobjArea {
    fn change(&mut self, places: &[u32], ranges: usize) -> Result<()> {
        ensure!(places.iter().all(|place| *place < self.words));
        // SAFETY: - the pool is open; all places are inside of the area, by the line above.
        check(unsafe { bench_area_change(self.handle.as_ptr(), places.as_ptr(), places.len(), ranges) })
    }

    fn replace(&mut self, slots: &[u32]) -> Result<()> {
        ensure!(slots.iter().all(|slot| *slot < SLOTS));
        // SAFETY: - the pool is open; all slots exist, by the line above.
        check(unsafe { bench_area_replace(self.handle.as_ptr(), slots.as_ptr(), slots.len()) })
    }

    fn alloc_free(&mut self, times: usize) -> Result<()> {
        // SAFETY: - the pool is open.
        check(unsafe { bench_area_alloc_free(self.handle.as_ptr(), times) })
    }

    fn contents(&self) -> Result<Vec<u64>> {
        let area = self.handle.as_ptr();
        // SAFETY: - the pool is open, and the place is inside of the area.
        let words = (0..self.words).map(|place| unsafe { bench_area_word(area, place) });
        let blocks = (0..SLOTS * BLOCK_WORDS).map(|word| {
            // SAFETY: - the pool is open, the slot exists, and the word is inside of a block.
            unsafe { bench_area_block_word(area, word / BLOCK_WORDS, word % BLOCK_WORDS) }
        });
        Ok(words.chain(blocks).collect())
    }
}

impl Drop for PmemobjArea {
    fn drop(&mut self) {
        // SAFETY: - the pool is open, and this is its last use.
        unsafe { bench_area_close(self.handle.as_ptr()) };
    }
}

/// The adaptive radix tree of the library's examples.
pub(crate) struct PmemobjTree {
    handle: NonNull<c_void>,
}

impl PmemobjTree {
    /// A pool with room for `keys` keys; `touched` brings its pages in.
    pub(crate) fn create(path: &Path, keys: usize, touched: bool) -> Result<PmemobjTree> {
        let path = c_path(path)?;
        // SAFETY: - the path ends with a NUL.
        let handle =
            unsafe { bench_tree_create(path.as_ptr(), (64 << 20) + keys * 1024, c_int::from(touched)) };
        Ok(PmemobjTree { handle: created(handle)? })
    }
}

impl Tree for PmemobjTree {
    fn insert(&mut self, keys: &Keys) -> Result<()> {
        let (bytes, ends, ids) = (keys.bytes(), keys.ends(), keys.ids());
        // SAFETY: - the pool is open; the three lists belong together, which `Keys` keeps true.
        unsafe {
            bench_tree_insert(self.handle.as_ptr(), bytes.as_ptr(), ends.as_ptr(), ids.as_ptr(), keys.len());
        }
        Ok(())
    }

    fn lookup(&self, keys: &Keys) -> Result<u64> {
        let (bytes, ends) = (keys.bytes(), keys.ends());
        let mut digest = 0;
        // SAFETY: - the pool is open; the lists belong together; `digest` is a place for a word.
        check(unsafe {
            bench_tree_lookup(
                self.handle.as_ptr(),
                bytes.as_ptr(),
                ends.as_ptr(),
                keys.len(),
                &raw mut digest,
            )
        })?;
        Ok(digest)
    }
}

impl Drop for PmemobjTree {
    fn drop(&mut self) {
        // SAFETY: - the pool is open, and this is its last use.
        unsafe { bench_tree_close(self.handle.as_ptr()) };
    }
}

/// A table of records without any index: the cheapest durable put that the library allows.
pub(crate) struct PmemobjTable {
    handle: NonNull<c_void>,
}

// SAFETY: - the driver takes the lock of the bucket around each access, and transactions belong to threads.
unsafe impl Sync for PmemobjTable {}

impl PmemobjTable {
    pub(crate) fn create(path: &Path) -> Result<PmemobjTable> {
        let path = c_path(path)?;
        let buckets = 2048;
        // SAFETY: - the path ends with a NUL.
        let handle = unsafe { bench_table_create(path.as_ptr(), 256 << 20, buckets) };
        Ok(PmemobjTable { handle: created(handle)? })
    }
}

impl Store for PmemobjTable {
    fn put(&self, key: u64, value: &Value) -> Result<()> {
        // SAFETY: - the pool is open; the value has the length that the driver copies.
        check(unsafe { bench_table_put(self.handle.as_ptr(), key, value.as_ptr()) })
    }

    fn get(&self, key: u64) -> Result<Option<Value>> {
        let mut value = [0; VALUE_LEN];
        // SAFETY: - the pool is open; there is room for the length that the driver copies.
        let found = unsafe { bench_table_get(self.handle.as_ptr(), key, value.as_mut_ptr()) };
        Ok((found == 0).then_some(value))
    }
}

impl Drop for PmemobjTable {
    fn drop(&mut self) {
        // SAFETY: - the pool is open, and this is its last use.
        unsafe { bench_table_close(self.handle.as_ptr()) };
    }
}
