//! The ranges that this library mapped and that the kernel maps directly: where they are, and how a deep flush reaches
//! below them.

use std::ops::Range;
use std::path::PathBuf;

/// A directly mapped range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    pub(crate) addresses: Range<usize>,
    /// True if a flush makes stores durable.
    pub(crate) is_pmem: bool,
    /// `None` for a file, which msync(2) reaches below; for a device-DAX node the attribute of its region, if it has one.
    pub(crate) device: Option<Option<PathBuf>>,
}

/// Directly mapped ranges, in the order of their addresses, without an overlap.
#[derive(Debug)]
pub(crate) struct Ranges {
    ranges: Vec<Direct>,
}

impl Ranges {
    /// Returns an empty table.
    pub(crate) const fn new() -> Ranges {
        Ranges { ranges: Vec::new() }
    }

    /// Adds a range, in place of all that it overlaps.
    pub(crate) fn insert(&mut self, range: Direct) {
        self.remove(&range.addresses);
        let at = self.ranges.partition_point(|other| other.addresses.start < range.addresses.start);
        self.ranges.insert(at, range);
    }

    /// Forgets these addresses. Parts of ranges around them stay. Returns the parts that were forgotten.
    pub(crate) fn remove(&mut self, addresses: &Range<usize>) -> Vec<Direct> {
        let mut removed = Vec::new();
        if addresses.is_empty() || self.first_in(addresses).is_none() {
            return removed;
        }
        let mut kept = Vec::with_capacity(self.ranges.len() + 1);
        for range in self.ranges.drain(..) {
            let Range { start, end } = range.addresses;
            let of = |part: Range<usize>| Direct { addresses: part, ..range.clone() };
            let parts = [start..end.min(addresses.start), start.max(addresses.end)..end];
            kept.extend(parts.into_iter().filter(|part| !part.is_empty()).map(of));
            let part = start.max(addresses.start)..end.min(addresses.end);
            removed.extend((!part.is_empty()).then(|| of(part)));
        }
        self.ranges = kept;
        removed
    }

    /// Returns the first range that has one of these addresses.
    pub(crate) fn first_in(&self, addresses: &Range<usize>) -> Option<&Direct> {
        let at = self.ranges.partition_point(|range| range.addresses.end <= addresses.start);
        let found = self.ranges.get(at).filter(|_| !addresses.is_empty());
        found.filter(|range| range.addresses.start < addresses.end)
    }

    /// Returns true if all of these addresses, at least one, are in ranges where a flush makes stores durable.
    pub(crate) fn are_pmem(&self, addresses: &Range<usize>) -> bool {
        let mut left = addresses.clone();
        while let Some(range) = self.first_in(&left) {
            if range.addresses.start > left.start || !range.is_pmem {
                return false;
            }
            left.start = range.addresses.end;
            if left.is_empty() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn direct(addresses: Range<usize>, is_pmem: bool) -> Direct {
        Direct { addresses, is_pmem, device: None }
    }

    fn table(ranges: &[(Range<usize>, bool)]) -> Ranges {
        let mut table = Ranges::new();
        ranges.iter().for_each(|(range, is_pmem)| table.insert(direct(range.clone(), *is_pmem)));
        table
    }

    #[test]
    fn parts_and_adjoining_ranges_are_pmem() {
        let table = table(&[(200..300, true), (100..200, true), (400..500, true), (500..600, false)]);
        for (addresses, wanted) in [
            (100..300, true),
            (150..250, true),
            (299..300, true),
            (99..300, false),
            (250..301, false),
            (300..400, false),
            (350..450, false),
            (400..501, false),
            (550..560, false),
            (150..150, false),
            (600..700, false),
        ] {
            assert_eq!(table.are_pmem(&addresses), wanted, "{addresses:?}");
        }
    }

    /// Compares with a table that has an entry for each address.
    #[test]
    fn removed_parts_are_forgotten() {
        let mut seed = lode_testing::seed(7);
        let mut draw = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..300 {
            let (mut ranges, mut model) = (Ranges::new(), [None; 64]);
            for _ in 0..20 {
                let start = draw(64);
                let addresses = start..start + draw(65 - start);
                if draw(2) == 0 {
                    let removed = ranges.remove(&addresses);
                    if draw(2) == 0 {
                        model[addresses].fill(None);
                    } else {
                        removed.into_iter().for_each(|part| ranges.insert(part));
                    }
                } else if !addresses.is_empty() {
                    let is_pmem = draw(4) != 0;
                    ranges.insert(direct(addresses.clone(), is_pmem));
                    model[addresses].fill(Some(is_pmem));
                }
                for start in 0..64 {
                    for end in start..64 {
                        let wanted =
                            start < end && model[start..end].iter().all(|known| *known == Some(true));
                        assert_eq!(ranges.are_pmem(&(start..end)), wanted, "{start}..{end}: {ranges:?}");
                    }
                }
            }
        }
    }
}
