//! The SMBIOS table: any bytes are read as memory devices, no more than the table has room for.

use lode_platform::discovery::memory_devices;

/// Bytes of the smallest structure with its strings.
const STRUCTURE_MIN: usize = 6;

/// Reads the bytes as a table.
pub fn run(data: &[u8]) {
    let devices = memory_devices(data);
    assert!(devices.len() <= data.len() / STRUCTURE_MIN);
    for device in &devices {
        assert!(device.locator.trim() == device.locator);
    }
}

fn structure(kind: u8, fields: &[(usize, u8)], strings: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 0x54];
    (bytes[0], bytes[1], bytes[2]) = (kind, 0x54, 0x26);
    for (off, value) in fields {
        bytes[*off] = *value;
    }
    bytes.extend_from_slice(strings);
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

/// Returns a table with a persistent memory module and a DRAM module.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let module = [(0x0c, 0xff), (0x0d, 0x7f), (0x1e, 2), (0x10, 1), (0x12, 0x1f), (0x1a, 2), (0x2b, 3)];
    let dram = [(0x0d, 0x40), (0x10, 1), (0x12, 0x1a)];
    let mut table = structure(17, &module, b"CPU1_DIMM_A2\0NMA1XXD128GPS\x0002.02.00.1553");
    table.extend(structure(17, &dram, b"CPU1_DIMM_A1"));
    table.extend(structure(127, &[], b""));
    vec![("memory-devices", table)]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seed_has_a_module_and_dram() {
        let devices = memory_devices(&seeds()[0].1);
        assert_eq!(devices.iter().map(|device| device.persistent).collect::<Vec<_>>(), [true, false]);
        assert_eq!(devices[0].size, 0x2_0000 << 20);
        assert_eq!(devices[0].firmware.as_deref(), Some("02.02.00.1553"));
    }
}
