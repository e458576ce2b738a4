//! redb: a table of byte strings, with its default durability, which syncs once a commit.

use crate::engine::{CACHE, Database, Reads, WholeDatabase, is_extracted, is_retained};
use crate::pairs::{Pairs, fold_pair};
use anyhow::{Context, Result, ensure};
use redb::{
    Builder, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition,
};
use std::iter;
use std::path::Path;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

/// A database with one table.
pub(crate) struct RedbDatabase {
    database: redb::Database,
}

impl RedbDatabase {
    /// Opens the database at `path`, or makes it.
    pub(crate) fn open(path: &Path) -> Result<RedbDatabase> {
        let database = Builder::new().set_cache_size(CACHE).create(path)?;
        let transaction = database.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(RedbDatabase { database })
    }

    /// Puts pairs in one transaction.
    pub(crate) fn put_in_one<'a>(&self, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        let transaction = self.database.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in pairs {
            table.insert(key, value)?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }
}

impl Database for RedbDatabase {
    fn put_all(&self, pairs: &Pairs) -> Result<()> {
        self.put_in_one(pairs.iter())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_in_one(iter::once((key, value)))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.database.begin_read()?;
        Ok(transaction.open_table(TABLE)?.get(key)?.map(|found| found.value().to_vec()))
    }

    fn count(&self) -> Result<u64> {
        Ok(self.database.begin_read()?.open_table(TABLE)?.len()?)
    }

    fn scan(&self) -> Result<u64> {
        let mut digest = 0;
        for pair in self.database.begin_read()?.open_table(TABLE)?.iter()? {
            let (key, value) = pair?;
            digest = fold_pair(digest, key.value(), value.value());
        }
        Ok(digest)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl WholeDatabase for RedbDatabase {
    fn remove_all(&self, pairs: &Pairs) -> Result<()> {
        let transaction = self.database.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        for (key, _) in pairs.iter() {
            ensure!(table.remove(key)?.is_some(), "a key to remove is missing");
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn pop(&self, count: usize) -> Result<u64> {
        let transaction = self.database.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        let mut digest = 0;
        for index in 0..count {
            let popped = if index % 2 == 0 { table.pop_first()? } else { table.pop_last()? };
            let (key, value) = popped.context("the store is empty")?;
            digest = fold_pair(digest, key.value(), value.value());
        }
        drop(table);
        transaction.commit()?;
        Ok(digest)
    }

    fn put_each_unsynced(&self, pairs: &Pairs) -> Result<()> {
        for (key, value) in pairs.iter() {
            let mut transaction = self.database.begin_write()?;
            transaction.set_durability(Durability::None)?;
            transaction.open_table(TABLE)?.insert(key, value)?;
            transaction.commit()?;
        }
        Ok(())
    }

    fn retain(&self) -> Result<()> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(TABLE)?.retain(|key, _| is_retained(key))?;
        Ok(transaction.commit()?)
    }

    fn extract_if(&self, end: &[u8]) -> Result<u64> {
        let transaction = self.database.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        let mut digest: u64 = 0;
        for pair in table.extract_from_if(..end, |key, _| is_extracted(key))? {
            let (key, value) = pair?;
            digest = digest.wrapping_add(fold_pair(0, key.value(), value.value()));
        }
        drop(table);
        transaction.commit()?;
        Ok(digest)
    }

    fn compact(mut self: Box<Self>, _: &Path) -> Result<()> {
        while self.database.compact()? {}
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reads + '_>> {
        Ok(Box::new(self.database.begin_read()?.open_table(TABLE)?))
    }
}

impl Reads for ReadOnlyTable<&'static [u8], &'static [u8]> {
    fn get_all(&mut self, pairs: &Pairs) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            digest = fold_pair(digest, key, self.get(key)?.context("a key is missing")?.value());
        }
        Ok(digest)
    }

    fn ranges(&mut self, pairs: &Pairs, count: usize) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            for pair in self.range(key..)?.take(count) {
                let (key, value) = pair?;
                digest = fold_pair(digest, key.value(), value.value());
            }
        }
        Ok(digest)
    }
}
