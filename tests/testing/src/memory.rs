//! Anonymous memory and files as media.

use lode_layout::PoolOffset;
use lode_pmem::{Durability, Mapping, Medium};
use std::fs::File;
use std::sync::Arc;

/// Returns `len` zeroed bytes at durability `line`: stores take the code path of persistent memory.
pub fn persistent(len: u64) -> Mapping {
    Mapping::options().durability(Durability::Line).map_anonymous(len).unwrap()
}

/// Returns `len` zeroed bytes at durability `none`, where no call waits for durability.
pub fn volatile(len: u64) -> Arc<Mapping> {
    Arc::new(Mapping::options().durability(Durability::None).map_anonymous(len).unwrap())
}

/// Returns memory at durability `line` that holds `bytes`.
pub fn from_bytes(bytes: &[u8]) -> Mapping {
    let medium = persistent(bytes.len() as u64);
    medium.store(PoolOffset::NULL, bytes);
    medium
}

/// Returns a file of `len` zeroed bytes, and its mapping at durability `line`. Cutting the file short loses its end.
pub fn file(len: u64) -> (File, Mapping) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(len).unwrap();
    let options = Mapping::options().durability(Durability::Line);
    let mapping = options.map_file(file.try_clone().unwrap(), "a file").unwrap();
    (file, mapping)
}

/// Returns the content of `medium`.
pub fn bytes<M: Medium>(medium: &M) -> Vec<u8> {
    let mut bytes = vec![0; medium.memory().len() as usize];
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes)).unwrap();
    bytes
}
