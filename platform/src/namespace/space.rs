//! What is left of a region.

use crate::platform::Platform;
use crate::region::Region;
use std::ops::Range;

/// What kernels from 5.7 on align namespaces to, in bytes, before the number of modules is taken into account.
const REGION_ALIGN: u64 = 16 << 20;

impl Platform {
    /// The ranges of a region that no namespace has, in their order.
    pub(crate) fn free_ranges(&self, region: &Region) -> Vec<Range<u64>> {
        let mut free = Vec::new();
        let mut start = 0;
        for namespace in self.namespaces(region) {
            if namespace.offset > start {
                free.push(start..namespace.offset);
            }
            start = start.max(namespace.offset + namespace.size);
        }
        if start < region.size {
            free.push(start..region.size);
        }
        free
    }

    /// Bytes of a region that no namespace has.
    pub fn free(&self, region: &Region) -> u64 {
        self.free_ranges(region).iter().map(|range| range.end - range.start).sum()
    }

    /// The largest range of a region that no namespace has, in bytes.
    pub fn largest_free(&self, region: &Region) -> u64 {
        self.free_ranges(region).iter().map(|range| range.end - range.start).max().unwrap_or(0)
    }

    /// What the kernel aligns namespaces of a region to, in bytes; none if it does not.
    pub fn region_align(&self, region: &Region) -> Option<u64> {
        let ways = region.members().len().max(1) as u64;
        let align = if REGION_ALIGN.is_multiple_of(ways) { REGION_ALIGN } else { REGION_ALIGN * ways };
        self.machine.profile.kernel.aligns_regions().then_some(align)
    }
}
