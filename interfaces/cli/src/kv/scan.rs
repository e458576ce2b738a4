//! `lode kv scan` and `export`.

use crate::failure::Failure;
use crate::hint::store_hint;
use crate::kv::open_to_read;
use crate::kv::range::RangeArgs;
use crate::kv::tree::TreeArgs;
use crate::output::Output;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use lode_index::{Direction, Entry};
use lode_kv::{Format, KeyRange, KvError, StoreReader, escape};
use serde_json::json;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::PathBuf;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("key", "a key, one object a line; key_b64, in base64, if it is not UTF-8"),
    ("value", "its value; value_b64, in base64, if it is not UTF-8"),
];

pub(crate) const EXPORT_ABOUT: &str = "\
Print all keys and values, in byte order of the keys.

Checksums prove that all printed entries are as they were stored. Damage is skipped: for each one the keys before and \
after it are reported, and the exit code is 3. It is 0 only when as many keys were printed as the tree has counted.

If another process has the pool open, that process serves the keys as they were at one commit.";

pub(crate) const SCAN_ABOUT: &str = "\
Print the keys and values of a range, in byte order of the keys.

Checksums prove that all printed entries are as they were stored. Damage is skipped: for each one the keys before and \
after it are reported, and the exit code is 3. A scan of all keys is compared with their number, as an export is. A \
scan of a part is not, unless --verify is given: damage that emptied a slot of the tree hides the keys below it.

If another process has the pool open, that process serves the keys as they were at one commit.";

/// Largest number of damages that are reported one by one.
const REPORTED_MAX: u64 = 20;

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The pool's file or device
    pool: PathBuf,
    /// Format of a line
    #[arg(long, default_value = "tsv")]
    format: ExportFormat,
    #[command(flatten)]
    tree: TreeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// Key, TAB, value, with the escapes \t \n \\ \xHH
    Tsv,
    /// {"key", "value"}, or with "key_b64" and "value_b64" for what is not UTF-8
    Jsonl,
}

#[derive(Args, Debug)]
pub(crate) struct Scan {
    /// The pool's file or device
    pool: PathBuf,
    #[command(flatten)]
    range: RangeArgs,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print at most N keys
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Prove that no key is missing: read all nodes of the tree, and exit with 3 if they do not reach all keys
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    tree: TreeArgs,
}

/// The output of a scan, and the damage found on the way.
struct Printer<'a> {
    scan: &'a Scan,
    what: &'static str,
    format: Format,
    out: BufWriter<StdoutLock<'static>>,
    progress: Progress,
    /// Number of keys printed.
    count: u64,
    /// The last printed key.
    last: Option<Vec<u8>>,
    /// Damages found since then.
    pending: Vec<KvError>,
    damages: u64,
}

pub(crate) fn export(export: &Export, json: bool) -> Result<Output, Failure> {
    let jsonl = json || export.format == ExportFormat::Jsonl;
    let (pool, tree, range) = (export.pool.clone(), export.tree.clone(), RangeArgs::default());
    let whole = Scan { pool, range, reverse: false, limit: None, verify: false, tree };
    print(&whole, jsonl, json, "exporting")
}

pub(crate) fn scan(scan: &Scan, json: bool) -> Result<Output, Failure> {
    print(scan, json, json, "scanning")
}

fn print(scan: &Scan, jsonl: bool, json: bool, what: &'static str) -> Result<Output, Failure> {
    let bounds = scan.range.bounds_as(|key| scan.tree.bytes(key))?;
    let store = open_to_read(&scan.pool, &scan.tree, what)?;
    let mut printer = Printer {
        scan,
        what,
        format: if jsonl { Format::Jsonl } else { Format::Tsv },
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        progress: Progress::counter("keys printed"),
        count: 0,
        last: None,
        pending: Vec::new(),
        damages: 0,
    };
    let is_whole = printer.print_range(&store, bounds, json)?;
    printer.out.flush().map_err(Failure::stdout)?;
    let Printer { count, damages, .. } = printer;
    let pool = scan.pool.display();
    if damages > 0 {
        let why = format!(
            "{pool}: {count} keys are printed, and damage in {damages} places hides others; run `lode pool check` to see \
             it, and `lode pool repair`, which keeps all sound data"
        );
        return Err(Failure::damage(what, why));
    }
    let failure = |error: KvError| Failure::of_pool(what, &scan.pool)(error);
    let all = if scan.verify { store.count_proven() } else { store.count() }.map_err(failure)?;
    if is_whole && all != count {
        let why = format!(
            "{pool}: {count} keys are printed, and the tree has counted {all}: keys are lost, or the count is damaged; \
             run `lode pool check` to see, and `lode pool repair`, which keeps all sound data"
        );
        return Err(Failure::damage(what, why));
    }
    Ok(Output::empty())
}

impl Printer<'_> {
    /// Prints the entries of the range. Returns true if it went through the whole tree.
    fn print_range(&mut self, store: &StoreReader, bounds: KeyRange, json: bool) -> Result<bool, Failure> {
        let limit = self.scan.limit.unwrap_or(u64::MAX);
        if limit == 0 {
            return Ok(false);
        }
        let mut printed = Ok(());
        let direction = if self.scan.reverse { Direction::Backward } else { Direction::Forward };
        let is_end = store.scan(bounds, direction, |entry| {
            match entry {
                Ok(entry) => printed = self.print_entry(entry, json),
                Err(error) => {
                    self.damages += 1;
                    if self.damages <= REPORTED_MAX {
                        self.pending.push(error);
                    }
                }
            }
            printed.is_ok() && self.count < limit
        });
        printed?;
        let is_end = is_end.map_err(Failure::of_pool(self.what, &self.scan.pool))?;
        if is_end {
            self.report_damages(None, json);
        }
        Ok(is_end && self.scan.range.is_all())
    }

    fn print_entry(&mut self, entry: Entry, json: bool) -> Result<(), Failure> {
        self.report_damages(Some(&entry.key), json);
        let line = self.format.print(&entry.key, &entry.value);
        self.out.write_all(line.as_bytes()).map_err(Failure::stdout)?;
        self.progress.add(1);
        self.count += 1;
        self.last = Some(entry.key);
        Ok(())
    }

    /// Reports each damage that lies between the last key and `next`.
    fn report_damages(&mut self, next: Option<&[u8]>, json: bool) {
        for error in std::mem::take(&mut self.pending) {
            let ends = [self.last.as_deref(), next].map(|key| key.map(escape));
            let [after, before] = if self.scan.reverse { [&ends[1], &ends[0]] } else { [&ends[0], &ends[1]] };
            let range = match (after, before) {
                (None, None) => "keys".to_owned(),
                (Some(after), None) => format!("keys after {after}"),
                (None, Some(before)) => format!("keys before {before}"),
                (Some(after), Some(before)) => format!("keys after {after} and before {before}"),
            };
            let pool = self.scan.pool.display();
            let damage = format!("{error}{}", store_hint(&error));
            self.progress.eprintln(&match json {
                true => json!({ "damage": damage, "after": after, "before": before }).to_string(),
                false => format!("lode: {}: {pool}: {range} are skipped: {damage}", self.what),
            });
        }
    }
}
