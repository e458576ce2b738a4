//! Pools in memory, for all tests of the engine.

use lode_blocks::{Blocks, BlocksError, Damage, check};
use lode_layout::{Durability, Extent, Geometry, PoolOffset};
use lode_pmem::{Mapping, Medium};
use lode_testing::memory;
use std::sync::Arc;

/// The UUID of all pools.
pub(crate) const UUID: [u8; 16] = [5; 16];

/// A medium with a pool, and its size.
pub(crate) struct Disk {
    pub(crate) medium: Arc<Mapping>,
    pub(crate) geometry: Geometry,
}

impl Disk {
    /// Makes a pool of `size` bytes in memory, as if it were durable by flushes of lines, or by syncs.
    pub(crate) fn new(size: u64, block_size: u32, durability: Durability) -> Disk {
        let medium = match durability {
            Durability::Commit => {
                let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                file.set_len(size).unwrap();
                Mapping::options().durability(durability).map_file(file, "blocks").unwrap()
            }
            _ => memory::persistent(size),
        };
        let disk = Disk { medium: Arc::new(medium), geometry: Geometry::plan(size).unwrap() };
        Blocks::format(&disk.medium, &disk.geometry, &UUID, block_size, [1; 2]).unwrap();
        disk
    }

    pub(crate) fn open(&self) -> Blocks<Arc<Mapping>> {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Blocks<Arc<Mapping>>, BlocksError> {
        let epoch = fastrand::u64(..);
        Ok(Blocks::open(Arc::clone(&self.medium), &self.geometry, UUID, [epoch; 2])?.0)
    }

    pub(crate) fn check(&self) -> Vec<Damage> {
        check(&self.medium, &self.geometry, &UUID)
    }

    /// Offset of the first copy of the descriptor.
    pub(crate) fn descriptor_at(&self) -> u64 {
        let Extent { start, table_len, .. } = self.geometry.extents()[0];
        start.get() + table_len
    }

    /// Offset of a map word.
    pub(crate) fn word_at(&self, lba: u64) -> u64 {
        self.descriptor_at() + 4096 + lba * 8
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        self.medium.store(PoolOffset::new(at), bytes);
    }

    pub(crate) fn word(&self, at: u64) -> u64 {
        self.medium.memory().reading(|memory| memory.load8(PoolOffset::new(at))).unwrap()
    }
}

/// Reads a block.
pub(crate) fn read<M: Medium>(blocks: &Blocks<M>, lba: u64) -> Vec<u8> {
    let mut bytes = vec![0xee; blocks.block_size()];
    blocks.read(lba, &mut bytes).unwrap();
    bytes
}

/// Returns a block's content that names it.
pub(crate) fn block<M: Medium>(blocks: &Blocks<M>, tag: u64) -> Vec<u8> {
    tag.to_le_bytes().into_iter().cycle().take(blocks.block_size()).collect()
}
