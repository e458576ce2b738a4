//! The areas of new blocks in a pool.

use crate::error::BlocksError;
use lode_layout::{BLOCK, BlocksDescriptor, Extent, Geometry, PoolOffset, WORD, align_up};

/// Share of the data blocks that are spare.
const SPARE_SHARE: u64 = 32;
/// Least number of spare data blocks.
const SPARES_MIN: u64 = 8;
/// Greatest number of spare data blocks.
const SPARES_MAX: u64 = 2048;

/// Plans as many blocks of `block_size` bytes as the first extent of a new pool has room for.
///
/// # Errors
/// Fails if the size is out of range, or if there is no room for a block.
pub(crate) fn plan(geometry: &Geometry, block_size: u32) -> Result<BlocksDescriptor, BlocksError> {
    BlocksDescriptor::check_block_size(block_size)?;
    let extent = &geometry.extents()[0];
    // The number of data blocks has to fit in half a word, with one to spare.
    let mut fit = Fit { fits: 0, too_many: u64::from(u32::MAX) - SPARES_MAX };
    while fit.fits + 1 < fit.too_many {
        let count = fit.fits.midpoint(fit.too_many);
        match of_count(extent, block_size, count).ends_in(extent) {
            true => fit.fits = count,
            false => fit.too_many = count,
        }
    }
    match fit.fits {
        0 => Err(BlocksError::NoRoom { size: geometry.size(), block_size }),
        count => Ok(of_count(extent, block_size, count).0),
    }
}

/// The number of blocks between one that fits and one that does not.
struct Fit {
    fits: u64,
    too_many: u64,
}

/// A descriptor that may not fit.
struct Planned(BlocksDescriptor);

impl Planned {
    fn ends_in(&self, extent: &Extent) -> bool {
        let len = self.0.data_count() * self.0.stride();
        self.0.data_off.get() + len <= extent.end().get()
    }
}

fn of_count(extent: &Extent, block_size: u32, block_count: u64) -> Planned {
    let spare_count = (block_count / SPARE_SHARE).clamp(SPARES_MIN, SPARES_MAX);
    let map_off = BlocksDescriptor::place(extent).plus(BLOCK);
    let data_off = PoolOffset::new(align_up(map_off.get() + block_count * WORD, BLOCK));
    Planned(BlocksDescriptor { block_size, block_count, spare_count, map_off, data_off })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn plans_fill_the_extent_and_are_valid() {
        for size in [64 << 10, 256 << 10, 1 << 20, 1 << 30, 16 << 30, 1 << 40] {
            for block_size in [512, 520, 4096, 4160, 1 << 16] {
                let geometry = Geometry::plan(size).unwrap();
                let extent = &geometry.extents()[0];
                let Ok(planned) = plan(&geometry, block_size) else {
                    assert!(size < 1 << 20, "{size} {block_size}");
                    continue;
                };
                assert_eq!(BlocksDescriptor::decode(planned.encode(), extent), Ok(planned));
                let next = of_count(extent, block_size, planned.block_count + 1);
                assert!(!next.ends_in(extent), "{size} {block_size}: {planned:?}");
            }
        }
    }

    #[test]
    fn small_pools_have_few_spares() {
        let spares = |size| plan(&Geometry::plan(size).unwrap(), 4096).unwrap().spare_count;
        assert_eq!([1 << 20, 16 << 20, 1 << 30].map(spares), [8, 115, 2048]);
    }
}
