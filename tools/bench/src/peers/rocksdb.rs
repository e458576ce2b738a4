//! RocksDB through the C interface of Debian's library (building the library takes longer than the whole bench).
//! Default options, and a sync for each write, which its writers share when they come at the same time.

use crate::engine::{Store, VALUE_LEN, Value};
use anyhow::{Context, Result, anyhow, ensure};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

// As declared in rocksdb/c.h; opaque types are c_void.
unsafe extern "C" {
    safe fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, yes: c_uchar);
    fn rocksdb_options_destroy(options: *mut c_void);
    safe fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_set_sync(options: *mut c_void, yes: c_uchar);
    fn rocksdb_writeoptions_disable_WAL(options: *mut c_void, disable: c_int);
    fn rocksdb_writeoptions_destroy(options: *mut c_void);
    safe fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_readoptions_destroy(options: *mut c_void);
    fn rocksdb_open(options: *const c_void, path: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn rocksdb_close(database: *mut c_void);
    fn rocksdb_put(
        database: *mut c_void,
        options: *const c_void,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get(
        database: *mut c_void,
        options: *const c_void,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    pub(super) fn rocksdb_free(memory: *mut c_void);
}

/// An open database.
pub(crate) struct Rocksdb {
    database: NonNull<c_void>,
    put_options: *mut c_void,
    get_options: *mut c_void,
}

// SAFETY: - "DB is safe for concurrent access from multiple threads without any external synchronization"
// (rocksdb/db.h).
//         - the options are only read once they are set.
unsafe impl Sync for Rocksdb {}

impl Rocksdb {
    pub(crate) fn create(path: &Path) -> Result<Rocksdb> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let options = rocksdb_options_create();
        // SAFETY: - `options` was made by this library and not destroyed.
        unsafe { rocksdb_options_set_create_if_missing(options, 1) };
        let mut error = ptr::null_mut();
        // SAFETY: - `options` as above; `name` ends with a NUL; `error` is a place for a pointer.
        let database = unsafe { rocksdb_open(options, name.as_ptr(), &raw mut error) };
        // SAFETY: - `options` as above; open databases keep a copy.
        unsafe { rocksdb_options_destroy(options) };
        check(error)?;
        let put_options = rocksdb_writeoptions_create();
        // SAFETY: - `put_options` was made by this library and not destroyed.
        unsafe { rocksdb_writeoptions_set_sync(put_options, 1) };
        // SAFETY: - as above.
        unsafe { rocksdb_writeoptions_disable_WAL(put_options, 0) };
        let database = NonNull::new(database).context("RocksDB gave no database and no error")?;
        Ok(Rocksdb { database, put_options, get_options: rocksdb_readoptions_create() })
    }
}

/// Turns the message that a call left, if it did, into an error.
pub(super) fn check(message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: - the library leaves a message that ends with a NUL, and lets go of it.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: - the message came from the library's allocator, and is not used any more.
    unsafe { rocksdb_free(message.cast()) };
    Err(anyhow!("RocksDB: {text}"))
}

impl Store for Rocksdb {
    fn put(&self, key: u64, value: &Value) -> Result<()> {
        let key = key.to_be_bytes();
        let mut error = ptr::null_mut();
        // SAFETY: - the handle is open until drop, the options live as long.
        //         - key and value are valid for the lengths given; `error` is a place for a pointer.
        unsafe {
            rocksdb_put(
                self.database.as_ptr(),
                self.put_options,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &raw mut error,
            );
        }
        check(error)
    }

    fn get(&self, key: u64) -> Result<Option<Value>> {
        let key = key.to_be_bytes();
        let mut error = ptr::null_mut();
        let mut len = 0;
        // SAFETY: - as in `put`; `len` is a place for a length.
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
        let mut value = [0; VALUE_LEN];
        let fits = len == VALUE_LEN;
        if fits {
            // SAFETY: - the library gave `len` bytes, which is the length of `value`; they can't overlap.
            unsafe { ptr::copy_nonoverlapping(found.cast(), value.as_mut_ptr(), VALUE_LEN) };
        }
        // SAFETY: - the bytes came from the library's allocator, and are not used any more.
        unsafe { rocksdb_free(found.cast()) };
        ensure!(fits, "RocksDB changed the length of a value to {len}");
        Ok(Some(value))
    }
}

impl Drop for Rocksdb {
    fn drop(&mut self) {
        // SAFETY: - the handle is open, and this is its last use.
        unsafe { rocksdb_close(self.database.as_ptr()) };
        // SAFETY: - made by the library, last use.
        unsafe { rocksdb_writeoptions_destroy(self.put_options) };
        // SAFETY: - made by the library, last use.
        unsafe { rocksdb_readoptions_destroy(self.get_options) };
    }
}
