//! The header of a pool of PMDK: any bytes decode to an error, or to a header that survives a round trip.

use crate::page;
use lode_layout::{
    PmdkBlk, PmdkHeader, PmdkKind, PmdkLog, PmdkPartHeader, PmdkShutdown, PmdkShutdownRecord, PoolOffset,
    store_pmdk_checksum,
};
use uuid::Uuid;

/// Reads the bytes as they are, and again with a valid checksum, as a hostile writer could leave them. Then their start
/// as the descriptor of a block pool, and of a log pool of a size that they name.
pub fn run(data: &[u8]) {
    check(data);
    let mut page = page::<{ PmdkHeader::LEN }>(data);
    store_pmdk_checksum(&mut page);
    check(&page);
    if let Some(bytes) = data.first_chunk::<{ PmdkBlk::LEN }>()
        && let Ok(descriptor) = PmdkBlk::decode(*bytes)
    {
        assert_eq!(PmdkBlk::decode(descriptor.encode()), Ok(descriptor));
    }
    if let Some((size, rest)) = data.split_first_chunk()
        && let Some(bytes) = rest.first_chunk()
        && let size = u64::from_le_bytes(*size)
        && let Ok(descriptor) = PmdkLog::decode(*bytes, size)
    {
        assert_eq!(PmdkLog::decode(descriptor.encode(), size), Ok(descriptor));
    }
}

fn check(bytes: &[u8]) {
    match PmdkHeader::decode(bytes) {
        Ok(header) => assert_eq!(PmdkHeader::decode(&header.encode()), Ok(header)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match PmdkPartHeader::decode(bytes) {
        Ok(header) => {
            let shutdown = match header.shutdown {
                PmdkShutdownRecord::Torn => PmdkShutdownRecord::Empty,
                other => other,
            };
            let want = PmdkPartHeader { shutdown, ..header };
            let whole = header.encode();
            assert_eq!(PmdkPartHeader::decode(&whole), Ok(want));
            assert!(!PmdkPartHeader::is_unsigned(&whole));
        }
        // A pool of a single file is a part of itself.
        Err(error) => assert!(!error.to_string().is_empty() && PmdkHeader::decode(bytes).is_err()),
    }
}

/// Returns the header of a pool of each kind: a new one, one that was open in a crash, and one without features. Then the
/// size and the descriptor of a log pool.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let new = |kind| PmdkHeader::new(kind, Uuid::from_u128(1), Uuid::from_u128(2), 1_700_000_000);
    let dirty = PmdkShutdown { shutdowns: 3, devices: 4, is_dirty: true };
    let objects = PmdkHeader { shutdown: Some(dirty), ..new(PmdkKind::Objects) };
    let log = PmdkHeader { has_short_checksum: false, shutdown: None, ..new(PmdkKind::Log) };
    let bytes = |header: PmdkHeader| header.encode().to_vec();
    let part = PmdkPartHeader {
        next_part: Uuid::from_u128(3),
        prev_replica: Uuid::from_u128(4),
        ..PmdkPartHeader::decode(&objects.encode()).expect("a sound header")
    };
    let size = PmdkLog::SIZE_MIN;
    let descriptor = PmdkLog { end: PoolOffset::new(size), write: PmdkLog::START.plus(5) };
    let descriptor = [&size.to_le_bytes()[..], &descriptor.encode()].concat();
    vec![
        ("blocks", bytes(new(PmdkKind::Blocks))),
        ("objects", bytes(objects)),
        ("log", bytes(log)),
        ("log_descriptor", descriptor),
        ("part", part.encode().to_vec()),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_valid_headers() {
        for (name, mut bytes) in seeds() {
            if name == "log_descriptor" {
                let (size, rest) = bytes.split_first_chunk().unwrap();
                let descriptor = *rest.first_chunk().unwrap();
                assert!(PmdkLog::decode(descriptor, u64::from_le_bytes(*size)).is_ok());
                continue;
            }
            assert!(PmdkPartHeader::decode(&bytes).is_ok(), "{name}");
            assert_eq!(PmdkHeader::decode(&bytes).is_ok(), name != "part", "{name}");
            bytes[0x18] ^= 1;
            assert!(PmdkPartHeader::decode(&bytes).is_err(), "{name}");
            store_pmdk_checksum(&mut bytes);
            assert!(PmdkPartHeader::decode(&bytes).is_ok(), "{name}");
        }
    }
}
