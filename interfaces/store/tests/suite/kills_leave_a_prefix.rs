//! A process that is killed at any moment leaves a prefix of its commits that has all durable ones, and whole copies.

use crate::place::Place;
use lode_testing::{scaled, seed};
use lodestone::{Durability, Error, Options, Result, Store, TreeDef};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

/// One commit puts a number, which is the next one, and sets the count.
const NUMBERS: TreeDef<u64, Vec<u8>> = TreeDef::new("numbers");
const COUNT: TreeDef<u8, u64> = TreeDef::new("count");
/// Commits after which the process waits until all are durable, and says so.
const WAIT_EVERY: u64 = 16;
/// Variable that tells the process where its store is.
const PATH: &str = "LODE_KILLED_STORE";

fn options() -> Options {
    Store::options().durability(Durability::Commit).clone()
}

#[test]
fn sigkill_keeps_a_prefix_and_whole_copies() {
    let mut random = fastrand::Rng::with_seed(seed(1));
    let place = Place::new();
    let (mut durable, mut copies, mut made) = (0, BTreeSet::new(), 0);
    for _ in 0..scaled(20) {
        let told = 1 + random.usize(..200);
        let delay = Duration::from_micros(random.u64(..3000));
        follow(&place.path(), told, delay, |what, number| match what {
            "durable" => durable = durable.max(number),
            _ => assert!(copies.insert(number), "the process makes each copy once"),
        });
        let count = read(&options().open(place.path()).unwrap()).unwrap();
        assert!(count >= durable, "{durable} commits were durable, and {count} are left");
        for number in found_copies(&place.path()) {
            let path = copy_at(&place.path(), number);
            assert!(read(&options().open_existing(&path).unwrap()).unwrap() <= count);
            copies.remove(&number);
            fs::remove_file(path).unwrap();
            made += 1;
        }
        assert_eq!(copies, BTreeSet::new(), "copies that were made are there");
    }
    let store = options().open(place.path()).unwrap();
    let count = read(&store).unwrap();
    store.close().unwrap();
    println!("{count} commits, {made} copies");
    place.check(count + 1);
}

/// Starts the process, passes on `told` lines of what it says, and kills it after the delay.
fn follow(path: &Path, told: usize, delay: Duration, mut say: impl FnMut(&str, u64)) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["kills_leave_a_prefix::killed_process", "--exact", "--ignored", "--nocapture"])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut say = |line: String| {
        let words = line.split_once(' ').filter(|(what, _)| ["durable", "copy"].contains(what));
        words.map(|(what, number)| say(what, number.parse().unwrap()))
    };
    let mut left = told;
    while left > 0 {
        let line = lines.next().expect("the process goes on until it is killed").unwrap();
        left -= usize::from(say(line).is_some());
    }
    thread::sleep(delay);
    child.kill().unwrap();
    // The last line may be cut off.
    let rest: Vec<String> = lines.map_while(std::result::Result::ok).collect();
    child.wait().unwrap();
    for line in rest.into_iter().rev().skip(1) {
        say(line);
    }
}

/// Checks that the store has the numbers below its count, and no other. Returns the count.
fn read(store: &Store) -> Result<u64> {
    let snapshot = store.snapshot()?;
    let Some(counts) = snapshot.get_tree(COUNT)? else { return Ok(0) };
    let count = counts.get(0)?.unwrap();
    let numbers = snapshot.tree(NUMBERS)?.iter().collect::<Result<Vec<_>>>()?;
    assert_eq!(numbers, (0..count).map(|number| (number, value(number))).collect::<Vec<_>>());
    Ok(count)
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize % 300]
}

fn copy_at(path: &Path, number: u64) -> PathBuf {
    path.with_file_name(format!("copy-{number}"))
}

fn found_copies(path: &Path) -> Vec<u64> {
    let names = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    let number = |name: std::ffi::OsString| name.to_str().unwrap().strip_prefix("copy-")?.parse().ok();
    names.filter_map(number).collect()
}

#[test]
#[ignore = "the process that is killed"]
fn killed_process() {
    let path = PathBuf::from(env::var_os(PATH).unwrap());
    let store = options().open(&path).unwrap();
    let first = read(&store).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| commit_from(&store, first).unwrap());
        scope.spawn(|| {
            for number in 0.. {
                store.copy_to(copy_at(&path, number), &options()).unwrap();
                println!("copy {number}");
            }
        });
    });
}

fn commit_from(store: &Store, first: u64) -> Result<()> {
    for number in first.. {
        let ((), ticket) = store.write_later(|tx| {
            let previous = tx.tree(COUNT)?.insert(0, number + 1)?;
            assert_eq!(previous.unwrap_or(0), number, "a later transaction sees the one before");
            tx.tree(NUMBERS)?.put(number, value(number)).map(drop)
        })?;
        if number % WAIT_EVERY == 0 {
            ticket.wait()?;
            println!("durable {}", number + 1);
        }
    }
    Err(Error::other("there are no more numbers"))
}
