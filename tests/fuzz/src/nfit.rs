//! Firmware's table of persistent memory: any bytes are a table or an error, and no address panics.

use lode_nvdimm::Nfit;

/// Bytes of an address that ends the input.
const ADDRESS: usize = 8;

/// Reads the bytes as a table, with its checksum made right, and locates the address in the last bytes.
pub fn run(data: &[u8]) {
    let _ = Nfit::decode(data);
    let Some((table, address)) = data.split_last_chunk::<ADDRESS>() else { return };
    let mut table = table.to_vec();
    if table.len() >= 10 {
        let len = table.len() as u32;
        table[..4].copy_from_slice(b"NFIT");
        table[4..8].copy_from_slice(&len.to_le_bytes());
        let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        table[9] = table[9].wrapping_sub(sum);
    }
    if let Ok(nfit) = Nfit::decode(&table) {
        let address = u64::from_le_bytes(*address);
        assert_eq!(nfit.module_at(address), nfit.module_at(address));
    }
}

fn structure(len: usize, fields: &[(usize, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[2] = len as u8;
    for (off, value) in fields {
        let value = value.to_le_bytes();
        let len = value.len().min(len - off);
        bytes[*off..off + len].iter_mut().zip(value).for_each(|(byte, value)| *byte |= value);
    }
    bytes
}

/// Returns the table of a region of two interleaved modules, and an address in it.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut table = vec![0; 40];
    table.extend(structure(56, &[(4, 1), (32, 0x1_8000_0000), (40, 1 << 31)]));
    for module in [0u64, 1] {
        let handle = 0x11 + 0x10 * module;
        table.extend(structure(
            48,
            &[
                (0, 1),
                (4, handle),
                (12, 1),
                (16, 1 << 30),
                (24, module << 12),
                (32, 1 << 28),
                (40, 1 | 2 << 16),
            ],
        ));
    }
    table.extend(structure(20, &[(0, 2), (4, 1), (8, 1 | 4096 << 32)]));
    table.extend(0x1_8000_3005u64.to_le_bytes());
    vec![("two-modules", table)]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seed_is_a_table_with_the_address() {
        let mut table = seeds()[0].1.clone();
        let address = u64::from_le_bytes(*table.last_chunk::<ADDRESS>().unwrap());
        table.truncate(table.len() - ADDRESS);
        let len = table.len() as u32;
        table[..4].copy_from_slice(b"NFIT");
        table[4..8].copy_from_slice(&len.to_le_bytes());
        let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        table[9] = sum.wrapping_neg();
        let place = Nfit::decode(&table).unwrap().module_at(address).unwrap();
        assert_eq!((place.handle, place.offset), (0x21, (1 << 28) + 4096 + 5));
    }
}
