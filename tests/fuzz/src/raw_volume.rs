//! The header of a raw volume: any bytes decode to an error, or to a header that survives a round trip.

use crate::page;
use lode_layout::{RawVolume, VolumeClass, store_raw_volume_checksum};
use uuid::Uuid;

/// Reads the bytes as they are, and again with a valid checksum, as a hostile writer could leave them.
pub fn run(data: &[u8]) {
    check(data);
    let mut page = page::<{ RawVolume::LEN }>(data);
    store_raw_volume_checksum(&mut page);
    check(&page);
}

fn check(bytes: &[u8]) {
    match RawVolume::decode(bytes) {
        Ok(volume) => {
            assert!(volume.data_off < volume.end() && volume.end() <= i64::MAX as u64);
            assert_eq!(RawVolume::decode(&volume.encode()), Ok(volume));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Returns the header of a volume of each class.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |block_size, class| {
        let volume = RawVolume::plan(64 << 20, block_size, class, Uuid::from_u128(1), 1_700_000_000);
        volume.map_or(Vec::new(), |volume| volume.encode().to_vec())
    };
    vec![("block", bytes(512, VolumeClass::Block)), ("dax", bytes(4096, VolumeClass::Dax))]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_valid_headers() {
        for (name, mut bytes) in seeds() {
            assert!(RawVolume::decode(&bytes).is_ok(), "{name}");
            bytes[0x18] ^= 1;
            assert!(RawVolume::decode(&bytes).is_err(), "{name}");
            store_raw_volume_checksum(&mut bytes);
            assert!(RawVolume::decode(&bytes).is_ok(), "{name}");
        }
    }
}
