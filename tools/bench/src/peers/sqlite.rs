//! SQLite with a write-ahead log and synchronous=FULL: a put is an autocommit statement, synced once.

use crate::engine::{Counter, Store, Value};
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A table whose key is the row id, which is the fastest that SQLite knows.
///
/// All threads share one connection under a lock. SQLite allows one writer at a time anyway. With a connection each,
/// a thread that finds another one writing would sleep and try again, which is slower.
pub(crate) struct Sqlite {
    connection: Mutex<Connection>,
}

impl Sqlite {
    pub(crate) fn create(path: &Path) -> Result<Sqlite> {
        let connection = Connection::open(path)?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        ensure!(mode == "wal", "SQLite refused a write-ahead log: {mode}");
        connection.execute_batch(
            "PRAGMA synchronous = FULL; CREATE TABLE puts (key INTEGER PRIMARY KEY, value BLOB)",
        )?;
        Ok(Sqlite { connection: Mutex::new(connection) })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Sqlite {
    fn put(&self, key: u64, value: &Value) -> Result<()> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO puts VALUES (?1, ?2)")?;
        statement.execute(params![key.cast_signed(), value.as_slice()])?;
        Ok(())
    }

    fn get(&self, key: u64) -> Result<Option<Value>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached("SELECT value FROM puts WHERE key = ?1")?;
        Ok(statement.query_row([key.cast_signed()], |row| row.get(0)).optional()?)
    }
}

impl Counter for Sqlite {
    fn increment(&self) -> Result<()> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "INSERT INTO puts VALUES (0, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1",
        )?;
        statement.execute([])?;
        Ok(())
    }

    fn number(&self) -> Result<u64> {
        let number: i64 =
            self.connection().query_row("SELECT value FROM puts WHERE key = 0", [], |row| row.get(0))?;
        u64::try_from(number).context("SQLite counts below zero")
    }
}
