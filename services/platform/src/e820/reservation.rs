//! RAM that is reserved to emulate persistent memory.

use super::error::MemoryMapError;
use super::kind::MemoryKind;
use super::map::MemoryMap;
use lode_layout::{align_down, align_up};
use std::fmt;

/// Bytes of a memory section. The kernel maps persistent memory in whole sections, and refuses ranges that begin or end
/// within one with error 95.
pub const SECTION: u64 = 128 << 20;
/// RAM below this address is left to the kernel and the boot loader, in bytes.
const START_MIN: u64 = 1 << 30;
/// RAM from this address on is not used by boot loaders, in bytes.
pub(super) const HIGH_MEMORY: u64 = 4 << 30;

/// A part of RAM that the kernel uses as persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Offset of its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Reservation {
    /// Returns the offset of the first byte after it.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// Formats the argument for a kernel's command line: `memmap=16G!4G`.
impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |bytes: u64| {
            let unit = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")]
                .into_iter()
                .find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
            unit.map_or_else(|| format!("{bytes:#x}"), |(unit, letter)| format!("{}{letter}", bytes / unit))
        };
        write!(f, "memmap={}!{}", word(self.len), word(self.start))
    }
}

impl MemoryMap {
    /// Finds RAM of at least `size` bytes in whole sections: the first such range from 4 GiB on, else from 1 GiB on.
    ///
    /// # Errors
    /// Fails if no range of RAM has `size` bytes in whole sections.
    pub fn plan(&self, size: u64) -> Result<Reservation, MemoryMapError> {
        let mut free: Vec<Reservation> =
            [HIGH_MEMORY, START_MIN].into_iter().flat_map(|lowest| self.sections_from(lowest)).collect();
        let largest = free.iter().map(|free| free.len).max().unwrap_or(0);
        let refused = MemoryMapError::NoRam { want: size, largest };
        if size > largest {
            return Err(refused);
        }
        let len = align_up(size.max(1), SECTION);
        free.retain(|free| free.len >= len);
        free.first().map(|free| Reservation { len, ..*free }).ok_or(refused)
    }

    /// Returns the arguments for the command line: the existing ones, then `planned`.
    pub fn arguments(&self, planned: Reservation) -> Vec<Reservation> {
        let kept = self.from_ram.iter().map(|range| Reservation { start: range.start, len: range.len });
        kept.chain([planned]).collect()
    }

    /// Returns the whole sections of RAM from an address on.
    fn sections_from(&self, lowest: u64) -> impl Iterator<Item = Reservation> {
        // Kernels list RAM in several adjacent ranges.
        let mut usable: Vec<(u64, u64)> = Vec::new();
        let ram = self.ranges.iter().filter(|range| range.kind == MemoryKind::Usable);
        let mut ram: Vec<(u64, u64)> = ram.map(|range| (range.start, range.end())).collect();
        ram.sort_unstable();
        for (start, end) in ram {
            match usable.last_mut() {
                Some((_, before)) if start <= *before => *before = end.max(*before),
                _ => usable.push((start, end)),
            }
        }
        usable.into_iter().filter_map(move |(start, end)| {
            let start = start.max(lowest).checked_next_multiple_of(SECTION)?;
            let len = align_down(end, SECTION).checked_sub(start).filter(|len| *len > 0)?;
            Some(Reservation { start, len })
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns the map of a QEMU machine with so many bytes below and above 4 GiB.
    fn map(low: u64, high: u64) -> MemoryMap {
        let mut text = format!("BIOS-e820: [mem 0x100000-{:#x}] usable\n", low - 0x2_0001);
        text += &format!("BIOS-e820: [mem {:#x}-{:#x}] reserved\n", low - 0x2_0000, low - 1);
        if high > 0 {
            text += &format!("BIOS-e820: [mem 0x100000000-{:#x}] usable\n", HIGH_MEMORY + high - 1);
        }
        MemoryMap::parse(&text).unwrap()
    }

    /// Kernels 6.1 and 6.12 accepted these arguments, and refused one.
    #[test]
    fn plans_match_kernels() {
        let plan = |map: &MemoryMap, mib: u64| map.plan(mib * MIB).map(|planned| planned.to_string());
        assert_eq!(plan(&map(2048 * MIB, 0), 512).unwrap(), "memmap=512M!1G");
        assert_eq!(plan(&map(3072 * MIB, 3072 * MIB), 1024).unwrap(), "memmap=1G!4G");
        // 2 GiB of RAM. The low range ends within a section, and 1G!1G would extend past it.
        let low = map(2048 * MIB, 0);
        let refused = plan(&low, 1024).unwrap_err().to_string();
        assert!(refused.contains("the largest that would fit is 896M"), "{refused}");
        assert_eq!(plan(&low, 896).unwrap(), "memmap=896M!1G");
    }

    #[test]
    fn plans_are_whole_sections_of_ram() {
        let touching = MemoryMap::parse(
            "user: [mem 0x100000000-0x104000017] usable\nuser: [mem 0x104000018-0x10fffffff] usable\n",
        );
        let planned = touching.unwrap().plan(129 * MIB).unwrap();
        assert_eq!(planned, Reservation { start: HIGH_MEMORY, len: 256 * MIB });
        for size in [0, 1, SECTION] {
            assert_eq!(map(2048 * MIB, 0).plan(size).unwrap().len, SECTION, "{size}");
        }
        let none = map(1024 * MIB, 0).plan(1).unwrap_err();
        assert!(matches!(none, MemoryMapError::NoRam { want: 1, largest: 0 }), "{none}");
        assert!(map(2048 * MIB, 0).plan(u64::MAX).is_err());
    }
}
