//! LMDB through heed: one database of byte strings, with default flags: a commit syncs the data, then the meta page.

use crate::engine::{Database, Reads, WholeDatabase, is_extracted, is_retained};
use crate::pairs::{Pairs, fold_pair};
use anyhow::{Context, Result, ensure};
use heed::types::Bytes;
use heed::{CompactionOption, Env, EnvFlags, EnvOpenOptions, FlagSetMode, PutFlags, RoTxn, WithTls};
use std::fs::{self, File};
use std::ops::Bound;
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
        LmdbDatabase::open_with(path, EnvFlags::empty())
    }

    /// Opens an environment that is larger than the memory of its reader, with the flag that LMDB's manual names for that.
    pub(crate) fn open_past_memory(path: &Path) -> Result<LmdbDatabase> {
        LmdbDatabase::open_with(path, EnvFlags::NO_READ_AHEAD)
    }

    fn open_with(path: &Path, flags: EnvFlags) -> Result<LmdbDatabase> {
        fs::create_dir_all(path)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_SIZE).max_readers(READERS);
        // SAFETY: - no flag of ours weakens what a reader may rely on.
        unsafe { options.flags(flags) };
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

impl WholeDatabase for LmdbDatabase {
    fn append_all(&self, pairs: &Pairs) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs.iter() {
            self.database.put_with_flags(&mut transaction, PutFlags::APPEND, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn remove_all(&self, pairs: &Pairs) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, _) in pairs.iter() {
            ensure!(self.database.delete(&mut transaction, key)?, "a key to remove is missing");
        }
        Ok(transaction.commit()?)
    }

    fn pop(&self, count: usize) -> Result<u64> {
        let mut transaction = self.env.write_txn()?;
        let mut digest = 0;
        for index in 0..count {
            let found = match index % 2 {
                0 => self.database.first(&transaction)?,
                _ => self.database.last(&transaction)?,
            };
            let (key, value) = found.context("the store is empty")?;
            digest = fold_pair(digest, key, value);
            // The page that holds the key changes.
            let key = key.to_vec();
            self.database.delete(&mut transaction, &key)?;
        }
        transaction.commit()?;
        Ok(digest)
    }

    fn put_each_unsynced(&self, pairs: &Pairs) -> Result<()> {
        // SAFETY: - no other thread uses the environment.
        unsafe { self.env.set_flags(EnvFlags::NO_SYNC, FlagSetMode::Enable) }?;
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))?;
        // SAFETY: - as above.
        Ok(unsafe { self.env.set_flags(EnvFlags::NO_SYNC, FlagSetMode::Disable) }?)
    }

    fn retain(&self) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let mut pairs = self.database.iter_mut(&mut transaction)?;
        while let Some((key, _)) = pairs.next().transpose()? {
            if !is_retained(key) {
                // SAFETY: - the key and the value are not used any more.
                unsafe { pairs.del_current() }?;
            }
        }
        drop(pairs);
        Ok(transaction.commit()?)
    }

    fn extract_if(&self, end: &[u8]) -> Result<u64> {
        let mut transaction = self.env.write_txn()?;
        let range = (Bound::Unbounded, Bound::Excluded(end));
        let mut pairs = self.database.range_mut(&mut transaction, &range)?;
        let mut digest: u64 = 0;
        while let Some((key, value)) = pairs.next().transpose()? {
            if is_extracted(key) {
                digest = digest.wrapping_add(fold_pair(0, key, value));
                // SAFETY: - the key and the value are not used any more.
                unsafe { pairs.del_current() }?;
            }
        }
        drop(pairs);
        transaction.commit()?;
        Ok(digest)
    }

    fn compact(self: Box<Self>, beside: &Path) -> Result<()> {
        fs::create_dir(beside)?;
        let mut copy = File::create(beside.join("data.mdb"))?;
        self.env.copy_to_file(&mut copy, CompactionOption::Enabled)?;
        copy.sync_all()?;
        self.close()
    }

    fn reader(&self) -> Result<Box<dyn Reads + '_>> {
        Ok(Box::new(LmdbReader { database: self.database, transaction: self.env.read_txn()? }))
    }
}

/// A read transaction.
struct LmdbReader<'e> {
    database: heed::Database<Bytes, Bytes>,
    transaction: RoTxn<'e, WithTls>,
}

impl Reads for LmdbReader<'_> {
    fn get_all(&mut self, pairs: &Pairs) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            let value = self.database.get(&self.transaction, key)?.context("a key is missing")?;
            digest = fold_pair(digest, key, value);
        }
        Ok(digest)
    }

    fn ranges(&mut self, pairs: &Pairs, count: usize) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            for pair in
                self.database.range(&self.transaction, &(Bound::Included(key), Bound::Unbounded))?.take(count)
            {
                let (key, value) = pair?;
                digest = fold_pair(digest, key, value);
            }
        }
        Ok(digest)
    }
}
