//! The rows of a run, and its size.

use crate::group::{Group, Table};
use crate::targets::{WORKLOADS, default_rows, workload};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use std::collections::HashSet;
use std::time::Duration;

/// A group, and the rows of it that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The group.
    pub(crate) group: Group,
    /// The names of the rows. Groups whose rows share a tree or a pool run all of them.
    pub(crate) rows: Vec<&'static str>,
}

impl Selection {
    /// Returns the groups and rows that `names` name, in the order of [`Group::ALL`]: all that run by default if there
    /// are none. The name of a group or of a table stands for those of its rows that run by default, and so does the
    /// start of rows' names, up to a hyphen.
    ///
    /// # Errors
    /// Fails if a name is that of no table, group or row, and no row's begins with it.
    pub(crate) fn of_names(names: &[String]) -> Result<Vec<Selection>> {
        let mut rows: HashSet<&'static str> = HashSet::new();
        for name in names {
            match (Table::from_str(name, false), Group::from_str(name, false), workload(name)) {
                (Ok(table), ..) => {
                    let groups = Group::ALL.iter().filter(|group| group.table() == table);
                    rows.extend(groups.flat_map(|group| default_rows(*group)));
                }
                (_, Ok(group), _) => rows.extend(default_rows(group)),
                (.., Some(row)) => drop(rows.insert(row.name)),
                _ => {
                    let start = format!("{name}-");
                    let all = Group::ALL.iter().flat_map(|group| default_rows(*group));
                    let begun: Vec<_> = all.filter(|row| row.starts_with(&start)).collect();
                    ensure!(!begun.is_empty(), "no table, group or row is called {name}");
                    rows.extend(begun);
                }
            }
        }
        if names.is_empty() {
            rows = Group::ALL.iter().flat_map(|group| default_rows(*group)).collect();
        }
        let rows_of = |group: Group| {
            let of_group = WORKLOADS.iter().filter(|row| row.group == group).map(|row| row.name);
            of_group.filter(|row| rows.contains(row)).collect()
        };
        let all = Group::ALL.iter().map(|group| Selection { group: *group, rows: rows_of(*group) });
        Ok(all.filter(|selection| !selection.rows.is_empty()).collect())
    }

    /// Returns true if a row runs.
    pub(crate) fn has(&self, row: &str) -> bool {
        self.rows.contains(&row)
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
    /// Laps of each engine in the workloads whose laps take seconds.
    pub(crate) long_rounds: usize,
    /// Laps of each engine in `load-words`, `store-*` and `platform-*`.
    pub(crate) load_rounds: usize,
    /// Size of `store-*`, as a part of redb's own bench.
    pub(crate) scale: f64,
    /// Commits of a process before it is killed.
    pub(crate) commits: usize,
    /// Keys of a store before a lap of `tx-puts-*`, `reopen-kill` or `read-while-writing` begins.
    pub(crate) store_keys: usize,
    /// Gets of `read-past-ram` that are timed.
    pub(crate) cold_gets: usize,
    /// Number by which the puts of `tx-puts-*` are divided.
    pub(crate) put_divisor: usize,
    /// Time after which a lap of ours is given up.
    pub(crate) overdue: Duration,
    /// Bytes of all blocks of a volume.
    pub(crate) blocks_len: u64,
    /// Reads, writes or appends in a lap on a volume or log.
    pub(crate) block_accesses: usize,
    /// Length of a lap of a client of a volume.
    pub(crate) client_lap: Duration,
    /// Size of the pool that is opened after a crash.
    pub(crate) opened_len: u64,
    /// Transactions of a process on a pool of libpmemobj before it is killed.
    pub(crate) reopened_transactions: u64,
    /// Words that one transaction of `open-large-tx` holds.
    pub(crate) held_words: u64,
    /// Inserts of `obj-fences-*`.
    pub(crate) counted_inserts: u64,
    /// Sockets of the machine of `platform-1536`.
    pub(crate) sockets: u32,
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
            long_rounds: 5,
            load_rounds: 3,
            scale: 0.1,
            commits: 1000,
            store_keys: 1_000_000,
            cold_gets: 500,
            put_divisor: 1,
            overdue: Duration::from_secs(20),
            blocks_len: 256 << 20,
            block_accesses: 100_000,
            client_lap: Duration::from_secs(2),
            opened_len: 16 << 30,
            reopened_transactions: 60_000,
            held_words: 32 << 20,
            counted_inserts: 300_000,
            sockets: 64,
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
            long_rounds: 2,
            load_rounds: 1,
            scale: 0.001,
            commits: 10,
            store_keys: 2000,
            cold_gets: 100,
            put_divisor: 1000,
            overdue: Duration::from_secs(20),
            blocks_len: 16 << 20,
            block_accesses: 500,
            client_lap: Duration::from_millis(100),
            opened_len: 64 << 20,
            reopened_transactions: 1000,
            held_words: 10_000,
            counted_inserts: 2000,
            sockets: 2,
        }
    }
}

/// Threads of the workloads that have many.
pub(crate) const THREADS: usize = 16;

#[cfg(test)]
mod test {
    use super::*;

    fn selected(names: &[&str]) -> Result<Vec<Selection>> {
        Selection::of_names(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn rows_and_groups_are_selected_by_name() {
        let one = selected(&["tx-puts-1m"]).unwrap();
        assert_eq!(one, [Selection { group: Group::TxPuts, rows: vec!["tx-puts-1m"] }]);
        let both = selected(&["put", "tx-4"]).unwrap();
        assert_eq!(both[0], Selection { group: Group::Transactions, rows: vec!["tx-4"] });
        assert_eq!(both[1], Selection { group: Group::Put, rows: vec!["file-put"] });
        let fences = selected(&["obj-fences"]).unwrap();
        let maps = ["btree", "rbtree", "hashmap-tx", "art"].map(|map| format!("obj-fences-{map}"));
        assert_eq!(fences[0].rows, maps);
        assert!(selected(&["tx-3"]).is_err() && selected(&["obj-fen"]).is_err());
    }

    #[test]
    fn table_stands_for_its_groups() {
        let groups = |names: &[&str]| {
            selected(names).unwrap().into_iter().map(|selection| selection.group).collect::<Vec<_>>()
        };
        let volumes = [Group::Blocks, Group::Appends, Group::FileBlocks, Group::Opening, Group::Nbd];
        assert_eq!(groups(&["volumes"]), volumes);
        let capi = [
            Group::Libpmem,
            Group::Libpools,
            Group::FileLibpools,
            Group::Libpmemobj,
            Group::FileLibpmemobj,
            Group::PmemPrograms,
        ];
        assert_eq!(groups(&["capi"]), capi);
        assert_eq!(groups(&["foundation", "volumes", "capi"]), Group::ALL);
    }

    #[test]
    fn all_groups_run_by_default_without_rows_on_request() {
        let all = selected(&[]).unwrap();
        assert_eq!(all.iter().map(|selection| selection.group).collect::<Vec<_>>(), Group::ALL);
        assert!(!all.iter().any(|selection| selection.has("tx-puts-1m")));
    }
}
