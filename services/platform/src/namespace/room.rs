//! Valid sizes of namespaces in a region.

use super::error::NamespaceError;
use super::mode::Mode;
use super::space::{largest_free, region_align};
use super::wanted::{ALIGN, CreateNamespace};
use crate::platform::Platform;
use crate::region::Region;

/// Minimum size in bytes of a namespace that is not raw.
pub(crate) const SIZE_MIN: u64 = 16 << 20;
const PAGE: u64 = 4096;
/// Valid alignments of page maps, in bytes.
const ALIGNMENTS: [u64; 3] = [PAGE, ALIGN, 1 << 30];

/// Constraints of a region on a new namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// N of regionN.
    pub(crate) region: u32,
    /// Number of modules over which the region is interleaved.
    pub(crate) ways: u64,
    /// The kernel's alignment of its namespaces in bytes; `None` if it has none.
    pub(crate) align: Option<u64>,
    /// The largest free range in bytes.
    pub(crate) largest: u64,
}

impl Room {
    /// Returns the bytes of a new namespace, with the checks of ndctl.
    ///
    /// # Errors
    /// The size is not aligned, too small, or larger than the free range.
    pub(crate) fn size(&self, wanted: &CreateNamespace) -> Result<u64, NamespaceError> {
        let align = match wanted.mode {
            Mode::Fsdax | Mode::Devdax => wanted.align.unwrap_or(ALIGN),
            Mode::Sector | Mode::Raw => PAGE,
        };
        if !ALIGNMENTS.contains(&align) || (wanted.align.is_some() && align != wanted.align.unwrap_or(0)) {
            return Err(NamespaceError::Align { align: wanted.align.unwrap_or(align), mode: wanted.mode });
        }
        let &Room { region, ways, largest, .. } = self;
        let unit = (align * ways).max(self.align.unwrap_or(0));
        let size = wanted.size.unwrap_or(largest / unit * unit);
        if !size.is_multiple_of(unit) {
            let fitting = size.checked_next_multiple_of(unit).unwrap_or(size - size % unit);
            return Err(NamespaceError::Misaligned { size, ways, unit, fitting });
        }
        if size == 0 || (size < SIZE_MIN && wanted.mode != Mode::Raw) {
            let want = size.max(SIZE_MIN);
            return Err(match wanted.size {
                Some(_) => NamespaceError::TooSmall { size, size_min: SIZE_MIN },
                None => NamespaceError::NoSpace { region: Some(region), want, largest },
            });
        }
        if size > largest {
            return Err(NamespaceError::NoSpace { region: Some(region), want: size, largest });
        }
        Ok(size)
    }
}

/// Returns the constraints of a region on a new namespace.
pub(super) fn room(platform: &Platform, region: &Region) -> Room {
    Room {
        region: region.number,
        ways: region.members().len() as u64,
        align: region_align(platform, region),
        largest: largest_free(platform, region),
    }
}
