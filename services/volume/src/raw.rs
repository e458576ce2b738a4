//! A raw volume as a block device: plain blocks after the header.

use crate::block_error::{BlockError, BlockFault};
use crate::device::{
    BlockDevice, Extent, Op, Request, check_op, check_range, flush_changes, of_block, read_each, write_each,
};
use crate::error::VolumeError;
use crate::raw_headers::{grow_headers, store_header};
use lode_layout::{BLOCK, PoolOffset, RawVolume, Want, align_down, align_up};
use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering};
use lode_pmem::{Durability, Fault, FaultScope, Mapping, Medium, SyncError};
use std::sync::{Arc, Mutex, PoisonError};

/// Sizes of the blocks of a file without a header, in bytes.
const BLOCK_SIZE_MAX: u32 = BLOCK as u32;
const SECTOR: u32 = 512;

/// The place of the blocks in the medium.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Offset of block 0.
    data_off: u64,
    block_size: u32,
}

/// The blocks of a raw volume that is open.
#[derive(Debug)]
pub(crate) struct Raw {
    medium: Arc<Mapping>,
    place: Place,
    /// Number of blocks.
    block_count: AtomicU64,
    /// The header, held by a growth. `None` without one.
    header: Option<Mutex<RawVolume>>,
    is_poisoned: AtomicBool,
}

impl Raw {
    /// Returns the blocks of the volume with this header, which ends inside of the medium.
    pub(crate) fn new(medium: Arc<Mapping>, header: RawVolume) -> Raw {
        let RawVolume { data_off, block_size, block_count, .. } = header;
        Raw::in_place(medium, Place { data_off, block_size }, block_count, Some(header))
    }

    fn in_place(medium: Arc<Mapping>, place: Place, block_count: u64, header: Option<RawVolume>) -> Raw {
        let (block_count, header) = (AtomicU64::new(block_count), header.map(Mutex::new));
        Raw { medium, place, block_count, header, is_poisoned: AtomicBool::new(false) }
    }

    /// Returns the blocks of a medium without a header. `None` if it has not one.
    pub(crate) fn headerless(medium: Arc<Mapping>) -> Option<Raw> {
        let len = medium.memory().len();
        let block_size = if len.is_multiple_of(u64::from(BLOCK_SIZE_MAX)) { BLOCK_SIZE_MAX } else { SECTOR };
        let block_count = len / u64::from(block_size);
        let place = Place { data_off: 0, block_size };
        (block_count > 0).then(|| Raw::in_place(medium, place, block_count, None))
    }

    fn size(&self) -> usize {
        self.place.block_size as usize
    }

    /// Returns the offset of a block.
    fn place(&self, block: u64) -> PoolOffset {
        PoolOffset::new(self.place.data_off + block * u64::from(self.place.block_size))
    }

    fn check_sound(&self, block: u64) -> Result<(), BlockError> {
        // ORDER: acquires nothing: a write that misses the flag is one that began before the failure.
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(of_block(block, self.size())(BlockFault::Poisoned));
        }
        Ok(())
    }

    /// Runs an operation on blocks that the volume has.
    fn run_op(&self, op: &mut Op<'_>) -> Result<(), BlockError> {
        let size = self.size();
        match op {
            Op::Read { block, into } => read_each(*block, into, size, |block, into| {
                self.medium.memory().reading(|memory| memory.read(self.place(block), into))
            }),
            Op::Write { block, from } => {
                self.check_sound(*block)?;
                write_each(*block, from, size, |block, from| self.copy_in(block, from))
            }
            Op::Zero { block, count } => self.zero(*block, *count),
            Op::Trim { block, count } => self.trim(*block, *count),
        }
    }

    fn copy_in(&self, block: u64, from: &[u8]) -> Result<(), Fault> {
        FaultScope::run(|| self.medium.copy(self.place(block), from))
    }

    /// Stores zeros where there are others, so that holes of the file stay.
    fn zero(&self, first: u64, count: u64) -> Result<(), BlockError> {
        let zeros = &[0; BLOCK as usize][..self.size()];
        self.check_sound(first)?;
        for block in first..first + count {
            let is_zero = self.medium.memory().reading(|memory| memory.equals(self.place(block), zeros));
            if is_zero != Ok(true) {
                self.copy_in(block, zeros).map_err(of_block(block, self.size()))?;
            }
        }
        Ok(())
    }

    /// Gives the space of the pages inside of blocks back, and zeroes the rest.
    fn trim(&self, first: u64, count: u64) -> Result<(), BlockError> {
        self.check_sound(first)?;
        let (start, end) = (self.place(first).get(), self.place(first + count).get());
        let (from, to) = (align_up(start, BLOCK), align_down(end, BLOCK));
        if from >= to {
            return self.zero(first, count);
        }
        let size = u64::from(self.place.block_size);
        let (head, tail) = ((from - start) / size, (end - to) / size);
        self.zero(first, head)?;
        self.zero(first + count - tail, tail)?;
        match self.medium.deallocate(PoolOffset::new(from), to - from) {
            Ok(true) => Ok(()),
            Ok(false) => self.zero(first + head, count - head - tail),
            Err(error) => Err(self.poison(first, error)),
        }
    }

    /// Records that a sync failed.
    fn poison(&self, block: u64, error: SyncError) -> BlockError {
        // ORDER: none, see `check_sound`.
        self.is_poisoned.store(true, Ordering::Relaxed);
        of_block(block, self.size())(error)
    }

    fn drain(&self, block: u64) -> Result<(), BlockError> {
        self.check_sound(block)?;
        // ORDER: nothing follows: a block has no metadata. Stop here: each block is old, new, or a mixture.
        self.medium.drain().map_err(|error| self.poison(block, error))
    }
}

impl BlockDevice for Raw {
    fn block_size(&self) -> usize {
        self.size()
    }

    fn block_count(&self) -> u64 {
        // ORDER: acquires the mapping of the blocks; pairs with the release in `grow`.
        self.block_count.load(Ordering::Acquire)
    }

    fn is_read_only(&self) -> bool {
        self.medium.memory().is_private_view()
    }

    fn has_volatile_cache(&self) -> bool {
        self.medium.durability() == Durability::Commit
    }

    fn run(&self, batch: &mut [Request<'_>]) {
        for request in batch.iter_mut() {
            request.result = check_op(self, &request.op).and_then(|()| self.run_op(&mut request.op));
        }
        let needs_drain = |request: &Request<'_>| request.is_fua || !self.has_volatile_cache();
        flush_changes(batch, needs_drain, |first| self.drain(first));
    }

    fn flush(&self) -> Result<(), BlockError> {
        if self.has_volatile_cache() { self.drain(0) } else { Ok(()) }
    }

    /// Asks the file for its holes. The answer is kept nowhere: programs that map the volume fill holes unnoticed.
    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError> {
        let count = count.max(1);
        check_range(self, block, count)?;
        let (at, size) = (self.place(block), u64::from(self.place.block_size));
        let hole = self.medium.hole_end(at).map_or(0, |end| (end.get() - at.get()) / size);
        if hole > 0 {
            return Ok(Extent { count: hole.min(count), is_zero: true });
        }
        // A block with a byte of data is data.
        let data = (self.medium.next_hole(at).get() - at.get()).div_ceil(size);
        Ok(Extent { count: data.clamp(1, count), is_zero: false })
    }

    fn can_grow(&self) -> bool {
        self.header.is_some() && self.medium.can_grow()
    }

    fn grow(&self, capacity: u64) -> Result<(), VolumeError> {
        let (Some(header), true) = (&self.header, self.medium.can_grow()) else {
            return Err(VolumeError::FixedCapacity);
        };
        let mut held = header.lock().unwrap_or_else(PoisonError::into_inner);
        let header = *held;
        let refused = |error| VolumeError::raw_plan(capacity, header.block_size.into(), error);
        // A header, a last block and the second header lie beside the capacity.
        let most = i64::MAX as u64 - header.data_off - 3 * BLOCK;
        Want::AtMost(most).check("size", 0, capacity).map_err(refused)?;
        let block_count = capacity.div_ceil(u64::from(header.block_size));
        if block_count < header.block_count {
            return Err(VolumeError::Shrinks { size: capacity, was: self.capacity() });
        }
        let was = self.medium.memory().len();
        if was >= header.end() + BLOCK {
            // A growth that stopped left a longer file. `grow` without a user cuts it first, which a mapping forbids.
            return Err(VolumeError::FixedCapacity);
        }
        self.check_sound(0)?;
        let size = RawVolume { block_count, ..header }.end();
        let grown = header.grown(size).map_err(refused)?;
        // The file gets longer before its last copy is at the new end: until then the first one alone tells the format.
        store_header(&self.medium, header.copies()[0], &header)?;
        self.medium.grow(size.max(was))?;
        if was > header.end() && size > header.end() {
            // What lies past the volume becomes zeros: a part of a block of 4096 bytes.
            FaultScope::run(|| self.medium.copy(PoolOffset::new(header.end()), &[0; BLOCK as usize]))?;
        }
        grow_headers(&self.medium, &header, &grown)?;
        *held = grown;
        // ORDER: releases: the mapping has the new blocks, and the media count them, before a request can name them.
        self.block_count.store(grown.block_count, Ordering::Release);
        Ok(())
    }
}
