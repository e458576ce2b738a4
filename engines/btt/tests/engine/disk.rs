//! Tables in memory, for all tests of the engine.

use lode_btt::{Btt, Plan, check};
use lode_layout::PoolOffset;
use lode_nvdimm::{BttGeometry, BttRules, BttVersion};
use lode_pmem::{Mapping, Medium};
use lode_testing::memory;
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of a small arena.
pub(crate) const ARENA_LEN: u64 = 128 << 10;

/// Returns the plan of `arenas` small arenas with blocks of `lbasize` bytes and `nfree` lanes.
pub(crate) fn plan(version: BttVersion, arenas: u64, lbasize: u32, nfree: u32) -> Plan {
    let rules = BttRules { nfree, ..BttRules::kernel(lbasize) };
    let arena = |index| {
        let geometry = BttGeometry::arena(ARENA_LEN, &rules, index + 1 == arenas).unwrap();
        (version.arenas_off() + index * ARENA_LEN, geometry)
    };
    Plan::of_arenas(Uuid::from_u128(5), version, (0..arenas).map(arena).collect())
}

/// Returns memory with a new table of `arenas` small arenas, and the geometry of each.
pub(crate) fn small(arenas: u64, lbasize: u32, nfree: u32) -> (Arc<Mapping>, BttGeometry) {
    let medium = Arc::new(memory::persistent(BttVersion::V1_1.arenas_off() + arenas * ARENA_LEN));
    plan(BttVersion::V1_1, arenas, lbasize, nfree).format(&medium).unwrap();
    let rules = BttRules { nfree, ..BttRules::kernel(lbasize) };
    (medium, BttGeometry::arena(ARENA_LEN, &rules, arenas == 1).unwrap())
}

/// Returns a copy of the medium.
pub(crate) fn copy(medium: &Arc<Mapping>) -> Arc<Mapping> {
    Arc::new(memory::from_bytes(&memory::bytes(medium)))
}

/// Stores bytes at an offset of the medium.
pub(crate) fn put(medium: &Arc<Mapping>, at: u64, bytes: &[u8]) {
    medium.store(PoolOffset::new(at), bytes);
}

/// Reads a block.
pub(crate) fn read<M: Medium>(btt: &Btt<M>, lba: u64) -> Vec<u8> {
    let mut bytes = vec![0xee; btt.block_size()];
    btt.read(lba, &mut bytes).unwrap();
    bytes
}

/// Returns a block's content that names it.
pub(crate) fn block<M: Medium>(btt: &Btt<M>, tag: u64) -> Vec<u8> {
    tag.to_le_bytes().into_iter().cycle().take(btt.block_size()).collect()
}

/// Fails unless the table is sound.
pub(crate) fn assert_sound<M: Medium>(medium: &M) {
    assert_eq!(check(medium), []);
}
