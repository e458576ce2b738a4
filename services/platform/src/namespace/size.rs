//! Valid sizes of namespaces in a region.

use super::error::NamespaceError;
use super::mode::Mode;
use super::parameters::{ALIGN, CreateNamespace};
use super::space::{largest_free, region_align};
use crate::platform::Platform;
use crate::region::Region;

/// Minimum size in bytes of a namespace that is not raw.
pub(crate) const SIZE_MIN: u64 = 16 << 20;
const PAGE: u64 = 4096;
/// Valid alignments of page maps, in bytes.
const ALIGNMENTS: [u64; 3] = [PAGE, ALIGN, 1 << 30];

/// Constraints of a region on a new namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeRules {
    /// N of regionN.
    pub(crate) region: u32,
    /// Number of modules over which the region is interleaved.
    pub(crate) ways: u64,
    /// The kernel's alignment of its namespaces in bytes; `None` if it has none.
    pub(crate) align: Option<u64>,
    /// The largest free range in bytes.
    pub(crate) largest: u64,
}

impl SizeRules {
    /// Returns the bytes of a new namespace, with the checks of ndctl.
    ///
    /// # Errors
    /// Fails if the size is not aligned, too small, or larger than the free range.
    pub(crate) fn size(&self, parameters: &CreateNamespace) -> Result<u64, NamespaceError> {
        let align = match parameters.mode {
            Mode::Fsdax | Mode::Devdax => parameters.align.unwrap_or(ALIGN),
            Mode::Sector | Mode::Raw => PAGE,
        };
        if !ALIGNMENTS.contains(&align)
            || (parameters.align.is_some() && align != parameters.align.unwrap_or(0))
        {
            return Err(NamespaceError::Align {
                align: parameters.align.unwrap_or(align),
                mode: parameters.mode,
            });
        }
        let &SizeRules { region, ways, largest, .. } = self;
        let unit = (align * ways).max(self.align.unwrap_or(0));
        let size = parameters.size.unwrap_or(largest / unit * unit);
        if !size.is_multiple_of(unit) {
            let fitting = size.checked_next_multiple_of(unit).unwrap_or(size - size % unit);
            return Err(NamespaceError::Misaligned { size, ways, unit, fitting });
        }
        if size == 0 || (size < SIZE_MIN && parameters.mode != Mode::Raw) {
            let want = size.max(SIZE_MIN);
            return Err(match parameters.size {
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
pub(super) fn size_rules(platform: &Platform, region: &Region) -> SizeRules {
    SizeRules {
        region: region.number,
        ways: region.members().len() as u64,
        align: region_align(platform, region),
        largest: largest_free(platform, region),
    }
}
