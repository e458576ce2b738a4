//! The peers, each behind the traits of [`engine`](crate::engine).

mod containers;
mod database;
mod fio;
mod floor;
mod libpmem;
mod lmdb;
mod nbd;
mod odsync;
mod pmemblk;
mod pmemlog;
mod pmemobj;
mod redb;
mod rocksdb;
mod sqlite;
mod volatile_art;

pub(crate) use containers::{PmemobjContainers, VolatileContainers};
pub(crate) use database::{LmdbDatabase, RedbDatabase, RocksdbDatabase, SqliteDatabase};
pub(crate) use fio::run_fio;
pub(crate) use floor::{Floor, FloorBlocks};
pub(crate) use libpmem::{Driver, PmemCalls};
pub(crate) use lmdb::Lmdb;
pub(crate) use nbd::{NbdServer, installed};
pub(crate) use odsync::OdsyncFile;
pub(crate) use pmemblk::PmemBlocks;
pub(crate) use pmemlog::PmemLog;
pub(crate) use pmemobj::{PmemobjArea, PmemobjTable, PmemobjTree};
pub(crate) use redb::Redb;
pub(crate) use rocksdb::Rocksdb;
pub(crate) use sqlite::Sqlite;
pub(crate) use volatile_art::{Blart, Congee, FlooredBlart};
