//! Deep drains: stores beyond what the memory controller saves when power fails.

use crate::failure::Failure;
use crate::ranges::Ranges;
use lode_pmem::{deep_flush_region, msync_program};
use std::ops::Range;
use std::path::PathBuf;

/// A part of a range, and what a deep drain does there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// msync(2) of the addresses.
    Sync(Range<usize>),
    /// A store to the region's attribute, if the device has a region.
    Region(Option<PathBuf>),
}

/// Returns the steps of a deep drain of `len` bytes at `start`.
pub(crate) fn steps(ranges: &Ranges, start: usize, len: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut left = start..start.saturating_add(len);
    while !left.is_empty() {
        let Some(range) = ranges.first_in(&left) else { break };
        if range.addresses.start > left.start {
            steps.push(Step::Sync(left.start..range.addresses.start));
            left.start = range.addresses.start;
        }
        let end = range.addresses.end.min(left.end);
        steps.push(match &range.device {
            Some(region) => Step::Region(region.clone()),
            None => Step::Sync(left.start..end),
        });
        left.start = end;
    }
    if !left.is_empty() {
        steps.push(Step::Sync(left));
    }
    steps
}

/// Takes a step.
pub(crate) fn take(step: Step) -> Result<(), Failure> {
    match step {
        Step::Sync(addresses) => msync(addresses.start, addresses.len()),
        Step::Region(region) => {
            region.iter().for_each(|attribute| deep_flush_region(attribute));
            Ok(())
        }
    }
}

/// Makes `len` bytes at `start` durable by msync(2).
pub(crate) fn msync(start: usize, len: usize) -> Result<(), Failure> {
    msync_program(start, len).map_err(|error| Failure::of_call("msync", "msync", &error))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::ranges::Direct;

    #[test]
    fn each_part_gets_its_own_step() {
        let mut ranges = Ranges::new();
        let region = Some(PathBuf::from("/sys/region0/deep_flush"));
        for (addresses, device) in
            [(100..200, None), (200..300, Some(region.clone())), (400..500, Some(None))]
        {
            ranges.insert(Direct { addresses, is_pmem: true, device });
        }
        assert_eq!(steps(&ranges, 150, 0), []);
        assert_eq!(steps(&ranges, 150, 10), [Step::Sync(150..160)]);
        assert_eq!(steps(&ranges, 250, 10), [Step::Region(region.clone())]);
        assert_eq!(
            steps(&ranges, 50, 500),
            [
                Step::Sync(50..100),
                Step::Sync(100..200),
                Step::Region(region),
                Step::Sync(300..400),
                Step::Region(None),
                Step::Sync(500..550),
            ]
        );
        assert_eq!(steps(&Ranges::new(), usize::MAX, 2), []);
    }
}
