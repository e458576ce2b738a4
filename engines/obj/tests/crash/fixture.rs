//! A small pool that a crash left: redo logs in force and torn, undo logs with extensions, footers missing, a heap that grew.

#![allow(dead_code, reason = "two programs of tests use parts of it")]

use lode_layout::{
    PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkObj, PmdkObjState, PmdkObjectHeader, PmdkRun, PmdkUlog,
    PmdkUlogEntry, PmdkWordChange, PmdkZone, PoolOffset,
};

/// Offset of the first lane.
pub(crate) const LANES: u64 = 0x2000;
/// Offset of the undo log in a lane.
pub(crate) const UNDO_OFF: u64 = 960;
const HEAP: u64 = 0x4000;
/// Chunks of the heap, of which the zone has one less.
const CHUNKS: u64 = 8;
const INTERNAL: u16 = 1 << 15;
/// Flags of chunks: compact headers, and a flexible bitmap.
const FLAGS: u16 = 9;

/// Bytes of the pool.
pub(crate) const SIZE: u64 =
    (HEAP + PmdkHeap::LEN as u64 + PmdkHeap::ZONE_HEADERS + CHUNKS * PmdkHeap::CHUNK).next_multiple_of(4096);

/// Offset of the words that logs change.
pub(crate) const WORDS: u64 = chunk(5) + 4096;

const fn zone() -> u64 {
    HEAP + PmdkHeap::LEN as u64
}

pub(crate) const fn chunk_header(index: u64) -> u64 {
    zone() + PmdkZone::LEN as u64 + index * 8
}

pub(crate) const fn chunk(index: u64) -> u64 {
    zone() + PmdkHeap::ZONE_HEADERS + index * PmdkHeap::CHUNK
}

/// The bytes of a pool.
pub(crate) struct Pool {
    pub(crate) bytes: Vec<u8>,
}

impl Pool {
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    pub(crate) fn chunk_header(&mut self, index: u64, kind: PmdkChunkKind, size: u32) {
        self.word(chunk_header(index), PmdkChunk { kind, flags: FLAGS, size }.encode());
    }

    pub(crate) fn object(&mut self, at: u64, size: u64, flags: u16) {
        self.put(at, &PmdkObjectHeader { size, type_number: 0, flags }.encode_compact());
    }

    fn log(&mut self, at: u64, capacity: u64, next: u64, is_user_owned: bool, entries: &[u8]) {
        let next = PoolOffset::new(next);
        let header = PmdkUlog { checksum: 0, next, capacity, gen_num: 3, is_user_owned };
        self.put(at, &header.encode());
        self.put(at + 64, entries);
    }

    fn redo(&mut self, at: u64, entries: &[(u64, PmdkWordChange, u64)], is_torn: bool) {
        let entries: Vec<u8> = entries
            .iter()
            .flat_map(|(at, change, value)| PmdkUlogEntry::encode_word(PoolOffset::new(*at), *change, *value))
            .collect();
        let header =
            PmdkUlog { checksum: 0, next: PoolOffset::NULL, capacity: 192, gen_num: 0, is_user_owned: false };
        let checksum = PmdkUlog::redo_checksum(&[&header.encode()[..], &entries].concat());
        let checksum = if is_torn { checksum ^ 1 } else { checksum };
        self.put(at, &PmdkUlog { checksum, ..header }.encode());
        self.put(at + 64, &entries);
    }
}

/// Returns the pool.
pub(crate) fn left_by_a_crash() -> Pool {
    let mut pool = Pool { bytes: vec![0; SIZE as usize] };
    let descriptor = PmdkObj { layout: b"crash".to_vec(), lanes: LANES, lane_count: 2, heap: HEAP };
    pool.put(PmdkObj::OFF, &descriptor.encode());
    let state = PmdkObjState {
        root: PoolOffset::NULL,
        run_id: 2,
        root_size: 0,
        conversion: 0,
        heap_size: SIZE - HEAP,
        allocated: 0,
    };
    pool.put(PmdkObjState::OFF.get(), &state.encode());
    pool.put(HEAP, &PmdkHeap::encode());
    pool.word(zone(), PmdkZone { chunk_count: CHUNKS as u32 - 1 }.encode());

    // A run whose first 8 blocks are an extension, two blocks of the extension of the other lane, which the program lent, and an object.
    pool.chunk_header(0, PmdkChunkKind::Run, 1);
    pool.put(chunk(0), &PmdkRun::encode(128, 0));
    pool.word(chunk(0) + 16, 0xFFFF | 1 << 20);
    pool.word(chunk(0) + 16 + 31 * 8, 7 << 61);
    // Blocks that a redo log makes used.
    for unit in 65..68 {
        pool.object(chunk(0) + 320 + unit * 128, 128, 0);
    }
    pool.object(chunk(0) + 320, 1024, INTERNAL);
    pool.object(chunk(0) + 320 + 1024, 1024, 0);
    pool.object(chunk(0) + 320 + 20 * 128, 128, 0);
    // An extension of two chunks, an object of one, and a free block of three. The footers are missing.
    pool.chunk_header(1, PmdkChunkKind::Used, 2);
    pool.object(chunk(1), 2 * PmdkHeap::CHUNK, INTERNAL);
    pool.chunk_header(3, PmdkChunkKind::Used, 1);
    pool.object(chunk(3), 1000, 0);
    pool.chunk_header(4, PmdkChunkKind::Free, 3);
    for at in (0..8192).step_by(8) {
        pool.word(WORDS + at, u64::MAX);
    }
    lanes(&mut pool);
    pool
}

fn lanes(pool: &mut Pool) {
    use PmdkWordChange::{And, Or, Set};
    let lane = |index: u64| LANES + index * PmdkUlog::LANE_LEN;
    let (external, undo) = (256, UNDO_OFF);
    let entry = |at: u64, len: usize, byte: u8| {
        PmdkUlogEntry::encode_buffer(PoolOffset::new(WORDS + at), &vec![byte; len], 3)
    };
    // Lane 0: a block of the run becomes used and another word leads to it. A transaction is open, with two extensions.
    let bits = chunk(0) + 16 + 8;
    pool.redo(lane(0), &[(bits, Or, 6), (WORDS, Set, 7), (WORDS + 1000, And, 0xF0)], false);
    pool.redo(lane(0) + external, &[(bits, Or, 8), (WORDS + 8, Set, 9)], false);
    let first = chunk(0) + 320 + 16;
    let second = chunk(1) + 16;
    pool.log(lane(0) + undo, 2048, first, false, &entry(2048, 2024, 1));
    pool.log(first.next_multiple_of(64), 832, second, false, &entry(4096, 808, 2));
    pool.log(second.next_multiple_of(64), 4096, 0, false, &entry(6000, 40, 3));
    // Lane 1: a torn redo log, and a transaction in space that the program lent.
    pool.redo(lane(1), &[(WORDS + 16, Set, 1), (bits, Or, 16)], true);
    let lent = chunk(0) + 320 + 1024 + 48 + 16;
    pool.log(lane(1) + undo, 2048, lent, false, &entry(7000, 100, 4));
    pool.log(lent, 512, 0, true, &[]);
}
