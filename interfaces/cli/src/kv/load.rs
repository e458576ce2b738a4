//! `lode kv load`.

use crate::failure::Failure;
use crate::global_options::GlobalOptions;
use crate::input::STREAM;
use crate::interrupt::Interrupt;
use crate::kv::{close_after, open_to_write};
use crate::output::Output;
use crate::progress::Progress;
use clap::{Args, ValueEnum, value_parser};
use lode_kv::{
    Format, Input, KvError, LineEnd, LineError, LoadEvents, LoadOptions, LoadReport, OnError, Transactions,
    escape,
};
use lode_layout::Durability;
use lode_pmem::Medium;
use serde_json::json;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::num::{NonZeroU16, NonZeroUsize};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Default number of threads at durability commit, where a sync dominates the cost and many keys share one.
const THREADS_GROUP_COMMIT: u16 = 16;
/// Maximum number of lines of a transaction where no key is acknowledged by itself.
const TRANSACTION_LINES: NonZeroUsize = NonZeroUsize::new(1 << 16).expect("not zero");
/// Largest number of threads. More would only wait for each other.
const THREADS_MAX: i64 = 1024;

pub(crate) const ABOUT: &str = "\
Put every line of a text, in durable transactions of 65536 lines or 1 MiB. With --ack or --threads each line has a \
transaction of its own, and several threads share syncs.

Loading the same input again finishes the rest: the progress of a load is stored in the pool, with a hash of the \
input up to there, in each transaction of many lines, or every few hundred lines, and in the transaction of the last \
key. It is compared with the input. Lines that were done after the last stored progress are found in the pool, and \
putting those lines again changes nothing: a key that was acknowledged keeps that line's value, or gets the one of a \
later line, however often the load is killed. An input that ends before what an earlier load of it had begun is \
refused. Another input, or one whose beginning has changed, is loaded from its start; so is the same one after \
`lode kv put` or `delete` changed the pool.

Of two lines with the same key the later one counts.";

pub(crate) const FIELDS: &[(&str, &str)] = &[
    (
        "acknowledged",
        "with --ack: a key that is durable, one object a line, escaped as in TSV; the rest is in the last line",
    ),
    ("line", "with --ack: the line of the input whose value it has, from 1, or the value of a later one"),
    (
        "lines_before",
        "lines of the input that an earlier load of it had done, or whose value their key had anyway",
    ),
    ("lines", "lines of the input that are done now"),
    ("offset", "bytes of the input that are done now"),
    ("put", "keys that were put by this command"),
    ("replaced", "of these, keys that had a value before"),
    ("skipped", "lines that were skipped by this command"),
    ("carriage_returns", "without --crlf: keys or values that were read with the CR of a line's end"),
    ("complete", "whether all of the input is in the pool"),
];

#[derive(Args, Debug)]
pub(crate) struct Load {
    /// The pool's file or device
    pool: PathBuf,
    /// The file to load; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Format of a line
    #[arg(long, default_value = "tsv")]
    format: LoadFormat,
    /// Take CR LF for the end of a line, beside LF
    #[arg(long)]
    crlf: bool,
    /// Action on a line that can't be loaded
    #[arg(long, default_value = "stop")]
    on_error: OnErrorOption,
    /// Print each key once it is durable, and never before: one per line, escaped as in TSV
    #[arg(long)]
    ack: bool,
    /// Number of loading threads, each line in a transaction of its own unless it is 1 [default: 1; with --ack 16 at
    /// durability commit, else 2]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=THREADS_MAX))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoadFormat {
    /// The whole line is a key, with an empty value
    Keys,
    /// Key, TAB, value; no TAB means an empty value; escapes \t \n \\ \xHH
    Tsv,
    /// {"key", "value"}, or {"key_b64", "value_b64"} for what is not UTF-8
    Jsonl,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnErrorOption {
    /// Report the line and the reason, and stop; the lines before it are loaded
    Stop,
    /// Report the line and the reason, and skip it
    Skip,
}

/// Prints the events of a load.
struct Reporter {
    ack: bool,
    json: bool,
    /// Bytes of the input, if its length is known; keys otherwise.
    progress: Progress,
    is_in_bytes: bool,
    /// Bytes of the input that the progress has; none yet if [`u64::MAX`].
    read_to: AtomicU64,
    interrupt: Interrupt,
}

impl LoadEvents for Reporter {
    fn durable(&self, line: u64, key: &[u8]) -> io::Result<()> {
        if !self.is_in_bytes {
            self.progress.add(1);
        }
        if !self.ack {
            return Ok(());
        }
        let line_text = match self.json {
            true => format!("{}\n", json!({ "acknowledged": escape(key), "line": line })),
            false => format!("{}\n", escape(key)),
        };
        let mut out = io::stdout().lock();
        out.write_all(line_text.as_bytes())?;
        out.flush()
    }

    fn skipped(&self, line: u64, error: &LineError) {
        let message = match self.json {
            true => json!({ "skipped": line, "why": error.to_string() }).to_string(),
            false => format!("lode: line {line} is skipped: {error}"),
        };
        self.progress.eprintln(&message);
    }

    fn read_to(&self, offset: u64) {
        if self.is_in_bytes {
            // ORDER: none: one thread reads the input.
            match self.read_to.swap(offset, Ordering::Relaxed) {
                u64::MAX => self.progress.start_at(offset),
                before => self.progress.add(offset - before),
            }
        }
    }

    fn stopped(&self) -> bool {
        self.interrupt.is_set()
    }
}

impl Load {
    /// Returns the file in which an error is: the input or the pool.
    fn file_of(&self, error: &KvError) -> &Path {
        match error {
            KvError::Line { .. } | KvError::InputTruncated { .. } | KvError::Input(_) => {
                match self.file.as_path() {
                    stream if stream == Path::new(STREAM) => Path::new("standard input"),
                    file => file,
                }
            }
            _ => &self.pool,
        }
    }
}

pub(crate) fn run(load: &Load, options: &GlobalOptions) -> Result<Output, Failure> {
    let what = "loading";
    // Opening a pipe blocks until a writer opens it. Until then a signal must end the process, so `listen` comes after.
    let (input, len) = open_input(&load.file)?;
    let interrupt = Interrupt::listen()?;
    let mut store = open_to_write(&load.pool, options.durability, what)?;
    let group_commit = store.heap().medium().durability() == Durability::Commit;
    let threads = load.threads.unwrap_or(match (load.ack, group_commit) {
        (false, _) => 1,
        (true, true) => THREADS_GROUP_COMMIT,
        (true, false) => 2,
    });
    let threads = NonZeroUsize::from(NonZeroU16::new(threads).expect("at least one"));
    // Long transactions of several threads would wait for each other's locks.
    let transactions = match load.ack || threads.get() > 1 {
        true => Transactions::OfOneLine { threads },
        false => Transactions::OfManyLines { lines: TRANSACTION_LINES },
    };
    let load_options = LoadOptions {
        format: match load.format {
            LoadFormat::Keys => Format::Keys,
            LoadFormat::Tsv => Format::Tsv,
            LoadFormat::Jsonl => Format::Jsonl,
        },
        line_end: if load.crlf { LineEnd::CrLf } else { LineEnd::Lf },
        on_error: match load.on_error {
            OnErrorOption::Stop => OnError::Stop,
            OnErrorOption::Skip => OnError::Skip,
        },
        transactions,
    };
    let progress =
        len.map_or_else(|| Progress::counter("keys loaded"), |len| Progress::of_bytes("loaded", len));
    let reporter = Reporter {
        ack: load.ack,
        json: options.json,
        progress,
        is_in_bytes: len.is_some(),
        read_to: AtomicU64::new(u64::MAX),
        interrupt,
    };
    let loaded = store.load(input, &load_options, &reporter);
    drop(reporter);
    let report =
        close_after(store, loaded).map_err(|error| Failure::of_pool(what, load.file_of(&error))(error))?;
    let resume = "what was loaded stays; the same command goes on from there";
    if !report.complete {
        return Err(Failure::interrupted(format!("interrupted after {} lines: {resume}", report.lines)));
    }
    if report.carriage_returns > 0 && !options.json {
        eprintln!(
            "lode: {} lines end with CR LF, and their keys or values have the CR; \
             delete them, and load with --crlf",
            report.carriage_returns
        );
    }
    Ok(output(&report, load.ack))
}

/// Opens the input. Returns the number of bytes in it, too, if it is a file.
fn open_input(path: &Path) -> Result<(Input<'static>, Option<u64>), Failure> {
    let opened = if path == Path::new(STREAM) {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(path)
    };
    let checked = opened.and_then(|mut file| {
        let metadata = file.metadata()?;
        // A folder can be opened, and not be read.
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let rest = match metadata.is_file() {
            true => Some(metadata.len().saturating_sub(file.stream_position()?)),
            false => None,
        };
        Ok((Input::new(file), rest))
    });
    checked.map_err(|error| Failure::io("opening the input", path, &error))
}

fn output(report: &LoadReport, ack: bool) -> Output {
    let LoadReport {
        lines_before, lines, offset, put, replaced, skipped, carriage_returns, complete, ..
    } = *report;
    let mut text = format!("{put} keys put, {replaced} of them replaced");
    if lines_before > 0 {
        text += &format!("; {lines_before} lines were loaded before");
    }
    if skipped > 0 {
        text += &format!("; {skipped} lines skipped");
    }
    // With --ack, standard output has only the keys.
    let output = if ack { Output::empty() } else { Output::text(format!("{text}\n")) };
    output
        .with("lines_before", lines_before)
        .with("lines", lines)
        .with("offset", offset)
        .with("put", put)
        .with("replaced", replaced)
        .with("skipped", skipped)
        .with("carriage_returns", carriage_returns)
        .with("complete", complete)
}
