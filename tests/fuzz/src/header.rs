//! The header of a pool: any bytes decode to an error, or to a header that survives a round trip.

use crate::page;
use lode_layout::header::{LEN, MINOR};
use lode_layout::{Durability, Geometry, Header, LayoutName};
use uuid::Uuid;

/// Bytes of the checksum at the end of a header.
const CRC_LEN: usize = 4;

/// Reads the bytes as they are, and again with a valid checksum, as a hostile writer could leave them.
pub fn run(data: &[u8]) {
    check(data);
    let mut page = page::<LEN>(data);
    fix_checksum(&mut page);
    check(&page);
}

fn check(bytes: &[u8]) {
    match Header::decode(bytes) {
        Ok(header) => assert_eq!(Header::decode(&header.encode()), Ok(header)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Writes the checksum of the other bytes.
fn fix_checksum(page: &mut [u8; LEN]) {
    let (rest, crc) = page.split_at_mut(LEN - CRC_LEN);
    crc.fill(0);
    let sum = crc32c::crc32c_append(crc32c::crc32c(rest), crc);
    crc.copy_from_slice(&sum.to_le_bytes());
}

/// Returns the header of a small new pool, that of a grown pool with every optional field, and that of a pool whose log
/// has moved.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let new = Geometry::plan(64 << 20).ok();
    let grown = Geometry::plan(1 << 30).and_then(|geometry| geometry.grow(1 << 40)).ok();
    let moved = Geometry::plan(1 << 20).and_then(|geometry| geometry.grow_with_log(64 << 20)).ok();
    let named = [("new", new, None), ("grown", grown, Some(Durability::None)), ("moved_log", moved, None)];
    let header = |(name, geometry, durability_forced): (_, Option<Geometry>, _)| {
        let header = Header {
            minor: MINOR,
            compat: 0,
            ro_compat: 0,
            generation: 1,
            uuid: Uuid::from_bytes([0x5a; 16]),
            layout: LayoutName::new("kv").ok()?,
            created: 1_700_000_000,
            durability_min: Durability::Commit,
            durability_forced,
            dirty_shutdowns: None,
            geometry: geometry?,
            size_max: 1 << 40,
        };
        Some((name, header.encode().to_vec()))
    };
    named.into_iter().filter_map(header).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_valid_headers() {
        assert_eq!(seeds().len(), 3);
        for (name, bytes) in seeds() {
            let mut page: [u8; LEN] = bytes.try_into().unwrap();
            assert!(Header::decode(&page).is_ok(), "{name}");
            page[LEN - CRC_LEN] ^= 1;
            assert!(Header::decode(&page).is_err(), "{name}");
            fix_checksum(&mut page);
            assert!(Header::decode(&page).is_ok(), "{name}");
        }
    }
}
