//! SQLite with a write-ahead log and synchronous=FULL: a table of byte strings without row ids.

use crate::engine::{CACHE, Database};
use crate::pairs::{Pairs, fold_pair};
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PUT: &str = "INSERT OR REPLACE INTO pairs VALUES (?1, ?2)";

/// A table, and one connection that all threads share.
pub(crate) struct SqliteDatabase {
    connection: Mutex<Connection>,
}

/// Opens the file at `path`, or makes it.
fn connect(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    ensure!(mode == "wal", "SQLite refused a write-ahead log: {mode}");
    // A negative number is a size in KiB.
    connection.execute_batch(&format!("PRAGMA synchronous = FULL; PRAGMA cache_size = -{}", CACHE >> 10))?;
    Ok(connection)
}

impl SqliteDatabase {
    /// Opens the database at `path`, or makes it.
    pub(crate) fn open(path: &Path) -> Result<SqliteDatabase> {
        let connection = connect(path)?;
        let table = "CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID";
        connection.execute_batch(table)?;
        Ok(SqliteDatabase { connection: Mutex::new(connection) })
    }

    /// Folds the keys of a table that the program `sqlite3` filled, in their order, as [`Database::scan`] folds pairs
    /// without values.
    pub(crate) fn scan_keys(path: &Path, table: &str) -> Result<u64> {
        let connection = connect(path)?;
        let mut statement = connection.prepare(&format!("SELECT key FROM {table} ORDER BY key"))?;
        let mut rows = statement.query([])?;
        let mut digest = 0;
        while let Some(row) = rows.next()? {
            digest = fold_pair(digest, row.get_ref(0)?.as_bytes()?, &[]);
        }
        Ok(digest)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database for SqliteDatabase {
    fn put_all(&self, pairs: &Pairs) -> Result<()> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let mut statement = transaction.prepare_cached(PUT)?;
        for (key, value) in pairs.iter() {
            statement.execute(params![key, value])?;
        }
        drop(statement);
        Ok(transaction.commit()?)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.connection().prepare_cached(PUT)?.execute(params![key, value])?;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached("SELECT value FROM pairs WHERE key = ?1")?;
        Ok(statement.query_row([key], |row| row.get(0)).optional()?)
    }

    fn count(&self) -> Result<u64> {
        let count: i64 = self.connection().query_row("SELECT count(*) FROM pairs", [], |row| row.get(0))?;
        u64::try_from(count).context("SQLite counts below zero")
    }

    fn scan(&self) -> Result<u64> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached("SELECT key, value FROM pairs ORDER BY key")?;
        let mut rows = statement.query([])?;
        let mut digest = 0;
        while let Some(row) = rows.next()? {
            digest = fold_pair(digest, row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        }
        Ok(digest)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let connection = self.connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, error)| error.into())
    }
}
