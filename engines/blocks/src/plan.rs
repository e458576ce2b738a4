//! The areas of new blocks in a pool.

use crate::error::BlocksError;
use lode_layout::{BLOCK, BlocksDescriptor, CHUNK, Geometry, LINE, PoolOffset, WORD, align_up};

/// Share of the data blocks that are spare.
const SPARE_SHARE: u64 = 32;
/// Least number of spare data blocks.
const SPARES_MIN: u64 = 8;
/// Greatest number of spare data blocks.
const SPARES_MAX: u64 = 2048;

/// The most data blocks: a map word has their number plus one, and a number for lost blocks.
pub(crate) const DATA_COUNT_MAX: u64 = u32::MAX as u64 - 1;

/// The size of a block, and what there is of them in all segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) block_size: u32,
    pub(crate) block_count: u64,
    pub(crate) data_count: u64,
    pub(crate) spare_count: u64,
}

/// Plans as many blocks of `block_size` bytes as the first extent of a new pool has room for.
///
/// # Errors
/// Fails if the size is out of range, or if there is no room for a block.
pub(crate) fn plan(geometry: &Geometry, block_size: u32) -> Result<BlocksDescriptor, BlocksError> {
    BlocksDescriptor::check_block_size(block_size)?;
    let extent = &geometry.extents()[0];
    let (place, end) = (BlocksDescriptor::place(extent), extent.end());
    let of_count = |count: u64| of_count(place, block_size, 0, count, spares_of(count));
    most(end, DATA_COUNT_MAX, of_count).ok_or(BlocksError::NoRoom { size: geometry.size(), block_size })
}

/// Plans as many blocks as a segment has room for that follows `before` at this place. `None` if there can be no more.
pub(crate) fn plan_next((place, end): (PoolOffset, PoolOffset), before: Totals) -> Option<BlocksDescriptor> {
    let of_count = |count: u64| {
        // Not more than its share, so that the least segment has one block.
        let spares =
            spares_of(before.block_count + count).saturating_sub(before.spare_count).min(count / SPARE_SHARE);
        of_count(place, before.block_size, before.block_count, count, spares)
    };
    most(end, DATA_COUNT_MAX - before.data_count, of_count)
}

/// Returns the length of the shortest segment with a block: descriptor, map, and one data block.
pub(crate) fn least_len(block_size: u32) -> u64 {
    2 * BLOCK + align_up(block_size.into(), LINE)
}

/// Returns a length in bytes that has room for so many more blocks, and all that lies beside them.
pub(crate) fn room_for(blocks: u64, block_size: u32) -> u64 {
    let with_spares = blocks.saturating_add(blocks / SPARE_SHARE + 2 * SPARES_MIN);
    with_spares.saturating_mul(u64::from(block_size) + WORD).saturating_add(2 * CHUNK)
}

/// Returns the number of spares of this many blocks.
fn spares_of(block_count: u64) -> u64 {
    (block_count / SPARE_SHARE).clamp(SPARES_MIN, SPARES_MAX)
}

/// Returns the segment with the most blocks that ends at `end` or before, and has at most `data_max` data blocks.
fn most(
    end: PoolOffset,
    data_max: u64,
    of_count: impl Fn(u64) -> BlocksDescriptor,
) -> Option<BlocksDescriptor> {
    let (mut fits, mut too_many) = (0, data_max + 1);
    while fits + 1 < too_many {
        let count = u64::midpoint(fits, too_many);
        let planned = of_count(count);
        match planned.end() <= end && planned.data_count() <= data_max {
            true => fits = count,
            false => too_many = count,
        }
    }
    (fits > 0).then(|| of_count(fits))
}

fn of_count(
    place: PoolOffset,
    block_size: u32,
    first_block: u64,
    block_count: u64,
    spare_count: u64,
) -> BlocksDescriptor {
    let map_off = place.plus(BLOCK);
    let data_off = PoolOffset::new(align_up(map_off.get() + block_count * WORD, BLOCK));
    BlocksDescriptor { block_size, first_block, block_count, spare_count, map_off, data_off }
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
                let place = BlocksDescriptor::place(extent);
                assert_eq!(BlocksDescriptor::decode(planned.encode(), place, extent.end()), Ok(planned));
                let count = planned.block_count + 1;
                let next = of_count(place, block_size, 0, count, spares_of(count));
                assert!(next.end() > extent.end(), "{size} {block_size}: {planned:?}");
            }
        }
    }

    #[test]
    fn small_pools_have_few_spares() {
        let spares = |size| plan(&Geometry::plan(size).unwrap(), 4096).unwrap().spare_count;
        assert_eq!([1 << 20, 16 << 20, 1 << 30].map(spares), [8, 115, 2048]);
    }
}
