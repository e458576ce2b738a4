//! The traits that an engine of the bench implements. A call of [`Transactions`] or [`Tree`] runs a whole lap, which
//! keeps dispatch and calls between languages out of the timed loop. A call of [`Store`] runs one put or get.

use crate::keys::Keys;
use crate::pairs::Pairs;
use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// An engine of the bench: Lodestone or one of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// Lodestone.
    Ours,
    /// Lodestone at durability line on a file that is not persistent memory: what the rest costs without a sync.
    #[serde(rename = "ours-line")]
    OursLine,
    /// The floor: what memory alone costs a transaction.
    Floor,
    /// The floor of blocks of 512 bytes: a copy past the cache, and one fence.
    #[serde(rename = "copy-512")]
    Copy512,
    /// The same of blocks of 4096 bytes.
    #[serde(rename = "copy-4k")]
    Copy4k,
    /// libpmem.
    Libpmem,
    /// libpmem2.
    Libpmem2,
    /// libpmemblk.
    Libpmemblk,
    /// libpmemlog.
    Libpmemlog,
    /// Writes to a file that was opened with O_DSYNC.
    #[serde(rename = "o_dsync")]
    Odsync,
    /// nbdkit with its plugin memory.
    Nbdkit,
    /// qemu-nbd on a raw file.
    #[serde(rename = "qemu-nbd")]
    QemuNbd,
    /// libpmemobj, and the adaptive radix tree of its examples.
    Libpmemobj,
    /// The crate blart: a volatile adaptive radix tree.
    Blart,
    /// The crate congee: a volatile, concurrent adaptive radix tree with keys of 8 bytes.
    Congee,
    /// SQLite.
    Sqlite,
    /// LMDB.
    Lmdb,
    /// redb.
    Redb,
    /// RocksDB.
    Rocksdb,
}

impl Engine {
    /// The name under which the figures are reported: blart and congee share one name.
    pub(crate) fn peer(self) -> &'static str {
        match self {
            Engine::Ours => "lodestone",
            Engine::OursLine => "lodestone-line",
            Engine::Floor => "floor",
            Engine::Copy512 => "copy-512",
            Engine::Copy4k => "copy-4k",
            Engine::Libpmem => "libpmem",
            Engine::Libpmem2 => "libpmem2",
            Engine::Libpmemblk => "libpmemblk",
            Engine::Libpmemlog => "libpmemlog",
            Engine::Odsync => "o_dsync",
            Engine::Nbdkit => "nbdkit",
            Engine::QemuNbd => "qemu-nbd",
            Engine::Libpmemobj => "libpmemobj",
            Engine::Blart | Engine::Congee => "volatile-art",
            Engine::Sqlite => "sqlite",
            Engine::Lmdb => "lmdb",
            Engine::Redb => "redb",
            Engine::Rocksdb => "rocksdb",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Engine::Blart => "blart",
            Engine::Congee => "congee",
            other => other.peer(),
        })
    }
}

/// Words in the area that transactions change: 16 MiB, which fit no cache of one core.
pub(crate) const AREA_WORDS: u32 = 2 << 20;
/// Words at the start of the area to which all workloads but one keep, 512 KiB: their figures show the cost of the
/// transaction, not of cache misses.
pub(crate) const NEAR_WORDS: u32 = 64 << 10;
/// Slots that hold one block of 64 bytes each: 4 MiB of blocks live at any time.
pub(crate) const SLOTS: u32 = 64 << 10;
/// Words of a block.
pub(crate) const BLOCK_WORDS: u32 = 8;

/// Transactions on an area of words, and on slots that each hold one allocated block.
///
/// Each word that is stored is the next number of one count, which starts at 1 when the pool is made, and which
/// `alloc_free` leaves alone: so all engines end with the same [`contents`](Transactions::contents).
pub(crate) trait Transactions {
    /// One durable transaction for each `ranges` places: each stores one word at each of them.
    fn change(&mut self, places: &[u32], ranges: usize) -> Result<()>;

    /// One durable transaction for each slot: allocate 64 bytes, fill them, link them, free the old block.
    fn replace(&mut self, slots: &[u32]) -> Result<()>;

    /// Allocates 64 bytes durably, then frees them durably, `times` times.
    fn alloc_free(&mut self, times: usize) -> Result<()>;

    /// Allocates 64 bytes durably and links them in a word of the area, then unlinks and frees them durably, for each
    /// place. The word is then 0.
    fn alloc_free_at(&mut self, _places: &[u32]) -> Result<()> {
        bail!("only Lodestone and the floor allocate for a place")
    }

    /// All words of the area, then the words of the block in each slot, zeros where there is none.
    fn contents(&self) -> Result<Vec<u64>>;
}

/// An ordered map from byte strings to 8-byte values.
pub(crate) trait Tree {
    /// Inserts each key with its id as value, one durable transaction a key where the tree is durable. Also
    /// replaces: the second time that a key comes, its value changes.
    fn insert(&mut self, keys: &Keys) -> Result<()>;

    /// Looks all keys up and folds the values found, in order, with [`fold`]. A missing key is an error.
    fn lookup(&self, keys: &Keys) -> Result<u64>;

    /// As [`lookup`](Tree::lookup), with the checksum of each value verified where the tree has checksums.
    fn lookup_checked(&self, keys: &Keys) -> Result<u64> {
        self.lookup(keys)
    }
}

/// Containers of numbers. Each change of one is a durable transaction of its own, where the container is durable.
pub(crate) trait Containers {
    /// Appends each number to the vector.
    fn push(&mut self, values: &[u64]) -> Result<()>;

    /// Puts each number into the queue and takes the first one out, which makes two transactions. Folds those with [`fold`].
    fn push_pop(&mut self, values: &[u64]) -> Result<u64>;

    /// Inserts keys with their values into the map that is sorted.
    fn insert_sorted(&mut self, keys: &[u64], values: &[u64]) -> Result<()>;

    /// Inserts keys with their values into the map that is not.
    fn insert_hashed(&mut self, keys: &[u64], values: &[u64]) -> Result<()>;

    /// Returns a number of the vector, and the values of a key in both maps.
    fn found(&mut self, index: u64, key: u64) -> Result<[u64; 3]>;
}

/// Blocks of one size, read and written whole. The caller lends the buffer, which holds one block.
pub(crate) trait BlockStore {
    /// Writes each block of `order`: the bytes of `block`, with the next word from `stamp` on at their start. After every
    /// `batch` writes, and at the end, all are durable.
    fn write(&mut self, order: &[u32], batch: usize, block: &mut [u8], stamp: u64) -> Result<()>;

    /// Reads each block of `order`, and folds its first word into the digest.
    fn read(&self, order: &[u32], block: &mut [u8]) -> Result<u64>;

    /// As [`read`](BlockStore::read), with the checksum of each block verified where there are checksums.
    fn read_checked(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        self.read(order, block)
    }

    /// Closes the blocks, so that the next opening has nothing to finish.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A log of records of one length.
pub(crate) trait RecordLog {
    /// Appends the records of `len` bytes in `records` by one call, `times` times. Each begins with the next word from
    /// `stamp` on. Durable after each call.
    fn append(&mut self, records: &mut [u8], len: usize, times: usize, stamp: u64) -> Result<()>;

    /// Drops all records.
    fn rewind(&mut self) -> Result<()>;

    /// Bytes of records of `len` bytes that an empty log has room for.
    fn room(&self, len: usize) -> usize;

    /// Folds the first word of each record of `len` bytes into a digest.
    fn digest(&self, len: usize) -> Result<u64>;
}

/// Puts a word at the start of a block or record.
#[inline]
pub(crate) fn stamp_with(bytes: &mut [u8], word: u64) {
    bytes[..8].copy_from_slice(&word.to_le_bytes());
}

/// The word at the start of a block or record.
#[inline]
pub(crate) fn stamp_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// One step of the digest of a lookup: cheap enough to stay inside of the timed loop.
#[inline]
pub(crate) fn fold(digest: u64, value: u64) -> u64 {
    digest.rotate_left(5) ^ value
}

/// Bytes of the value of a put.
pub(crate) const VALUE_LEN: usize = 100;
/// The value of a put.
pub(crate) type Value = [u8; VALUE_LEN];

/// A store that many threads put into.
pub(crate) trait Store: Sync {
    /// Puts; durable on return.
    fn put(&self, key: u64, value: &Value) -> Result<()>;

    /// Returns the value of a key, or `None` if the key is absent.
    fn get(&self, key: u64) -> Result<Option<Value>>;
}

/// A number that many threads count up.
pub(crate) trait Counter: Sync {
    /// Adds one, in a transaction of its own; durable on return.
    fn increment(&self) -> Result<()>;

    /// The number.
    fn number(&self) -> Result<u64>;
}

/// Bytes that a store may use to cache its data, the same for all that have a cache of their own. The others use the
/// page cache of the kernel.
pub(crate) const CACHE: usize = 1 << 30;

/// An error for work without a figure, with the reason: it took too long and was given up, or the store has no such
/// operation.
#[derive(Debug)]
pub(crate) struct NoFigure(pub(crate) String);

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoFigure {}

/// Returns true for the pairs that [`WholeDatabase::retain`] keeps: half of random ones.
pub(crate) fn is_retained(key: &[u8]) -> bool {
    key.last().is_some_and(|byte| *byte < 0x80)
}

/// Returns true for the pairs that [`WholeDatabase::extract_if`] removes: half of random ones.
pub(crate) fn is_extracted(key: &[u8]) -> bool {
    key.iter().nth_back(1).is_some_and(|byte| *byte < 0x80)
}

/// A store of pairs of byte strings, for the rows that compare whole stores. Acknowledged changes are durable.
pub(crate) trait Database: Sync {
    /// Puts all pairs in one transaction.
    ///
    /// # Errors
    /// [`NoFigure`] where the store has a limit of time; it has then rolled the transaction back.
    fn put_all(&self, pairs: &Pairs) -> Result<()>;

    /// Puts one pair, in a transaction of its own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// The value of a key, if it has one.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The number of pairs.
    fn count(&self) -> Result<u64>;

    /// Reads all pairs in the order of their keys, and folds them into a digest.
    fn scan(&self) -> Result<u64>;

    /// Closes the store, so that its files can be copied.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A store of pairs with all that the rows `store-*` time.
pub(crate) trait WholeDatabase: Database {
    /// Puts pairs whose keys ascend, and come after all others, in one transaction.
    ///
    /// # Errors
    /// As [`put_all`](Database::put_all).
    fn append_all(&self, pairs: &Pairs) -> Result<()> {
        self.put_all(pairs)
    }

    /// Removes the keys of all pairs in one transaction.
    ///
    /// # Errors
    /// As [`put_all`](Database::put_all).
    fn remove_all(&self, pairs: &Pairs) -> Result<()>;

    /// Removes `count` pairs in one transaction, the first and the last in turn, and folds them into a digest.
    ///
    /// # Errors
    /// As [`put_all`](Database::put_all).
    fn pop(&self, count: usize) -> Result<u64>;

    /// Puts each pair in a transaction of its own, which is synced later. A crash loses some of the last ones.
    ///
    /// # Errors
    /// [`NoFigure`] where there are no such transactions.
    fn put_each_unsynced(&self, pairs: &Pairs) -> Result<()>;

    /// Removes all pairs but those that [`is_retained`] names, in one transaction.
    fn retain(&self) -> Result<()>;

    /// Removes those pairs with keys below `end` that [`is_extracted`] names, in one transaction. Returns the sum of their
    /// digests.
    fn extract_if(&self, end: &[u8]) -> Result<u64>;

    /// Makes the store as small as it can be, and closes it. Stores that only make small copies make one at `beside`.
    fn compact(self: Box<Self>, beside: &Path) -> Result<()>;

    /// Begins to read, in the calling thread.
    fn reader(&self) -> Result<Box<dyn Reads + '_>>;
}

/// A thread that reads a [`WholeDatabase`].
pub(crate) trait Reads {
    /// Gets the values of the keys of all pairs, and folds keys and values into a digest.
    fn get_all(&mut self, pairs: &Pairs) -> Result<u64>;

    /// Seeks the key of each pair, and folds the `count` pairs from there on into a digest.
    fn ranges(&mut self, pairs: &Pairs, count: usize) -> Result<u64>;
}
