//! The groups of workloads, each run in a process of its own, and the size of a run.
//!
//! Each group has a process of its own for three reasons. libpmemobj decides when it is loaded if files are persistent
//! memory. A group does not find its memory used up or fragmented by the one before. A peer that crashes ends only its
//! own group.

use clap::ValueEnum;
use std::time::Duration;

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
    /// art-*-random.
    Random,
    /// art-*-words.
    Words,
    /// file-tx-1, file-tx-alloc, file-art-insert.
    File,
    /// file-put.
    Put,
    /// file-put-16 and file-put-16-sequential.
    PutMany,
    /// Workloads without a peer.
    Alone,
}

impl Group {
    /// All groups, in the order in which they run.
    pub(crate) const ALL: [Group; 7] = [
        Group::Transactions,
        Group::Random,
        Group::Words,
        Group::File,
        Group::Put,
        Group::PutMany,
        Group::Alone,
    ];

    /// Returns the durability of the group.
    pub(crate) fn durability(self) -> Durability {
        match self {
            Group::Transactions | Group::Random | Group::Words | Group::Alone => Durability::Line,
            Group::File | Group::Put | Group::PutMany => Durability::Commit,
        }
    }
}

/// Amount of each workload in a lap, and number of laps of each engine.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// Laps of each engine.
    pub(crate) rounds: usize,
    /// Transactions in a lap: all laps together wrap a log ring of 4 MiB more than 10 times even with records of
    /// one line.
    pub(crate) transactions: usize,
    /// True if the pools of trees are touched before they are timed. Neither engine does so by default.
    pub(crate) touched: bool,
    /// Random keys.
    pub(crate) keys: usize,
    /// English words, at most.
    pub(crate) words: usize,
    /// Transactions or inserts in a lap on a file.
    pub(crate) file_transactions: usize,
    /// Puts in a lap of one thread.
    pub(crate) puts: usize,
    /// Length of a lap of many threads.
    pub(crate) lap: Duration,
    /// Walks along a list in a lap.
    pub(crate) walks: usize,
    /// Seconds of an exploration of crashes.
    pub(crate) exploration: f64,
}

impl Size {
    /// Returns the size of a full run, from which the reported figures come.
    pub(crate) fn full(rounds: usize, touched: bool) -> Size {
        Size {
            rounds,
            transactions: 100_000,
            touched,
            keys: 1_000_000,
            words: usize::MAX,
            file_transactions: 200,
            puts: 500,
            lap: Duration::from_millis(400),
            walks: 2000,
            exploration: 5.0,
        }
    }

    /// Every row once, in seconds: shows that all workloads still run, and measures nothing.
    pub(crate) fn quick() -> Size {
        Size {
            rounds: 3,
            transactions: 1000,
            touched: false,
            keys: 2000,
            words: 2000,
            file_transactions: 5,
            puts: 5,
            lap: Duration::from_millis(10),
            walks: 10,
            exploration: 0.3,
        }
    }
}

/// Threads of the workloads that have many.
pub(crate) const THREADS: usize = 16;
