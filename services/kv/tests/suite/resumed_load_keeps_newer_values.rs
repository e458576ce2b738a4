//! A load that goes on does not put an older line over a newer one, whatever ended the one before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_kv::{
    Format, Input, KvError, LineEnd, LineError, LoadEvents, LoadOptions, OnError, Store, Transactions,
};
use lode_pool::{Access, CreateOptions, OpenOptions};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use tempfile::TempDir;

const OPTIONS: LoadOptions = LoadOptions {
    format: Format::Tsv,
    line_end: LineEnd::Lf,
    on_error: OnError::Stop,
    transactions: Transactions::OfOneLine { threads: NonZeroUsize::new(2).unwrap() },
};
/// More lines than one block has with two threads.
const LINES: u64 = 100;

/// Does not take the acknowledgement of line `refused` before it had that of line `after`.
struct RefusingEvents {
    refused: u64,
    after: u64,
    acknowledged: Mutex<HashSet<u64>>,
    more: Condvar,
}

impl RefusingEvents {
    fn new(refused: u64, after: u64) -> RefusingEvents {
        RefusingEvents { refused, after, acknowledged: Mutex::default(), more: Condvar::new() }
    }
}

impl LoadEvents for RefusingEvents {
    fn durable(&self, line: u64, _key: &[u8]) -> io::Result<()> {
        let mut acknowledged = self.acknowledged.lock().unwrap();
        if line == self.refused {
            drop(
                self.more
                    .wait_while(acknowledged, |acknowledged| {
                        self.after > 0 && !acknowledged.contains(&self.after)
                    })
                    .unwrap(),
            );
            return Err(io::ErrorKind::Other.into());
        }
        acknowledged.insert(line);
        self.more.notify_all();
        Ok(())
    }

    fn skipped(&self, line: u64, error: &LineError) {
        panic!("line {line}: {error}");
    }

    fn stopped(&self) -> bool {
        false
    }
}

fn store(folder: &TempDir) -> Store {
    let options = CreateOptions { size_max: None, ..CreateOptions::new(1 << 20, Store::layout_name()) };
    Store::create(&folder.path().join("test.pool"), &options).unwrap()
}

/// Line 1 has a key of one thread; all others have the same key, of the other thread.
fn text(lines: u64) -> String {
    // The keys are chosen by their hashes: one is odd and one is even.
    let other = (0..).map(|n| format!("other{n}")).find(|key| part(key) != part("hot")).unwrap();
    (1..=lines).map(|line| format!("{}\tline {line}\n", if line == 1 { &other } else { "hot" })).collect()
}

fn part(key: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key.as_bytes()) % 2
}

fn input(path: &Path, text: &str) -> Input<'static> {
    fs::write(path, text).unwrap();
    Input::new(File::open(path).unwrap())
}

#[test]
fn acknowledged_line_is_not_overwritten_by_earlier_line() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, path) = (store(&folder), folder.path().join("in.tsv"));
    let all = text(LINES);
    // One thread gets to line 70 while the other is at line 1: so the load has come to no line at all.
    let ended = store.load(input(&path, &all), &OPTIONS, &RefusingEvents::new(1, 70));
    assert!(matches!(ended, Err(KvError::Acknowledge(_))), "{ended:?}");
    let value = |store: &Store| {
        let value = String::from_utf8(store.get(b"hot").unwrap().unwrap()).unwrap();
        value.strip_prefix("line ").unwrap().parse::<u64>().unwrap()
    };
    let reached = value(&store);
    assert!(reached >= 70);
    // Each of these gets one line further through what the first one did, and ends.
    for line in 2..=70 {
        let ended = store.load(input(&path, &all), &OPTIONS, &RefusingEvents::new(line, 0));
        assert!(matches!(ended, Err(KvError::Acknowledge(_))), "{ended:?}");
        assert!(value(&store) >= reached, "line {} after line {reached}", value(&store));
    }
    // Fewer lines than were begun can't be told from an input that was cut on its way here.
    let cut = store.load(input(&path, &text(60)), &OPTIONS, &RefusingEvents::new(0, 0));
    assert!(matches!(cut, Err(KvError::InputTruncated { .. })), "{cut:?}");
    assert!(value(&store) >= reached);
    let report = store.load(input(&path, &all), &OPTIONS, &RefusingEvents::new(0, 0)).unwrap();
    assert!(report.complete && report.lines_before >= reached, "{report:?}");
    assert_eq!(value(&store), LINES);
}

#[test]
fn first_line_identifies_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, path) = (store(&folder), folder.path().join("in.tsv"));
    let load = |store: &mut Store, text: &str, events| store.load(input(&path, text), &OPTIONS, &events);
    let all = text(LINES);
    // The first line is never done, so the load has come to no line at all.
    load(&mut store, &all, RefusingEvents::new(1, 70)).unwrap_err();
    let cut = load(&mut store, &text(2), RefusingEvents::new(0, 0)).unwrap_err();
    assert!(matches!(cut, KvError::InputTruncated { .. }), "{cut:?}");
    let report = load(&mut store, "another\tinput\nhot\tline 0\n", RefusingEvents::new(0, 0)).unwrap();
    assert_eq!((report.complete, report.put, report.lines_before), (true, 2, 0));
    assert_eq!(store.get(b"hot").unwrap().unwrap(), b"line 0");
}

const LONG: LoadOptions = LoadOptions {
    transactions: Transactions::OfManyLines { lines: NonZeroUsize::new(64).unwrap() },
    ..OPTIONS
};

/// Stops the load after a number of lines.
struct StoppingEvents {
    lines_left: AtomicU64,
}

impl LoadEvents for StoppingEvents {
    fn durable(&self, _line: u64, _key: &[u8]) -> io::Result<()> {
        let one_less = |left: u64| Some(left.saturating_sub(1));
        self.lines_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).unwrap();
        Ok(())
    }

    fn skipped(&self, line: u64, error: &LineError) {
        panic!("line {line}: {error}");
    }

    fn stopped(&self) -> bool {
        self.lines_left.load(Ordering::SeqCst) == 0
    }
}

fn numbered_lines(lines: u64) -> Vec<(String, String)> {
    (0..lines).map(|line| (format!("key {}", line * 7919 % 700), format!("line {line}"))).collect()
}

#[test]
fn load_in_long_transactions_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, path) = (store(&folder), folder.path().join("in.tsv"));
    let lines = numbered_lines(2000);
    let all: String = lines.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
    let mut rounds = 0;
    loop {
        let events = StoppingEvents { lines_left: AtomicU64::new(250) };
        let report = store.load(input(&path, &all), &LONG, &events).unwrap();
        rounds += 1;
        // Whatever was done is there, in the order of the lines.
        for (key, value) in lines.iter().take(report.lines as usize) {
            let found = String::from_utf8(store.get(key.as_bytes()).unwrap().unwrap()).unwrap();
            let number = |value: &str| value.strip_prefix("line ").unwrap().parse::<u64>().unwrap();
            assert!(number(&found) >= number(value), "{key}: {found} after {value}");
        }
        if report.complete {
            break;
        }
    }
    assert!(rounds > 5, "{rounds}");
    let last: HashMap<String, String> = lines.into_iter().collect();
    for (key, value) in last {
        assert_eq!(store.get(key.as_bytes()).unwrap().unwrap(), value.as_bytes(), "{key}");
    }
}

/// A line that is refused does not keep the lines before it from being loaded, though they share its transaction.
#[test]
fn lines_before_refused_line_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, path) = (store(&folder), folder.path().join("in.tsv"));
    let line = |number: u64| match number {
        50 => format!("key 50\t{}\n", "v".repeat(2 << 20)),
        number => format!("key {number}\tvalue\n"),
    };
    let all: String = (1..=100).map(line).collect();
    let ended = store.load(input(&path, &all), &LONG, &RefusingEvents::new(0, 0));
    assert!(matches!(ended, Err(KvError::Refused { line: 50, .. })), "{ended:?}");
    for number in 1..=100u64 {
        let found = store.get(format!("key {number}").as_bytes()).unwrap();
        assert_eq!(found.is_some(), number < 50, "line {number}");
    }
}

/// Copies the pool when each transaction is acknowledged, as a kill at that moment would leave it.
struct CopyingEvents<'a> {
    pool: &'a Path,
    copies: &'a Path,
    /// The last line of the last transaction, and the number of copies.
    state: Mutex<(u64, u64)>,
    lines: u64,
}

impl LoadEvents for CopyingEvents<'_> {
    fn durable(&self, line: u64, _key: &[u8]) -> io::Result<()> {
        let (last, copies) = &mut *self.state.lock().unwrap();
        if line.is_multiple_of(self.lines) || *last == 0 {
            fs::copy(self.pool, self.copies.join(copies.to_string()))?;
            *copies += 1;
        }
        *last = line;
        Ok(())
    }

    fn skipped(&self, line: u64, error: &LineError) {
        panic!("line {line}: {error}");
    }

    fn stopped(&self) -> bool {
        false
    }
}

/// Loads `text` into `store`, and repeats the load in a copy of each state on the way. Returns the number of states.
/// Unless blocks are divided, each copy goes on at the end of a block.
fn load_and_resume_each(
    folder: &TempDir,
    mut store: Store,
    lines: usize,
    text: &str,
    is_divided: bool,
) -> u64 {
    let (pool, copies) = (folder.path().join("test.pool"), folder.path().join("copies"));
    fs::create_dir(&copies).unwrap();
    let input_path = folder.path().join("in.tsv");
    let events = CopyingEvents { pool: &pool, copies: &copies, state: Mutex::new((0, 0)), lines: 64 };
    let options = LoadOptions {
        transactions: Transactions::OfManyLines { lines: NonZeroUsize::new(lines).unwrap() },
        ..OPTIONS
    };
    let report = store.load(input(&input_path, text), &options, &events).unwrap();
    let all: Vec<(&str, &str)> = text.lines().map(|line| line.split_once('\t').unwrap()).collect();
    assert_eq!((report.complete, report.put), (true, all.len() as u64));
    let last: HashMap<&str, &str> = all.iter().copied().collect();
    let has_all = |store: &Store| {
        last.iter().all(|(key, value)| store.get(key.as_bytes()).unwrap().unwrap() == value.as_bytes())
    };
    assert!(has_all(&store));
    let states = events.state.into_inner().unwrap().1;
    for state in 0..states {
        let path = copies.join(state.to_string());
        let mut copy = Store::open(&path, &OpenOptions::new(Access::ReadWrite)).unwrap();
        let noted = copy.load_progress().unwrap();
        let report = copy.load(input(&input_path, text), &options, &RefusingEvents::new(0, 0)).unwrap();
        assert!(report.complete, "{report:?}");
        assert_eq!(report.lines_before + report.put, all.len() as u64, "from {noted:?}: {report:?}");
        assert!(has_all(&copy), "from {noted:?}");
        assert!(is_divided || noted.is_some_and(|noted| noted.lines == report.lines_before), "{noted:?}");
    }
    states
}

/// A block and the note that it is done are one transaction. So a load that is killed between two of them goes on
/// without a look at any key.
#[test]
fn load_goes_on_after_each_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let text: String = numbered_lines(640).iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
    assert_eq!(load_and_resume_each(&folder, store, 64, &text, false), 11);
}

/// A block that the pool has no room to change at once is divided.
#[test]
fn block_that_is_too_large_is_divided() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let text = |value: &str| -> String { (0..3000).map(|key| format!("key {key}\t{value}\n")).collect() };
    for key in 0..3000 {
        store.put(format!("key {key}").as_bytes(), b"value 00").unwrap();
    }
    let free = || store.heap().stats().unwrap().free_chunk_bytes;
    for number in 0.. {
        if free() < 96 << 10 {
            break;
        }
        store.put(format!("filler {number}").as_bytes(), &[7; 2 << 10]).unwrap();
    }
    // Each key takes 32 bytes of log.
    let limit = free() / 2;
    assert!(limit < 3000 * 32, "{limit}");
    assert!(load_and_resume_each(&folder, store, 3000, &text("value 01"), true) > 40);
}
