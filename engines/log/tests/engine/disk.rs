//! Pools in memory, for all tests of the engine.

use lode_layout::{Durability, Geometry, PoolOffset};
use lode_log::{AppendLog, AppendLogError, Damage, check};
use lode_pmem::{Mapping, Medium};
use lode_testing::memory;
use std::path::Path;
use std::sync::Arc;

/// The UUID of all pools.
pub(crate) const UUID: [u8; 16] = [5; 16];

/// A medium with a pool, and its geometry.
pub(crate) struct Disk {
    pub(crate) medium: Arc<Mapping>,
    pub(crate) geometry: Geometry,
}

impl Disk {
    /// Makes a pool of `size` bytes, as if it were durable by flushes of lines, or by syncs.
    pub(crate) fn new(size: u64, durability: Durability) -> Disk {
        let medium = match durability {
            Durability::Commit => {
                let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                file.set_len(size).unwrap();
                Mapping::options().durability(durability).map_file(file, "log").unwrap()
            }
            _ => memory::persistent(size),
        };
        let disk = Disk { medium: Arc::new(medium), geometry: Geometry::plan(size).unwrap() };
        AppendLog::format(&disk.medium, &disk.geometry, &UUID, [6; 2], [1; 2]).unwrap();
        disk
    }

    pub(crate) fn open(&self) -> AppendLog<Arc<Mapping>> {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<AppendLog<Arc<Mapping>>, AppendLogError> {
        let epoch = fastrand::u64(..);
        Ok(AppendLog::open(Arc::clone(&self.medium), &self.geometry, UUID, [epoch; 2])?.0)
    }

    pub(crate) fn check(&self) -> Vec<Damage> {
        check(&self.medium, &self.geometry, &UUID)
    }

    /// Offset of the first copy of the descriptor.
    pub(crate) fn descriptor_at(&self) -> u64 {
        let extent = self.geometry.extents()[0];
        extent.start.get() + extent.table_len
    }

    /// Offset of the area.
    pub(crate) fn area_at(&self) -> u64 {
        self.descriptor_at() + 4096
    }

    /// Flips a bit of the byte at `at`.
    pub(crate) fn flip(&self, at: u64) {
        let mut byte = [0];
        self.medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut byte)).unwrap();
        self.medium.store(PoolOffset::new(at), &[byte[0] ^ 4]);
    }
}

/// Flips a bit of the only place in a file that has this content.
pub(crate) fn flip_in_file(path: &Path, content: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(content)).collect();
    let [at] = places[..] else { panic!("{content:?} is at {places:?}") };
    bytes[at] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// Reads all records, and the errors between them.
pub(crate) fn all<M: Medium>(log: &AppendLog<M>) -> Vec<Result<Vec<u8>, AppendLogError>> {
    let (mut walk, mut content, mut found) = (log.walk(log.head()), Vec::new(), Vec::new());
    loop {
        match walk.next(&mut content) {
            Ok(Some(_)) => found.push(Ok(content.clone())),
            Ok(None) => return found,
            Err(error) => found.push(Err(error)),
        }
    }
}
