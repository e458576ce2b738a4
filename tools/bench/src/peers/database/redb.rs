//! redb: a table of byte strings, with its default durability, which syncs once a commit.

use crate::engine::{CACHE, Database};
use crate::pairs::{Pairs, fold_pair};
use anyhow::Result;
use redb::{Builder, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
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
}

impl Database for RedbDatabase {
    fn put_all(&self, pairs: &Pairs) -> Result<()> {
        let transaction = self.database.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in pairs.iter() {
            table.insert(key, value)?;
        }
        drop(table);
        Ok(transaction.commit()?)
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
