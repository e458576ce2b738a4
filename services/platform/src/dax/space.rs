//! Ranges of a device in its region, as the kernel allocates and frees them.

use super::region::DeviceRegion;
use std::ops::Range;

/// Returns the free ranges of a region, ascending.
pub(super) fn gaps(region: &DeviceRegion) -> Vec<Range<u64>> {
    let mut taken: Vec<Range<u64>> = region.devices.iter().flat_map(|one| one.ranges.clone()).collect();
    taken.sort_by_key(|range| range.start);
    let starts = std::iter::once(region.range.start).chain(taken.iter().map(|range| range.end));
    let ends = taken.iter().map(|range| range.start).chain([region.range.end]);
    starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
}

/// Gives the device with this index `len` more bytes, from the lowest free addresses on. The region has them.
pub(super) fn grow(region: &mut DeviceRegion, index: usize, mut len: u64) {
    for gap in gaps(region) {
        let end = gap.end.min(gap.start + len);
        if end == gap.start {
            return;
        }
        len -= end - gap.start;
        let ranges = &mut region.devices[index].ranges;
        match ranges.last_mut() {
            Some(last) if last.end == gap.start => last.end = end,
            _ => ranges.push(gap.start..end),
        }
    }
}

/// Takes `len` bytes from the end of a device's ranges. The ranges have them.
pub(super) fn shrink(ranges: &mut Vec<Range<u64>>, mut len: u64) {
    while len > 0
        && let Some(last) = ranges.last_mut()
    {
        let taken = len.min(last.end - last.start);
        last.end -= taken;
        len -= taken;
        if last.is_empty() {
            ranges.pop();
        }
    }
}
