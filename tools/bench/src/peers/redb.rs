//! redb: one commit a put, with its default durability, which syncs once.

use crate::engine::{Counter, Store, VALUE_LEN, Value};
use anyhow::{Context, Result};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
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

/// The number that many threads count up.
const COUNTER: TableDefinition<'_, (), u64> = TableDefinition::new("counter");

impl Counter for Redb {
    fn increment(&self) -> Result<()> {
        let transaction = self.database.begin_write()?;
        let mut table = transaction.open_table(COUNTER)?;
        let old = table.get(())?.map_or(0, |found| found.value());
        table.insert((), old + 1)?;
        drop(table);
        Ok(transaction.commit()?)
    }

    fn number(&self) -> Result<u64> {
        let table = self.database.begin_read()?.open_table(COUNTER)?;
        Ok(table.get(())?.context("the counter is lost")?.value())
    }
}
