//! Peers as stores of pairs of byte strings.
//!
//! Each has the durability that its makers give it by default, and [`CACHE`](crate::engine::CACHE) bytes of cache if it
//! does not rely on that of the kernel.

mod lmdb;
mod redb;
mod rocksdb;
mod sqlite;

pub(crate) use lmdb::LmdbDatabase;
pub(crate) use redb::RedbDatabase;
pub(crate) use rocksdb::RocksdbDatabase;
pub(crate) use sqlite::SqliteDatabase;
