//! All workloads, in the order in which they are reported, and the goal of each. The only list of both.

use crate::group::Group;
use crate::unit::Unit;

/// A workload: something that is measured.
pub(crate) struct Workload {
    /// The group that runs it.
    pub(crate) group: Group,
    /// Its name in all outputs.
    pub(crate) name: &'static str,
    /// Description of one operation.
    pub(crate) what: &'static str,
    /// The result that Lodestone must reach.
    pub(crate) goal: Goal,
    /// True if it runs only when its name is given: it takes too long for every run.
    pub(crate) on_request: bool,
}

impl Workload {
    /// Makes it run only when its name is given.
    const fn on_request(self) -> Workload {
        Workload { on_request: true, ..self }
    }
}

/// The result that Lodestone must reach in a workload.
pub(crate) enum Goal {
    /// At least so many times as good as each of these peers; [`NO_TARGET`] for a ratio that is only printed.
    Ratios(&'static [(&'static str, f64)]),
    /// A limit of our own.
    Limit(Limit),
    /// Printed to be looked at.
    Shown(Unit),
}

/// A limit for a workload that has no peer.
pub(crate) struct Limit {
    /// The number.
    pub(crate) limit: f64,
    /// Unit of the number.
    pub(crate) unit: Unit,
    /// The values that meet the limit.
    pub(crate) bound: Bound,
}

/// The values that meet a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The limit or less.
    AtMost,
    /// The limit or more.
    AtLeast,
    /// The limit and nothing else.
    Exactly,
}

impl Limit {
    /// Returns true if a measured value meets the limit.
    pub(crate) fn met(&self, value: f64) -> bool {
        match self.bound {
            Bound::AtMost => value <= self.limit,
            Bound::AtLeast => value >= self.limit,
            Bound::Exactly => value == self.limit,
        }
    }
}

const fn ratios(
    group: Group,
    name: &'static str,
    what: &'static str,
    list: &'static [(&'static str, f64)],
) -> Workload {
    Workload { group, name, what, goal: Goal::Ratios(list), on_request: false }
}

const fn limit(
    group: Group,
    name: &'static str,
    what: &'static str,
    bound: Bound,
    limit: f64,
    unit: Unit,
) -> Workload {
    Workload { group, name, what, goal: Goal::Limit(Limit { limit, unit, bound }), on_request: false }
}

/// The ratio to reach where none is set.
const NO_TARGET: f64 = 0.0;

/// The ratios to reach where many puts are one transaction. Ours at durability line is no peer; its ratio is printed.
const TX_PUTS: &[(&str, f64)] =
    &[("redb", 1.0), ("sqlite", 1.0), ("lmdb", 1.0), ("lodestone-line", NO_TARGET)];

/// The ratios to reach in the rows of redb's own bench; those of threads, of which there are more than cores, have none.
const STORE: &[(&str, f64)] =
    &[("redb", 1.0), ("lmdb", NO_TARGET), ("sqlite", NO_TARGET), ("rocksdb", NO_TARGET)];
const STORE_THREADS: &[(&str, f64)] =
    &[("redb", NO_TARGET), ("lmdb", NO_TARGET), ("sqlite", NO_TARGET), ("rocksdb", NO_TARGET)];

/// The ratio to reach against the floor: at most 1.3 times its time.
const FLOOR: &[(&str, f64)] = &[("floor", 1.0 / 1.3)];

/// The ratio to reach against a volatile tree beside the floor: at most 1.25 times their time.
const TREE_FLOOR: f64 = 1.0 / 1.25;

/// The ratios to reach of a container of numbers: against libpmemobj's examples, and the standard library's containers beside the floor
/// of a transaction, at most 1.5 times their time.
const CONTAINERS: &[(&str, f64)] = &[("libpmemobj", 3.0), ("floor", 1.0 / 1.5)];

/// All workloads.
pub(crate) const WORKLOADS: &[Workload] = &[
    ratios(
        Group::Transactions,
        "tx-1",
        "a transaction that changes one range of 8 bytes",
        &[("libpmemobj", 5.5)],
    ),
    ratios(
        Group::Transactions,
        "tx-4",
        "a transaction that changes 4 ranges of 8 bytes",
        &[("libpmemobj", 10.0)],
    ),
    ratios(
        Group::Transactions,
        "tx-16",
        "a transaction that changes 16 ranges of 8 bytes",
        &[("libpmemobj", 25.0)],
    ),
    ratios(
        Group::Transactions,
        "tx-16-wide",
        "tx-16 in an area of 16 MiB: most lines are in no cache of the core",
        &[("libpmemobj", NO_TARGET)],
    ),
    ratios(
        Group::Transactions,
        "tx-alloc",
        "a transaction: allocate 64 bytes, fill, link, free the old block",
        &[("libpmemobj", 14.0)],
    ),
    ratios(
        Group::Transactions,
        "alloc-free",
        "a durable allocation, then a durable free, of 64 bytes",
        &[("libpmemobj", 9.0)],
    ),
    ratios(Group::Floors, "tx-1-64k", "tx-1 on a set of lines of 64 KiB", FLOOR),
    ratios(Group::Floors, "tx-4-64k", "tx-4 on a set of lines of 64 KiB", FLOOR),
    ratios(Group::Floors, "tx-16-64k", "tx-16 on a set of lines of 64 KiB", FLOOR),
    ratios(Group::Floors, "tx-alloc-64k", "tx-alloc on a set of lines of 64 KiB", FLOOR),
    ratios(Group::Floors, "alloc-free-64k", "alloc-free on a set of lines of 64 KiB", FLOOR),
    ratios(Group::Floors, "tx-1-4m", "tx-1 on a set of lines of 4 MiB", FLOOR),
    ratios(Group::Floors, "tx-4-4m", "tx-4 on a set of lines of 4 MiB", FLOOR),
    ratios(Group::Floors, "tx-16-4m", "tx-16 on a set of lines of 4 MiB", FLOOR),
    ratios(Group::Floors, "tx-alloc-4m", "tx-alloc on a set of lines of 4 MiB", FLOOR),
    ratios(Group::Floors, "alloc-free-4m", "alloc-free on a set of lines of 4 MiB", FLOOR),
    ratios(
        Group::Covered,
        "cover-tx-1-64k",
        "a transaction that stores to a range of 8 bytes in place, in a set of 64 KiB",
        &[("libpmemobj", 4.4)],
    ),
    ratios(Group::Covered, "cover-tx-4-64k", "the same with 4 ranges", &[("libpmemobj", 8.0)]),
    ratios(Group::Covered, "cover-tx-16-64k", "the same with 16 ranges", &[("libpmemobj", 15.0)]),
    ratios(
        Group::Covered,
        "cover-tx-1-16m",
        "a transaction that stores to a range of 8 bytes in place, in a set of 16 MiB",
        &[("libpmemobj", 2.8)],
    ),
    ratios(Group::Covered, "cover-tx-4-16m", "the same with 4 ranges", &[("libpmemobj", 2.6)]),
    ratios(Group::Covered, "cover-tx-16-16m", "the same with 16 ranges", &[("libpmemobj", 2.6)]),
    ratios(
        Group::Covered,
        "cover-tx-1-128m",
        "the same with 1 range, on 128 MiB of lines",
        &[("libpmemobj", 2.5)],
    ),
    ratios(Group::Covered, "cover-tx-4-128m", "the same with 4 ranges", &[("libpmemobj", 2.0)]),
    ratios(Group::Covered, "cover-tx-16-128m", "the same with 16 ranges", &[("libpmemobj", 2.0)]),
    ratios(
        Group::Random,
        "art-insert-random",
        "insert a random 8-byte key with an 8-byte value",
        &[("libpmemobj", 9.0), ("floor", TREE_FLOOR)],
    ),
    ratios(Group::Random, "art-reinsert-random", "replace the value of a key", &[("libpmemobj", 6.0)]),
    ratios(
        Group::Random,
        "art-lookup-random",
        "look a random 8-byte key up",
        &[("libpmemobj", 4.5), ("volatile-art", 0.87)],
    ),
    ratios(
        Group::Random,
        "lookup-checked-random",
        "art-lookup-random with the checksum verified; peers have none",
        &[("libpmemobj", NO_TARGET), ("volatile-art", NO_TARGET)],
    ),
    ratios(
        Group::Words,
        "art-insert-words",
        "insert an English word with an 8-byte value",
        &[("libpmemobj", 7.0), ("floor", TREE_FLOOR)],
    ),
    ratios(Group::Words, "art-reinsert-words", "replace the value of a word", &[("libpmemobj", 4.0)]),
    ratios(
        Group::Words,
        "art-lookup-words",
        "look an English word up",
        &[("libpmemobj", 3.1), ("volatile-art", 0.87)],
    ),
    ratios(
        Group::Words,
        "lookup-checked-words",
        "art-lookup-words with the checksum verified; peers have none",
        &[("libpmemobj", NO_TARGET), ("volatile-art", NO_TARGET)],
    ),
    ratios(Group::Containers, "pvec-push", "append a number to a vector", CONTAINERS),
    ratios(
        Group::Containers,
        "pdeque-push-pop",
        "put a number into a queue, and take the first one out: two transactions",
        CONTAINERS,
    ),
    ratios(Group::Containers, "pmap-insert", "insert a random number with another into a map", CONTAINERS),
    ratios(
        Group::Containers,
        "phashmap-insert",
        "insert a random number with another into a hash map",
        CONTAINERS,
    ),
    ratios(Group::File, "file-tx-1", "tx-1 in an ordinary file, one thread", &[("libpmemobj", 3.5)]),
    ratios(Group::File, "file-tx-alloc", "tx-alloc in an ordinary file, one thread", &[("libpmemobj", 7.0)]),
    ratios(
        Group::File,
        "file-art-insert",
        "art-insert-random in an ordinary file, one thread",
        &[("libpmemobj", 14.0)],
    ),
    ratios(
        Group::Put,
        "file-put",
        "a durable put of 100 bytes under a random key, one thread",
        &[("sqlite", 1.5), ("lmdb", 1.6), ("redb", 1.2), ("rocksdb", 1.0)],
    ),
    ratios(
        Group::Later,
        "later-1",
        "a put of 100 bytes under a random key that is synced later, one thread",
        &[("rocksdb", 1.0)],
    ),
    ratios(
        Group::PutMany,
        "file-put-16",
        "durable puts of 100 bytes under random keys, 16 threads",
        &[("libpmemobj", 15.0), ("sqlite", 8.0), ("lmdb", 8.0), ("redb", 8.0), ("rocksdb", 1.0)],
    ),
    ratios(
        Group::PutMany,
        "file-put-16-sequential",
        "durable puts of 100 bytes under rising keys, 16 threads",
        &[
            ("libpmemobj", NO_TARGET),
            ("sqlite", 3.0),
            ("lmdb", NO_TARGET),
            ("redb", NO_TARGET),
            ("rocksdb", 1.0),
        ],
    ),
    ratios(
        Group::Counter,
        "file-counter-16",
        "durable updates of one key, 16 threads",
        &[("sqlite", 3.0), ("lmdb", NO_TARGET), ("redb", NO_TARGET)],
    ),
    ratios(
        Group::TxPuts,
        "tx-puts-10k",
        "a put of 100 bytes under a new random key, 10,000 of them in one transaction",
        TX_PUTS,
    ),
    ratios(
        Group::TxPuts,
        "tx-puts-100k",
        "a put of 100 bytes under a new random key, 100,000 of them in one transaction",
        TX_PUTS,
    ),
    ratios(
        Group::TxPuts,
        "tx-puts-1m",
        "a put of 100 bytes under a new random key, a million of them in one transaction",
        TX_PUTS,
    )
    .on_request(),
    limit(
        Group::TxPuts,
        "tx-puts-100k-growth",
        "time of a put of tx-puts-100k, over one of tx-puts-10k",
        Bound::AtMost,
        2.0,
        Unit::Times,
    ),
    limit(
        Group::TxPuts,
        "tx-puts-1m-growth",
        "time of a put of tx-puts-1m, over one of tx-puts-10k",
        Bound::AtMost,
        2.0,
        Unit::Times,
    )
    .on_request(),
    ratios(
        Group::Load,
        "load-words",
        "a word of the word list, loaded into an empty store: lode kv load, sqlite3 .import, redb in one transaction",
        &[("sqlite", 1.0), ("redb", 1.0)],
    ),
    limit(
        Group::Load,
        "file-bytes",
        "bytes on disk after load-words, over those of SQLite's table without row ids",
        Bound::AtMost,
        3.0,
        Unit::Times,
    ),
    ratios(
        Group::Reopen,
        "reopen-kill",
        "from SIGKILL of a process that commits pairs to the first get, in a store of 1 M keys",
        &[("redb", 1.0), ("lmdb", 1.0), ("sqlite", 1.0), ("rocksdb", 1.0)],
    ),
    ratios(
        Group::Store,
        "store-bulk",
        "a pair of 24 + 150 bytes under a random key, 5 M of them in one transaction (times --scale)",
        STORE,
    ),
    ratios(Group::Store, "store-individual", "a commit of one pair, synced", STORE),
    ratios(Group::Store, "store-batch", "a pair, in synced commits of 1,000", STORE),
    ratios(
        Group::Store,
        "store-nosync",
        "a commit of one pair that is synced later; LMDB's may be damaged by a power cut",
        STORE,
    ),
    ratios(Group::Store, "store-len", "the number of keys", STORE),
    ratios(Group::Store, "store-reads", "a get of a random key", STORE),
    ratios(Group::Store, "store-ranges", "a seek of a random key, and the 10 pairs from there on", STORE),
    ratios(
        Group::Store,
        "store-reads-4",
        "a get of a random key, 4 threads that share all keys",
        STORE_THREADS,
    ),
    ratios(Group::Store, "store-reads-8", "the same, 8 threads", STORE_THREADS),
    ratios(Group::Store, "store-reads-16", "the same, 16 threads", STORE_THREADS),
    ratios(Group::Store, "store-reads-32", "the same, 32 threads", STORE_THREADS),
    ratios(Group::Store, "store-removals", "a removal, half of all keys in one transaction", STORE),
    ratios(Group::Store, "store-size", "bytes on disk of the closed store, after store-removals", STORE),
    ratios(Group::Store, "store-compaction", "a compaction; a compact copy in Lodestone and LMDB", STORE),
    ratios(Group::Store, "store-compacted-size", "bytes on disk after store-compaction", STORE),
    ratios(Group::Store, "store-retain", "a pair of the store, half of which are removed", STORE),
    ratios(
        Group::Store,
        "store-extract-if",
        "a pair of the first third of the store, half of which are removed and returned",
        STORE,
    ),
    ratios(
        Group::Store,
        "store-pop",
        "a removal of the first or the last pair, in turn, in one transaction",
        STORE,
    ),
    ratios(
        Group::Store,
        "store-sorted",
        "a pair behind all others, in ascending order, in one transaction, by each side's append",
        STORE,
    ),
    ratios(
        Group::ReadWhileWriting,
        "read-while-writing",
        "gets of 4 threads while one puts 10,000 pairs a second, tmpfs",
        &[("lmdb", 0.8)],
    ),
    ratios(
        Group::ReadWhileWriting,
        "read-while-writing-put",
        "the put that 99 of 100 do not exceed, in read-while-writing",
        &[("lmdb", 1.0)],
    ),
    ratios(
        Group::PastRam,
        "read-past-ram",
        "a get of a random key by a process that may use a quarter of the data's bytes, ext4",
        &[("lmdb", 0.9)],
    ),
    limit(
        Group::Alone,
        "fences",
        "drains between begin and return, the most of all operations above",
        Bound::Exactly,
        1.0,
        Unit::Drains,
    ),
    Workload {
        group: Group::Alone,
        name: "fences-1000",
        what: "drains of 1000 transactions, checkpoints included",
        goal: Goal::Shown(Unit::Drains),
        on_request: false,
    },
    limit(
        Group::Alone,
        "read-typed",
        "what a read through the typed API adds to a plain load",
        Bound::AtMost,
        15.0,
        Unit::Cycles,
    ),
    limit(
        Group::Alone,
        "read-values",
        "what a checked read of a bool, an enum, an Option or a tuple adds to a plain load",
        Bound::AtMost,
        15.0,
        Unit::Cycles,
    ),
    limit(
        Group::Alone,
        "migrate-1m",
        "a migration of a million objects that get a field more, in synced copies of the pool's content",
        Bound::AtMost,
        4.0,
        Unit::Times,
    ),
    limit(
        Group::Alone,
        "check-typed-1m",
        "a check of a pool of a million typed objects, in checks of a tree of as many keys",
        Bound::AtMost,
        1.5,
        Unit::Times,
    ),
    limit(
        Group::Alone,
        "validated-read",
        "what validation adds to a read of a cell: 64 of 4,096 in a transaction with one store",
        Bound::AtMost,
        25.0,
        Unit::Cycles,
    ),
    Workload {
        group: Group::Alone,
        name: "validated-read-tree",
        what: "what validation adds to a get: 64 of 100,000 keys in a transaction with one store",
        goal: Goal::Shown(Unit::Cycles),
        on_request: false,
    },
    limit(
        Group::Alone,
        "scan-while-writing",
        "scans of a snapshot of 1 M keys beside 2 writers, over scans alone; needs 3 cores",
        Bound::AtLeast,
        0.8,
        Unit::Times,
    ),
    limit(
        Group::Alone,
        "scan-while-writing-puts",
        "puts of 2 writers beside scans of a snapshot, over puts alone; needs 3 cores",
        Bound::AtLeast,
        0.8,
        Unit::Times,
    ),
    limit(
        Group::Alone,
        "art-durable-cost",
        "an insert, over the same insert and record without flush and drain",
        Bound::AtMost,
        1.6,
        Unit::Times,
    ),
    limit(Group::Alone, "reopen-1m", "reopening 1 M keys after SIGKILL", Bound::AtMost, 50.0, Unit::Millis),
    limit(
        Group::Alone,
        "bytes-per-key",
        "pool bytes of an 8-byte key and value, 1 M random keys",
        Bound::AtMost,
        96.0,
        Unit::Bytes,
    ),
    limit(
        Group::Alone,
        "private-mib",
        "private memory while a pool of 1 M keys is open",
        Bound::AtMost,
        16.0,
        Unit::Mebibytes,
    ),
    limit(
        Group::Alone,
        "threads-2",
        "two threads that insert into one tree, over one thread",
        Bound::AtLeast,
        1.6,
        Unit::Times,
    ),
    limit(
        Group::Alone,
        "crash-images",
        "crash images of a 64 KiB log ring: recovery twice and check, one core",
        Bound::AtLeast,
        50_000.0,
        Unit::ImagesPerSecond,
    ),
    limit(
        Group::Platform,
        "platform-12",
        "the slowest command on an emulated machine with 12 modules",
        Bound::AtMost,
        100.0,
        Unit::Millis,
    ),
    limit(
        Group::Platform,
        "platform-1536",
        "the slowest command on an emulated machine with 64 sockets of 24 modules",
        Bound::AtMost,
        1000.0,
        Unit::Millis,
    ),
    ratios(
        Group::Blocks,
        "blk-write-512",
        "an atomic write of a random block of 512 bytes, atomic blocks",
        &[("libpmemblk", 2.6), ("copy-512", 1.0 / 1.45)],
    ),
    ratios(
        Group::Blocks,
        "blk-write-4k",
        "an atomic write of a random block of 4 KiB, atomic blocks",
        &[("libpmemblk", 1.5), ("copy-4k", 1.0 / 1.25)],
    ),
    ratios(
        Group::Blocks,
        "btt-write-512",
        "an atomic write of a random block of 512 bytes, block translation table",
        &[("libpmemblk", 2.0)],
    ),
    ratios(
        Group::Blocks,
        "btt-write-4k",
        "an atomic write of a random block of 4 KiB, block translation table",
        &[("libpmemblk", 1.35)],
    ),
    ratios(
        Group::Blocks,
        "blk-read-512",
        "a read of a random block of 512 bytes, atomic blocks, without a look at its checksum",
        &[("libpmemblk", 1.25)],
    ),
    ratios(
        Group::Blocks,
        "blk-read-4k",
        "a read of a random block of 4 KiB, atomic blocks, without a look at its checksum",
        &[("libpmemblk", 1.0)],
    ),
    ratios(
        Group::Blocks,
        "blk-read-512-checked",
        "blk-read-512 with the checksum verified, the default; libpmemblk has none",
        &[("libpmemblk", NO_TARGET)],
    ),
    ratios(
        Group::Blocks,
        "blk-read-4k-checked",
        "blk-read-4k with the checksum verified, the default; libpmemblk has none",
        &[("libpmemblk", NO_TARGET)],
    ),
    ratios(
        Group::Blocks,
        "dax-write-4k",
        "a copy of 4 KiB to a random block of a mapped DAX volume, made durable; a power cut may leave a mixture",
        &[("libpmemblk", 1.6)],
    ),
    ratios(
        Group::Appends,
        "log-append-64",
        "a durable append of a record of 64 bytes",
        &[("libpmemlog", 1.9)],
    ),
    ratios(
        Group::Appends,
        "log-appendv-64x64",
        "a durable append of 64 records of 64 bytes by one call",
        &[("libpmemlog", 1.2)],
    ),
    ratios(
        Group::FileBlocks,
        "file-blk-write-4k",
        "a durable write of a random block of 4 KiB in an ordinary file",
        &[("libpmemblk", 4.0), ("o_dsync", NO_TARGET)],
    ),
    ratios(
        Group::FileBlocks,
        "file-blk-write-4k-32",
        "a write of a random block of 4 KiB in an ordinary file, made durable in batches of 32",
        &[("libpmemblk", NO_TARGET), ("o_dsync", NO_TARGET)],
    ),
    limit(
        Group::Opening,
        "atomic-open",
        "opening 16 GiB of atomic blocks of 4 KiB after SIGKILL of a writer",
        Bound::AtMost,
        200.0,
        Unit::Millis,
    ),
    ratios(
        Group::Nbd,
        "nbd-write-4k-qd1",
        "random writes of 4 KiB by fio's nbd engine at a unix socket, one at a time; ours are durable",
        &[("nbdkit", 1.3), ("qemu-nbd", 1.3)],
    ),
    ratios(Group::Nbd, "nbd-write-4k-qd32", "the same, 32 at a time", &[("nbdkit", 1.0), ("qemu-nbd", 1.0)]),
    ratios(
        Group::Nbd,
        "nbd-read-4k-qd32",
        "random reads of 4 KiB by fio's nbd engine at a unix socket, 32 at a time",
        &[("nbdkit", 1.0), ("qemu-nbd", 1.0)],
    ),
    pmem("pmem-persist-8", "8 bytes stored, and made durable by pmem_persist", &[("libpmem", 0.98)]),
    pmem(
        "pmem-flush-drain-64x64",
        "64 lines flushed by pmem_flush, and one pmem_drain",
        &[("libpmem", 0.98)],
    ),
    pmem("pmem-memcpy-persist-64", "64 bytes copied by pmem_memcpy_persist", &[("libpmem", 1.0)]),
    pmem("pmem-memcpy-persist-512", "512 bytes copied by pmem_memcpy_persist", &[("libpmem", 1.0)]),
    pmem("pmem-memcpy-persist-4k", "4 KiB copied by pmem_memcpy_persist", &[("libpmem", 1.08)]),
    pmem("pmem-memcpy-persist-1m", "1 MiB copied by pmem_memcpy_persist", &[("libpmem", 1.0)]),
    ratios(
        Group::Libpmem,
        "pmem-map-file",
        "pmem_map_file of a sparse file of 1 GiB, and pmem_unmap",
        &[("libpmem", 1.0)],
    ),
    ratios(
        Group::Libpmem,
        "pmem2-persist-8",
        "8 bytes that are stored and made durable by the function of pmem2_get_persist_fn",
        &[("libpmem2", 0.98)],
    ),
    ratios(
        Group::Libpmem,
        "pmem2-memcpy-4k",
        "4 KiB that the function of pmem2_get_memcpy_fn copies",
        &[("libpmem2", 1.08)],
    ),
    pools("abi-log-append-64", "64 bytes that pmemlog_append appends", &[("libpmemlog", 1.0)]),
    pools(
        "abi-log-appendv-64x64",
        "64 parts of 64 bytes that pmemlog_appendv appends",
        &[("libpmemlog", 1.2)],
    ),
    pools(
        "abi-blk-write-512",
        "a random block of 512 bytes that pmemblk_write writes",
        &[("libpmemblk", 1.4)],
    ),
    pools("abi-blk-write-4k", "a random block of 4 KiB that pmemblk_write writes", &[("libpmemblk", 1.3)]),
    pools("abi-blk-read-4k", "a random block of 4 KiB that pmemblk_read reads", &[("libpmemblk", 1.1)]),
    ratios(
        Group::FileLibpools,
        "abi-log-append-file",
        "64 bytes that pmemlog_append appends in an ordinary file",
        &[("libpmemlog", 1.5)],
    ),
    ratios(
        Group::FileLibpools,
        "abi-blk-write-4k-file",
        "a random block of 4 KiB that pmemblk_write writes in an ordinary file",
        &[("libpmemblk", 2.0)],
    ),
    obj("obj-tx-1-64k", "1 word added and stored, in 64 KiB", &[("libpmemobj", 4.4)]),
    obj("obj-tx-4-64k", "4 words added and stored, in 64 KiB", &[("libpmemobj", 8.0)]),
    obj("obj-tx-16-64k", "16 words added and stored, in 64 KiB", &[("libpmemobj", 15.0)]),
    obj("obj-tx-1-16m", "1 word added and stored, in 16 MiB", &[("libpmemobj", 2.8)]),
    obj("obj-tx-4-16m", "4 words added and stored, in 16 MiB", &[("libpmemobj", 2.6)]),
    obj("obj-tx-16-16m", "16 words added and stored, in 16 MiB", &[("libpmemobj", 2.6)]),
    obj("obj-tx-1-128m", "1 word added and stored, in 128 MiB", &[("libpmemobj", 2.5)]),
    obj("obj-tx-4-128m", "4 words added and stored, in 128 MiB", &[("libpmemobj", 2.0)]),
    obj("obj-tx-16-128m", "16 words added and stored, in 128 MiB", &[("libpmemobj", 2.0)]),
    obj("obj-tx-alloc", "64 bytes allocated, filled, linked; the old ones freed", &[("libpmemobj", 4.0)]),
    obj("obj-alloc-free", "64 bytes allocated, and freed", &[("libpmemobj", 3.0)]),
    obj("obj-reserve-publish-free", "64 bytes reserved, published, and freed", &[("libpmemobj", 2.0)]),
    obj("obj-tx-empty", "a transaction without a change", &[("libpmemobj", 4.0)]),
    obj("obj-mutex", "a PMEMmutex taken and released", &[("libpmemobj", 1.0)]),
    obj("obj-persist-8", "a word made durable, in 128 MiB", &[("libpmemobj", 0.92)]),
    obj("obj-memcpy-persist-4k", "4 KiB copied durably", &[("libpmemobj", 1.0)]),
    obj("obj-btree-insert", "a random key into the example btree_map", &[("libpmemobj", 1.8)]),
    obj("obj-rbtree-insert", "a random key into the example rbtree_map", &[("libpmemobj", 3.0)]),
    obj("obj-hashmap-tx-insert", "a random key into the example hashmap_tx", &[("libpmemobj", 4.0)]),
    obj("obj-art-insert", "a random key into the example libart", &[("libpmemobj", 2.5)]),
    obj("obj-careful-1-16m", "obj-tx-1-16m with ours in careful mode", &[("libpmemobj", 1.7)]),
    obj("obj-careful-4-16m", "obj-tx-4-16m with ours in careful mode", &[("libpmemobj", 1.7)]),
    obj("obj-careful-16-16m", "obj-tx-16-16m with ours in careful mode", &[("libpmemobj", 2.0)]),
    limit(
        Group::Libpmemobj,
        "obj-threads-2",
        "commits of two threads that store a word each in 64 KiB of their own, over one thread",
        Bound::AtLeast,
        1.6,
        Unit::Times,
    ),
    limit(
        Group::Libpmemobj,
        "obj-reopen",
        "pmemobj_open of 1 GiB after SIGKILL of a process that filled the log by transactions of a word",
        Bound::AtMost,
        100.0,
        Unit::Millis,
    ),
    limit(
        Group::Libpmemobj,
        "obj-open",
        "pmemobj_open of a closed pool of 1 GiB, less the time of libpmemobj",
        Bound::AtMost,
        5.0,
        Unit::Millis,
    ),
    limit(
        Group::Libpmemobj,
        "obj-open-64g",
        "pmemobj_open of a closed pool of 64 GiB in a sparse file, less the time of libpmemobj",
        Bound::AtMost,
        5.0,
        Unit::Millis,
    ),
    limit(
        Group::Libpmemobj,
        "obj-private-mib",
        "private memory after a million transactions of a word over a pool of 1 GiB, which is open",
        Bound::AtMost,
        32.0,
        Unit::Mebibytes,
    ),
    obj_fences(
        "obj-fences-btree",
        "fences that an insert into the example btree_map waits at, checkpoints included",
        2.0,
    ),
    obj_fences(
        "obj-fences-rbtree",
        "fences that an insert into the example rbtree_map waits at, checkpoints included",
        3.8,
    ),
    obj_fences(
        "obj-fences-hashmap-tx",
        "fences that an insert into the example hashmap_tx waits at, checkpoints included",
        2.0,
    ),
    obj_fences(
        "obj-fences-art",
        "fences that an insert into the example libart waits at, checkpoints included",
        2.0,
    ),
    Workload {
        group: Group::Libpmemobj,
        name: "open-large-tx",
        what: "the slowest commit of 15 threads while one transaction holds 256 MiB in ranges of 8 bytes, and aborts",
        goal: Goal::Shown(Unit::Millis),
        on_request: true,
    },
    file_obj("file-obj-tx-1-64k", "1 word added and stored, in a file", &[("libpmemobj", 3.0)]),
    file_obj("file-obj-tx-4-64k", "4 words added and stored, in a file", &[("libpmemobj", 6.0)]),
    file_obj("file-obj-tx-alloc", "allocate, fill, link, free, in a file", &[("libpmemobj", 6.0)]),
    file_obj("file-obj-art-insert", "a random key into libart, in a file", &[("libpmemobj", 8.0)]),
    file_obj("file-obj-16", "1 word added and stored, 16 threads with a page each", &[("libpmemobj", 12.0)]),
    ratios(
        Group::PmemPrograms,
        "fio-libpmem-write-4k",
        "a random write of 4 KiB by fio's engine libpmem",
        &[("libpmem", 1.0)],
    ),
    ratios(
        Group::PmemPrograms,
        "fio-pmemblk-write-4k",
        "a random write of 4 KiB by fio's engine pmemblk",
        &[("libpmemblk", 1.2)],
    ),
    limit(
        Group::PmemPrograms,
        "abi-start",
        "start and end of a program with libpmem, -2, -log, -blk and -pool, less the time of PMDK's",
        Bound::AtMost,
        2.0,
        Unit::Millis,
    ),
    limit(
        Group::PmemPrograms,
        "abi-size-mib",
        "bytes of the largest shared object of libpmem, -2, -log, -blk and -pool",
        Bound::AtMost,
        1.0,
        Unit::Mebibytes,
    ),
];

/// A workload of libpmem's calls.
const fn pmem(name: &'static str, what: &'static str, goals: &'static [(&'static str, f64)]) -> Workload {
    ratios(Group::Libpmem, name, what, goals)
}

/// A workload of the calls of libpmemlog and libpmemblk.
const fn pools(name: &'static str, what: &'static str, goals: &'static [(&'static str, f64)]) -> Workload {
    ratios(Group::Libpools, name, what, goals)
}

/// A workload of libpmemobj's calls.
const fn obj(name: &'static str, what: &'static str, goals: &'static [(&'static str, f64)]) -> Workload {
    ratios(Group::Libpmemobj, name, what, goals)
}

/// A workload of libpmemobj's calls whose fences with something to wait for are counted, checkpoints included.
const fn obj_fences(name: &'static str, what: &'static str, at_most: f64) -> Workload {
    limit(Group::Libpmemobj, name, what, Bound::AtMost, at_most, Unit::Fences)
}

/// A workload of libpmemobj's calls on an ordinary file.
const fn file_obj(name: &'static str, what: &'static str, goals: &'static [(&'static str, f64)]) -> Workload {
    ratios(Group::FileLibpmemobj, name, what, goals)
}

/// The workload of that name.
pub(crate) fn workload(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

/// The rows of a group that run when no row is named.
pub(crate) fn default_rows(group: Group) -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().filter(move |row| row.group == group && !row.on_request).map(|row| row.name)
}

/// Returns true if a workload is compared with that of a peer.
pub(crate) fn is_compared(name: &str, peer: &str) -> bool {
    goal(name, peer).is_some()
}

/// The ratio that a workload has to reach against a peer.
pub(crate) fn ratio(name: &str, peer: &str) -> Option<f64> {
    goal(name, peer).filter(|ratio| *ratio != NO_TARGET)
}

fn goal(name: &str, peer: &str) -> Option<f64> {
    let Goal::Ratios(list) = &workload(name)?.goal else { return None };
    list.iter().find(|(engine, _)| *engine == peer).map(|(_, ratio)| *ratio)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn limit_is_inclusive() {
        let at_most = Limit { limit: 2.0, unit: Unit::Times, bound: Bound::AtMost };
        assert_eq!([1.9, 2.0, 2.1].map(|v| at_most.met(v)), [true, true, false]);
        let at_least = Limit { bound: Bound::AtLeast, ..at_most };
        assert_eq!([1.9, 2.0, 2.1].map(|v| at_least.met(v)), [false, true, true]);
        let exactly = Limit { bound: Bound::Exactly, ..at_least };
        assert_eq!([1.9, 2.0, 2.1].map(|v| exactly.met(v)), [false, true, false]);
    }

    #[test]
    fn ratios_are_found_by_workload_and_peer() {
        assert_eq!(ratio("art-lookup-words", "volatile-art"), Some(0.87));
        assert_eq!(ratio("art-lookup-words", "sqlite"), None);
        assert_eq!(ratio("crash-images", "sqlite"), None);
        assert_eq!(ratio("tx-16-wide", "libpmemobj"), None);
        assert!(is_compared("tx-16-wide", "libpmemobj") && !is_compared("tx-16-wide", "sqlite"));
    }
}
