//! The floors, through the driver `c/floor.c`: what memory alone costs a transaction with one fence, and a block.

use crate::engine::{AREA_WORDS, BLOCK_WORDS, BlockStore, SLOTS, Transactions};
use anyhow::{Context, Result, ensure};
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

// As declared in c/floor.c; opaque types are c_void.
unsafe extern "C" {
    fn floor_create(path: *const c_char, words: usize, slots: usize, touched: c_int) -> *mut c_void;
    fn floor_change(area: *mut c_void, places: *const u32, count: usize, ranges: usize) -> c_int;
    fn floor_replace(area: *mut c_void, slots: *const u32, count: usize) -> c_int;
    fn floor_alloc_free(area: *mut c_void, places: *const u32, count: usize) -> c_int;
    fn floor_word(area: *const c_void, place: u32) -> u64;
    fn floor_block_word(area: *const c_void, slot: u32, index: u32) -> u64;
    fn floor_close(area: *mut c_void);
    fn floor_blocks_open(path: *const c_char, block_size: usize, count: usize) -> *mut c_void;
    fn floor_blocks_write(blocks: *mut c_void, order: *const u32, count: usize, block: *mut u8, stamp: u64);
    fn floor_blocks_read(
        blocks: *const c_void,
        order: *const u32,
        count: usize,
        block: *mut u8,
        digest: u64,
    ) -> u64;
    fn floor_blocks_close(blocks: *mut c_void);
}

fn check(failed: c_int) -> Result<()> {
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed).into()) }
}

/// An area of words, and slots that hold blocks.
pub(crate) struct Floor {
    handle: NonNull<c_void>,
    slots: u32,
}

impl Floor {
    /// An area in a new file on tmpfs, its pages touched.
    pub(crate) fn create(path: &Path) -> Result<Floor> {
        Floor::with_slots(path, SLOTS, true)
    }

    /// The same with so many slots; `touched` brings its pages in.
    pub(crate) fn with_slots(path: &Path, slots: u32, touched: bool) -> Result<Floor> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let (words, touched) = (AREA_WORDS as usize, c_int::from(touched));
        // SAFETY: - the path ends with a NUL.
        let handle = unsafe { floor_create(path.as_ptr(), words, slots as usize, touched) };
        Ok(Floor { handle: NonNull::new(handle).context("the floor has no memory")?, slots })
    }
}

impl Transactions for Floor {
    fn change(&mut self, places: &[u32], ranges: usize) -> Result<()> {
        ensure!(places.iter().all(|place| *place < AREA_WORDS));
        // SAFETY: - the area is open; all places are inside of it, by the line above.
        check(unsafe { floor_change(self.handle.as_ptr(), places.as_ptr(), places.len(), ranges) })
    }

    fn replace(&mut self, slots: &[u32]) -> Result<()> {
        ensure!(slots.iter().all(|slot| *slot < self.slots));
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
        let blocks = (0..self.slots * BLOCK_WORDS).map(|word| {
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

/// Blocks without a map: a copy past the cache, and one fence.
pub(crate) struct FloorBlocks {
    handle: NonNull<c_void>,
    block_size: usize,
    count: usize,
}

impl FloorBlocks {
    /// Opens `count` blocks in a file on tmpfs, which is made if it is missing. Blocks are whole lines.
    pub(crate) fn open(path: &Path, block_size: usize, count: usize) -> Result<FloorBlocks> {
        ensure!(block_size.is_multiple_of(lode_layout::LINE as usize));
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: - the path ends with a NUL.
        let handle = unsafe { floor_blocks_open(path.as_ptr(), block_size, count) };
        let handle = NonNull::new(handle).context("the floor has no memory")?;
        Ok(FloorBlocks { handle, block_size, count })
    }

    fn check_arguments(&self, order: &[u32], block: &[u8]) -> Result<()> {
        ensure!(block.len() == self.block_size && order.iter().all(|lba| (*lba as usize) < self.count));
        Ok(())
    }
}

impl BlockStore for FloorBlocks {
    fn write(&mut self, order: &[u32], _batch: usize, block: &mut [u8], stamp: u64) -> Result<()> {
        self.check_arguments(order, block)?;
        let (blocks, from) = (self.handle.as_ptr(), block.as_mut_ptr());
        // SAFETY: - the blocks are open and whole lines; all of `order` exist and `block` has their size, by the line above.
        unsafe { floor_blocks_write(blocks, order.as_ptr(), order.len(), from, stamp) };
        Ok(())
    }

    fn read(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        self.check_arguments(order, block)?;
        let (blocks, into) = (self.handle.as_ptr(), block.as_mut_ptr());
        // SAFETY: - the blocks are open; all of `order` exist and `block` has their size, by the line above.
        Ok(unsafe { floor_blocks_read(blocks, order.as_ptr(), order.len(), into, 0) })
    }
}

impl Drop for FloorBlocks {
    fn drop(&mut self) {
        // SAFETY: - the blocks are open, and this is their last use.
        unsafe { floor_blocks_close(self.handle.as_ptr()) };
    }
}
