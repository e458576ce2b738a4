//! `lode kv scan` and `export`.

use crate::answer::Answer;
use crate::failure::Failure;
use crate::kv::open_to_read;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use lode_index::kv::{Format, Store};
use lode_index::{Entry, IndexError, prefix_end};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("key", "a key, one object a line; key_b64, in base64, where it is not UTF-8"),
    ("value", "its value; value_b64, in base64, where it is not UTF-8"),
];

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The pool's file or device
    pool: PathBuf,
    /// How a line holds a pair
    #[arg(long, default_value = "tsv")]
    format: ExportFormat,
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
    /// Only keys that begin with P
    #[arg(long, value_name = "P")]
    prefix: Option<OsString>,
    /// Only A and keys after it
    #[arg(long, value_name = "A")]
    from: Option<OsString>,
    /// Only keys before B
    #[arg(long, value_name = "B")]
    to: Option<OsString>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// At most N keys
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub(crate) fn export(export: &Export, json: bool) -> Result<Answer, Failure> {
    let jsonl = json || export.format == ExportFormat::Jsonl;
    let whole =
        Scan { pool: export.pool.clone(), prefix: None, from: None, to: None, reverse: false, limit: None };
    print(&whole, jsonl, "exporting")
}

pub(crate) fn scan(scan: &Scan, json: bool) -> Result<Answer, Failure> {
    print(scan, json, "scanning")
}

fn print(scan: &Scan, jsonl: bool, what: &'static str) -> Result<Answer, Failure> {
    let store = open_to_read(&scan.pool, what)?;
    let failure = |error: IndexError| Failure::of_pool(what, &scan.pool)(error.into());
    let format = if jsonl { Format::Jsonl } else { Format::Tsv };
    let progress = Progress::counter("keys printed");
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let limit = scan.limit.unwrap_or(u64::MAX);
    let mut count = 0;
    let mut each = |entry: Result<Entry<'_>, IndexError>| {
        let entry = entry.map_err(failure)?;
        entry.verify().map_err(failure)?;
        let value = entry.value.to_vec().map_err(failure)?;
        out.write_all(format.print(&entry.key, &value).as_bytes()).map_err(Failure::output)?;
        progress.add(1);
        count += 1;
        Ok(count < limit)
    };
    if limit > 0 {
        walk(&store, scan, &mut each, failure)?;
    }
    out.flush().map_err(Failure::output)?;
    Ok(Answer::silent())
}

/// What is done with an entry; whether to go on.
type Each<'a> = dyn FnMut(Result<Entry<'_>, IndexError>) -> Result<bool, Failure> + 'a;

/// Hands the entries of the range to `each` until it says no.
fn walk(
    store: &Store,
    scan: &Scan,
    each: &mut Each<'_>,
    failure: impl Fn(IndexError) -> Failure,
) -> Result<(), Failure> {
    let reader = store.tree().map_err(failure)?.reader();
    let mut range = reader.range(bounds(scan));
    while let Some(entry) = if scan.reverse { range.next_back() } else { range.next() } {
        if !each(entry)? {
            break;
        }
    }
    Ok(())
}

/// The keys that lie in all of `--prefix`, `--from` and `--to`.
fn bounds(scan: &Scan) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bytes = |text: &Option<OsString>| text.clone().map(OsString::into_vec);
    let prefix = bytes(&scan.prefix).unwrap_or_default();
    let to = match (prefix_end(&prefix), bytes(&scan.to)) {
        (Some(end), Some(to)) => Some(end.min(to)),
        (end, to) => end.or(to),
    };
    let from = bytes(&scan.from).unwrap_or_default().max(prefix);
    (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded))
}
