//! Mappings: where they are, and what makes their stores durable.

use crate::code;
use crate::failure::Failure;
use crate::granularity::Granularity;
use crate::source::Source;
use lode_pmem::Sysfs;
use std::ops::Range;
use std::path::PathBuf;

/// The work of a deep flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deep {
    /// Nothing: the memory is the process's.
    Unsupported,
    /// msync(2).
    Sync,
    /// A flush of the caches, and a store to the region's attribute, if there is a region.
    Region(Option<PathBuf>),
}

/// The object behind `struct pmem2_map`.
#[derive(Debug)]
pub(crate) struct Map {
    start: usize,
    len: usize,
    granularity: Granularity,
    deep: Deep,
}

impl Deep {
    /// Returns the work of a deep flush of a mapping of the source.
    pub(crate) fn of(source: &Source, sysfs: &Sysfs) -> Deep {
        match source.open() {
            None => Deep::Unsupported,
            Some(open) if open.is_node => Deep::Region(open.backing(sysfs).deep_flush()),
            Some(_) => Deep::Sync,
        }
    }
}

impl Map {
    pub(crate) fn new(start: usize, len: usize, granularity: Granularity, deep: Deep) -> Map {
        Map { start, len, granularity, deep }
    }

    /// Sets what the kernel has decided: the first address, and the granularity.
    pub(crate) fn place(&mut self, start: usize, granularity: Granularity) {
        self.start = start;
        self.granularity = granularity;
    }

    /// Returns the first address.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Returns the bytes that the program asked for.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn granularity(&self) -> Granularity {
        self.granularity
    }

    pub(crate) fn deep(&self) -> &Deep {
        &self.deep
    }

    /// Returns a range of the mapping.
    pub(crate) fn range(&self, start: usize, len: usize) -> Result<Range<usize>, Failure> {
        let end = start.checked_add(len).filter(|end| *end <= self.start + self.len);
        let end = end.filter(|_| start >= self.start).ok_or_else(|| {
            let text = format!(
                "requested deep flush range ptr {start:#x} size {len} exceeds map range of {} bytes at {:#x}; pass a part \
                 of it",
                self.len, self.start
            );
            Failure::new(code::DEEP_FLUSH_RANGE, text)
        })?;
        Ok(start..end)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ranges_lie_in_the_mapping() {
        let map = Map::new(4096, 100, Granularity::Page, Deep::Sync);
        for (start, len, is_inside) in [
            (4096, 100, true),
            (4196, 0, true),
            (4096, 101, false),
            (4095, 1, false),
            (4197, 0, false),
            (4100, usize::MAX, false),
        ] {
            assert_eq!(map.range(start, len).is_ok(), is_inside, "{len} at {start}");
        }
    }
}
