//! Firmware's table of persistent memory: which module holds an address.
//!
//! ACPI 6.4, 5.2.25, NVDIMM Firmware Interface Table (NFIT). Linux shows it to root as `firmware/acpi/tables/NFIT`. A
//! module's part of an address range is interleaved in lines: a table has the offset of each line of one rotation.

use std::collections::BTreeMap;
use thiserror::Error;

/// Bytes of the table's header, and of the reserved bytes behind it.
const HEADER: usize = 40;
/// `Type` of System Physical Address Range Structures.
const RANGE: u64 = 0;
/// `Type` of NVDIMM Region Mapping Structures.
const MAPPING: u64 = 1;
/// `Type` of Interleave Structures.
const INTERLEAVE: u64 = 2;
/// Upper limit of the lines of a rotation: 24 modules of 2 lines each are the most that is known, and damage must not
/// cost memory.
const LINES_MAX: u64 = 1 << 16;

/// The NFIT: address ranges, and the parts of modules that make them up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nfit {
    /// Range by its index.
    ranges: BTreeMap<u64, AddressRange>,
    parts: Vec<Part>,
    /// Lines by the index of their structure.
    lines: BTreeMap<u64, Lines>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressRange {
    base: u64,
    len: u64,
}

/// The part of an address range that is on one module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    handle: u32,
    range: u64,
    len: u64,
    /// Offset of its first line in the range.
    range_off: u64,
    /// First address on the module.
    module_base: u64,
    /// Index of the lines; 0 if it is not interleaved.
    lines: u64,
    ways: u64,
}

/// The lines of one rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lines {
    len: u64,
    /// Offset of each line, in lines.
    offsets: Vec<u64>,
}

/// The place of an address on a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleAddress {
    /// Device handle of the module.
    pub handle: u32,
    /// Address on the module, in bytes.
    pub offset: u64,
}

/// Bytes that are no NFIT.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the NFIT is damaged at byte {at}: {means}")]
pub struct NfitError {
    /// Offset of the damage in the table, in bytes.
    pub at: usize,
    /// The damage, as a clause.
    pub means: &'static str,
}

impl Nfit {
    /// Reads the bytes of a table. Structures of other types are left out.
    ///
    /// # Errors
    /// Fails if the signature, the length or the checksum is wrong, or if a structure is not whole.
    pub fn decode(bytes: &[u8]) -> Result<Nfit, NfitError> {
        let wrong = |at, means| Err(NfitError { at, means });
        if bytes.get(..4) != Some(b"NFIT") {
            return wrong(0, "it has no signature NFIT");
        }
        let len = usize::try_from(number(bytes, 4, 4)).unwrap_or(usize::MAX);
        let Some(table) = bytes.get(..len).filter(|_| len >= HEADER) else {
            return wrong(4, "its length is not that of the table");
        };
        if table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) != 0 {
            return wrong(9, "its checksum is wrong");
        }
        let mut nfit = Nfit::default();
        let mut at = HEADER;
        while at < len {
            let length = number(table, at + 2, 2) as usize;
            let Some(fields) = table.get(at..at + length).filter(|_| length >= 4) else {
                return wrong(at, "the structure is not whole");
            };
            nfit.add(fields).map_err(|means| NfitError { at, means })?;
            at += length;
        }
        Ok(nfit)
    }

    fn add(&mut self, fields: &[u8]) -> Result<(), &'static str> {
        let field = |off, len| number(fields, off, len);
        let least = match field(0, 2) {
            RANGE => 56,
            MAPPING => 48,
            INTERLEAVE => 16,
            _ => return Ok(()),
        };
        if fields.len() < least {
            return Err("the structure is too short for its type");
        }
        match field(0, 2) {
            RANGE => {
                let range = AddressRange { base: field(32, 8), len: field(40, 8) };
                self.ranges.insert(field(4, 2), range);
            }
            MAPPING => self.parts.push(Part {
                handle: field(4, 4) as u32,
                range: field(12, 2),
                len: field(16, 8),
                range_off: field(24, 8),
                module_base: field(32, 8),
                lines: field(40, 2),
                ways: field(42, 2).max(1),
            }),
            _ => {
                let (count, len) = (field(8, 4), field(12, 4));
                if count == 0 || len == 0 || count > LINES_MAX {
                    return Err("the interleaving has no lines, or too many");
                }
                let end = 16 + 4 * count as usize;
                let Some(offsets) = fields.get(16..end) else {
                    return Err("the interleaving has fewer lines than it says");
                };
                let offsets = offsets.chunks_exact(4).map(|offset| number(offset, 0, 4)).collect();
                self.lines.insert(field(4, 2), Lines { len, offsets });
            }
        }
        Ok(())
    }

    /// Returns the module that holds the byte at a physical address, and its address on the module. `None` if no module
    /// of the table does.
    pub fn module_at(&self, address: u64) -> Option<ModuleAddress> {
        self.parts.iter().find_map(|part| {
            let range = self.ranges.get(&part.range)?;
            let into = address.checked_sub(range.base).filter(|into| *into < range.len)?;
            let into = into.checked_sub(part.range_off)?;
            let offset = match part.lines {
                0 => into,
                lines => self.lines.get(&lines)?.module_off(into, part.ways)?,
            };
            let offset = part.module_base.checked_add(offset).filter(|_| offset < part.len)?;
            Some(ModuleAddress { handle: part.handle, offset })
        })
    }

    /// Returns the bytes after which the modules of the range at a physical address follow again in the same order: the
    /// longest rotation of its parts. 0 if none is interleaved.
    pub fn rotation_at(&self, address: u64) -> u64 {
        let holds =
            |range: &AddressRange| address.checked_sub(range.base).is_some_and(|into| into < range.len);
        let parts = self.parts.iter().filter(|part| self.ranges.get(&part.range).is_some_and(holds));
        let rotations = parts.filter_map(|part| self.lines.get(&part.lines)?.rotation(part.ways));
        rotations.max().unwrap_or(0)
    }
}

impl Lines {
    /// Returns the bytes of one rotation; `None` if a table has more than an address can tell.
    fn rotation(&self, ways: u64) -> Option<u64> {
        self.len.checked_mul(self.offsets.len() as u64)?.checked_mul(ways)
    }

    /// Returns the offset in the part of byte `into` of the range, counted from the part's first line, if that byte is
    /// in a line of the part.
    fn module_off(&self, into: u64, ways: u64) -> Option<u64> {
        let count = self.offsets.len() as u64;
        let rotation = self.rotation(ways)?;
        let (rotations, within) = (into / rotation, into % rotation);
        let (line, in_line) = (within / self.len, within % self.len);
        let index = self.offsets.iter().position(|offset| *offset == line)? as u64;
        rotations.checked_mul(count)?.checked_add(index)?.checked_mul(self.len)?.checked_add(in_line)
    }
}

/// Returns the little-endian number of `len` bytes at `off`; 0 past the end.
fn number(bytes: &[u8], off: usize, len: usize) -> u64 {
    let bytes = bytes.get(off..off + len).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Interleave;

    const BASE: u64 = 0x1_8000_0000;

    fn structure(len: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (off, len, value) in fields.iter().chain(&[(2, 2, bytes.len() as u64)]) {
            bytes[*off..off + len].copy_from_slice(&value.to_le_bytes()[..*len]);
        }
        bytes
    }

    /// The table of one region of so many modules, each with a part of `len` bytes from `module_base` on, in lines of
    /// 4096 bytes.
    fn table(ways: u64, len: u64, module_base: u64) -> Vec<u8> {
        let mut bytes = structure(HEADER, &[]);
        bytes[..4].copy_from_slice(b"NFIT");
        bytes[2] = b'I';
        bytes[3] = b'T';
        bytes.extend(structure(56, &[(0, 2, RANGE), (4, 2, 1), (32, 8, BASE), (40, 8, len * ways)]));
        for module in 0..ways {
            bytes.extend(structure(
                48,
                &[
                    (0, 2, MAPPING),
                    (4, 4, 0x11 + 0x10 * module),
                    (12, 2, 1),
                    (16, 8, len),
                    (24, 8, module * 4096),
                    (32, 8, module_base),
                    (40, 2, u64::from(ways > 1)),
                    (42, 2, ways),
                ],
            ));
        }
        if ways > 1 {
            bytes.extend(structure(20, &[(0, 2, INTERLEAVE), (4, 2, 1), (8, 4, 1), (12, 4, 4096)]));
        }
        // A control region, which is left out.
        bytes.extend(structure(32, &[(0, 2, 4)]));
        finish(bytes)
    }

    fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
        let len = (bytes.len() as u32).to_le_bytes();
        bytes[4..8].copy_from_slice(&len);
        bytes[9] = 0;
        let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        bytes[9] = sum.wrapping_neg();
        bytes
    }

    #[test]
    fn addresses_are_found_on_modules() {
        for ways in [1, 2, 3, 6] {
            let nfit = Nfit::decode(&table(ways, 1 << 30, 1 << 28)).unwrap();
            let spread = Interleave::new(ways as u16, 4096, 1 << 30).unwrap();
            for off in [0, 1, 4095, 4096, 8192, 4096 * 7 + 5, (ways << 30) - 1] {
                let piece = spread.piece_at(off).unwrap();
                let place = ModuleAddress {
                    handle: 0x11 + 0x10 * u32::from(piece.position),
                    offset: (1 << 28) + piece.module_off,
                };
                assert_eq!(nfit.module_at(BASE + off), Some(place), "{ways} ways, {off:#x}");
            }
            assert_eq!(nfit.module_at(BASE + (ways << 30)), None);
            let rotation = if ways > 1 { 4096 * ways } else { 0 };
            assert_eq!(nfit.rotation_at(BASE + 4096 * 7 + 5), rotation, "{ways} ways");
            assert_eq!(nfit.rotation_at(BASE - 1), 0);
            assert_eq!(nfit.module_at(BASE - 1), None);
        }
    }

    #[test]
    fn lines_follow_their_table() {
        // Two modules that swap their lines in the second half of each rotation.
        let mut bytes = finish(table(2, 1 << 20, 0));
        bytes.truncate(HEADER + 56 + 2 * 48);
        for (index, lines) in [[0u64, 3], [1, 2]].into_iter().enumerate() {
            let at = HEADER + 56 + index * 48;
            bytes[at + 24..at + 32].fill(0);
            bytes[at + 40] = index as u8 + 1;
            let fields = [(0, 2, INTERLEAVE), (4, 2, index as u64 + 1), (8, 4, 2), (12, 4, 4096)];
            let mut lines_of = structure(24, &fields);
            lines_of[16..20].copy_from_slice(&lines[0].to_le_bytes()[..4]);
            lines_of[20..24].copy_from_slice(&lines[1].to_le_bytes()[..4]);
            bytes.extend(lines_of);
        }
        let nfit = Nfit::decode(&finish(bytes)).unwrap();
        let at = |line: u64| nfit.module_at(BASE + line * 4096 + 9).map(|place| (place.handle, place.offset));
        assert_eq!(at(0), Some((0x11, 9)));
        assert_eq!(at(1), Some((0x21, 9)));
        assert_eq!(at(2), Some((0x21, 4096 + 9)));
        assert_eq!(at(3), Some((0x11, 4096 + 9)));
        assert_eq!(at(4), Some((0x11, 8192 + 9)));
    }

    #[test]
    fn damage_is_refused() {
        let good = table(2, 1 << 30, 0);
        assert_eq!(Nfit::decode(b"").unwrap_err().at, 0);
        assert_eq!(Nfit::decode(&good[..good.len() - 1]).unwrap_err().at, 4);
        let mut flipped = good.clone();
        flipped[50] ^= 1;
        assert_eq!(Nfit::decode(&flipped).unwrap_err().at, 9);
        let mut cut = good.clone();
        cut[HEADER + 2] = 255;
        cut[HEADER + 3] = 255;
        assert_eq!(Nfit::decode(&finish(cut)).unwrap_err().at, HEADER);
        let mut short = good;
        short[HEADER + 2] = 8;
        assert_eq!(Nfit::decode(&finish(short)).unwrap_err().at, HEADER);
    }
}
