//! LMDB through heed: one database of byte strings, with default flags: a commit syncs the data, then the meta page.

use crate::engine::Database;
use crate::pairs::{Pairs, fold_pair};
use anyhow::Result;
use heed::types::Bytes;
use heed::{Env, EnvOpenOptions};
use std::fs;
use std::path::Path;

/// Bytes of address space. The file grows as it is filled.
const MAP_SIZE: usize = 16 << 30;
/// Threads that read at once.
const READERS: u32 = 126;

/// An environment with one database.
pub(crate) struct LmdbDatabase {
    env: Env,
    database: heed::Database<Bytes, Bytes>,
}

impl LmdbDatabase {
    /// Opens the environment in the folder `path`, or makes it.
    pub(crate) fn open(path: &Path) -> Result<LmdbDatabase> {
        fs::create_dir_all(path)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_SIZE).max_readers(READERS);
        // SAFETY: - the folder lies inside a folder of our own, so no other process writes to it.
        let env = unsafe { options.open(path) }?;
        let mut transaction = env.write_txn()?;
        let database = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(LmdbDatabase { env, database })
    }
}

impl Database for LmdbDatabase {
    fn put_all(&self, pairs: &Pairs) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs.iter() {
            self.database.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.database.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.env.read_txn()?;
        Ok(self.database.get(&transaction, key)?.map(<[u8]>::to_vec))
    }

    fn count(&self) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        Ok(self.database.len(&transaction)?)
    }

    fn scan(&self) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        let mut digest = 0;
        for pair in self.database.iter(&transaction)? {
            let (key, value) = pair?;
            digest = fold_pair(digest, key, value);
        }
        Ok(digest)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
