//! redb: one commit a put, with its default durability, which syncs once.

use crate::engine::{Store, VALUE_LEN, Value};
use anyhow::Result;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'_, u64, &[u8; VALUE_LEN]> = TableDefinition::new("puts");

/// A database with one table. It lets one writer in at a time; the others queue.
pub(crate) struct Redb {
    database: Database,
}

impl Redb {
    pub(crate) fn create(path: &Path) -> Result<Redb> {
        let database = Database::create(path)?;
        let transaction = database.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(Redb { database })
    }
}

impl Store for Redb {
    fn put(&self, key: u64, value: &Value) -> Result<()> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(TABLE)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, key: u64) -> Result<Option<Value>> {
        let transaction = self.database.begin_read()?;
        Ok(transaction.open_table(TABLE)?.get(key)?.map(|found| *found.value()))
    }
}
