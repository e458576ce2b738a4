//! Blocks: a pool of atomic blocks, a block translation table, and a DAX volume that this process maps.

use crate::engine::{BlockStore, fold, stamp_of, stamp_with};
use anyhow::{Context, Result};
use lode_blocks::BlockPool;
use lode_btt::Btt;
use lode_layout::{PoolOffset, VolumeClass};
use lode_pmem::{Durability, FaultScope, Mapping, Medium};
use lode_pool::{Access, CreateOptions, OpenOptions};
use lode_volume::{CreateVolume, VolumeFormat};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A pool of atomic blocks.
pub(crate) struct Atomic {
    pool: BlockPool,
}

impl Atomic {
    /// Makes a pool in a new file of `len` bytes.
    pub(crate) fn create(path: &Path, block_size: usize, len: u64, durability: Durability) -> Result<()> {
        let options =
            CreateOptions { durability: Some(durability), ..CreateOptions::new(len, BlockPool::layout()) };
        Ok(BlockPool::create(path, &options, u32::try_from(block_size)?)?.close()?)
    }

    /// Opens a pool.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Atomic> {
        let options = OpenOptions { durability: Some(durability), ..OpenOptions::new(Access::ReadWrite) };
        Ok(Atomic { pool: BlockPool::open(path, &options)? })
    }

    /// Returns the number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.pool.blocks().block_count()
    }
}

impl BlockStore for Atomic {
    fn write(&mut self, order: &[u32], batch: usize, block: &mut [u8], mut stamp: u64) -> Result<()> {
        let blocks = self.pool.blocks();
        for lbas in order.chunks(batch) {
            for lba in lbas {
                stamp_with(block, stamp);
                blocks.write(u64::from(*lba), block)?;
                stamp += 1;
            }
            if blocks.has_volatile_cache() {
                blocks.flush()?;
            }
        }
        Ok(())
    }

    fn read(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        let mut digest = 0;
        for lba in order {
            self.pool.blocks().read_unchecked(u64::from(*lba), block)?;
            digest = fold(digest, stamp_of(block));
        }
        Ok(digest)
    }

    fn read_checked(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        let mut digest = 0;
        for lba in order {
            self.pool.blocks().read(u64::from(*lba), block)?;
            digest = fold(digest, stamp_of(block));
        }
        Ok(digest)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.pool.close()?)
    }
}

fn map(path: &Path, durability: Durability) -> Result<Arc<Mapping>> {
    let file = File::options().read(true).write(true).open(path)?;
    Ok(Arc::new(Mapping::options().durability(durability).map_file(file, path)?))
}

/// A block translation table.
pub(crate) struct Table {
    table: Btt<Arc<Mapping>>,
}

impl Table {
    /// Makes a table in a new file of `len` bytes.
    pub(crate) fn create(path: &Path, block_size: usize, len: u64, durability: Durability) -> Result<()> {
        let options = CreateVolume {
            size: len,
            format: VolumeFormat::Btt,
            block_size: block_size as u64,
            class: VolumeClass::Block,
            durability: Some(durability),
        };
        lode_volume::create(path, &options)?;
        Ok(())
    }

    /// Opens a table.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Table> {
        Ok(Table { table: Btt::open(map(path, durability)?)? })
    }
}

impl BlockStore for Table {
    fn write(&mut self, order: &[u32], batch: usize, block: &mut [u8], mut stamp: u64) -> Result<()> {
        for lbas in order.chunks(batch) {
            for lba in lbas {
                stamp_with(block, stamp);
                self.table.write(u64::from(*lba), block)?;
                stamp += 1;
            }
            if self.table.has_volatile_cache() {
                self.table.flush()?;
            }
        }
        Ok(())
    }

    fn read(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        let mut digest = 0;
        for lba in order {
            self.table.read(u64::from(*lba), block)?;
            digest = fold(digest, stamp_of(block));
        }
        Ok(digest)
    }
}

/// A DAX volume that this process maps: it copies to the blocks, and makes them durable.
pub(crate) struct Dax {
    medium: Arc<Mapping>,
    data_off: u64,
}

impl Dax {
    /// Makes a volume in a new file of `len` bytes.
    pub(crate) fn create(path: &Path, block_size: usize, len: u64, durability: Durability) -> Result<()> {
        let options = CreateVolume {
            size: len,
            format: VolumeFormat::Raw,
            block_size: block_size as u64,
            class: VolumeClass::Dax,
            durability: Some(durability),
        };
        lode_volume::create(path, &options)?;
        Ok(())
    }

    /// Maps a volume.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Dax> {
        let data_off = lode_volume::info(path)?.data_off.context("a raw volume says where block 0 lies")?;
        Ok(Dax { medium: map(path, durability)?, data_off })
    }

    fn place(&self, lba: u32, block: &[u8]) -> PoolOffset {
        PoolOffset::new(self.data_off + u64::from(lba) * block.len() as u64)
    }
}

impl BlockStore for Dax {
    fn write(&mut self, order: &[u32], batch: usize, block: &mut [u8], mut stamp: u64) -> Result<()> {
        for lbas in order.chunks(batch) {
            for lba in lbas {
                stamp_with(block, stamp);
                FaultScope::run(|| self.medium.copy(self.place(*lba, block), block))?;
                stamp += 1;
            }
            // ORDER: nothing follows. Stop here: each block is old, new, or a mixture.
            self.medium.drain()?;
        }
        Ok(())
    }

    fn read(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        let mut digest = 0;
        for lba in order {
            let at = self.place(*lba, block);
            self.medium.memory().reading(|memory| memory.read(at, block))?;
            digest = fold(digest, stamp_of(block));
        }
        Ok(digest)
    }
}
