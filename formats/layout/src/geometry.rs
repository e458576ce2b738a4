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
//! chunk, so a zeroed table is an empty extent. A table has room for [`TABLE_SLACK`] times its extent, and for twice
//! the pool that it was added to, if an eighth of the extent is enough for that. So growth first lengthens the last
//! extent, and adds an extent only when that table is full.
//!
//! A pool that has grown may have its log between two extents: a larger log lies where the pool ended before. The extent
//! that ends at the old log takes that space at the next move, if its table has room. Otherwise it is a gap that no part
//! uses any more.

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
/// Least factor by which the log becomes longer when it moves: a move takes an extent, and waits for all commits.
const LOG_FACTOR_MIN: u64 = 2;
/// Size of a pool that the table of an added extent has room for, in multiples of the pool before.
const REACH_FACTOR: u64 = 2;
/// Divisor of an added extent's length that gives the longest table which it gets for the sake of that reach.
const REACH_SHARE: u64 = 8;
/// Most extents of a pool whose log moves when it shrinks. The others are left to growth, which needs 20 for 1 TiB.
const SHRUNK_EXTENTS_MAX: usize = 12;

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

    /// Returns an extent that takes all of `len` bytes (at least two chunks), with slack in its table. The table has
    /// room for `reach` bytes, too, if it does not take too much of the extent for that.
    fn with_slack(start: u64, len: u64, reach: u64) -> Extent {
        let slack = len / CHUNK * WORD * TABLE_SLACK;
        let table_len = slack.max((reach / CHUNK * WORD).min(len / REACH_SHARE));
        Extent { start: PoolOffset::new(start), len, table_len: align_up(table_len, CHUNK) }
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
        let log_len = Geometry::log_len_of(size);
        let heap = Geometry::LOG.get() + log_len;
        let mut extents = [Extent::default(); EXTENTS_MAX];
        extents[0] = Extent::with_slack(heap, size - heap, 0);
        Ok(Geometry { size, log_off: Geometry::LOG, log_len, extents, extent_count: 1 })
    }

    /// Returns the length of the log in a new pool of `size` bytes.
    pub fn log_len_of(size: u64) -> u64 {
        align_down(size / LOG_SHARE, CHUNK).clamp(LOG_LEN_MIN, LOG_LEN_MAX)
    }

    /// Plans the growth of this pool to `size` bytes, rounded down to a multiple of [`CHUNK`]. Existing parts keep
    /// their offsets, the log included.
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
            *place = Extent::with_slack(end, size - end, self.size.saturating_mul(REACH_FACTOR));
            grown.extent_count += 1;
        }
        Ok(grown)
    }

    /// Returns the size in bytes up to which this pool can grow: [`SIZE_MAX`](Geometry::SIZE_MAX) unless all 32 extents
    /// are in use.
    pub fn reach(&self) -> u64 {
        match self.extents().last() {
            Some(last) if self.extent_count == EXTENTS_MAX => {
                last.start.get().saturating_add(last.len_max()).max(self.size)
            }
            _ => Geometry::SIZE_MAX,
        }
    }

    /// Plans the growth of this pool to `size` bytes as [`grow`](Geometry::grow) does, with a log for that size. If it
    /// has at least twice the old one's length, it lies at the old end of the pool, and an extent after it.
    ///
    /// # Errors
    /// As [`grow`](Geometry::grow).
    pub fn grow_with_log(&self, size: u64) -> Result<Geometry, GeometryError> {
        Geometry::check_size(size)?;
        let size = align_down(size, CHUNK);
        let (log_off, log_len) = (self.size, Geometry::log_len_of(size));
        let heap = log_off + log_len;
        let is_due = log_len >= self.log_len * LOG_FACTOR_MIN;
        if !is_due || heap + 2 * CHUNK > size || self.extent_count == EXTENTS_MAX {
            return self.grow(size);
        }
        let mut grown = Geometry { size, log_off: PoolOffset::new(log_off), log_len, ..*self };
        let (used, unused) = grown.extents.split_at_mut(self.extent_count);
        for extent in used {
            let end = extent.end().get();
            let free_to = if end == self.log_off.get() { end + self.log_len } else { end };
            extent.len = extent.len_max().min(free_to - extent.start.get()).max(extent.len);
        }
        unused[0] = Extent::with_slack(heap, size - heap, self.size.saturating_mul(REACH_FACTOR));
        grown.extent_count += 1;
        Ok(grown)
    }

    /// Plans the smallest pool that keeps all chunks before `end`. Those from there on are free. The extents before `end`
    /// keep their offsets and tables. The log may move down, into space that is free in this pool; then a new extent
    /// follows it. Returns this geometry if the pool can't shrink.
    pub fn shrink(&self, end: PoolOffset) -> Geometry {
        let kept = self.kept_before(end.get());
        let plans = [self.shrink_keeping_log(kept), self.shrink_moving_log(kept)];
        let smallest = plans.into_iter().flatten().min_by_key(|plan| (plan.parts_len(), plan.size));
        let shrunk = smallest.filter(|plan| plan.parts_len() < self.parts_len()).unwrap_or(*self);
        // A header that breaks a rule would lose the pool.
        let Geometry { size, log_off, log_len, extents, extent_count } = shrunk;
        let valid = Geometry::from_parts(size, log_off.get(), log_len, extents, extent_count as u64);
        assert_eq!(valid, Ok(shrunk), "the parts of a smaller pool are consistent");
        shrunk
    }

    /// Returns the number of extents that a pool has whose chunks from `end` on are free, and the end of the last one.
    fn kept_before(&self, end: u64) -> (usize, u64) {
        let count = self.extents().iter().take_while(|extent| extent.start.get() < end).count().max(1);
        let Extent { start, table_len, .. } = self.extents[count - 1];
        let end =
            align_up(end, CHUNK).clamp(start.get() + table_len + CHUNK, self.extents[count - 1].end().get());
        (count, end)
    }

    /// Returns this pool with `count` extents, of which the last one ends at `end`.
    fn cut(&self, (count, end): (usize, u64)) -> Geometry {
        let mut cut =
            Geometry { size: end, extents: [Extent::default(); EXTENTS_MAX], extent_count: count, ..*self };
        cut.extents[..count].copy_from_slice(&self.extents[..count]);
        let last = &mut cut.extents[count - 1];
        last.len = end - last.start.get();
        cut
    }

    fn shrink_keeping_log(&self, kept: (usize, u64)) -> Option<Geometry> {
        let mut cut = self.cut(kept);
        if self.log_off < cut.extents[kept.0 - 1].start {
            return Some(cut);
        }
        // Growth relies on an extent after the log: it lengthens the last one. Extents between are free, and are gone.
        let after = self.extents().iter().find(|extent| extent.start > self.log_off)?;
        cut.extents[kept.0] = Extent { len: after.table_len + CHUNK, ..*after };
        cut.extent_count += 1;
        cut.size = cut.extents[kept.0].end().get();
        Some(cut)
    }

    fn shrink_moving_log(&self, kept: (usize, u64)) -> Option<Geometry> {
        let (count, log_off) = kept;
        let mut cut = self.cut(kept);
        let old_log_end = self.log_off.get() + self.log_len;
        for extent in &mut cut.extents[..count - 1] {
            if extent.end() == self.log_off {
                extent.len = extent.len_max().min(old_log_end - extent.start.get()).max(extent.len);
            }
        }
        let log_len = Geometry::log_len_of(cut.parts_len() - self.log_len);
        let tail = Extent::with_slack(log_off + log_len, 2 * CHUNK, 0);
        let size = tail.end().get();
        let is_clear = old_log_end <= log_off || self.log_off.get() >= size;
        if !is_clear || size > self.size || count >= SHRUNK_EXTENTS_MAX {
            return None;
        }
        cut.extents[count] = tail;
        Some(Geometry { size, log_off: PoolOffset::new(log_off), log_len, extent_count: count + 1, ..cut })
    }

    /// Returns the bytes of all parts: the size without gaps.
    pub fn parts_len(&self) -> u64 {
        let heap: u64 = self.extents().iter().map(|extent| extent.len).sum();
        Geometry::LOG.get() + self.log_len + heap
    }

    /// Returns the ranges between the parts, offset and length. No part will use them, so the file may have holes there.
    pub fn gaps(&self) -> Vec<(PoolOffset, u64)> {
        let log = (self.log_off, self.log_len);
        let mut parts: Vec<_> = self.extents().iter().map(|extent| (extent.start, extent.len)).collect();
        parts.push(log);
        parts.sort_unstable();
        let mut end = Geometry::LOG.get();
        let gaps = parts.into_iter().map(|(start, len)| {
            let before = end;
            end = start.get() + len;
            (PoolOffset::new(before), start.get() - before)
        });
        gaps.filter(|(_, len)| *len > 0).collect()
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
        let log = log_off..log_off + log_len;
        let mut free_from = Geometry::LOG.get();
        for (index, extent) in extents.iter().enumerate() {
            if index < extent_count {
                // An extent lies before the log or after it.
                let is_before = extent.start.get() < log.start;
                let (from, to) =
                    if is_before { (free_from, log.start) } else { (free_from.max(log.end), size) };
                extent_rules(index, extent, from, to)?;
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

/// Checks the rules for an extent in use. The part before it ends at `from`, and the part after it begins at `to`.
fn extent_rules(index: usize, extent: &Extent, from: u64, to: u64) -> Result<(), InvalidField> {
    use Want::{AtLeast, AtMost, MultipleOf};
    let start = extent.start.get();
    AtLeast(from).check("extent.start", index, start)?;
    AtMost(to).check("extent.start", index, start)?;
    MultipleOf(CHUNK).check("extent.start", index, start)?;
    AtLeast(2 * CHUNK).check("extent.len", index, extent.len)?;
    AtMost(to - start).check("extent.len", index, extent.len)?;
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

    /// The log that is due lies at the old end of the pool; a later one gives its space to the extent before it.
    #[test]
    fn log_grows_with_pool() {
        let small = Geometry::plan(1 << 20).unwrap();
        assert_eq!(small.grow_with_log((1 << 20) + (512 << 10)).unwrap().log_off(), Geometry::LOG);
        let grown = small.grow_with_log(4 << 20).unwrap();
        assert_eq!((grown.log_off().get(), grown.log_len()), (1 << 20, 256 << 10));
        assert_eq!(grown.extents()[0], small.extents()[0]);
        assert_eq!(grown.extents()[1].start.get(), grown.log_off().get() + grown.log_len());
        let again = grown.grow_with_log(16 << 20).unwrap();
        assert_eq!((again.log_off().get(), again.log_len()), (4 << 20, 1 << 20));
        assert_eq!(again.extents()[0].end(), grown.extents()[1].start);
        assert_eq!(again.extents()[2].end().get(), 16 << 20);
        for geometry in [small, grown, again] {
            assert_eq!(revalidated(&geometry), Ok(geometry));
        }
        // No room for an extent after the log: it stays where it is.
        let tight = small.grow_with_log((2 << 20) + CHUNK).unwrap();
        assert_eq!(tight.log_len(), 128 << 10);
        let full = Geometry::plan(64 << 10).unwrap().grow_with_log(128 << 10).unwrap();
        assert_eq!(full.log_len(), LOG_LEN_MIN);
    }

    /// A log inside of an extent, or an extent inside of the log, is no pool.
    #[test]
    fn log_and_extents_are_disjoint() {
        let grown = Geometry::plan(1 << 20).unwrap().grow_with_log(4 << 20).unwrap();
        let moved = |log_off: u64, log_len: u64| {
            let Geometry { size, extents, extent_count, .. } = grown;
            Geometry::from_parts(size, log_off, log_len, extents, extent_count as u64)
        };
        let (at, len) = (grown.log_off().get(), grown.log_len());
        assert_eq!(moved(at, len), Ok(grown));
        assert!(moved(Geometry::LOG.get(), 64 << 10).is_ok());
        for (log_off, log_len) in [(at - BLOCK, len), (at, len + BLOCK), (0x18000, len), (2 << 20, len)] {
            let field = moved(log_off, log_len).expect_err("an overlap").field;
            assert!(field.starts_with("extent."), "{field}");
        }
    }

    #[test]
    fn shrinking_is_refused() {
        let pool = Geometry::plan(1 << 20).unwrap();
        let size = (1 << 20) - CHUNK;
        assert_eq!(pool.grow(size), Err(GeometryError::Shrinks { size, was: 1 << 20 }));
        assert_eq!(pool.grow(1 << 20), Ok(pool));
    }

    /// The log of a pool that was made large lies before the heap, and moves to where the pool is cut.
    #[test]
    fn shrinking_moves_long_log_down() {
        let pool = Geometry::plan(1 << 30).unwrap();
        let heap = pool.extents()[0];
        let end = heap.start.plus(heap.table_len + (1 << 20));
        let shrunk = pool.shrink(end);
        assert_eq!(revalidated(&shrunk), Ok(shrunk));
        assert_eq!(shrunk.extents()[0], Extent { len: end.get() - heap.start.get(), ..heap });
        assert_eq!((shrunk.log_off(), shrunk.extents().len()), (end, 2));
        assert_eq!(shrunk.log_len(), Geometry::log_len_of(heap.table_len + (1 << 20) + (16 << 10)));
        assert_eq!(shrunk.gaps(), [(Geometry::LOG, 64 << 20)]);
        assert!(shrunk.parts_len() < (3 << 19) + heap.table_len && shrunk.size() < 70 << 20);
        // It grows as any pool.
        let grown = shrunk.grow_with_log(1 << 30).unwrap();
        assert_eq!(revalidated(&grown), Ok(grown));
        assert_eq!(grown.extents()[0].start, heap.start);
        assert_eq!(shrunk.shrink(end), shrunk);
    }

    #[test]
    fn shrinking_keeps_log_that_lies_low() {
        let grown = Geometry::plan(1 << 20).unwrap().grow_with_log(4 << 20).unwrap();
        let end = grown.extents()[1].start.plus(1 << 20);
        let shrunk = grown.shrink(end);
        assert_eq!((shrunk.log_off(), shrunk.size()), (grown.log_off(), end.get()));
        assert_eq!((shrunk.extents().len(), shrunk.gaps()), (2, vec![(Geometry::LOG, 64 << 10)]));
        // Less is used than lies before the log, which is too near to make room for another one.
        let end = PoolOffset::new(grown.log_off().get() - CHUNK);
        let shrunk = grown.shrink(end);
        assert_eq!((shrunk.log_off(), shrunk.extents().len()), (grown.log_off(), 2));
        assert_eq!(shrunk.extents()[1].len, 2 * CHUNK);
        let empty = grown.shrink(PoolOffset::NULL);
        assert!(empty.parts_len() == 96 << 10 && revalidated(&empty) == Ok(empty), "{empty:?}");
    }

    /// Extents between the last one that is kept and the log are free, and go.
    #[test]
    fn shrinking_keeps_extent_after_log() {
        let pool =
            Geometry::plan(256 << 10).unwrap().grow(40 << 20).unwrap().grow_with_log(80 << 20).unwrap();
        assert!(pool.extents().len() == 3 && pool.extents()[1].start < pool.log_off());
        let shrunk = pool.shrink_keeping_log(pool.kept_before(0)).unwrap();
        assert_eq!(revalidated(&shrunk), Ok(shrunk));
        assert_eq!(shrunk.extents()[1].start, pool.extents()[2].start);
    }

    #[test]
    fn full_pool_does_not_shrink() {
        let pool = Geometry::plan(1 << 20).unwrap();
        assert_eq!(pool.shrink(PoolOffset::new(pool.size())), pool);
        assert_eq!(pool.shrink(PoolOffset::new(Geometry::SIZE_MAX)), pool);
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
        assert_eq!(pool.reach(), size_max);
        assert_eq!(Geometry::plan(64 << 10).unwrap().reach(), Geometry::SIZE_MAX);
        assert_eq!(pool.grow(size_max).unwrap().size(), size_max);
    }

    /// Returns the first size of a pool, below 2 to the power of `bits`, and its growths and shrinks.
    fn histories(bits: u32) -> impl Strategy<Value = (u64, Vec<(u64, bool, bool)>)> {
        let step = (1u64..1 << (bits - 5), any::<bool>(), any::<bool>());
        (Geometry::SIZE_MIN..1 << bits, prop::collection::vec(step, 0..12))
    }

    proptest! {
        #[test]
        fn plans_and_growths_revalidate(
            (size, steps) in prop_oneof![histories(45), histories(26)],
        ) {
            let mut pool = Geometry::plan(size).unwrap();
            for (step, moves_log, shrinks) in steps {
                if shrinks {
                    let end = step % pool.size();
                    let in_use = |extent: &Extent| extent.start.get() < end;
                    let shrunk = pool.shrink(PoolOffset::new(end));
                    prop_assert_eq!(revalidated(&shrunk), Ok(shrunk));
                    prop_assert!(shrunk.size() <= pool.size() && shrunk.parts_len() <= pool.parts_len());
                    for (old, new) in pool.extents().iter().filter(|extent| in_use(extent)).zip(shrunk.extents()) {
                        prop_assert_eq!((old.start, old.table_len), (new.start, new.table_len));
                        prop_assert!(new.end().get() >= end.min(old.end().get()));
                    }
                    let is_last = |extent: &Extent| shrunk.extents().last() == Some(extent);
                    let last = shrunk.extents().iter().find(|extent| is_last(extent)).unwrap();
                    prop_assert!(shrunk.log_off() < last.start, "growth lengthens the last extent");
                    pool = shrunk;
                    continue;
                }
                let size = pool.size() + step;
                let grown = if moves_log { pool.grow_with_log(size) } else { pool.grow(size) };
                let Ok(grown) = grown else { break };
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
