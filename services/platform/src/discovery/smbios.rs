//! Memory devices in the SMBIOS table (DMTF DSP0134 3.6, 7.18), which the kernel shows to root as
//! `firmware/dmi/tables/DMI`.

/// Type of structures for memory devices.
const MEMORY_DEVICE: u8 = 17;
/// Type of the structure after the last one.
const END: u8 = 127;
/// `Size` of a device whose size is in `Extended Size`.
const EXTENDED: u64 = 0x7fff;
/// `Size` of a device of unknown size.
const UNKNOWN: u64 = 0xffff;
/// `Memory Type` of memory that is persistent.
const LOGICAL_NON_VOLATILE: u64 = 0x1f;

/// `Memory Technology` of the kinds of NVDIMM.
const NON_VOLATILE: std::ops::RangeInclusive<u64> = 4..=7;

/// A memory device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDevice {
    /// Handle of the structure, which NFIT and the kernel call its physical id.
    pub handle: u16,
    /// Name of the slot.
    pub locator: String,
    /// Size in bytes; 0 for an empty slot.
    pub size: u64,
    /// True for a persistent memory module.
    pub persistent: bool,
    /// Part number.
    pub part_number: Option<String>,
    /// Version of its firmware.
    pub firmware: Option<String>,
}

/// Returns the memory devices of a table. Ends at the first structure that is not whole.
pub fn memory_devices(table: &[u8]) -> Vec<MemoryDevice> {
    let mut devices = Vec::new();
    let mut rest = table;
    while let Some((&[kind, len, low, high], _)) = rest.split_first_chunk::<4>() {
        let Some((fields, strings)) = rest.split_at_checked(usize::from(len)).filter(|_| len >= 4) else {
            break;
        };
        // Strings end with zeros, and the last one with two.
        let Some(end) = strings.windows(2).position(|pair| pair == [0, 0]) else { break };
        if kind == END {
            break;
        }
        if kind == MEMORY_DEVICE {
            let handle = u16::from_le_bytes([low, high]);
            devices.push(Structure { fields, strings: &strings[..end] }.memory_device(handle));
        }
        rest = &strings[end + 2..];
    }
    devices
}

/// A structure: its fields with the header, and its strings.
struct Structure<'a> {
    fields: &'a [u8],
    strings: &'a [u8],
}

impl Structure<'_> {
    /// Returns the field of `len` bytes; 0 if this version of the table lacks it.
    fn number(&self, off: usize, len: usize) -> u64 {
        let bytes = self.fields.get(off..off + len).unwrap_or_default();
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns the string whose number is in the field.
    fn string(&self, off: usize) -> Option<String> {
        let number = usize::try_from(self.number(off, 1)).ok()?.checked_sub(1)?;
        let text = self.strings.split(|byte| *byte == 0).nth(number)?;
        let text = String::from_utf8_lossy(text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn memory_device(&self, handle: u16) -> MemoryDevice {
        let size = match self.number(0x0c, 2) {
            UNKNOWN => 0,
            EXTENDED => (self.number(0x1c, 4) & 0x7fff_ffff) << 20,
            kib if kib & 0x8000 != 0 => (kib & 0x7fff) << 10,
            mib => mib << 20,
        };
        let persistent =
            self.number(0x12, 1) == LOGICAL_NON_VOLATILE || NON_VOLATILE.contains(&self.number(0x28, 1));
        MemoryDevice {
            handle,
            locator: self.string(0x10).unwrap_or_default(),
            size,
            persistent,
            part_number: self.string(0x1a),
            firmware: self.string(0x2b),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Returns a structure of 0x54 bytes with these fields, as number, length and value, and strings.
    fn structure(kind: u8, handle: u16, fields: &[(usize, usize, u64)], strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0; 0x54];
        (bytes[0], bytes[1]) = (kind, 0x54);
        bytes[2..4].copy_from_slice(&handle.to_le_bytes());
        for (off, len, value) in fields {
            bytes[*off..off + len].copy_from_slice(&value.to_le_bytes()[..*len]);
        }
        for string in strings {
            bytes.extend(string.bytes().chain([0]));
        }
        bytes.extend(if strings.is_empty() { [0, 0].as_slice() } else { &[0] });
        bytes
    }

    #[test]
    fn memory_devices_are_read() {
        let names = ["CPU1_DIMM_A2", "NMA1XXD128GPS", "02.02.00.1553"];
        let module = [
            (0x0c, 2, 0x7fff),
            (0x1c, 4, 129_408),
            (0x10, 1, 1),
            (0x12, 1, 0x1f),
            (0x1a, 1, 2),
            (0x2b, 1, 3),
        ];
        let mut table = structure(4, 1, &[], &["CPU"]);
        table.extend(structure(17, 0x26, &module, &names));
        table.extend(structure(
            17,
            0x25,
            &[(0x0c, 2, 16 << 10), (0x10, 1, 1), (0x12, 1, 0x1a)],
            &["CPU1_DIMM_A1"],
        ));
        table.extend(structure(17, 0x27, &[(0x0c, 2, 0x8200)], &[]));
        table.extend(structure(127, 0x7f, &[], &[]));
        let devices = memory_devices(&table);
        let [optane, dram, small] = devices.as_slice() else { panic!("{devices:?}") };
        let expected = MemoryDevice {
            handle: 0x26,
            locator: names[0].to_owned(),
            size: 129_408 << 20,
            persistent: true,
            part_number: Some(names[1].to_owned()),
            firmware: Some(names[2].to_owned()),
        };
        assert_eq!(optane, &expected);
        assert_eq!((dram.size, dram.persistent, dram.locator.as_str()), (16 << 30, false, "CPU1_DIMM_A1"));
        assert_eq!((small.size, small.locator.as_str()), (512 << 10, ""));
        for len in 0..table.len() {
            assert!(memory_devices(&table[..len]).len() <= 3, "{len}");
        }
        assert_eq!(memory_devices(&[17, 3, 0, 0, 0, 0]), []);
    }
}
