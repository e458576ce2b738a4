//! The distribution of a region over the modules of its interleave set.
//!
//! ```text
//! region    | line 0 | line 1 | line 2 | line 3 | line 4 | line 5 | ...      3 ways
//! module 0  | line 0 | line 3 | ...
//! module 1  | line 1 | line 4 | ...
//! module 2  | line 2 | line 5 | ...
//! ```
//!
//! A range of the region is one contiguous range in each module. So a namespace needs one label in each module. The
//! drawing follows ACPI's NFIT with lines in order. For CXL, the granularity is the line.

use crate::{ModuleId, SetInfo};
use lode_layout::{InvalidField, Want};
use std::ops::Range;

/// Smallest interleave line of hardware, in bytes.
const LINE_MIN: u64 = 64;

/// The distribution of a region over the modules of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleave {
    ways: u64,
    line: u64,
    module_len: u64,
}

/// A part of a region that lies in one module without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterleavePiece {
    /// Offset of the piece, in bytes from the start of the region.
    pub region_off: u64,
    /// The position of the module in the set.
    pub position: u16,
    /// Offset of the piece, in bytes from the start of the module's part of the region.
    pub module_off: u64,
    /// Length of the piece in bytes.
    pub len: u64,
}

impl Interleave {
    /// The line of Intel's modules, in bytes.
    pub const LINE: u64 = 4096;

    /// Returns a set of `ways` modules that each give `module_len` bytes to the region, in lines of `line` bytes.
    ///
    /// # Errors
    /// Fails for a set without modules. Fails if `line` is not a power of two of at least 64. Fails if `module_len` is
    /// 0 or not a whole number of lines. Fails if the region has 2^64 bytes or more.
    pub fn new(ways: u16, line: u64, module_len: u64) -> Result<Interleave, InvalidField> {
        let ways = u64::from(ways);
        Want::AtLeast(1).check("ways", 0, ways)?;
        Want::PowerOfTwo.check("line", 0, line)?;
        Want::AtLeast(LINE_MIN).check("line", 0, line)?;
        // Keeps a stripe no longer than the region. The region's length fits 64 bits.
        Want::AtLeast(line).check("module_len", 0, module_len)?;
        Want::MultipleOf(line).check("module_len", 0, module_len)?;
        Want::AtMost(u64::MAX / ways).check("module_len", 0, module_len)?;
        Ok(Interleave { ways, line, module_len })
    }

    /// Returns the number of modules in the set.
    pub const fn ways(&self) -> u64 {
        self.ways
    }

    /// Returns the length of a line in bytes. The region continues in the next module after each line.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Returns the number of bytes that each module gives.
    pub const fn module_len(&self) -> u64 {
        self.module_len
    }

    /// Returns the length of the region in bytes.
    pub const fn region_len(&self) -> u64 {
        self.ways * self.module_len
    }

    /// Returns the length of a stripe in bytes: one line of every module. A range of whole stripes takes the same from
    /// each module.
    pub const fn stripe(&self) -> u64 {
        self.ways * self.line
    }

    /// Returns the piece from `region_off` to the end of its line. With only one module, the piece ends with the
    /// region. Returns `None` for an offset after the region.
    pub fn piece_at(&self, region_off: u64) -> Option<InterleavePiece> {
        if region_off >= self.region_len() {
            return None;
        }
        let (line, in_line) = (region_off / self.line, region_off % self.line);
        let len = if self.ways == 1 { self.module_len - region_off } else { self.line - in_line };
        Some(InterleavePiece {
            region_off,
            position: (line % self.ways) as u16,
            module_off: line / self.ways * self.line + in_line,
            len,
        })
    }

    /// Returns the offset in the region of byte `module_off` of the module at `position`. Returns `None` if there is no
    /// such module or byte.
    pub fn region_off(&self, position: u16, module_off: u64) -> Option<u64> {
        let position = u64::from(position);
        if position >= self.ways || module_off >= self.module_len {
            return None;
        }
        let (stripe, in_line) = (module_off / self.line, module_off % self.line);
        Some((stripe * self.ways + position) * self.line + in_line)
    }

    /// Returns the pieces of `range` of the region, in order. Ignores the part of `range` after the region.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = InterleavePiece> {
        let mut next = range.start;
        std::iter::from_fn(move || {
            let whole = self.piece_at(next).filter(|_| next < range.end)?;
            let piece = InterleavePiece { len: whole.len.min(range.end - next), ..whole };
            next += piece.len;
            Some(piece)
        })
    }

    /// Returns the part of `range` of the region that lies in the module at `position`. The result is a range of the
    /// module's part, empty if the module has none of it.
    pub fn share(&self, position: u16, range: Range<u64>) -> Range<u64> {
        // Bytes of the module before `region_off`: those of whole stripes, and those of the last, incomplete stripe.
        let before = |region_off: u64| {
            let region_off = region_off.min(self.region_len());
            let (stripes, rest) = (region_off / self.stripe(), region_off % self.stripe());
            stripes * self.line + rest.saturating_sub(u64::from(position) * self.line).min(self.line)
        };
        if u64::from(position) >= self.ways {
            return 0..0;
        }
        before(range.start)..before(range.end.max(range.start))
    }

    /// Returns the inputs of the set's cookie, for these modules in the order of their positions.
    pub fn set_info(&self, modules: &[ModuleId]) -> Vec<SetInfo> {
        let offs = (0..self.ways).map(|position| position * self.line);
        modules.iter().zip(offs).map(|(module, region_off)| SetInfo { region_off, module: *module }).collect()
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::set_cookie;
    use proptest::prelude::*;

    #[test]
    fn interleave_example() {
        let set = Interleave::new(3, 4096, 8192).unwrap();
        let lines: Vec<_> = (0..6)
            .map(|line| set.piece_at(line * 4096).unwrap())
            .map(|at| (at.position, at.module_off))
            .collect();
        assert_eq!(lines, [(0, 0), (1, 0), (2, 0), (0, 4096), (1, 4096), (2, 4096)]);
        assert_eq!(set.piece_at(6 * 4096), None);
        let inside = set.piece_at(4 * 4096 + 100).unwrap();
        assert_eq!((inside.position, inside.module_off, inside.len), (1, 4196, 3996));
    }

    /// The pair of the PRIMERGY machine: 252 GiB from each module, one set.
    #[test]
    fn real_interleave_set() {
        let set = Interleave::new(2, Interleave::LINE, 0x3f_0000_0000).unwrap();
        assert_eq!(set.region_len(), 504 << 30);
        let ids = ["8089-a2-1834-000016b0", "8089-a2-1834-0000173b"].map(|id| id.parse().unwrap());
        assert_eq!(set_cookie(&set.set_info(&ids)), 0x8baa_eeb8_535e_2444);
        // The namespace of that region takes half from each module.
        let namespace = 0..479_857_737_728;
        assert_eq!([0, 1].map(|position| set.share(position, namespace.clone()).end), [239_928_868_864; 2]);
    }

    #[test]
    fn impossible_sets_are_refused() {
        let refused = |ways, line, len| Interleave::new(ways, line, len).unwrap_err().to_string();
        assert_eq!(refused(0, 4096, 4096), "ways is 0x0, it must be at least 0x1");
        assert_eq!(refused(1, 3000, 4096), "line is 0xbb8, it must be a power of two");
        assert_eq!(refused(1, 32, 4096), "line is 0x20, it must be at least 0x40");
        assert_eq!(refused(1, 4096, 4097), "module_len is 0x1001, it must be a multiple of 0x1000");
        assert_eq!(refused(9, 1 << 63, 0), "module_len is 0x0, it must be at least 0x8000000000000000");
        assert!(refused(2, 4096, 1 << 63).starts_with("module_len"));
        assert!(Interleave::new(u16::MAX, 64, u64::MAX / 65_535 / 64 * 64).is_ok(), "the largest");
    }

    #[test]
    fn single_module_is_contiguous() {
        let set = Interleave::new(1, 4096, 1 << 40).unwrap();
        assert_eq!(set.pieces(5..1 << 39).count(), 1);
        assert_eq!(set.share(0, 5..77), 5..77);
        assert_eq!(set.share(1, 5..77), 0..0, "no such module");
    }

    #[test]
    fn every_byte_maps_to_one_module() {
        for ways in 1..=6 {
            let set = Interleave::new(ways, 64, 256).unwrap();
            let mut seen = vec![false; set.region_len() as usize];
            for position in 0..ways {
                for module_off in 0..set.module_len() {
                    let region_off = set.region_off(position, module_off).unwrap();
                    let piece = set.piece_at(region_off).unwrap();
                    assert_eq!((piece.position, piece.module_off), (position, module_off));
                    assert!(!std::mem::replace(&mut seen[region_off as usize], true));
                }
                assert_eq!(set.region_off(position, set.module_len()), None);
            }
            assert!(seen.into_iter().all(|byte| byte));
            assert_eq!(set.region_off(ways, 0), None);
        }
    }

    proptest! {
        /// Checks that pieces cover the range without gaps, and that each module's pieces cover its share without gaps.
        #[test]
        fn pieces_cover_range_and_shares(
            ways in 1u16..13, shift in 6u32..14, lines in 1u64..40, start in 0u64..600_000, len in 0u64..600_000,
        ) {
            let line = 1 << shift;
            let set = Interleave::new(ways, line, lines * line).unwrap();
            let range = start..start + len;
            let mut region_off = range.start;
            let mut ends: Vec<u64> = (0..ways).map(|position| set.share(position, range.clone()).start).collect();
            for piece in set.pieces(range.clone()) {
                prop_assert_eq!(piece.region_off, region_off);
                prop_assert!(piece.len > 0);
                prop_assert_eq!(set.region_off(piece.position, piece.module_off), Some(region_off));
                let end = &mut ends[usize::from(piece.position)];
                prop_assert_eq!(piece.module_off, *end);
                *end += piece.len;
                region_off += piece.len;
            }
            prop_assert_eq!(region_off, range.end.min(set.region_len()).max(range.start));
            for (position, end) in (0..ways).zip(ends) {
                prop_assert_eq!(end, set.share(position, range.clone()).end);
            }
        }

        #[test]
        fn interleave_never_panics(ways: u16, shift in 6u32..64, len: u64, at: [u64; 2], position: u16) {
            let line = 1 << shift;
            let Ok(set) = Interleave::new(ways, line, len / line * line) else { return Ok(()) };
            if let Some(piece) = set.piece_at(at[0]) {
                prop_assert_eq!(set.region_off(piece.position, piece.module_off), Some(at[0]));
            }
            let share = set.share(position, at[0]..at[1]);
            prop_assert!(share.start <= share.end && share.end <= set.module_len());
            let _ = set.region_off(position, at[1]);
        }
    }
}
