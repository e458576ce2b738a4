//! Our side: the engine on a file.

use crate::judge::Seen;
use lode_btt::{Btt, BttError, Plan, check};
use lode_layout::{PmdkHeader, PmdkKind};
use lode_pmem::{Durability, Mapping};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// The blocks of a pool, by tags.
pub(crate) struct OurPool(pub(crate) Btt<Arc<Mapping>>);

/// Maps the file as persistent memory, or as a file of the page cache.
pub(crate) fn map(path: &Path, durability: Durability) -> Arc<Mapping> {
    let file = File::options().read(true).write(true).open(path).unwrap();
    Arc::new(Mapping::options().durability(durability).map_file(file, path).unwrap())
}

/// Makes a pool in a new file.
pub(crate) fn create(path: &Path, block_size: u32, size: u64) -> OurPool {
    File::create_new(path).unwrap().set_len(size).unwrap();
    let header = PmdkHeader::new(PmdkKind::Blocks, Uuid::from_u128(11), Uuid::from_u128(12), 1_700_000_000);
    let medium = map(path, Durability::Line);
    Plan::pmdk(size, block_size, header).unwrap().on_zeros().format(&medium).unwrap();
    OurPool(Btt::open(medium).unwrap())
}

impl OurPool {
    pub(crate) fn open(path: &Path) -> OurPool {
        OurPool::open_as(path, Durability::Line)
    }

    pub(crate) fn open_as(path: &Path, durability: Durability) -> OurPool {
        let medium = map(path, durability);
        assert_eq!(check(&medium), []);
        OurPool(Btt::open(medium).unwrap())
    }

    fn block(&self, tag: u64) -> Vec<u8> {
        tag.to_le_bytes().into_iter().cycle().take(self.0.block_size()).collect()
    }

    pub(crate) fn write(&self, lba: u64, tag: u64) {
        self.0.write(lba, &self.block(tag)).unwrap();
    }

    pub(crate) fn read(&self, lba: u64) -> Seen {
        let mut bytes = self.block(0);
        match self.0.read(lba, &mut bytes) {
            Err(BttError::Lost { .. }) => Seen::Lost,
            result => {
                result.unwrap();
                let tag = u64::from_le_bytes(*bytes.first_chunk().unwrap());
                assert!(bytes == self.block(tag), "block {lba} is torn");
                Seen::Tag(tag)
            }
        }
    }
}
