//! The figures in README.md: tables that are made of `docs/figures.json`, the record of a run of `make bench`.
//!
//! ```text
//!   lode-bench --json > FILE      cargo xtask figures FILE --> docs/figures.json --> README.md
//!                                 cargo xtask tidy: README.md has the tables of the record
//! ```

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

pub(crate) const RECORD: &str = "docs/figures.json";
pub(crate) const README: &str = "README.md";
const BEGIN: &str = "<!-- figures -->\n";
const END: &str = "<!-- end of figures -->\n";

/// The stores, as the bench names them, and the heads of their columns.
const STORES: [(&str, &str); 4] =
    [("sqlite", "SQLite"), ("lmdb", "LMDB"), ("redb", "redb"), ("rocksdb", "RocksDB")];
/// The libraries of PMDK.
const PMDK: [&str; 3] = ["libpmemobj", "libpmemblk", "libpmemlog"];

/// Rows of the table of stores, with their descriptions. All rows have to be in the record.
const STORE_ROWS: [(&str, &str); 12] = [
    ("file-put", "a durable put of 100 bytes, one thread"),
    ("file-put-16", "durable puts, 16 threads"),
    ("file-counter-16", "durable updates of one key, 16 threads"),
    ("tx-puts-100k", "a put in a transaction of 100,000"),
    ("reopen-kill", "first get after a kill, a million keys"),
    ("store-bulk", "a pair of a bulk load, 24 + 150 bytes"),
    ("store-reads", "a get of a random key"),
    ("store-ranges", "a seek and 10 pairs"),
    ("store-removals", "a removal, half of all keys at once"),
    ("store-len", "the number of keys"),
    ("store-size", "bytes on disk a key, after the removals"),
    ("store-compacted-size", "bytes on disk a key, compacted"),
];

/// Rows of the table of PMDK.
const PMDK_ROWS: [(&str, &str); 10] = [
    ("tx-1", "a transaction that changes 8 bytes"),
    ("tx-16", "a transaction that changes 16 ranges of 8 bytes"),
    ("tx-alloc", "a transaction that allocates, fills, links, and frees the old object"),
    ("art-insert-random", "an insert into a radix tree, random 8-byte key"),
    ("art-lookup-random", "a lookup in it"),
    ("file-tx-1", "a transaction that changes 8 bytes, in an ordinary file"),
    ("blk-write-4k", "an atomic write of a 4 KiB block"),
    ("blk-read-4k", "a read of a 4 KiB block"),
    ("log-append-64", "a durable append of 64 bytes"),
    ("log-appendv-64x64", "a durable append of 64 records of 64 bytes"),
];

/// Pairs of the bulk load of redb's own bench.
const PAIRS: f64 = 5_000_000.0;

/// A run of the bench, as `--json` prints it; other fields are left out.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    machine: Machine,
    seed: u64,
    quick: bool,
    /// Laps of each engine in a row.
    rounds: u64,
    /// In those whose laps take seconds.
    long_rounds: u64,
    /// In loads, and what follows them.
    load_rounds: u64,
    /// Number of pairs in those, as a part of [`PAIRS`].
    scale: f64,
    foundation: Vec<Row>,
    volumes: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Machine {
    cpu: String,
    cores: u64,
    ghz: f64,
    memory_gib: f64,
    kernel: String,
    line_file_system: String,
    file_file_system: String,
    peers: Vec<String>,
    date: String,
    load: (String, String),
}

/// A workload of Lodestone and one peer.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    work: String,
    peer: Option<String>,
    ours: Option<f64>,
    theirs: Option<f64>,
    unit: String,
    ratio: Option<f64>,
}

/// Takes over the run in `file` if there is one, and writes the tables of the record into README.md.
///
/// # Errors
/// Fails for a quick run, and if a row of the tables was not measured.
pub(crate) fn write(workspace: &Workspace, file: Option<&Path>) -> Result<()> {
    let record = workspace.root.join(RECORD);
    if let Some(file) = file {
        let run = Record::parse(&read(file)?)?;
        run.tables()?;
        fs::write(&record, serde_json::to_string_pretty(&run)? + "\n")?;
    }
    let readme = workspace.root.join(README);
    let text = with_tables(&read(&readme)?, &read(&record)?)?;
    fs::write(&readme, text).with_context(|| readme.display().to_string())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Returns the text of README.md with the tables of the record.
pub(crate) fn with_tables(readme: &str, record: &str) -> Result<String> {
    let (before, rest) = readme.split_once(BEGIN).context("README.md has no begin of the figures")?;
    let (_, after) = rest.split_once(END).context("README.md has no end of the figures")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", Record::parse(record)?.tables()?))
}

impl Record {
    fn parse(text: &str) -> Result<Record> {
        let mut record: Record = serde_json::from_str(text).context("no output of lode-bench --json")?;
        // The rest is the name of a build.
        record
            .machine
            .kernel
            .truncate(record.machine.kernel.find('-').unwrap_or(record.machine.kernel.len()));
        // Figures without a peer are in no table.
        [&mut record.foundation, &mut record.volumes]
            .into_iter()
            .for_each(|rows| rows.retain(|row| row.peer.is_some()));
        anyhow::ensure!(!record.quick, "a quick run measures nothing");
        Ok(record)
    }

    fn row(&self, work: &str, peer: &str) -> Result<&Row> {
        let mut rows = self.foundation.iter().chain(&self.volumes);
        rows.find(|row| row.work == work && row.peer.as_deref() == Some(peer))
            .with_context(|| format!("the run has no row {work} with {peer}: measure it"))
    }

    fn tables(&self) -> Result<String> {
        let Machine { cpu, cores, kernel, line_file_system, file_file_system, peers, date, load, .. } =
            &self.machine;
        let day = date.split(' ').next().unwrap_or_default();
        let mut text = format!(
            "Medians of {} rounds of `make bench`, {} where a round takes seconds and {} of bulk loads, which are of {} pairs, and what\n\
             follows them. Lodestone and its peers run in turn. On {day}: {cores} virtual CPUs of an {cpu},\n\
             Linux {kernel} (load average {} before the run, {} after it). The best of a row is bold; `-` was not measured.\n",
            self.rounds,
            self.long_rounds,
            self.load_rounds,
            digits(PAIRS * self.scale),
            load.0,
            load.1,
        );
        text += &format!(
            "\nStores, in a file on {file_file_system}, synced:\n\n| |Lodestone|{}|\n|---|---|",
            STORES.map(|(_, name)| name).join("|")
        );
        text += &"---|".repeat(STORES.len());
        text.push('\n');
        for (work, what) in STORE_ROWS {
            // A peer that has no such row is left empty.
            let rows: Vec<Option<&Row>> = STORES.iter().map(|(peer, _)| self.row(work, peer).ok()).collect();
            let first = rows
                .iter()
                .flatten()
                .next()
                .with_context(|| format!("the run has no row {work}: measure it"))?;
            let values =
                [first.ours].into_iter().chain(rows.iter().map(|row| row.and_then(|row| row.theirs)));
            text += &self.line(what, &first.unit, &values.collect::<Vec<_>>(), "");
        }
        text += &format!(
            "\nPMDK, on {line_file_system} in DRAM, which stands in for persistent memory:\n\n| |Lodestone|PMDK|ratio|\n|---|---|---|---|\n"
        );
        for (work, what) in PMDK_ROWS {
            let mut rows = PMDK.iter().filter_map(|peer| self.row(work, peer).ok());
            let row = rows.next().with_context(|| format!("the run has no row {work}: measure it"))?;
            let ratio = row.ratio.map_or("N/A".to_owned(), digits);
            text += &self.line(what, &row.unit, &[row.ours, row.theirs], &format!(" {ratio} |"));
        }
        text += &format!(
            "\nThe run is [docs/figures.json](docs/figures.json), with\n{}. [The bench](tools/bench/README.md) has more rows, and\n\
             says what makes them fair.\n",
            versions(peers)
        );
        Ok(text)
    }

    /// Returns a line of a table, with the best value bold.
    fn line(&self, what: &str, unit: &str, values: &[Option<f64>], end: &str) -> String {
        let known = values.iter().flatten().copied();
        let best = if unit.ends_with("/s") { known.reduce(f64::max) } else { known.reduce(f64::min) };
        let cells = values.iter().map(|value| match value {
            Some(value) if Some(*value) == best => format!(" **{}** |", self.shown(*value, unit)),
            Some(value) => format!(" {} |", self.shown(*value, unit)),
            None => " - |".to_owned(),
        });
        format!("| {what} |{}{end}\n", cells.collect::<String>())
    }

    /// Formats a value in a unit that people read.
    fn shown(&self, value: f64, unit: &str) -> String {
        let (value, unit) = match unit {
            "cycles" => (value / self.machine.ghz, "ns"),
            "us" if value < 1.0 => (value * 1e3, "ns"),
            "us" if value >= 1e3 => (value / 1e3, "ms"),
            "bytes" if value >= 1e6 => (value / f64::from(1 << 20), "MiB"),
            _ => (value, unit),
        };
        format!("{} {unit}", digits(value))
    }
}

/// Lists the versions of the peers in the tables, with line breaks.
fn versions(peers: &[String]) -> String {
    let mut lines = vec![String::new()];
    let names = STORES.iter().map(|(_, name)| *name).chain(PMDK);
    for peer in peers.iter().filter(|peer| names.clone().any(|name| peer.starts_with(name))) {
        let last = lines.last_mut().filter(|line| line.len() + peer.len() < 110);
        match last {
            Some(line) if line.is_empty() => line.push_str(peer),
            Some(line) => *line = format!("{line}, {peer}"),
            None => lines.push(peer.clone()),
        }
    }
    lines.join(",\n")
}

/// Formats three digits that matter, thousands grouped.
fn digits(value: f64) -> String {
    let places = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

#[cfg(test)]
pub(crate) mod test {
    use super::*;
    use serde_json::{Value, json};

    /// Returns the text of a record with all rows.
    pub(crate) fn record() -> String {
        let row = |work: &str, peer: &str, theirs: Value, unit: &str| json!({"work": work, "peer": peer, "ours": 84.25, "theirs": theirs, "unit": unit, "ratio": 1.5});
        let of_stores = STORE_ROWS.iter().flat_map(|(work, _)| {
            [row(work, "sqlite", 2_000.into(), "us"), row(work, "redb", Value::Null, "us")]
        });
        let of_pmdk = PMDK_ROWS.iter().map(|(work, _)| row(work, "libpmemobj", 60.into(), "cycles"));
        let machine = json!({"cpu": "CPU", "cores": 2, "ghz": 2.5, "memory_gib": 8.0, "kernel": "6.1-of-ours", "line_file_system": "tmpfs",
            "file_file_system": "ext4", "peers": ["SQLite 3"], "date": "2026-11-26 09:00 UTC", "load": ["0.10", "2.00"]});
        json!({"machine": machine, "seed": 1, "quick": false, "rounds": 15, "long_rounds": 5, "load_rounds": 3, "scale": 0.1, "volumes": [],
            "foundation": of_stores.chain(of_pmdk).collect::<Vec<_>>()})
        .to_string()
    }

    #[test]
    fn tables_show_best_and_units() {
        let text = with_tables(&format!("a\n{BEGIN}stale\n{END}z\n"), &record()).unwrap();
        assert!(
            text.starts_with(&format!("a\n{BEGIN}Medians of 15")) && text.ends_with(&format!("{END}z\n")),
            "{text}"
        );
        assert!(
            !text.contains("stale")
                && text.contains(
                    "3 of bulk loads, which are of 500,000 pairs, and what\nfollows them. Lodestone and its peers run in turn. On 2026-11-26: 2 virtual CPUs of an CPU,\n\
                    Linux 6.1 (load average 0.10 before"
                ),
            "{text}"
        );
        assert!(text.contains("one thread | **84.2 us** | 2.00 ms | - | - | - |\n"), "{text}");
        assert!(text.contains("changes 8 bytes | 33.7 ns | **24.0 ns** | 1.50 |\n"), "{text}");
    }

    #[test]
    fn quick_and_partial_runs_are_refused() {
        assert!(Record::parse(&record().replace("\"quick\":false", "\"quick\":true")).is_err());
        let partial = record().replace("\"tx-1\"", "\"tx-2\"");
        let error = Record::parse(&partial).unwrap().tables().unwrap_err().to_string();
        assert!(error.contains("no row tx-1"), "{error}");
    }

    #[test]
    fn digits_that_matter() {
        assert_eq!(
            [0.0123, 1.5, 84.25, 1234.5, 1e6].map(digits),
            ["0.01", "1.50", "84.2", "1,234", "1,000,000"]
        );
    }
}
