//! Free space of a region.

use crate::platform::Platform;
use crate::region::Region;
use lode_nvdimm::LabelArea;
use std::ops::Range;

/// Alignment of namespaces in bytes by kernels from 5.7 on, before the number of modules is considered.
const REGION_ALIGN: u64 = 16 << 20;

/// Returns the free ranges of a region, in their order.
pub(crate) fn free_ranges(platform: &Platform, region: &Region) -> Vec<Range<u64>> {
    let namespaces = platform.namespaces(region).into_iter();
    let mut taken: Vec<Range<u64>> = namespaces.map(|one| one.offset..one.offset + one.size).collect();
    if region.is_cxl() {
        taken.extend(labelled_ranges(platform, region));
        taken.sort_by_key(|range| range.start);
    }
    let mut free = Vec::new();
    let mut start = 0;
    for range in taken {
        if range.start > start {
            free.push(start..range.start);
        }
        start = start.max(range.end);
    }
    if start < region.size {
        free.push(start..region.size);
    }
    free
}

/// Returns the ranges of a region of CXL memory that labels of its devices have, also those of former regions: the kernel
/// keeps their memory.
fn labelled_ranges(platform: &Platform, region: &Region) -> Vec<Range<u64>> {
    let ways = region.members().len() as u64;
    let mut ranges = Vec::new();
    for member in region.members() {
        let share = member.offset..member.offset + region.share();
        let area = platform.contents.area(member.module).into_iter();
        for (_, label) in area.flat_map(LabelArea::labels) {
            let dpas = label.dpas();
            let (start, end) = (dpas.start.max(share.start), dpas.end.min(share.end));
            if !label.is_region() && start < end {
                ranges.push((start - share.start) * ways..(end - share.start) * ways);
            }
        }
    }
    ranges
}

/// Returns the free bytes of a region.
pub fn free(platform: &Platform, region: &Region) -> u64 {
    free_ranges(platform, region).iter().map(|range| range.end - range.start).sum()
}

/// Returns the largest free range of a region, in bytes.
pub fn largest_free(platform: &Platform, region: &Region) -> u64 {
    free_ranges(platform, region).iter().map(|range| range.end - range.start).max().unwrap_or(0)
}

/// Returns the kernel's alignment of namespaces in a region, in bytes; `None` if it has none.
pub fn region_align(platform: &Platform, region: &Region) -> Option<u64> {
    let ways = region.members().len().max(1) as u64;
    platform.machine.profile.kernel.aligns_regions().then_some(align_over(ways))
}

/// Returns the alignment of namespaces over `ways` modules in bytes, by kernels that align regions.
pub(crate) fn align_over(ways: u64) -> u64 {
    if REGION_ALIGN.is_multiple_of(ways) { REGION_ALIGN } else { REGION_ALIGN * ways }
}
