//! New pools in memory.

use lode_layout::{PmdkHeader, PmdkKind, PoolOffset};
use lode_obj::Pool;
use lode_pmem::{Durability, Mapping, Medium};
use uuid::Uuid;

/// Returns a new, closed pool on a medium of zeros.
pub(crate) fn format<M: Medium>(medium: &M) {
    let uuid = Uuid::from_bytes([7; 16]);
    let header = PmdkHeader::new(PmdkKind::Objects, uuid, uuid, 1);
    medium.copy(PoolOffset::NULL, &header.encode());
    medium.drain().unwrap();
    Pool::format(medium, b"heap").unwrap();
}

/// Returns a new, open pool of `len` bytes in anonymous memory.
pub(crate) fn new_pool(len: u64) -> Pool<Mapping> {
    let medium = Mapping::options().durability(Durability::Line).map_anonymous(len).unwrap();
    format(&medium);
    Pool::open(medium).unwrap()
}
