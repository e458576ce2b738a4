//! Offsets from the start of a pool, and the only functions that compute alignment.

use std::fmt;

/// Bytes of a word, the unit that a CPU stores atomically.
pub const WORD: u64 = 8;
/// Bytes of a cache line, the unit of flushing on every supported CPU.
pub const LINE: u64 = 64;
/// Bytes of the block to which writes are padded if the medium is a block device's page cache.
pub const BLOCK: u64 = 4096;

/// Offset in bytes from the start of a pool. The only kind of address that is ever stored on a medium.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PoolOffset(u64);

impl PoolOffset {
    /// Offset of the pool's header; on media it stands for "no object".
    pub const NULL: PoolOffset = PoolOffset(0);

    /// Returns the offset of `bytes` from the start of the pool.
    #[inline]
    pub const fn new(bytes: u64) -> PoolOffset {
        PoolOffset(bytes)
    }

    /// Returns the number of bytes from the start of the pool.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns true if this is [`NULL`](PoolOffset::NULL).
    #[inline]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Returns the offset `bytes` further on. It wraps, so that an offset from damaged media can't panic; every access
    /// checks its bounds.
    #[inline]
    pub const fn plus(self, bytes: u64) -> PoolOffset {
        PoolOffset(self.0.wrapping_add(bytes))
    }

    /// Returns the index of the cache line that holds this byte, counted from the start of the pool.
    #[inline]
    pub const fn line(self) -> u64 {
        self.0 / LINE
    }
}

impl fmt::Debug for PoolOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for PoolOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Returns the largest multiple of `unit` (a power of two) that is at most `value`.
#[inline]
pub const fn align_down(value: u64, unit: u64) -> u64 {
    debug_assert!(unit.is_power_of_two());
    value & !(unit - 1)
}

/// Returns the smallest multiple of `unit` (a power of two) that is at least `value`. Wraps to 0 past the last one.
#[inline]
pub const fn align_up(value: u64, unit: u64) -> u64 {
    debug_assert!(unit.is_power_of_two());
    value.wrapping_add(unit - 1) & !(unit - 1)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn alignment_at_unit_edges() {
        for unit in [1, WORD, LINE, BLOCK] {
            for edge in 0..8 {
                for delta in -2i64..=2 {
                    let Some(value) = (edge * unit).checked_add_signed(delta) else { continue };
                    let (down, up) = (align_down(value, unit), align_up(value, unit));
                    assert!(down % unit == 0 && up % unit == 0);
                    assert!(down <= value && value - down < unit);
                    assert!(up >= value && up - value < unit);
                }
            }
        }
        assert_eq!(align_up(u64::MAX, LINE), 0);
    }

    #[test]
    fn line_of_an_offset() {
        for (bytes, line) in [(0, 0), (63, 0), (64, 1), (65, 1), (127, 1), (128, 2)] {
            assert_eq!(PoolOffset::new(bytes).line(), line);
        }
    }
}
