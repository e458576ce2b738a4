//! SQLite with a write-ahead log and synchronous=FULL: a table of byte strings without row ids.

use crate::engine::{CACHE, Database, Reads, WholeDatabase};
use crate::pairs::{Pairs, fold_pair};
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// [`is_retained`](crate::engine::is_retained) and [`is_extracted`](crate::engine::is_extracted).
const IS_RETAINED: &str = "substr(key, -1) < x'80'";
const IS_EXTRACTED: &str = "substr(key, -2, 1) < x'80'";
const PUT: &str = "INSERT OR REPLACE INTO pairs VALUES (?1, ?2)";

/// A table, and one connection that all writers share. A reader has a connection of its own.
pub(crate) struct SqliteDatabase {
    connection: Mutex<Connection>,
    path: PathBuf,
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
        Ok(SqliteDatabase { connection: Mutex::new(connection), path: path.to_owned() })
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

impl WholeDatabase for SqliteDatabase {
    fn remove_all(&self, pairs: &Pairs) -> Result<()> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let mut statement = transaction.prepare_cached("DELETE FROM pairs WHERE key = ?1")?;
        for (key, _) in pairs.iter() {
            ensure!(statement.execute([key])? == 1, "a key to remove is missing");
        }
        drop(statement);
        Ok(transaction.commit()?)
    }

    fn pop(&self, count: usize) -> Result<u64> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let mut first = transaction.prepare_cached("SELECT key, value FROM pairs ORDER BY key LIMIT 1")?;
        let mut last =
            transaction.prepare_cached("SELECT key, value FROM pairs ORDER BY key DESC LIMIT 1")?;
        let mut remove = transaction.prepare_cached("DELETE FROM pairs WHERE key = ?1")?;
        let mut digest = 0;
        for index in 0..count {
            let select = if index % 2 == 0 { &mut first } else { &mut last };
            let pair = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?));
            let (key, value) = select.query_row([], pair)?;
            digest = fold_pair(digest, &key, &value);
            remove.execute([key])?;
        }
        drop((first, last, remove));
        transaction.commit()?;
        Ok(digest)
    }

    fn put_each_unsynced(&self, pairs: &Pairs) -> Result<()> {
        // In a write-ahead log the newest commits may be lost, and no more.
        self.connection().execute_batch("PRAGMA synchronous = NORMAL")?;
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))?;
        Ok(self.connection().execute_batch("PRAGMA synchronous = FULL")?)
    }

    fn retain(&self) -> Result<()> {
        self.connection().execute(&format!("DELETE FROM pairs WHERE NOT {IS_RETAINED}"), [])?;
        Ok(())
    }

    fn extract_if(&self, end: &[u8]) -> Result<u64> {
        let connection = self.connection();
        let extract = format!("DELETE FROM pairs WHERE key < ?1 AND {IS_EXTRACTED} RETURNING key, value");
        let mut statement = connection.prepare(&extract)?;
        let mut rows = statement.query([end])?;
        let mut digest: u64 = 0;
        while let Some(row) = rows.next()? {
            let pair = fold_pair(0, row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            digest = digest.wrapping_add(pair);
        }
        Ok(digest)
    }

    fn compact(self: Box<Self>, _: &Path) -> Result<()> {
        self.connection().execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")?;
        self.close()
    }

    fn reader(&self) -> Result<Box<dyn Reads + '_>> {
        Ok(Box::new(SqliteReader { connection: connect(&self.path)? }))
    }
}

/// A connection that reads.
struct SqliteReader {
    connection: Connection,
}

impl Reads for SqliteReader {
    fn get_all(&mut self, pairs: &Pairs) -> Result<u64> {
        let transaction = self.connection.transaction()?;
        let mut statement = transaction.prepare_cached("SELECT value FROM pairs WHERE key = ?1")?;
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            let mut rows = statement.query([key])?;
            let row = rows.next()?.context("a key is missing")?;
            digest = fold_pair(digest, key, row.get_ref(0)?.as_blob()?);
        }
        Ok(digest)
    }

    fn ranges(&mut self, pairs: &Pairs, count: usize) -> Result<u64> {
        let transaction = self.connection.transaction()?;
        let range = "SELECT key, value FROM pairs WHERE key >= ?1 ORDER BY key LIMIT ?2";
        let mut statement = transaction.prepare_cached(range)?;
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            let mut rows = statement.query(params![key, count as i64])?;
            while let Some(row) = rows.next()? {
                digest = fold_pair(digest, row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            }
        }
        Ok(digest)
    }
}
