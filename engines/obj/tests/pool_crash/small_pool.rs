//! A small pool that was closed: few lanes, a heap of a few chunks.

use lode_layout::{PmdkHeader, PmdkHeap, PmdkKind, PmdkObj, PmdkObjState, PmdkUlog, PoolOffset};
use lode_pmem::Medium;
use uuid::Uuid;

const LANES: u64 = 28;
/// Offset of the heap.
pub(crate) const HEAP: u64 = 0x2000 + LANES * PmdkUlog::LANE_LEN;
const CHUNKS: u64 = 5;
/// Bytes of the pool.
pub(crate) const SIZE: u64 =
    (HEAP + PmdkHeap::LEN as u64 + PmdkHeap::ZONE_HEADERS + CHUNKS * PmdkHeap::CHUNK).next_multiple_of(4096);

/// Stores what a pool has. All other bytes of the medium are zeros.
pub(crate) fn store<M: Medium>(medium: &M) {
    let header = PmdkHeader::new(PmdkKind::Objects, Uuid::from_u128(7), Uuid::from_u128(8), 9);
    let descriptor = PmdkObj { layout: Vec::new(), lanes: 0x2000, lane_count: LANES, heap: HEAP };
    medium.store(PoolOffset::NULL, &header.encode());
    medium.store(PoolOffset::new(PmdkObj::OFF), &descriptor.encode());
    medium.store(PmdkObjState::OFF, &[0; PmdkObjState::LEN]);
    medium.store(PoolOffset::new(HEAP), &PmdkHeap::encode());
}
