//! RocksDB through the C interface of Debian's library: write batches, each synced, and filters of 10 bits a key.

use crate::engine::{CACHE, Database, Reads, WholeDatabase, is_extracted, is_retained};
use crate::pairs::{Pairs, fold_pair};
use crate::peers::rocksdb::{check, rocksdb_free};
use anyhow::{Context, Result};
use std::ffi::{CString, c_char, c_double, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

// As declared in rocksdb/c.h; opaque types are c_void.
unsafe extern "C" {
    safe fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, yes: c_uchar);
    fn rocksdb_options_set_block_based_table_factory(options: *mut c_void, tables: *mut c_void);
    fn rocksdb_options_destroy(options: *mut c_void);
    safe fn rocksdb_block_based_options_create() -> *mut c_void;
    fn rocksdb_block_based_options_set_filter_policy(tables: *mut c_void, policy: *mut c_void);
    fn rocksdb_block_based_options_set_block_cache(tables: *mut c_void, cache: *mut c_void);
    fn rocksdb_block_based_options_destroy(tables: *mut c_void);
    safe fn rocksdb_filterpolicy_create_bloom_full(bits: c_double) -> *mut c_void;
    safe fn rocksdb_cache_create_lru(capacity: usize) -> *mut c_void;
    fn rocksdb_cache_destroy(cache: *mut c_void);
    safe fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_set_sync(options: *mut c_void, yes: c_uchar);
    fn rocksdb_writeoptions_destroy(options: *mut c_void);
    safe fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_readoptions_destroy(options: *mut c_void);
    fn rocksdb_open(options: *const c_void, path: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn rocksdb_close(database: *mut c_void);
    fn rocksdb_write(
        database: *mut c_void,
        options: *const c_void,
        batch: *mut c_void,
        error: *mut *mut c_char,
    );
    fn rocksdb_compact_range(
        database: *mut c_void,
        from: *const c_char,
        from_len: usize,
        to: *const c_char,
        to_len: usize,
    );
    fn rocksdb_get(
        database: *mut c_void,
        options: *const c_void,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    safe fn rocksdb_writebatch_create() -> *mut c_void;
    fn rocksdb_writebatch_put(
        batch: *mut c_void,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    fn rocksdb_writebatch_delete(batch: *mut c_void, key: *const c_char, key_len: usize);
    fn rocksdb_writebatch_destroy(batch: *mut c_void);
    fn rocksdb_create_iterator(database: *mut c_void, options: *const c_void) -> *mut c_void;
    fn rocksdb_iter_valid(iterator: *const c_void) -> c_uchar;
    fn rocksdb_iter_seek_to_first(iterator: *mut c_void);
    fn rocksdb_iter_seek_to_last(iterator: *mut c_void);
    fn rocksdb_iter_seek(iterator: *mut c_void, key: *const c_char, key_len: usize);
    fn rocksdb_iter_prev(iterator: *mut c_void);
    fn rocksdb_iter_next(iterator: *mut c_void);
    fn rocksdb_iter_key(iterator: *const c_void, len: *mut usize) -> *const c_char;
    fn rocksdb_iter_value(iterator: *const c_void, len: *mut usize) -> *const c_char;
    fn rocksdb_iter_get_error(iterator: *const c_void, error: *mut *mut c_char);
    fn rocksdb_iter_destroy(iterator: *mut c_void);
}

/// Writes of a batch at most: larger transactions are split, since RocksDB keeps a batch in memory.
const BATCH: usize = 100_000;
/// Bits of the filter of a key.
const FILTER_BITS: f64 = 10.0;

/// An open database.
pub(crate) struct RocksdbDatabase {
    database: NonNull<c_void>,
    put_options: *mut c_void,
    unsynced_options: *mut c_void,
    get_options: *mut c_void,
}

// SAFETY: - "DB is safe for concurrent access from multiple threads without any external synchronization"
// (rocksdb/db.h).
//         - the options are only read once they are set.
unsafe impl Sync for RocksdbDatabase {}

/// Options with a cache of [`CACHE`] bytes and filters.
fn options() -> *mut c_void {
    let options = rocksdb_options_create();
    let tables = rocksdb_block_based_options_create();
    let cache = rocksdb_cache_create_lru(CACHE);
    // SAFETY: - `tables` and the policy were made by this library; the tables own the policy from here on.
    unsafe {
        rocksdb_block_based_options_set_filter_policy(
            tables,
            rocksdb_filterpolicy_create_bloom_full(FILTER_BITS),
        );
    }
    // SAFETY: - both were made by this library; the tables share the cache.
    unsafe { rocksdb_block_based_options_set_block_cache(tables, cache) };
    // SAFETY: - both were made by this library; the options copy the tables' options.
    unsafe { rocksdb_options_set_block_based_table_factory(options, tables) };
    // SAFETY: - this handle's last use; the tables keep their share.
    unsafe { rocksdb_cache_destroy(cache) };
    // SAFETY: - last use; the options have a copy.
    unsafe { rocksdb_block_based_options_destroy(tables) };
    // SAFETY: - `options` was made by this library and not destroyed.
    unsafe { rocksdb_options_set_create_if_missing(options, 1) };
    options
}

impl RocksdbDatabase {
    /// Opens the database in the folder `path`, or makes it.
    pub(crate) fn open(path: &Path) -> Result<RocksdbDatabase> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let options = options();
        let mut error = ptr::null_mut();
        // SAFETY: - `options` is alive; `name` ends with a NUL; `error` is a place for a pointer.
        let database = unsafe { rocksdb_open(options, name.as_ptr(), &raw mut error) };
        // SAFETY: - last use; open databases keep a copy.
        unsafe { rocksdb_options_destroy(options) };
        check(error)?;
        let put_options = rocksdb_writeoptions_create();
        // SAFETY: - `put_options` was made by this library and not destroyed.
        unsafe { rocksdb_writeoptions_set_sync(put_options, 1) };
        let database = NonNull::new(database).context("RocksDB gave no database and no error")?;
        let (unsynced_options, get_options) = (rocksdb_writeoptions_create(), rocksdb_readoptions_create());
        Ok(RocksdbDatabase { database, put_options, unsynced_options, get_options })
    }

    /// Writes a batch, and syncs it.
    fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(self.put_options, batch)
    }

    fn write_with(&self, options: *const c_void, batch: &Batch) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: - handle, options and batch are alive; `error` is a place for a pointer.
        unsafe { rocksdb_write(self.database.as_ptr(), options, batch.0, &raw mut error) };
        check(error)
    }

    /// Removes the pairs with keys below `end` that `is_removed` names, and passes them to `removed`.
    fn remove_if(
        &self,
        end: Option<&[u8]>,
        is_removed: impl Fn(&[u8]) -> bool,
        mut removed: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let (mut cursor, mut batch, mut count) = (Cursor::first(self), Batch::new(), 0);
        while let Some((key, value)) = cursor.pair()?.filter(|(key, _)| end.is_none_or(|end| *key < end)) {
            if is_removed(key) {
                removed(key, value);
                batch.remove(key);
                count += 1;
                if count == BATCH {
                    self.write(&batch)?;
                    (batch, count) = (Batch::new(), 0);
                }
            }
            cursor.advance();
        }
        self.write(&batch)
    }
}

/// Writes that are applied together.
struct Batch(*mut c_void);

impl Batch {
    fn new() -> Batch {
        Batch(rocksdb_writebatch_create())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: - the batch is alive; key and value are valid for the lengths given, and copied.
        unsafe {
            rocksdb_writebatch_put(
                self.0,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
            );
        }
    }
}

impl Batch {
    fn remove(&mut self, key: &[u8]) {
        // SAFETY: - the batch is alive; the key is valid for its length, and copied.
        unsafe { rocksdb_writebatch_delete(self.0, key.as_ptr().cast(), key.len()) };
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: - made by the library, last use.
        unsafe { rocksdb_writebatch_destroy(self.0) };
    }
}

/// A cursor on a database. It sees the state at its creation.
struct Cursor<'d> {
    iterator: *mut c_void,
    _database: &'d RocksdbDatabase,
}

impl<'d> Cursor<'d> {
    /// A cursor on no pair.
    fn new(database: &'d RocksdbDatabase) -> Cursor<'d> {
        // SAFETY: - handle and options live until the database is dropped, which this cursor outlives not.
        let iterator = unsafe { rocksdb_create_iterator(database.database.as_ptr(), database.get_options) };
        Cursor { iterator, _database: database }
    }

    /// A cursor on the first pair.
    fn first(database: &'d RocksdbDatabase) -> Cursor<'d> {
        let cursor = Cursor::new(database);
        // SAFETY: - the iterator is alive.
        unsafe { rocksdb_iter_seek_to_first(cursor.iterator) };
        cursor
    }

    /// A cursor on the last pair.
    fn last(database: &'d RocksdbDatabase) -> Cursor<'d> {
        let cursor = Cursor::new(database);
        // SAFETY: - the iterator is alive.
        unsafe { rocksdb_iter_seek_to_last(cursor.iterator) };
        cursor
    }

    /// A cursor on the first pair whose key is not less than `key`.
    fn at(database: &'d RocksdbDatabase, key: &[u8]) -> Cursor<'d> {
        let cursor = Cursor::new(database);
        // SAFETY: - the iterator is alive; the key is valid for its length.
        unsafe { rocksdb_iter_seek(cursor.iterator, key.as_ptr().cast(), key.len()) };
        cursor
    }

    /// Moves to the pair before.
    fn retreat(&mut self) {
        // SAFETY: - the iterator is alive, and was valid: `pair` returned a pair.
        unsafe { rocksdb_iter_prev(self.iterator) };
    }

    /// The pair under the cursor, or `None` behind the last one.
    fn pair(&self) -> Result<Option<(&[u8], &[u8])>> {
        // SAFETY: - the iterator is alive.
        if unsafe { rocksdb_iter_valid(self.iterator) } == 0 {
            let mut error = ptr::null_mut();
            // SAFETY: - the iterator is alive; `error` is a place for a pointer.
            unsafe { rocksdb_iter_get_error(self.iterator, &raw mut error) };
            return check(error).map(|()| None);
        }
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: - the iterator is valid; `key_len` is a place for a length.
        let key = unsafe { rocksdb_iter_key(self.iterator, &raw mut key_len) };
        // SAFETY: - the iterator is valid; `value_len` is a place for a length.
        let value = unsafe { rocksdb_iter_value(self.iterator, &raw mut value_len) };
        // SAFETY: - the library gave this many bytes, which stay until the cursor moves: that takes `&mut self`.
        let key = unsafe { slice::from_raw_parts(key.cast(), key_len) };
        // SAFETY: - as above.
        let value = unsafe { slice::from_raw_parts(value.cast(), value_len) };
        Ok(Some((key, value)))
    }

    /// Moves to the next pair.
    fn advance(&mut self) {
        // SAFETY: - the iterator is alive, and was valid: `pair` returned a pair.
        unsafe { rocksdb_iter_next(self.iterator) };
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: - made by the library, last use.
        unsafe { rocksdb_iter_destroy(self.iterator) };
    }
}

impl Database for RocksdbDatabase {
    fn put_all(&self, pairs: &Pairs) -> Result<()> {
        let (mut batch, mut count) = (Batch::new(), 0);
        for (key, value) in pairs.iter() {
            batch.put(key, value);
            count += 1;
            if count == BATCH {
                self.write(&batch)?;
                (batch, count) = (Batch::new(), 0);
            }
        }
        self.write(&batch)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(key, value);
        self.write(&batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (mut error, mut len) = (ptr::null_mut(), 0);
        // SAFETY: - handle and options are alive; the key is valid for its length; `len` and `error` are places.
        let found = unsafe {
            rocksdb_get(
                self.database.as_ptr(),
                self.get_options,
                key.as_ptr().cast(),
                key.len(),
                &raw mut len,
                &raw mut error,
            )
        };
        check(error)?;
        if found.is_null() {
            return Ok(None);
        }
        // SAFETY: - the library gave `len` bytes, which are ours until they are freed.
        let value = unsafe { slice::from_raw_parts(found.cast(), len) }.to_vec();
        // SAFETY: - the bytes came from the library's allocator, and are not used any more.
        unsafe { rocksdb_free(found.cast()) };
        Ok(Some(value))
    }

    fn count(&self) -> Result<u64> {
        let (mut cursor, mut count) = (Cursor::first(self), 0);
        while cursor.pair()?.is_some() {
            count += 1;
            cursor.advance();
        }
        Ok(count)
    }

    fn scan(&self) -> Result<u64> {
        let (mut cursor, mut digest) = (Cursor::first(self), 0);
        while let Some((key, value)) = cursor.pair()? {
            digest = fold_pair(digest, key, value);
            cursor.advance();
        }
        Ok(digest)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl WholeDatabase for RocksdbDatabase {
    fn remove_all(&self, pairs: &Pairs) -> Result<()> {
        for part in pairs.parts(BATCH) {
            let mut batch = Batch::new();
            part.iter().for_each(|(key, _)| batch.remove(key));
            self.write(&batch)?;
        }
        Ok(())
    }

    fn pop(&self, count: usize) -> Result<u64> {
        let (mut first, mut last, mut batch, mut digest) =
            (Cursor::first(self), Cursor::last(self), Batch::new(), 0);
        for index in 0..count {
            let is_first = index % 2 == 0;
            let cursor = if is_first { &mut first } else { &mut last };
            let (key, value) = cursor.pair()?.context("the store is empty")?;
            digest = fold_pair(digest, key, value);
            batch.remove(key);
            if is_first { cursor.advance() } else { cursor.retreat() }
        }
        self.write(&batch)?;
        Ok(digest)
    }

    fn put_each_unsynced(&self, pairs: &Pairs) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| {
            let mut batch = Batch::new();
            batch.put(key, value);
            self.write_with(self.unsynced_options, &batch)
        })
    }

    fn retain(&self) -> Result<()> {
        self.remove_if(None, |key| !is_retained(key), |_, _| {})
    }

    fn extract_if(&self, end: &[u8]) -> Result<u64> {
        let mut digest: u64 = 0;
        let add = |key: &[u8], value: &[u8]| digest = digest.wrapping_add(fold_pair(0, key, value));
        self.remove_if(Some(end), is_extracted, add)?;
        Ok(digest)
    }

    fn compact(self: Box<Self>, _: &Path) -> Result<()> {
        // SAFETY: - the handle is alive; without ends, all keys are compacted.
        unsafe { rocksdb_compact_range(self.database.as_ptr(), ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reads + '_>> {
        Ok(Box::new(self))
    }
}

impl Reads for &RocksdbDatabase {
    fn get_all(&mut self, pairs: &Pairs) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            digest = fold_pair(digest, key, &self.get(key)?.context("a key is missing")?);
        }
        Ok(digest)
    }

    fn ranges(&mut self, pairs: &Pairs, count: usize) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            let mut cursor = Cursor::at(self, key);
            for _ in 0..count {
                let Some((key, value)) = cursor.pair()? else { break };
                digest = fold_pair(digest, key, value);
                cursor.advance();
            }
        }
        Ok(digest)
    }
}

impl Drop for RocksdbDatabase {
    fn drop(&mut self) {
        // SAFETY: - the handle is open, and this is its last use.
        unsafe { rocksdb_close(self.database.as_ptr()) };
        // SAFETY: - made by the library, last use.
        unsafe { rocksdb_writeoptions_destroy(self.put_options) };
        // SAFETY: - made by the library, last use.
        unsafe { rocksdb_writeoptions_destroy(self.unsynced_options) };
        // SAFETY: - made by the library, last use.
        unsafe { rocksdb_readoptions_destroy(self.get_options) };
    }
}
