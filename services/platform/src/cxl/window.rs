//! Address windows of a machine: root decoders of the kernel.

use super::stored::{CxlKind, CxlState, StoredCxlRegion};
use crate::machine::{AddressWindow, Machine};
use std::ops::Range;

/// Alignment of windows and of regions in them, in bytes.
pub(crate) const WINDOW_ALIGN: u64 = 256 << 20;
/// First address of the first window, at least.
const FIRST_ADDRESS: u64 = 4 << 30;
/// Least granularity of a decoder, in bytes, which an idle one has.
pub(crate) const IDLE_GRANULARITY: u64 = 256;
/// Bytes below 4 GiB that belong to devices, which moves memory up.
const MMIO_HOLE: u64 = 2 << 30;

/// Returns the first address of each window. They follow all other memory, in their order.
pub(crate) fn starts(machine: &Machine) -> Vec<u64> {
    let sizes = machine.dram.iter().map(|dram| dram.capacity);
    let sizes = sizes.chain(machine.modules.iter().map(|module| module.capacity));
    let memory = sizes.fold(MMIO_HOLE, u64::saturating_add);
    let ranges = machine.memmap.iter().map(|range| range.start.saturating_add(range.size));
    let reserved = machine.soft_reserved.iter().map(|range| range.start.saturating_add(range.size));
    let end = ranges.chain(reserved).fold(memory.max(FIRST_ADDRESS), u64::max);
    let mut next = end.checked_next_multiple_of(WINDOW_ALIGN).unwrap_or(end);
    let start = |window: &AddressWindow| {
        let start = next;
        next = next.saturating_add(window.size);
        start
    };
    machine.cxl.windows.iter().map(start).collect()
}

/// Returns the free ranges of a window, as offsets, ascending.
pub(crate) fn gaps(window: &AddressWindow, number: u32, state: &CxlState) -> Vec<Range<u64>> {
    gaps_between(window, state.regions.iter().filter(|region| region.window == number))
}

/// Returns the ranges of a window between these regions of it.
fn gaps_between<'a>(
    window: &AddressWindow,
    regions: impl Iterator<Item = &'a StoredCxlRegion>,
) -> Vec<Range<u64>> {
    let mut taken: Vec<Range<u64>> =
        regions.map(|region| region.off..region.off.saturating_add(region.size)).collect();
    taken.sort_by_key(|range| range.start);
    taken.push(window.size..window.size);
    let mut next = 0;
    let mut gaps = Vec::new();
    for range in taken {
        if range.start > next {
            gaps.push(next..range.start);
        }
        next = next.max(range.end);
    }
    gaps
}

/// Returns the bytes of the largest free range of a window. Like cxl, this takes the range of a region for free that
/// decoders don't have.
pub(crate) fn largest_gap(window: &AddressWindow, number: u32, state: &CxlState) -> u64 {
    let regions = state.regions.iter().filter(|region| region.window == number && region.committed);
    gaps_between(window, regions).iter().map(|gap| gap.end - gap.start).max().unwrap_or(0)
}

impl AddressWindow {
    /// Returns the granularity that the kernel has for the window's root decoder, in bytes: the least if it has one bridge,
    /// since its regions can have any.
    pub(crate) fn default_granularity(&self) -> u64 {
        if self.bridges.len() > 1 { self.granularity } else { IDLE_GRANULARITY }
    }

    /// Returns true if it takes memory of this kind.
    pub fn takes(&self, kind: CxlKind) -> bool {
        match kind {
            CxlKind::Ram => self.volatile,
            CxlKind::Pmem => self.persistent,
        }
    }
}
