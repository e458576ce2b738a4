//! The floor, through the driver `c/floor.c`: what memory alone costs a transaction with one fence.

use crate::engine::{AREA_WORDS, BLOCK_WORDS, SLOTS, Transactions};
use anyhow::{Context, Result, ensure};
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

// As declared in c/floor.c; opaque types are c_void.
unsafe extern "C" {
    fn floor_create(path: *const c_char, words: usize, slots: usize) -> *mut c_void;
    fn floor_change(area: *mut c_void, places: *const u32, count: usize, ranges: usize) -> c_int;
    fn floor_replace(area: *mut c_void, slots: *const u32, count: usize) -> c_int;
    fn floor_alloc_free(area: *mut c_void, places: *const u32, count: usize) -> c_int;
    fn floor_word(area: *const c_void, place: u32) -> u64;
    fn floor_block_word(area: *const c_void, slot: u32, index: u32) -> u64;
    fn floor_close(area: *mut c_void);
}

fn check(failed: c_int) -> Result<()> {
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed).into()) }
}

/// An area of words, and slots that hold blocks.
pub(crate) struct Floor {
    handle: NonNull<c_void>,
}

impl Floor {
    /// An area in a new file on tmpfs, its pages touched.
    pub(crate) fn create(path: &Path) -> Result<Floor> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: - the path ends with a NUL.
        let handle = unsafe { floor_create(path.as_ptr(), AREA_WORDS as usize, SLOTS as usize) };
        Ok(Floor { handle: NonNull::new(handle).context("the floor has no memory")? })
    }
}

impl Transactions for Floor {
    fn change(&mut self, places: &[u32], ranges: usize) -> Result<()> {
        ensure!(places.iter().all(|place| *place < AREA_WORDS));
        // SAFETY: - the area is open; all places are inside of it, by the line above.
        check(unsafe { floor_change(self.handle.as_ptr(), places.as_ptr(), places.len(), ranges) })
    }

    fn replace(&mut self, slots: &[u32]) -> Result<()> {
        ensure!(slots.iter().all(|slot| *slot < SLOTS));
        // SAFETY: - the area is open; all slots exist, by the line above. There is a block more than there are slots.
        check(unsafe { floor_replace(self.handle.as_ptr(), slots.as_ptr(), slots.len()) })
    }

    fn alloc_free(&mut self, times: usize) -> Result<()> {
        self.alloc_free_at(&vec![0; times])
    }

    fn alloc_free_at(&mut self, places: &[u32]) -> Result<()> {
        ensure!(places.iter().all(|place| *place < AREA_WORDS));
        // SAFETY: - the area is open; all places are inside of it, by the line above. There is a block more than there
        // are slots.
        check(unsafe { floor_alloc_free(self.handle.as_ptr(), places.as_ptr(), places.len()) })
    }

    fn contents(&self) -> Result<Vec<u64>> {
        let area = self.handle.as_ptr();
        // SAFETY: - the area is open, and the place is inside of it.
        let words = (0..AREA_WORDS).map(|place| unsafe { floor_word(area, place) });
        let blocks = (0..SLOTS * BLOCK_WORDS).map(|word| {
            // SAFETY: - the area is open, the slot exists, and the word is inside of a block.
            unsafe { floor_block_word(area, word / BLOCK_WORDS, word % BLOCK_WORDS) }
        });
        Ok(words.chain(blocks).collect())
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // SAFETY: - the area is open, and this is its last use.
        unsafe { floor_close(self.handle.as_ptr()) };
    }
}
