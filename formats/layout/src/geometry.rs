//! The parts of a pool and their offsets.
//!
//! ```text
//! 0x0000  header, copy A         0x1000  header, copy B
//! 0x2000  checkpoint slot 0      0x3000  checkpoint slot 1
//! 0x4000  log, log_len bytes
//! then    extent 0 [ chunk table | chunks ... ]   extent 1 [ chunk table | chunks ... ]   ...
//! ```
//!
//! A chunk table has one word for each [`CHUNK`] of its extent, including its own chunks. A zero word means a free
//! chunk, so a zeroed table is an empty extent. A table has room for [`TABLE_SLACK`] times its extent. So growth first
//! lengthens the last extent, and adds an extent only when that table is full.

use crate::invalid_field::{InvalidField, Want};
use crate::{BLOCK, PoolOffset, WORD, align_down, align_up};
use std::fmt;

/// Bytes of a chunk, the allocation unit of the heap and of a pool's size.
pub const CHUNK: u64 = 16 * 1024;

/// Maximum number of extents in a header.
pub(crate) const EXTENTS_MAX: usize = 32;
/// Capacity of a new chunk table, in multiples of its extent's size.
const TABLE_SLACK: u64 = 8;
/// Divisor of a pool's size that gives its log, within the limits below.
const LOG_SHARE: u64 = 16;
const LOG_LEN_MIN: u64 = 4 * BLOCK;
const LOG_LEN_MAX: u64 = 64 << 20;

/// A range of the heap with its own chunk table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Extent {
    /// Offset of the extent and of its chunk table: a multiple of [`CHUNK`].
    pub start: PoolOffset,
    /// Length in bytes, including the table: a multiple of [`CHUNK`].
    pub len: u64,
    /// The length of its chunk table in bytes: a multiple of [`CHUNK`].
    pub table_len: u64,
}

impl Extent {
    /// Returns the first offset after the extent.
    pub fn end(&self) -> PoolOffset {
        self.start.plus(self.len)
    }

    /// Returns the length in bytes to which the extent can grow before its table is full.
    pub fn len_max(&self) -> u64 {
        (self.table_len / WORD).saturating_mul(CHUNK)
    }

    /// Returns an extent that takes all of `len` bytes (at least two chunks), with slack in its table.
    fn with_slack(start: u64, len: u64) -> Extent {
        let table_len = align_up(len / CHUNK * WORD * TABLE_SLACK, CHUNK);
        Extent { start: PoolOffset::new(start), len, table_len }
    }
}

/// The sizes and offsets of the parts of a pool. The fields of a value of this type are consistent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    size: u64,
    log_off: PoolOffset,
    log_len: u64,
    extents: [Extent; EXTENTS_MAX],
    extent_count: usize,
}

impl Geometry {
    /// Offset of the first copy of the header.
    pub const HEADER_A: PoolOffset = PoolOffset::new(0);
    /// Offset of the second copy of the header.
    pub const HEADER_B: PoolOffset = PoolOffset::new(0x1000);
    /// Offset of the first checkpoint slot's block, 4096 bytes.
    pub const SLOT_0: PoolOffset = PoolOffset::new(0x2000);
    /// Offset of the second checkpoint slot's block, 4096 bytes.
    pub const SLOT_1: PoolOffset = PoolOffset::new(0x3000);
    /// Offset of the log in a new pool.
    pub const LOG: PoolOffset = PoolOffset::new(0x4000);
    /// The smallest pool in bytes: headers and slots, the smallest log, a chunk table and one chunk.
    pub const SIZE_MIN: u64 = Geometry::LOG.get() + LOG_LEN_MIN + 2 * CHUNK;
    /// The largest pool in bytes, 64 PiB: no sum of offsets can wrap here.
    pub const SIZE_MAX: u64 = 1 << 56;

    /// Plans a new pool of `size` bytes, rounded down to a multiple of [`CHUNK`].
    ///
    /// The log takes a sixteenth, rounded down to chunks: 16 KiB in a pool of up to 512 KiB, 64 MiB in one
    /// of 1 GiB and more. One extent takes the rest.
    ///
    /// # Errors
    /// Fails if the size is below [`SIZE_MIN`](Geometry::SIZE_MIN) or above [`SIZE_MAX`](Geometry::SIZE_MAX).
    pub fn plan(size: u64) -> Result<Geometry, GeometryError> {
        Geometry::check_size(size)?;
        let size = align_down(size, CHUNK);
        let log_len = align_down(size / LOG_SHARE, CHUNK).clamp(LOG_LEN_MIN, LOG_LEN_MAX);
        let heap = Geometry::LOG.get() + log_len;
        let mut extents = [Extent::default(); EXTENTS_MAX];
        extents[0] = Extent::with_slack(heap, size - heap);
        Ok(Geometry { size, log_off: Geometry::LOG, log_len, extents, extent_count: 1 })
    }

    /// Plans the growth of this pool to `size` bytes, rounded down to a multiple of [`CHUNK`]. Existing parts keep
    /// their offsets.
    ///
    /// # Errors
    /// Fails if the size is out of range or smaller than the pool. Fails if all 32 extents are in use and the last
    /// table is full.
    pub fn grow(&self, size: u64) -> Result<Geometry, GeometryError> {
        Geometry::check_size(size)?;
        let size = align_down(size, CHUNK);
        if size < self.size {
            return Err(GeometryError::Shrinks { size, was: self.size });
        }
        let mut grown = Geometry { size, ..*self };
        let last = &mut grown.extents[self.extent_count - 1];
        last.len = last.len_max().min(size - last.start.get());
        let end = last.end().get();
        // One chunk can't hold both a table and a chunk to describe. It is left for the next growth.
        if size - end >= 2 * CHUNK {
            let Some(place) = grown.extents.get_mut(self.extent_count) else {
                return Err(GeometryError::ExtentsExhausted { size, size_max: end });
            };
            *place = Extent::with_slack(end, size - end);
            grown.extent_count += 1;
        }
        Ok(grown)
    }

    /// Returns the parts that a header on media states.
    ///
    /// # Errors
    /// Names the first rule that they break.
    pub(crate) fn from_parts(
        size: u64,
        log_off: u64,
        log_len: u64,
        extents: [Extent; EXTENTS_MAX],
        extent_count: u64,
    ) -> Result<Geometry, InvalidField> {
        use Want::{AtLeast, AtMost, MultipleOf};
        let rule = |field, found, want: Want| want.check(field, 0, found);
        rule("size", size, AtLeast(Geometry::SIZE_MIN))?;
        rule("size", size, AtMost(Geometry::SIZE_MAX))?;
        rule("size", size, MultipleOf(CHUNK))?;
        rule("log_off", log_off, AtLeast(Geometry::LOG.get()))?;
        rule("log_off", log_off, AtMost(size))?;
        rule("log_off", log_off, MultipleOf(BLOCK))?;
        rule("log_len", log_len, AtLeast(LOG_LEN_MIN))?;
        rule("log_len", log_len, AtMost(size - log_off))?;
        rule("log_len", log_len, MultipleOf(BLOCK))?;
        rule("extent_count", extent_count, AtLeast(1))?;
        rule("extent_count", extent_count, AtMost(EXTENTS_MAX as u64))?;
        let extent_count = extent_count as usize;
        let mut free_from = log_off + log_len;
        for (index, extent) in extents.iter().enumerate() {
            if index < extent_count {
                extent_rules(index, extent, free_from, size)?;
                free_from = extent.end().get();
            } else {
                extent_is_blank(index, extent)?;
            }
        }
        Ok(Geometry { size, log_off: PoolOffset::new(log_off), log_len, extents, extent_count })
    }

    /// Returns the size of the pool in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the offset of the log.
    pub fn log_off(&self) -> PoolOffset {
        self.log_off
    }

    /// Returns the length of the log in bytes, a multiple of 4096.
    pub fn log_len(&self) -> u64 {
        self.log_len
    }

    /// Returns the ranges of the heap, in the order of their offsets.
    pub fn extents(&self) -> &[Extent] {
        &self.extents[..self.extent_count]
    }

    /// Returns all extent entries of the header, including blank ones.
    pub(crate) fn extent_slots(&self) -> &[Extent; EXTENTS_MAX] {
        &self.extents
    }

    fn check_size(size: u64) -> Result<(), GeometryError> {
        if size < Geometry::SIZE_MIN {
            return Err(GeometryError::TooSmall { size, size_min: Geometry::SIZE_MIN });
        }
        if size > Geometry::SIZE_MAX {
            return Err(GeometryError::TooLarge { size, size_max: Geometry::SIZE_MAX });
        }
        Ok(())
    }
}

/// Checks the rules for an extent in use. The part before it ends at `free_from`.
fn extent_rules(index: usize, extent: &Extent, free_from: u64, size: u64) -> Result<(), InvalidField> {
    use Want::{AtLeast, AtMost, MultipleOf};
    let start = extent.start.get();
    AtLeast(free_from).check("extent.start", index, start)?;
    AtMost(size).check("extent.start", index, start)?;
    MultipleOf(CHUNK).check("extent.start", index, start)?;
    AtLeast(2 * CHUNK).check("extent.len", index, extent.len)?;
    AtMost(size - start).check("extent.len", index, extent.len)?;
    MultipleOf(CHUNK).check("extent.len", index, extent.len)?;
    AtLeast(extent.len / CHUNK * WORD).check("extent.table_len", index, extent.table_len)?;
    AtMost(extent.len - CHUNK).check("extent.table_len", index, extent.table_len)?;
    MultipleOf(CHUNK).check("extent.table_len", index, extent.table_len)
}

fn extent_is_blank(index: usize, extent: &Extent) -> Result<(), InvalidField> {
    Want::Exactly(0).check("extent.start", index, extent.start.get())?;
    Want::Exactly(0).check("extent.len", index, extent.len)?;
    Want::Exactly(0).check("extent.table_len", index, extent.table_len)
}

/// Reasons why a pool can't have a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// Too few bytes for headers, log and heap.
    #[error("{size} bytes are too few for a pool, it needs {size_min}")]
    TooSmall {
        /// The requested size in bytes.
        size: u64,
        /// The smallest possible size in bytes.
        size_min: u64,
    },
    /// Exceeds [`SIZE_MAX`](Geometry::SIZE_MAX), which leaves room in 64-bit offsets.
    #[error("{size} bytes are too many for a pool, it can have {size_max}")]
    TooLarge {
        /// The requested size in bytes.
        size: u64,
        /// The largest possible size in bytes.
        size_max: u64,
    },
    /// The size is smaller than the pool, and pools only grow.
    #[error("a pool can't shrink from {was} to {size} bytes")]
    Shrinks {
        /// The requested size in bytes.
        size: u64,
        /// The current size of the pool in bytes.
        was: u64,
    },
    /// The pool grew in so many small steps that the header has no room for another extent.
    #[error("this pool was grown in so many small steps that it can only reach {size_max} bytes, not {size}")]
    ExtentsExhausted {
        /// The requested size in bytes.
        size: u64,
        /// The largest size in bytes that this pool can still reach.
        size_max: u64,
    },
}

impl fmt::Debug for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Geometry")
            .field("size", &self.size)
            .field("log_off", &self.log_off)
            .field("log_len", &self.log_len)
            .field("extents", &self.extents())
            .finish()
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn revalidated(geometry: &Geometry) -> Result<Geometry, InvalidField> {
        let Geometry { size, log_off, log_len, extents, extent_count } = *geometry;
        Geometry::from_parts(size, log_off.get(), log_len, extents, extent_count as u64)
    }

    #[test]
    fn size_limits() {
        let min = Geometry::SIZE_MIN;
        assert_eq!(Geometry::plan(0), Err(GeometryError::TooSmall { size: 0, size_min: min }));
        assert_eq!(Geometry::plan(min - 1), Err(GeometryError::TooSmall { size: min - 1, size_min: min }));
        for size in [min, min + 1, min + CHUNK, 256 << 10, 64 << 20, 1 << 30, Geometry::SIZE_MAX] {
            let plan = Geometry::plan(size).unwrap();
            assert_eq!(plan.size(), align_down(size, CHUNK));
            assert_eq!(revalidated(&plan), Ok(plan));
        }
        let over = Geometry::SIZE_MAX + 1;
        assert_eq!(Geometry::plan(over), Err(GeometryError::TooLarge { size: over, size_max: over - 1 }));
    }

    #[test]
    fn log_is_a_sixteenth_within_limits() {
        for (size, log_len) in [
            (64 << 10, 16 << 10),
            (256 << 10, 16 << 10),
            (512 << 10, 32 << 10),
            (64 << 20, 4 << 20),
            (1 << 30, 64 << 20),
            (1 << 40, 64 << 20),
        ] {
            assert_eq!(Geometry::plan(size).unwrap().log_len(), log_len);
        }
    }

    #[test]
    fn growth_fills_slack_first() {
        let small = Geometry::plan(1 << 20).unwrap();
        let [first] = *small.extents() else { panic!("a new pool has one extent") };
        // The table of one chunk has 2048 words.
        assert_eq!(first.len_max(), 32 << 20);
        let within = small.grow(first.start.get() + first.len_max()).unwrap();
        assert_eq!(within.extents().len(), 1);
        let stray = small.grow(within.size() + CHUNK).unwrap();
        assert_eq!((stray.extents(), stray.size()), (within.extents(), within.size() + CHUNK));
        let beyond = stray.grow(1 << 30).unwrap();
        assert_eq!(beyond.extents().len(), 2);
        assert_eq!(beyond.extents()[0], within.extents()[0]);
        assert_eq!(beyond.extents()[1].start, within.extents()[0].end());
        assert_eq!(beyond.extents()[1].end().get(), 1 << 30);
    }

    #[test]
    fn shrinking_is_refused() {
        let pool = Geometry::plan(1 << 20).unwrap();
        let size = (1 << 20) - CHUNK;
        assert_eq!(pool.grow(size), Err(GeometryError::Shrinks { size, was: 1 << 20 }));
        assert_eq!(pool.grow(1 << 20), Ok(pool));
    }

    #[test]
    fn small_growth_exhausts_extents() {
        let mut pool = Geometry::plan(64 << 10).unwrap();
        let error = loop {
            match pool.grow(pool.size() + (32 << 20)) {
                Ok(grown) => pool = grown,
                Err(error) => break error,
            }
        };
        assert_eq!(pool.extents().len(), EXTENTS_MAX);
        let GeometryError::ExtentsExhausted { size_max, .. } = error else { panic!("{error}") };
        assert_eq!(pool.grow(size_max).unwrap().size(), size_max);
    }

    proptest! {
        #[test]
        fn plans_and_growths_revalidate(
            size in Geometry::SIZE_MIN..1 << 45,
            steps in prop::collection::vec(1u64..1 << 40, 0..8),
        ) {
            let mut pool = Geometry::plan(size).unwrap();
            for step in steps {
                let Ok(grown) = pool.grow(pool.size() + step) else { break };
                for (old, new) in pool.extents().iter().zip(grown.extents()) {
                    prop_assert_eq!((old.start, old.table_len), (new.start, new.table_len));
                    prop_assert!(new.len >= old.len);
                }
                prop_assert_eq!(revalidated(&grown), Ok(grown));
                pool = grown;
            }
        }
    }
}
