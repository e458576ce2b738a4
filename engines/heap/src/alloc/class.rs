//! Size classes: the block sizes into which superblocks are cut. They are no part of the media format, since each
//! superblock states its own block size.

use lode_layout::{CHUNK, Superblock};

/// Maximum size in bytes of an object in a block. A larger object gets a span of its own.
pub(crate) const BLOCK_SIZE_MAX: u64 = 32 * 1024;

/// Minimum number of blocks in a superblock. A single block is better off in a span of its own.
const BLOCKS_MIN: u64 = 2;

/// Block sizes, four for each doubling, so at most a fifth of a block is wasted; 656 and 2064 fit tree nodes.
const SIZES: [u16; 42] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 656, 768, 896, 1024, 1280,
    1536, 1792, 2048, 2064, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384,
    20480, 24576, 28672, 30720, 32768,
];

/// A size class, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Class(u8);

const CLASS_TABLE_STEP: u64 = 16;
const CLASS_TABLE_SIZE_MAX: usize = 1024;

/// The class of each size up to 1 KiB, in steps of 16 bytes.
const CLASS_TABLE: [Class; CLASS_TABLE_SIZE_MAX / CLASS_TABLE_STEP as usize + 1] = {
    let mut table = [Class(0); CLASS_TABLE_SIZE_MAX / CLASS_TABLE_STEP as usize + 1];
    let mut step = 1;
    while step < table.len() {
        let mut class = 0;
        while (SIZES[class] as usize) < step * CLASS_TABLE_STEP as usize {
            class += 1;
        }
        table[step] = Class(class as u8);
        step += 1;
    }
    table
};

impl Class {
    /// Returns the smallest class whose blocks hold `size` bytes and can all be aligned to `align`; `None` if the
    /// object needs a span of its own.
    #[inline]
    pub(crate) fn of(size: u64, align: u64) -> Option<Class> {
        let mut class = if size <= CLASS_TABLE_SIZE_MAX as u64 {
            CLASS_TABLE[size.div_ceil(CLASS_TABLE_STEP) as usize]
        } else if size <= BLOCK_SIZE_MAX {
            Class(SIZES.partition_point(|block| u64::from(*block) < size) as u8)
        } else {
            return None;
        };
        while class.block_size() & (align - 1) != 0 {
            class = Class(class.0 + 1);
            if class.0 as usize == SIZES.len() {
                return None;
            }
        }
        Some(class)
    }

    /// Returns the class of blocks of exactly `block_size` bytes, if there is one.
    pub(crate) fn of_block_size(block_size: u64) -> Option<Class> {
        let size = u16::try_from(block_size).ok()?;
        SIZES.binary_search(&size).ok().map(|index| Class(index as u8))
    }

    /// Returns the size of a block in bytes.
    #[inline]
    pub(crate) fn block_size(self) -> u64 {
        u64::from(SIZES[self.0 as usize])
    }

    /// Returns the length in chunks of a superblock of this class, if there is room. It is aligned to its length.
    pub(crate) fn span_chunks(self) -> u64 {
        match self.block_size() {
            0..=1024 => 1,
            1025..=4096 => SPAN_CHUNKS[1],
            _ => SPAN_CHUNKS[0],
        }
    }

    /// Returns the lengths in chunks that a superblock of this class may have, greatest first. Those below
    /// [`span_chunks`](Class::span_chunks) serve when no longer span is free, and have room for several blocks.
    pub(crate) fn span_lengths(self) -> impl Iterator<Item = u64> {
        let most = self.span_chunks();
        let holds_several = move |chunks: u64| {
            Superblock::plan(chunks * CHUNK, self.block_size(), self.align(), 0).block_count >= BLOCKS_MIN
        };
        let fits = move |chunks: &u64| *chunks == most || *chunks < most && holds_several(*chunks);
        SPAN_CHUNKS.into_iter().chain([1]).filter(fits)
    }

    /// Returns the classes of larger blocks, by size.
    pub(crate) fn larger(self) -> impl Iterator<Item = Class> {
        (self.0 + 1..SIZES.len() as u8).map(Class)
    }

    /// Returns the alignment of the blocks: that of their size, up to a page.
    pub(crate) fn align(self) -> u64 {
        (1 << self.block_size().trailing_zeros()).min(4096)
    }

    /// Returns every class.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Class> {
        (0..SIZES.len() as u8).map(Class)
    }
}

/// Lengths in chunks of superblocks that are longer than one chunk, greatest first.
pub(crate) const SPAN_CHUNKS: [u64; 2] = [16, 4];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn smallest_fitting_class_is_chosen() {
        for size in 0..=BLOCK_SIZE_MAX {
            let class = Class::of(size, 1).expect("small enough");
            assert!(class.block_size() >= size);
            let smaller = Class::all().take_while(|other| *other < class).last();
            assert!(smaller.is_none_or(|smaller| smaller.block_size() < size.max(1)));
            assert_eq!(Class::of_block_size(class.block_size()), Some(class));
        }
        assert_eq!(Class::of(BLOCK_SIZE_MAX + 1, 1), None);
        assert_eq!(Class::of_block_size(17), None);
    }

    #[test]
    fn class_alignment_holds_for_all_blocks() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            for size in [1, 15, 17, 640, 650, 1000, 2048, 4095, 32_000] {
                let class = Class::of(size, align).expect("small enough");
                assert_eq!(class.block_size() % align, 0);
                assert!(class.align() >= align.min(16));
            }
        }
        assert_eq!(Class::of(30_000, 4096).map(Class::block_size), Some(32768));
    }

    #[test]
    fn short_superblock_holds_several_blocks() {
        for class in Class::all() {
            let lengths: Vec<u64> = class.span_lengths().collect();
            assert_eq!(lengths[0], class.span_chunks());
            assert!(lengths.is_sorted_by(|longer, shorter| longer > shorter));
            // Blocks of the largest size alone need the longest span.
            assert_eq!(lengths[lengths.len() - 1] == 16, class.block_size() == BLOCK_SIZE_MAX, "{class:?}");
        }
    }

    #[test]
    fn superblock_holds_several_blocks() {
        for class in Class::all() {
            let span = class.span_chunks() * CHUNK;
            assert!((span - 4096) / class.block_size() >= 7, "{class:?}");
        }
    }
}
