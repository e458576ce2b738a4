//! A raw volume as a block device: plain blocks after the header.

use crate::device::{Batch, BlockDevice, BlockError, BlockFault, Request, blocks_in, of_block};
use lode_layout::{BLOCK, PoolOffset, RawVolume};
use lode_pmem::sync::{AtomicBool, Ordering};
use lode_pmem::{Durability, FaultScope, Medium};

/// The blocks of a raw volume that is open.
#[derive(Debug)]
pub(crate) struct Raw<M> {
    medium: M,
    header: RawVolume,
    is_poisoned: AtomicBool,
}

impl<M: Medium> Raw<M> {
    /// Returns the blocks of the volume with this header, which ends inside of the medium.
    pub(crate) fn new(medium: M, header: RawVolume) -> Raw<M> {
        Raw { medium, header, is_poisoned: AtomicBool::new(false) }
    }

    fn size(&self) -> usize {
        self.header.block_size as usize
    }

    /// Returns the offset of `count` blocks from `block` on.
    fn locate(&self, block: u64, count: u64) -> Result<PoolOffset, BlockError> {
        let total = self.header.block_count;
        if block.checked_add(count).is_none_or(|end| end > total) {
            let fault = BlockFault::NoBlock { count: total };
            return Err(of_block(block.max(total), self.size())(fault));
        }
        Ok(PoolOffset::new(self.header.data_off + block * u64::from(self.header.block_size)))
    }

    fn check_sound(&self, block: u64) -> Result<(), BlockError> {
        // ORDER: acquires nothing: a write that misses the flag is one that began before the failure.
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(of_block(block, self.size())(BlockFault::Poisoned));
        }
        Ok(())
    }

    fn read(&self, first: u64, into: &mut [u8]) -> Result<(), BlockError> {
        let size = self.size();
        self.locate(first, blocks_in(into.len(), first, size)?)?;
        for (block, into) in (first..).zip(into.chunks_exact_mut(size)) {
            let at = self.locate(block, 1)?;
            let read = self.medium.memory().reading(|memory| memory.read(at, into));
            read.map_err(of_block(block, size))?;
        }
        Ok(())
    }

    fn write(&self, first: u64, from: &[u8]) -> Result<(), BlockError> {
        let size = self.size();
        self.check_sound(first)?;
        self.locate(first, blocks_in(from.len(), first, size)?)?;
        for (block, from) in (first..).zip(from.chunks_exact(size)) {
            let at = self.locate(block, 1)?;
            FaultScope::run(|| self.medium.copy(at, from)).map_err(of_block(block, size))?;
        }
        Ok(())
    }

    /// Stores zeros where there are others, so that holes of the file stay.
    fn zero(&self, first: u64, count: u64) -> Result<(), BlockError> {
        let zeros = &[0; BLOCK as usize][..self.size()];
        self.check_sound(first)?;
        self.locate(first, count)?;
        for block in first..first + count {
            let at = self.locate(block, 1)?;
            let is_zero = self.medium.memory().reading(|memory| memory.equals(at, zeros));
            if is_zero != Ok(true) {
                FaultScope::run(|| self.medium.copy(at, zeros)).map_err(of_block(block, self.size()))?;
            }
        }
        Ok(())
    }

    fn drain(&self, block: u64) -> Result<(), BlockError> {
        self.check_sound(block)?;
        // ORDER: nothing follows: a block has no metadata. Stop here: each block is old, new, or a mixture.
        self.medium.drain().map_err(|error| {
            // ORDER: none, see `check_sound`.
            self.is_poisoned.store(true, Ordering::Relaxed);
            of_block(block, self.size())(error)
        })
    }
}

impl<M: Medium> BlockDevice for Raw<M> {
    fn block_size(&self) -> usize {
        self.size()
    }

    fn block_count(&self) -> u64 {
        self.header.block_count
    }

    fn has_volatile_cache(&self) -> bool {
        self.medium.durability() == Durability::Commit
    }

    fn run(&self, batch: Batch<'_, '_>) -> Result<(), BlockError> {
        let mut first_written = None;
        for request in batch.requests.iter_mut() {
            match request {
                Request::Read { block, into } => self.read(*block, into)?,
                Request::Write { block, from } => {
                    first_written.get_or_insert(*block);
                    self.write(*block, from)?;
                }
                Request::Zero { block, count } => {
                    first_written.get_or_insert(*block);
                    self.zero(*block, *count)?;
                }
            }
        }
        match first_written {
            Some(block) if batch.is_fua || !self.has_volatile_cache() => self.drain(block),
            _ => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), BlockError> {
        if self.has_volatile_cache() { self.drain(0) } else { Ok(()) }
    }
}
