//! The functions that a mapping's stores need, by its granularity: those that a program gets as pointers.

use crate::failure::Failure;
use crate::registry::REGISTRY;
use crate::source::page;
use lode_capi_entry::{ends_durable, path_of, uncancelled};
use lode_pmem::{ByAddress, Cpu, msync_program};
use std::ffi::{c_int, c_uint, c_void};
use std::io::{self, Write};
use std::ops::Range;
use std::panic::catch_unwind;
use std::ptr;
use std::sync::OnceLock;

/// Pages of one question to the kernel.
const CHUNK: usize = 64;

/// PMEM2_F_MEM_NOFLUSH.
const NOFLUSH: c_uint = 1 << 5;

/// The instructions, chosen when the library is loaded.
static INSTRUCTIONS: OnceLock<ByAddress> = OnceLock::new();
/// Instructions of every CPU, for calls that come before the library is loaded.
static OLDEST: ByAddress = ByAddress::new(Cpu::oldest()).streaming_from(usize::MAX);

/// The type of functions that make a range durable, or start to.
pub(crate) type RangeFunction = unsafe extern "C" fn(*const c_void, usize);
/// The type of functions that wait.
pub(crate) type DrainFunction = extern "C" fn();
/// The type of functions that copy.
pub(crate) type CopyFunction = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_uint) -> *mut c_void;
/// The type of functions that fill.
pub(crate) type FillFunction = unsafe extern "C" fn(*mut c_void, c_int, usize, c_uint) -> *mut c_void;

/// Chooses the instructions, once.
pub(crate) fn choose(instructions: impl FnOnce() -> ByAddress) {
    INSTRUCTIONS.get_or_init(instructions);
}

/// Returns the instructions of memory that a flush makes durable.
#[inline(always)]
pub(crate) fn flushing() -> &'static ByAddress {
    INSTRUCTIONS.get().unwrap_or(&OLDEST)
}

/// Returns the instructions of memory that keeps what is in the caches.
#[inline(always)]
fn unflushed() -> ByAddress {
    flushing().without_flush()
}

/// Flushes and drains.
pub(crate) unsafe extern "C" fn persist_lines(start: *const c_void, len: usize) {
    let flushing = flushing();
    // SAFETY: - the program's promise: the range is mapped.
    unsafe { flushing.flush(start.cast(), len) };
    // ORDER: all that this thread flushed and copied is durable before the call returns.
    flushing.drain();
}

/// Starts the write-back.
pub(crate) unsafe extern "C" fn flush_lines(start: *const c_void, len: usize) {
    // SAFETY: - the program's promise: the range is mapped.
    unsafe { flushing().flush(start.cast(), len) };
}

/// Waits for what was flushed and copied.
pub(crate) extern "C" fn drain() {
    // ORDER: all that this thread flushed and copied is durable before the call returns.
    flushing().drain();
}

/// Orders stores, which are durable without a flush.
pub(crate) unsafe extern "C" fn persist_bytes(_start: *const c_void, _len: usize) {
    drain();
}

/// Does nothing: stores are durable without a flush.
pub(crate) unsafe extern "C" fn flush_bytes(_start: *const c_void, _len: usize) {}

/// Syncs the pages of the range that mappings of the library have, as PMDK does. Ends the process if the medium fails or if
/// the program has unmapped a page of a mapping, since the call can't tell that.
pub(crate) unsafe extern "C" fn persist_pages(start: *const c_void, len: usize) {
    match uncancelled(|| catch_unwind(|| persist_parts(start.addr(), len))) {
        Ok(Ok(())) => {}
        other => {
            let error = other.ok().and_then(Result::err);
            let error = error.map_or(Failure::broken().text, |error| error.to_string().into());
            // A process without standard error ends all the same.
            let _ = writeln!(
                io::stderr(),
                "libpmem2: msync of {len} bytes at {start:p}: {error}; stores are lost"
            );
            std::process::abort();
        }
    }
}

fn persist_parts(start: usize, len: usize) -> io::Result<()> {
    let end = start.saturating_add(len);
    let mut done = start;
    while done < end {
        match REGISTRY.with(|registry| registry.first_part(done, end)) {
            Some(Some(part)) => {
                persist_range(&part)?;
                done = part.end;
            }
            Some(None) => return Ok(()),
            // A signal handler in the middle of a change of the registry.
            None => return persist_mapped(done..end),
        }
    }
    Ok(())
}

/// Syncs a range whose pages are mapped. A signal that interrupts the file system is no failure of the medium.
fn persist_range(range: &Range<usize>) -> io::Result<()> {
    loop {
        match msync_program(range.start, range.len()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// Syncs the pages of a range that are mapped, by the library or by the program.
fn persist_mapped(range: Range<usize>) -> io::Result<()> {
    let mut start = range.start - range.start % page();
    while start < range.end {
        let chunk = (range.end - start).min(CHUNK * page());
        if are_mapped(start, chunk) {
            persist_range(&(start..start + chunk))?;
        } else {
            for start in (start..start + chunk).step_by(page()).filter(|start| are_mapped(*start, 1)) {
                persist_range(&(start..start + 1))?;
            }
        }
        start = start.saturating_add(chunk);
    }
    Ok(())
}

/// Returns true if all pages of `len` bytes are mapped: [`CHUNK`] pages at most.
fn are_mapped(start: usize, len: usize) -> bool {
    let mut in_memory = [0; CHUNK];
    let start = ptr::without_provenance_mut(start);
    // SAFETY: - the call stores a byte for each page, and there are as many.
    unsafe { libc::mincore(start, len, in_memory.as_mut_ptr()) == 0 }
}

/// Does nothing: a flush has synced.
pub(crate) extern "C" fn drain_pages() {}

/// Copies by these instructions, and drains unless the flags say no.
///
/// # Safety
/// `into` is valid for stores of `len` bytes, and `from` for loads, or the program handles the signal of the fault.
#[inline(always)]
unsafe fn copy(by: &ByAddress, into: *mut c_void, from: *const c_void, len: usize, flags: c_uint) {
    if ends_durable(flags) {
        // SAFETY: - the caller's promise.
        unsafe { by.copy_and_drain(into.cast(), from.cast(), len, path_of(flags)) };
    } else {
        // SAFETY: - as above.
        unsafe { by.copy(into.cast(), from.cast(), len, path_of(flags)) };
    }
}

/// Fills by these instructions, and drains unless the flags say no.
///
/// # Safety
/// `into` is valid for stores of `len` bytes, or the program handles the signal of the fault.
#[inline(always)]
unsafe fn fill(by: &ByAddress, into: *mut c_void, byte: c_int, len: usize, flags: c_uint) {
    if ends_durable(flags) {
        // SAFETY: - the caller's promise.
        unsafe { by.fill_and_drain(into.cast(), byte as u8, len, path_of(flags)) };
    } else {
        // SAFETY: - as above.
        unsafe { by.fill(into.cast(), byte as u8, len, path_of(flags)) };
    }
}

pub(crate) unsafe extern "C" fn copy_lines(
    into: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the program's promise: both ranges are mapped.
    unsafe { copy(flushing(), into, from, len, flags) };
    into
}

pub(crate) unsafe extern "C" fn copy_bytes(
    into: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the program's promise: both ranges are mapped.
    unsafe { copy(&unflushed(), into, from, len, flags) };
    into
}

/// Copies in the page cache, and syncs unless PMEM2_F_MEM_NOFLUSH is set.
pub(crate) unsafe extern "C" fn copy_pages(
    into: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the program's promise: both ranges are mapped.
    unsafe { libc::memmove(into, from, len) };
    if flags & NOFLUSH == 0 {
        // SAFETY: - as above.
        unsafe { persist_pages(into, len) };
    }
    into
}

pub(crate) unsafe extern "C" fn fill_lines(
    into: *mut c_void,
    byte: c_int,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the program's promise: the range is mapped.
    unsafe { fill(flushing(), into, byte, len, flags) };
    into
}

pub(crate) unsafe extern "C" fn fill_bytes(
    into: *mut c_void,
    byte: c_int,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the program's promise: the range is mapped.
    unsafe { fill(&unflushed(), into, byte, len, flags) };
    into
}

/// Fills in the page cache, and syncs unless PMEM2_F_MEM_NOFLUSH is set.
pub(crate) unsafe extern "C" fn fill_pages(
    into: *mut c_void,
    byte: c_int,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: - the program's promise: the range is mapped.
    unsafe { libc::memset(into, byte, len) };
    if flags & NOFLUSH == 0 {
        // SAFETY: - as above.
        unsafe { persist_pages(into, len) };
    }
    into
}

#[cfg(test)]
mod test {
    use super::*;

    /// A handler finds the registry busy, and syncs around the pages that are not mapped.
    #[test]
    fn handlers_sync_what_is_mapped() {
        let (len, page) = (200 * page(), page());
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: - new memory at addresses of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let middle = start.wrapping_byte_add(70 * page);
        // SAFETY: - nothing uses the page.
        assert_eq!(unsafe { libc::munmap(middle, page) }, 0);
        assert_eq!(
            [(start, len), (start, 70 * page), (middle, page)].map(|(start, len)| {
                let len = len.min(CHUNK * page);
                are_mapped(start.addr(), len)
            }),
            [true, true, false]
        );
        assert!(!are_mapped(middle.addr() - page, 2 * page));
        // SAFETY: - the range is the test's own.
        let synced = REGISTRY.with(|_| unsafe { persist_pages(start.wrapping_byte_add(5), len - 5) });
        assert_eq!(synced, Some(()));
        // SAFETY: - nothing uses the memory.
        assert_eq!(unsafe { libc::munmap(start, len) }, 0);
    }
}
