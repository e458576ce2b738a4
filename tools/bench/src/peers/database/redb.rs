//! redb: a table of byte strings, with its default durability, which syncs once a commit.

use crate::engine::{CACHE, Database};
use crate::pairs::{Pairs, fold_pair};
use anyhow::Result;
use redb::{Builder, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
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
