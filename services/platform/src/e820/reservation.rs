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

/// A request for RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRequest {
    /// Size in bytes. It is rounded up to whole sections.
    pub size: u64,
    /// The NUMA node whose RAM is taken; `None` for any.
    pub node: Option<u32>,
}

impl MemoryMap {
    /// Finds RAM for each request in whole sections: the first range that has room from 4 GiB on, else from 1 GiB on. The
    /// reservations are in the order of the requests and do not overlap.
    ///
    /// # Errors
    /// Fails if no free range of RAM has the requested bytes in whole sections, or if the log does not list the node.
    pub fn plan(&self, requests: &[ReservationRequest]) -> Result<Vec<Reservation>, MemoryMapError> {
        let mut planned = Vec::new();
        for request in requests {
            planned.push(self.plan_one(request, &planned)?);
        }
        Ok(planned)
    }

    fn plan_one(
        &self,
        request: &ReservationRequest,
        taken: &[Reservation],
    ) -> Result<Reservation, MemoryMapError> {
        let ReservationRequest { size, node } = *request;
        if let Some(node) = node.filter(|node| self.nodes.iter().all(|known| known.node != *node)) {
            return Err(MemoryMapError::UnknownNode { node, has_nodes: !self.nodes.is_empty() });
        }
        let ram = self.free_ram(node, taken);
        let mut free: Vec<Reservation> =
            [HIGH_MEMORY, START_MIN].into_iter().flat_map(|lowest| sections_from(&ram, lowest)).collect();
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
    pub fn arguments(&self, planned: &[Reservation]) -> Vec<Reservation> {
        let kept = self.from_memmap.iter().map(|range| Reservation { start: range.start, len: range.len });
        kept.chain(planned.iter().copied()).collect()
    }

    /// Returns the ranges of RAM of a node, or of all nodes, without `taken`, by their starts and ends.
    fn free_ram(&self, node: Option<u32>, taken: &[Reservation]) -> Vec<(u64, u64)> {
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
        let of_node = self.nodes.iter().filter(|known| node == Some(known.node));
        let within: Vec<(u64, u64)> = match node {
            Some(_) => of_node.map(|known| (known.start, known.start + known.len)).collect(),
            None => vec![(0, u64::MAX)],
        };
        let mut free: Vec<(u64, u64)> = Vec::new();
        for (start, end) in usable {
            let parts = within.iter().map(|(from, to)| (start.max(*from), end.min(*to)));
            free.extend(parts.filter(|(start, end)| start < end));
        }
        for one in taken {
            let before_and_after =
                |(start, end): (u64, u64)| [(start, end.min(one.start)), (start.max(one.end()), end)];
            free = free.into_iter().flat_map(before_and_after).filter(|(start, end)| start < end).collect();
        }
        free.sort_unstable();
        free
    }
}

/// Returns the whole sections of ranges from an address on.
fn sections_from(ranges: &[(u64, u64)], lowest: u64) -> impl Iterator<Item = Reservation> {
    ranges.iter().filter_map(move |&(start, end)| {
        let start = start.max(lowest).checked_next_multiple_of(SECTION)?;
        let len = align_down(end, SECTION).checked_sub(start).filter(|len| *len > 0)?;
        Some(Reservation { start, len })
    })
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn plan(map: &MemoryMap, size: u64) -> Result<Reservation, MemoryMapError> {
        map.plan(&[ReservationRequest { size, node: None }]).map(|planned| planned[0])
    }

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
        let plan = |map: &MemoryMap, mib: u64| plan(map, mib * MIB).map(|planned| planned.to_string());
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
        let planned = plan(&touching.unwrap(), 129 * MIB).unwrap();
        assert_eq!(planned, Reservation { start: HIGH_MEMORY, len: 256 * MIB });
        for size in [0, 1, SECTION] {
            assert_eq!(plan(&map(2048 * MIB, 0), size).unwrap().len, SECTION, "{size}");
        }
        let none = plan(&map(1024 * MIB, 0), 1).unwrap_err();
        assert!(matches!(none, MemoryMapError::NoRam { want: 1, largest: 0 }), "{none}");
        assert!(plan(&map(2048 * MIB, 0), u64::MAX).is_err());
    }

    /// Two nodes of 1176 GiB each, as the server of seed 000 was given two ranges of 50 GiB.
    #[test]
    fn plans_of_nodes_are_apart() {
        let map = MemoryMap::parse(
            "BIOS-e820: [mem 0x0000000000100000-0x000000007fffffff] usable\n\
             BIOS-e820: [mem 0x0000000100000000-0x0000024bffffffff] usable\n\
             [    0.0] ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000-0x7fffffff]\n\
             [    0.0] ACPI: SRAT: Node 0 PXM 0 [mem 0x100000000-0x125ffffffff]\n\
             [    0.0] ACPI: SRAT: Node 1 PXM 1 [mem 0x12600000000-0x24bffffffff] hotplug\n\
             [    0.0] ACPI: SRAT: Node 2 PXM 2 [mem 0x24c00000000-0x25bffffffff] non-volatile\n",
        );
        let map = map.unwrap();
        assert_eq!(map.nodes.len(), 3);
        let words = |requests: &[(u64, Option<u32>)]| {
            let requests =
                requests.iter().map(|(gib, node)| ReservationRequest { size: gib << 30, node: *node });
            let planned = map.plan(&requests.collect::<Vec<_>>())?;
            Ok::<_, MemoryMapError>(planned.iter().map(Reservation::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(words(&[(50, Some(0)), (50, Some(1))]).unwrap(), "memmap=50G!4G memmap=50G!1176G");
        assert_eq!(words(&[(50, Some(1)), (50, Some(1))]).unwrap(), "memmap=50G!1176G memmap=50G!1226G");
        assert_eq!(words(&[(590, None), (16, None)]).unwrap(), "memmap=590G!4G memmap=16G!594G");
        assert_eq!(
            words(&[(1166, Some(0)), (6, Some(0)), (1, Some(0))]).unwrap(),
            "memmap=1166G!4G memmap=6G!1170G memmap=1G!1G"
        );
        let full = words(&[(1166, Some(0)), (7, Some(0))]).unwrap_err().to_string();
        assert!(full.contains("the largest that would fit is 6144M"), "{full}");
        let unknown = words(&[(1, Some(2))]).unwrap_err().to_string();
        assert!(unknown.contains("no RAM of node 2"), "{unknown}");
        let other = MemoryMap::parse("user: [mem 0x100000000-0x1ffffffff] usable\n").unwrap();
        let unknown = other.plan(&[ReservationRequest { size: 1, node: Some(0) }]).unwrap_err().to_string();
        assert!(unknown.contains("ACPI: SRAT"), "{unknown}");
    }
}
