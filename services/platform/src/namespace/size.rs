//! Valid sizes of namespaces in a region.

use super::error::NamespaceError;
use super::mode::Mode;
use super::parameters::CreateNamespace;
use super::space::{largest_free, region_align};
use crate::platform::Platform;
use crate::region::Region;

/// Minimum size in bytes of a namespace that is not raw.
pub(crate) const SIZE_MIN: u64 = 16 << 20;

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
    /// Returns the unit of sizes of such namespaces, in bytes.
    ///
    /// # Errors
    /// [`Align`](NamespaceError::Align): the alignment of the page map is invalid.
    pub(crate) fn unit(&self, parameters: &CreateNamespace) -> Result<u64, NamespaceError> {
        Ok((parameters.share_align()? * self.ways).max(self.align.unwrap_or(0)))
    }

    /// Returns the least valid size with at least `size` bytes. Returns 0, and a size that overflows, as they are.
    ///
    /// # Errors
    /// [`Align`](NamespaceError::Align): the alignment of the page map is invalid.
    pub(crate) fn rounded_up(&self, parameters: &CreateNamespace, size: u64) -> Result<u64, NamespaceError> {
        let least = if parameters.mode == Mode::Raw || size == 0 { size } else { size.max(SIZE_MIN) };
        Ok(least.checked_next_multiple_of(self.unit(parameters)?).unwrap_or(size))
    }

    /// Checks that the free range has the requested size.
    ///
    /// # Errors
    /// [`NoSpace`](NamespaceError::NoSpace).
    pub(crate) fn check_space(&self, parameters: &CreateNamespace) -> Result<(), NamespaceError> {
        match parameters.size {
            Some(want) if want > self.largest => {
                Err(NamespaceError::NoSpace { region: Some(self.region), want, largest: self.largest })
            }
            _ => Ok(()),
        }
    }

    /// Returns the bytes of a new namespace, with the checks of ndctl.
    ///
    /// # Errors
    /// Fails if the size is not aligned, too small, or larger than the free range.
    pub(crate) fn size(&self, parameters: &CreateNamespace) -> Result<u64, NamespaceError> {
        let unit = self.unit(parameters)?;
        let &SizeRules { region, ways, largest, .. } = self;
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
pub(crate) fn size_rules(platform: &Platform, region: &Region) -> SizeRules {
    SizeRules {
        region: region.number,
        ways: region.members().len() as u64,
        align: region_align(platform, region),
        largest: largest_free(platform, region),
    }
}
