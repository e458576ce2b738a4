//! LMDB through heed, with its default flags: a put syncs the data, then the meta page.

use crate::engine::{Counter, Store, Value};
use anyhow::{Context, Result};
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{Database, Env, EnvOpenOptions};
use std::fs;
use std::path::Path;

/// An environment with one database. It lets one writer in at a time; the others queue.
pub(crate) struct Lmdb {
    env: Env,
    database: Database<U64<BigEndian>, Bytes>,
}

impl Lmdb {
    pub(crate) fn create(path: &Path) -> Result<Lmdb> {
        fs::create_dir(path)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(1 << 30);
        // SAFETY: - the folder was made a moment ago, inside a folder of our own, so no other process writes to it.
        let env = unsafe { options.open(path) }?;
        let mut transaction = env.write_txn()?;
        let database = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Lmdb { env, database })
    }
}

impl Store for Lmdb {
    fn put(&self, key: u64, value: &Value) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.database.put(&mut transaction, &key, value)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, key: u64) -> Result<Option<Value>> {
        let transaction = self.env.read_txn()?;
        let found = self.database.get(&transaction, &key)?;
        found.map(|bytes| bytes.try_into().context("LMDB changed the length of a value")).transpose()
    }
}

/// The key of the number that many threads count up.
const COUNTER: u64 = 0;

/// The number that `bytes` are.
fn number(bytes: &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes.try_into().context("LMDB changed the length of a value")?))
}

impl Counter for Lmdb {
    fn increment(&self) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let old = self.database.get(&transaction, &COUNTER)?.map_or(Ok(0), number)?;
        self.database.put(&mut transaction, &COUNTER, &(old + 1).to_le_bytes())?;
        Ok(transaction.commit()?)
    }

    fn number(&self) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        number(self.database.get(&transaction, &COUNTER)?.context("the counter is lost")?)
    }
}
