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

/// Chunks that the heap has at first in a pool that grows: it ends before the medium, as if its file had become longer.
const CHUNKS_BEFORE: u64 = 2;

/// Stores what a pool has. All other bytes of the medium are zeros. The heap of a pool that grows is shorter than the medium.
pub(crate) fn store<M: Medium>(medium: &M, grows: bool) {
    let header = PmdkHeader::new(PmdkKind::Objects, Uuid::from_u128(7), Uuid::from_u128(8), 9);
    let descriptor = PmdkObj { layout: Vec::new(), lanes: 0x2000, lane_count: LANES, heap: HEAP };
    medium.store(PoolOffset::NULL, &header.encode());
    medium.store(PoolOffset::new(PmdkObj::OFF), &descriptor.encode());
    medium.store(PmdkObjState::OFF, &[0; PmdkObjState::LEN]);
    if grows {
        let heap_size = PmdkHeap::LEN as u64 + PmdkHeap::ZONE_HEADERS + CHUNKS_BEFORE * PmdkHeap::CHUNK;
        medium.store8(PmdkObjState::HEAP_SIZE_OFF, heap_size);
    }
    medium.store(PoolOffset::new(HEAP), &PmdkHeap::encode());
}
