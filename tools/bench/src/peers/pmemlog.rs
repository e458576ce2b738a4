//! libpmemlog 1.12, through the driver `c/pmemlog.c`.

use crate::engine::RecordLog;
use anyhow::{Context, Result, anyhow, ensure};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

// As declared in c/pmemlog.c; opaque types are c_void.
unsafe extern "C" {
    fn bench_log_error() -> *const c_char;
    fn bench_log_create(path: *const c_char, bytes: usize) -> *mut c_void;
    fn bench_log_capacity(log: *mut c_void) -> usize;
    fn bench_log_append(
        log: *mut c_void,
        records: *mut u8,
        len: usize,
        parts: usize,
        count: usize,
        stamp: u64,
    ) -> c_int;
    fn bench_log_rewind(log: *mut c_void);
    fn bench_log_digest(log: *mut c_void, len: usize) -> u64;
    fn bench_log_close(log: *mut c_void);
}

/// Bytes of the smallest record: the driver stores a word into each.
const LEN_MIN: usize = 8;

/// The library's own words about what failed last in this thread.
fn message() -> String {
    // SAFETY: - the call has no requirement.
    let text = unsafe { bench_log_error() };
    // SAFETY: - the library returns text that ends with a NUL, in a buffer of this thread that lives on.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A log that is open.
pub(crate) struct PmemLog {
    log: NonNull<c_void>,
}

impl PmemLog {
    /// Makes a log in a new file of `bytes` bytes.
    pub(crate) fn create(path: &Path, bytes: u64) -> Result<PmemLog> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: - the path ends with a NUL.
        let log = unsafe { bench_log_create(path.as_ptr(), usize::try_from(bytes)?) };
        Ok(PmemLog { log: NonNull::new(log).with_context(|| format!("libpmemlog: {}", message()))? })
    }
}

impl RecordLog for PmemLog {
    fn append(&mut self, records: &mut [u8], len: usize, times: usize, stamp: u64) -> Result<()> {
        ensure!(len >= LEN_MIN && records.len().is_multiple_of(len));
        let (log, parts) = (self.log.as_ptr(), records.len() / len);
        // SAFETY: - the log is open; there are so many records of that length, each with a word at least, by the first line.
        match unsafe { bench_log_append(log, records.as_mut_ptr(), len, parts, times, stamp) } {
            0 => Ok(()),
            failed => Err(anyhow!("libpmemlog: {}: {}", io::Error::from_raw_os_error(failed), message())),
        }
    }

    fn rewind(&mut self) -> Result<()> {
        // SAFETY: - the log is open.
        unsafe { bench_log_rewind(self.log.as_ptr()) };
        Ok(())
    }

    fn room(&self, _len: usize) -> usize {
        // SAFETY: - the log is open.
        unsafe { bench_log_capacity(self.log.as_ptr()) }
    }

    fn digest(&self, len: usize) -> Result<u64> {
        ensure!(len >= LEN_MIN);
        // SAFETY: - the log is open, and holds records of that length only, each with a word at least.
        Ok(unsafe { bench_log_digest(self.log.as_ptr(), len) })
    }
}

impl Drop for PmemLog {
    fn drop(&mut self) {
        // SAFETY: - the log is open, and this is its last use.
        unsafe { bench_log_close(self.log.as_ptr()) };
    }
}
