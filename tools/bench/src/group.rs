//! The groups of workloads, each run in a process of its own.
//!
//! Each group has a process of its own for three reasons. libpmemobj decides when it is loaded if files are persistent
//! memory. A group does not find its memory used up or fragmented by the one before. A peer that crashes ends only its
//! own group.

use clap::ValueEnum;

/// The durability of a group: the operation that makes a store durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Cache-line flushes and fences on tmpfs: DRAM stands in for persistent memory.
    Line,
    /// Synced writes to an ordinary file.
    Commit,
}

/// Workloads that run in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// tx-1, tx-4, tx-16, tx-alloc, alloc-free.
    Transactions,
    /// tx-1, tx-4, tx-16, tx-alloc and alloc-free on 64 KiB and on 4 MiB, against the floor.
    Floors,
    /// cover-tx-*.
    Covered,
    /// art-*-random.
    Random,
    /// art-*-words.
    Words,
    /// pvec-push, pdeque-push-pop, pmap-insert, phashmap-insert.
    Containers,
    /// file-tx-1, file-tx-alloc, file-art-insert.
    File,
    /// file-put.
    Put,
    /// later-1.
    Later,
    /// file-put-16 and file-put-16-sequential.
    PutMany,
    /// file-counter-16.
    Counter,
    /// tx-puts-*.
    TxPuts,
    /// load-words and file-bytes.
    Load,
    /// reopen-kill.
    Reopen,
    /// store-*.
    Store,
    /// read-while-writing and read-while-writing-put.
    ReadWhileWriting,
    /// read-past-ram.
    PastRam,
    /// Workloads without a peer.
    Alone,
    /// platform-*.
    Platform,
    /// blk-*, btt-* and dax-*.
    Blocks,
    /// log-*.
    Appends,
    /// file-blk-*.
    FileBlocks,
    /// atomic-open.
    Opening,
    /// nbd-*.
    Nbd,
    /// pmem-* and pmem2-*.
    Libpmem,
    /// abi-log-* and abi-blk-* on memory.
    Libpools,
    /// abi-log-append-file and abi-blk-write-4k-file.
    FileLibpools,
    /// obj-*, through the C ABI.
    Libpmemobj,
    /// file-obj-*.
    FileLibpmemobj,
    /// fio-libpmem-write-4k, fio-pmemblk-write-4k, abi-start and abi-size-mib.
    PmemPrograms,
}

/// A table of results, which has a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Table {
    /// Transactions, trees, stores, and commands for machines.
    Foundation,
    /// Volumes and logs.
    Volumes,
    /// The libraries of the C ABI.
    Capi,
}

impl Table {
    /// All tables.
    pub(crate) const ALL: [Table; 3] = [Table::Foundation, Table::Volumes, Table::Capi];

    /// Returns the name of its file.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Table::Foundation => "foundation.json",
            Table::Volumes => "volumes.json",
            Table::Capi => "capi.json",
        }
    }
}

impl Group {
    /// All groups, in the order in which they run.
    pub(crate) const ALL: [Group; 30] = [
        Group::Transactions,
        Group::Floors,
        Group::Covered,
        Group::Random,
        Group::Words,
        Group::Containers,
        Group::File,
        Group::Put,
        Group::Later,
        Group::PutMany,
        Group::Counter,
        Group::TxPuts,
        Group::Load,
        Group::Reopen,
        Group::Store,
        Group::ReadWhileWriting,
        Group::PastRam,
        Group::Alone,
        Group::Platform,
        Group::Blocks,
        Group::Appends,
        Group::FileBlocks,
        Group::Opening,
        Group::Nbd,
        Group::Libpmem,
        Group::Libpools,
        Group::FileLibpools,
        Group::Libpmemobj,
        Group::FileLibpmemobj,
        Group::PmemPrograms,
    ];

    /// Returns the table of its rows.
    pub(crate) fn table(self) -> Table {
        match self {
            Group::Blocks | Group::Appends | Group::FileBlocks | Group::Opening | Group::Nbd => {
                Table::Volumes
            }
            Group::Libpmem
            | Group::Libpools
            | Group::FileLibpools
            | Group::Libpmemobj
            | Group::FileLibpmemobj
            | Group::PmemPrograms => Table::Capi,
            _ => Table::Foundation,
        }
    }

    /// Returns the durability of the group.
    pub(crate) fn durability(self) -> Durability {
        match self {
            Group::Transactions
            | Group::Floors
            | Group::Covered
            | Group::Random
            | Group::Words
            | Group::Containers
            | Group::ReadWhileWriting
            | Group::Alone
            | Group::Blocks
            | Group::Appends
            | Group::Opening
            | Group::Nbd
            | Group::Libpmem
            | Group::Libpools
            | Group::Libpmemobj
            | Group::PmemPrograms => Durability::Line,
            Group::File
            | Group::Put
            | Group::Later
            | Group::PutMany
            | Group::Counter
            | Group::TxPuts
            | Group::Load
            | Group::Reopen
            | Group::PastRam
            | Group::Platform
            | Group::Store
            | Group::FileBlocks
            | Group::FileLibpools
            | Group::FileLibpmemobj => Durability::Commit,
        }
    }
}
