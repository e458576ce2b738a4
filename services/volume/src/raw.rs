//! A raw volume as a block device: plain blocks after the header.

use crate::device::{
    BlockDevice, BlockError, BlockFault, Extent, Op, Request, check_op, check_range, flush_changes, of_block,
    read_each, write_each,
};
use lode_layout::{BLOCK, PoolOffset, RawVolume, align_down, align_up};
use lode_pmem::sync::{AtomicBool, Ordering};
use lode_pmem::{Durability, Fault, FaultScope, Mapping, Medium, SyncError};
use std::sync::Arc;

/// Sizes of the blocks of a file without a header, in bytes.
const BLOCK_SIZE_MAX: u32 = BLOCK as u32;
const SECTOR: u32 = 512;

/// The place of the blocks in the medium.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Offset of block 0.
    data_off: u64,
    block_size: u32,
    block_count: u64,
}

/// The blocks of a raw volume that is open.
#[derive(Debug)]
pub(crate) struct Raw {
    medium: Arc<Mapping>,
    place: Place,
    is_poisoned: AtomicBool,
}

impl Raw {
    /// Returns the blocks of the volume with this header, which ends inside of the medium.
    pub(crate) fn new(medium: Arc<Mapping>, header: RawVolume) -> Raw {
        let RawVolume { data_off, block_size, block_count, .. } = header;
        Raw {
            medium,
            place: Place { data_off, block_size, block_count },
            is_poisoned: AtomicBool::new(false),
        }
    }

    /// Returns the blocks of a medium without a header. `None` if it has not one.
    pub(crate) fn headerless(medium: Arc<Mapping>) -> Option<Raw> {
        let len = medium.memory().len();
        let block_size = if len.is_multiple_of(u64::from(BLOCK_SIZE_MAX)) { BLOCK_SIZE_MAX } else { SECTOR };
        let block_count = len / u64::from(block_size);
        let place = Place { data_off: 0, block_size, block_count };
        (block_count > 0).then(|| Raw { medium, place, is_poisoned: AtomicBool::new(false) })
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
        self.place.block_count
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
}
