//! Pool headers that PMDK 1.12.1 wrote, compared with what `pmempool info` lists, and encoded again byte for byte.
//!
//! `pmempool create` made the pools. A program wrote blocks to two of the block pools, and the second time killed
//! itself while the pool was open. Another one appended 37 bytes to a log pool. `pmempool feature --disable` took all features from another one.

use lode_layout::{PmdkBlk, PmdkHeader, PmdkHeaderError, PmdkKind, PmdkLog, PmdkShutdown, PoolOffset};
use uuid::uuid;

const BLK: &[u8] = include_bytes!("pmdk/blk.bin");

#[test]
fn headers_round_trip() {
    let closed = Some(PmdkShutdown::default());
    let killed = Some(PmdkShutdown { is_dirty: true, ..PmdkShutdown::default() });
    let pools = [
        (&include_bytes!("pmdk/obj.bin")[..], PmdkKind::Objects, true, closed),
        (&include_bytes!("pmdk/log.bin")[..], PmdkKind::Log, true, closed),
        (BLK, PmdkKind::Blocks, true, closed),
        (&include_bytes!("pmdk/blk-killed.bin")[..], PmdkKind::Blocks, true, killed),
        (&include_bytes!("pmdk/blk-no-features.bin")[..], PmdkKind::Blocks, false, None),
    ];
    for (bytes, kind, has_short_checksum, shutdown) in pools {
        let header = PmdkHeader::decode(bytes).unwrap();
        assert_eq!(
            (header.kind, header.has_short_checksum, header.shutdown),
            (kind, has_short_checksum, shutdown)
        );
        assert!(header.encode()[..] == bytes[..PmdkHeader::LEN], "{kind:?}");
    }
}

#[test]
fn listed_fields_are_read() {
    let header = PmdkHeader::decode(BLK).unwrap();
    // pmempool prints UUIDs as little-endian GUIDs.
    assert_eq!(header.poolset_uuid.to_bytes_le(), uuid!("a72a81d3-d1c4-4f15-97e5-05186f1ffeba").into_bytes());
    assert_eq!(header.uuid.to_bytes_le(), uuid!("d0a8ec64-9baa-47b5-986d-d1c39c12a48d").into_bytes());
    assert_eq!((header.created, header.compat), (1_795_448_640, 1));
    let descriptor = BLK[PmdkBlk::OFF as usize..][..PmdkBlk::LEN].try_into().unwrap();
    assert_eq!(PmdkBlk::decode(descriptor), Ok(PmdkBlk { block_size: 512, is_zeroed: true }));
}

#[test]
fn descriptor_of_log_round_trips() {
    // The file has 2100000 bytes.
    let bytes: &[u8] = include_bytes!("pmdk/log-appended.bin");
    assert_eq!(PmdkHeader::decode(bytes).unwrap().kind, PmdkKind::Log);
    let bytes = *bytes[PmdkLog::OFF.get() as usize..].first_chunk().unwrap();
    let descriptor = PmdkLog::decode(bytes, 2_100_000).unwrap();
    assert_eq!(descriptor, PmdkLog { end: PoolOffset::new(2 << 20), write: PmdkLog::START.plus(37) });
    assert_eq!(descriptor.encode(), bytes);
}

#[test]
fn part_of_pool_set_is_refused() {
    assert_eq!(PmdkHeader::decode(include_bytes!("pmdk/blk-part.bin")), Err(PmdkHeaderError::PoolSet));
}
