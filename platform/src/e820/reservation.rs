//! Parts of RAM that are to stand in for persistent memory.

use super::{MemoryKind, MemoryMap};
use crate::error::PlatformError;
use lode_layout::{align_down, align_up};
use std::fmt;

/// Bytes of a section of memory: the kernel maps persistent memory in whole ones, and refuses with the error 95 what
/// begins or ends within one.
pub const SECTION: u64 = 128 << 20;
/// RAM below is left to the kernel and to what the boot loader puts there, in bytes.
const FLOOR: u64 = 1 << 30;
/// From here on RAM is out of the way of what a boot loader puts there, in bytes.
pub(super) const HIGH: u64 = 4 << 30;

/// A part of RAM that the kernel is to take for persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Where it begins, in bytes.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Reservation {
    /// Where it ends, in bytes.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// The argument for the command line of a kernel: `memmap=16G!4G`.
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
    /// A part of RAM of at least `size` bytes, in whole sections: the first one from 4 GiB on, or the first one from
    /// 1 GiB on if there is none.
    ///
    /// # Errors
    /// No range of RAM has so many bytes in whole sections.
    pub fn plan(&self, size: u64) -> Result<Reservation, PlatformError> {
        let mut free: Vec<Reservation> =
            [HIGH, FLOOR].into_iter().flat_map(|floor| self.sections_from(floor)).collect();
        let largest = free.iter().map(|free| free.len).max().unwrap_or(0);
        let refused = PlatformError::NoRam { want: size, largest };
        if size > largest {
            return Err(refused);
        }
        let len = align_up(size.max(1), SECTION);
        free.retain(|free| free.len >= len);
        free.first().map(|free| Reservation { len, ..*free }).ok_or(refused)
    }

    /// The arguments for the command line: what it has already, and `planned`.
    pub fn arguments(&self, planned: Reservation) -> Vec<Reservation> {
        let kept = self.from_ram.iter().map(|range| Reservation { start: range.start, len: range.len });
        kept.chain([planned]).collect()
    }

    /// The whole sections of RAM from an address on.
    fn sections_from(&self, floor: u64) -> impl Iterator<Item = Reservation> {
        // Kernels list RAM in several ranges that touch each other.
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
            let start = start.max(floor).checked_next_multiple_of(SECTION)?;
            let len = align_down(end, SECTION).checked_sub(start).filter(|len| *len > 0)?;
            Some(Reservation { start, len })
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The map of a machine of QEMU with so many bytes below and above 4 GiB.
    fn map(low: u64, high: u64) -> MemoryMap {
        let mut text = format!("BIOS-e820: [mem 0x100000-{:#x}] usable\n", low - 0x2_0001);
        text += &format!("BIOS-e820: [mem {:#x}-{:#x}] reserved\n", low - 0x2_0000, low - 1);
        if high > 0 {
            text += &format!("BIOS-e820: [mem 0x100000000-{:#x}] usable\n", HIGH + high - 1);
        }
        MemoryMap::parse(&text).unwrap()
    }

    /// What kernels 6.1 and 6.12 took, and one that they refused.
    #[test]
    fn plans_are_what_kernels_took() {
        let plan = |map: &MemoryMap, mib: u64| map.plan(mib * MIB).map(|planned| planned.to_string());
        assert_eq!(plan(&map(2048 * MIB, 0), 512).unwrap(), "memmap=512M!1G");
        assert_eq!(plan(&map(3072 * MIB, 3072 * MIB), 1024).unwrap(), "memmap=1G!4G");
        // 3 GiB of RAM, the last of the low ones in the middle of a section: 1G!1G ends behind it.
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
        assert_eq!(planned, Reservation { start: HIGH, len: 256 * MIB });
        for size in [0, 1, SECTION] {
            assert_eq!(map(2048 * MIB, 0).plan(size).unwrap().len, SECTION, "{size}");
        }
        let none = map(1024 * MIB, 0).plan(1).unwrap_err();
        assert!(matches!(none, PlatformError::NoRam { want: 1, largest: 0 }), "{none}");
        assert!(map(2048 * MIB, 0).plan(u64::MAX).is_err());
    }
}
