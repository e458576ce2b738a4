//! Parser of memory maps in the kernel's log.

use super::error::MemoryMapError;
use super::kind::MemoryKind;

/// Text before the addresses of a range.
const RANGE: &str = "[mem 0x";
/// Sources of a map, by the word before its ranges: firmware, the command line, and steps between them.
const SOURCES: [&str; 5] = ["BIOS-e820", "e820", "user", "modified", "setup_data"];

/// A range of a memory map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Offset of its first byte.
    pub start: u64,
    /// Its length in bytes, at least 1.
    pub len: u64,
    /// Type of the range.
    pub kind: MemoryKind,
}

impl MemoryRange {
    /// Returns the offset of the first byte after the range.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// A memory map as the kernel's log lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMap {
    /// The word before each range: `BIOS-e820` for firmware's map, `user` if the command line changed it.
    pub source: String,
    /// The ranges, in the order of the log.
    pub ranges: Vec<MemoryRange>,
    /// Ranges of persistent memory that firmware's map does not have: `memmap=` made them, of RAM or of modules.
    pub from_memmap: Vec<MemoryRange>,
    /// The memory of each NUMA node, from firmware's SRAT; empty if the log does not list it.
    pub nodes: Vec<NodeRange>,
}

/// A range of addresses that belongs to a NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    /// Number of the node.
    pub node: u32,
    /// Offset of its first byte.
    pub start: u64,
    /// Its length in bytes, at least 1.
    pub len: u64,
}

impl MemoryMap {
    /// Parses the effective map of a kernel log: the last one of the last boot. Lines may begin with timestamps and may
    /// be joined. Other lines are skipped.
    ///
    /// # Errors
    /// Fails if the text has no map, or a range ends before its start.
    pub fn parse(text: &str) -> Result<MemoryMap, MemoryMapError> {
        let mut maps: Vec<(&str, Vec<MemoryRange>)> = Vec::new();
        let mut nodes: Vec<NodeRange> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if let Some(range) = node_range(line) {
                // A later boot lists the same ranges again.
                nodes.retain(|known| known.start != range.start);
                nodes.push(range);
            }
            for (at, _) in line.match_indices(RANGE) {
                let Some((source, range)) = range(line, at, number)? else { continue };
                // A repeated first range begins the listing of a later boot, which replaces the earlier ones.
                let known = maps.iter().position(|(of, _)| *of == source);
                let again =
                    |known: &usize| maps[*known].1.first().is_some_and(|one| one.start == range.start);
                if let Some(known) = known.filter(again) {
                    maps.truncate(known);
                }
                match maps.iter_mut().find(|(of, _)| *of == source) {
                    Some((_, ranges)) => ranges.push(range),
                    None => maps.push((source, vec![range])),
                }
            }
        }
        let Some((source, ranges)) = maps.pop() else { return Err(MemoryMapError::NoMemoryMap) };
        let is_made = |range: &MemoryRange| {
            let firmware = maps.iter().filter(|(of, _)| *of != source).flat_map(|(_, ranges)| ranges);
            let mut other = firmware.filter(|one| one.kind != range.kind);
            other.any(|one| one.start < range.end() && range.start < one.end())
        };
        let persistent = ranges.iter().filter(|range| matches!(range.kind, MemoryKind::Persistent(_)));
        let from_memmap = persistent.filter(|range| is_made(range)).cloned().collect();
        Ok(MemoryMap { source: source.to_owned(), ranges, from_memmap, nodes })
    }

    /// Returns the bytes of all ranges of matching types.
    pub fn total(&self, is_one: impl Fn(&MemoryKind) -> bool) -> u64 {
        let lens = self.ranges.iter().filter(|range| is_one(&range.kind)).map(|range| range.len);
        lens.fold(0, u64::saturating_add)
    }
}

/// Parses a line like `ACPI: SRAT: Node 1 PXM 1 [mem 0x880000000-0x107fffffff]`; `None` for other lines, and for ranges
/// without RAM. Later words tell that the range is `hotplug`, which RAM can be, or `non-volatile`.
fn node_range(line: &str) -> Option<NodeRange> {
    let (_, rest) = line.split_once("SRAT: Node ")?;
    let (node, rest) = rest.split_once(" PXM ")?;
    let (numbers, words) = rest.split_once(RANGE)?.1.split_once(']')?;
    let (start, last) = numbers.split_once("-0x")?;
    let (start, last) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(last, 16).ok()?);
    let len = last.checked_sub(start)?.checked_add(1).filter(|len| start.checked_add(*len).is_some())?;
    let node = node.trim().parse().ok()?;
    (!words.contains("non-volatile")).then_some(NodeRange { node, start, len })
}

/// Parses the range whose `[mem` is at `at` of a line, with its source; `None` if the line belongs to no map.
fn range(line: &str, at: usize, number: u64) -> Result<Option<(&str, MemoryRange)>, MemoryMapError> {
    let before = line[..at].trim_end();
    let word = before.rsplit(|c: char| c.is_whitespace() || c == ';').next().unwrap_or_default();
    let Some(source) = word.strip_suffix(':').filter(|source| SOURCES.contains(source)) else {
        return Ok(None);
    };
    let Some((numbers, kind)) = line[at + RANGE.len()..].split_once(']') else { return Ok(None) };
    let Some((start, last)) = numbers.split_once("-0x") else { return Ok(None) };
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let (Some(start), Some(last), Some(kind)) = (hex(start), hex(last), MemoryKind::parse(kind.trim_start()))
    else {
        return Ok(None);
    };
    let wrong = MemoryMapError::MemoryRange { line: number, start, last };
    let len = last.checked_sub(start).and_then(|len| len.checked_add(1)).ok_or(wrong)?;
    if start.checked_add(len).is_none() {
        return Err(MemoryMapError::MemoryRange { line: number, start, last });
    }
    Ok(Some((source, MemoryRange { start, len, kind })))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::e820::ReservationRequest;
    use proptest::prelude::*;

    #[test]
    fn timestamps_and_other_lines_are_ignored() {
        let text = "\
[Fri Nov 20 10:00:00 2026] BIOS-e820: [mem 0x0000000000000000-0x000000003fffffff] usable
[    0.000000] e820: update [mem 0x00000000-0x00000fff] usable ==> reserved
[    0.000000] e820: remove [mem 0x000a0000-0x000fffff] usable
[    0.000000] e820: [mem 0x80000000-0xffffffff] available for PCI devices
6,7,0,-;BIOS-e820: [mem 0x0000000240000000-0x000000033fffffff] persistent (type 7)
BIOS-e820: [mem 0x0000000340000000-0x000000034fffffff] type 20
PM: hibernation: Registered nosave memory: [mem 0x00000000-0x00000fff]
";
        let map = MemoryMap::parse(text).unwrap();
        let kinds: Vec<_> = map.ranges.iter().map(|range| (range.len >> 20, range.kind.clone())).collect();
        let expected =
            [(1024, MemoryKind::Usable), (4096, MemoryKind::Persistent(7)), (256, MemoryKind::Type(20))];
        assert_eq!((map.source.as_str(), kinds), ("BIOS-e820", expected.to_vec()));
        assert!(map.from_memmap.is_empty(), "firmware says itself that it is persistent");
    }

    #[test]
    fn last_boot_counts() {
        let firmware = "BIOS-e820: [mem 0x0-0xfffff] usable\nBIOS-e820: [mem 0x100000-0x1fffff] usable\n";
        let user = "user: [mem 0x0-0xfffff] usable\nuser: [mem 0x100000-0x1fffff] persistent (type 12)\n";
        let map = MemoryMap::parse(&format!("{firmware}{user}")).unwrap();
        assert_eq!((map.source.as_str(), map.from_memmap.len()), ("user", 1));
        let map = MemoryMap::parse(&format!("{firmware}{user}{firmware}")).unwrap();
        assert_eq!((map.source.as_str(), map.ranges.len(), map.from_memmap.len()), ("BIOS-e820", 2, 0));
    }

    #[test]
    fn text_without_map_is_refused() {
        for text in ["", "nothing", "user: [mem 0x", "user: [mem 0x0-0x1", "user: [mem 0x0-0xg] usable"] {
            assert!(matches!(MemoryMap::parse(text), Err(MemoryMapError::NoMemoryMap)), "{text}");
        }
        for range in ["0x2-0x0", "0x0-0xffffffffffffffff", "0x1-0xffffffffffffffff"] {
            let refused = MemoryMap::parse(&format!("\nuser: [mem {range}] usable"));
            assert!(matches!(refused, Err(MemoryMapError::MemoryRange { line: 2, .. })), "{range}");
        }
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in "(?s)(BIOS-e820: |user: |e820: |\\[mem 0x|[0-9a-f]{1,17}|-0x|\\] ?|usable|persistent \\(type |.|\n){0,40}") {
            if let Ok(map) = MemoryMap::parse(&text) {
                prop_assert!(map.ranges.iter().all(|range| range.len > 0 && range.end() > range.start));
                if let Ok([planned]) = map.plan(&[ReservationRequest { size: 1, node: None }]).as_deref() {
                    prop_assert!(map.ranges.iter().any(|range| range.start <= planned.start && planned.end() <= range.end()));
                }
            }
        }
    }
}
