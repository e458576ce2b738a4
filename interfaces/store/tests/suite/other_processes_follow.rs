//! A store that is open in one process is read in others, commit by commit.

use crate::at_end::AtEnd;
use crate::place::Place;
use lode_testing::scaled;
use lodestone::{Durability, Follower, Result, Snapshot, Store, TreeDef};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LAST: TreeDef<u8, u64> = TreeDef::new("last");
const LOG: TreeDef<u64, String> = TreeDef::new("log");
/// Longer than anything takes that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);

fn append(store: &Store) -> Result<()> {
    store.write(|tx| {
        let number = tx.tree(LAST)?.get(0)?.unwrap_or(0) + 1;
        tx.tree(LAST)?.put(0, number)?;
        tx.tree(LOG)?.put(number, format!("commit {number}"))?;
        Ok(())
    })
}

/// Returns the number of the last commit, after a comparison of both trees.
fn last(snapshot: &Snapshot) -> u64 {
    let last = snapshot.tree(LAST).unwrap().get(0).unwrap().unwrap();
    let log = snapshot.tree(LOG).unwrap();
    assert_eq!(log.last().unwrap(), Some((last, format!("commit {last}"))));
    assert_eq!(log.count().unwrap(), last);
    last
}

#[test]
#[ignore = "the process that another test starts"]
fn writer_process() {
    let path = PathBuf::from(std::env::var_os("LODE_TEST_STORE").expect("started by another test"));
    let store = Store::options().durability(Durability::None).open(path).unwrap();
    append(&store).unwrap();
    println!("writing");
    loop {
        append(&store).unwrap();
    }
}

fn start_writer(place: &Place) -> Child {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_processes_follow::writer_process", "--ignored", "--nocapture"])
        .env("LODE_TEST_STORE", place.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().ends_with("writing")));
    writer
}

#[test]
fn followers_see_commits_in_order() {
    let place = Place::new();
    let mut writer = start_writer(&place);
    let follower = Store::follow(place.path()).unwrap();
    let follow = |follower: &Follower| {
        let (mut latest, mut different) = (0, 0);
        let deadline = Instant::now() + PATIENCE;
        while different < scaled(50) {
            assert!(Instant::now() < deadline, "the writer goes on");
            let snapshot = follower.snapshot().unwrap();
            let number = last(&snapshot);
            assert!(number >= latest, "{number} after {latest}");
            assert_eq!(last(&snapshot), number, "a snapshot stays as it is");
            different += u64::from(number > latest);
            latest = number;
        }
        latest
    };
    let latest = thread::scope(|scope| {
        let others = [follower.clone(), follower.clone()].map(|other| scope.spawn(move || follow(&other)));
        others.into_iter().map(|other| other.join().unwrap()).max().unwrap()
    });
    // Its end ends the snapshots that it serves. What it has committed is there nevertheless.
    let held = follower.snapshot().unwrap();
    writer.kill().unwrap();
    writer.wait().unwrap();
    let error = held.tree(LAST).unwrap_err();
    assert!(error.is_snapshot_ended(), "{error}");
    assert!(error.to_string().contains("open a new snapshot"), "{error}");
    assert!(last(&follower.snapshot().unwrap()) >= latest);
    // The next writer replaces the socket that the killed one has left.
    let mut next = start_writer(&place);
    assert!(last(&follower.snapshot().unwrap()) > latest);
    next.kill().unwrap();
    next.wait().unwrap();
    let store = place.open();
    assert_eq!(store.socket().unwrap(), place.path().with_file_name("store.sock"));
    store.close().unwrap();
    assert!(!place.path().with_file_name("store.sock").exists());
}

#[test]
fn long_scans_beside_writers_show_one_commit() {
    let place = Place::new();
    let store = place.open();
    const COUNT: u64 = 20_000;
    let write_all = |round: u64| {
        store.write(|tx| {
            let log = tx.tree(LOG)?;
            (0..COUNT)
                .try_for_each(|key| log.put(key, format!("round {round}, a text of some length")).map(drop))
        })
    };
    write_all(0).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _end = AtEnd(&is_done);
            let follower = Store::follow(place.path()).unwrap();
            for _ in 0..scaled(5) {
                let snapshot = follower.snapshot().unwrap();
                let tree = snapshot.tree(LOG).unwrap();
                let first = tree.first().unwrap().unwrap().1;
                let forward: Vec<_> = tree.iter().map(|entry| entry.unwrap()).collect();
                assert_eq!(forward.len() as u64, COUNT);
                assert!(forward.iter().zip(0..).all(|((key, value), want)| *key == want && *value == first));
                let mut backward: Vec<_> = tree.iter().rev().map(|entry| entry.unwrap()).collect();
                backward.reverse();
                assert_eq!(backward, forward);
            }
        });
        for round in 1.. {
            if is_done.load(Ordering::Relaxed) {
                break;
            }
            write_all(round).unwrap();
        }
    });
    store.close().unwrap();
}

#[test]
fn store_without_writer_is_opened() {
    let place = Place::new();
    assert!(Store::follow(place.path()).is_err_and(|error| error.is_not_found()));
    let store = place.open();
    append(&store).unwrap();
    store.close().unwrap();
    let follower = Store::follow(place.path()).unwrap();
    let snapshot = follower.snapshot().unwrap();
    assert_eq!(last(&snapshot), 1);
    assert!(
        Place::options().open(place.path()).is_err_and(|error| error.is_in_use()),
        "the snapshot has it open"
    );
    drop(snapshot);
    // From now on there is a writer, and snapshots come from it.
    let store = place.open();
    append(&store).unwrap();
    let snapshot = follower.snapshot().unwrap();
    append(&store).unwrap();
    assert_eq!((last(&snapshot), last(&follower.snapshot().unwrap())), (2, 3));
    // It closes the store although others follow.
    store.close().unwrap();
    assert!(snapshot.tree_names().is_err_and(|error| error.is_snapshot_ended()));
    assert_eq!(last(&follower.snapshot().unwrap()), 3);
}

/// All reads of a snapshot of another process answer as those of the store's own.
#[test]
fn served_snapshot_reads_as_own_one() {
    let place = Place::new();
    let store = place.open();
    store
        .write(|tx| (0..3_000).try_for_each(|key| tx.tree(LOG)?.put(key, key.to_string()).map(drop)))
        .unwrap();
    store.put(LAST, 0, 5).unwrap();
    let (own, served) = (store.snapshot().unwrap(), Store::follow(place.path()).unwrap().snapshot().unwrap());
    append(&store).unwrap();
    assert_eq!(served.tree_names().unwrap(), ["last", "log"]);
    assert!(served.get_tree(TreeDef::<u8, u8>::new("none")).unwrap().is_none());
    assert!(served.tree(TreeDef::<u8, u8>::new("none")).is_err_and(|error| error.is_no_tree()));
    assert!(served.tree(TreeDef::<u8, u8>::new("log")).is_err_and(|error| error.is_wrong_type()));
    let [own, served] = [own, served].map(|snapshot| snapshot.tree(LOG).unwrap());
    assert_eq!(
        (own.first().unwrap(), own.last().unwrap()),
        (served.first().unwrap(), served.last().unwrap())
    );
    assert_eq!((own.count().unwrap(), served.count().unwrap()), (3_000, 3_000));
    for key in [0, 77, 2_999, 3_000, u64::MAX] {
        assert_eq!(own.get(key).unwrap(), served.get(key).unwrap());
        assert_eq!(own.contains(key).unwrap(), served.contains(key).unwrap());
    }
    for (from, to) in [(0, 0), (5, 6), (10, 2_500), (2_000, 9_000), (4_000, 5_000)] {
        let entries = |tree: &lodestone::ReadTree<u64, String>| {
            let (mut range, mut found) = (tree.range(from..to), Vec::new());
            // From both ends in turn.
            while let Some(entry) = if found.len() % 3 == 0 { range.next_back() } else { range.next() } {
                found.push(entry.unwrap());
            }
            found
        };
        assert_eq!(entries(&own), entries(&served));
    }
    drop((own, served));
    store.close().unwrap();
}

#[test]
fn keys_longer_than_any_are_absent() {
    let place = Place::new();
    let store = place.open();
    const WORDS: TreeDef<Vec<u8>, u8> = TreeDef::new("words");
    store.put(WORDS, vec![b'k'; 60_000], 1).unwrap();
    let served = Store::follow(place.path()).unwrap().snapshot().unwrap().tree(WORDS).unwrap();
    let long = |first: u8| [vec![first], vec![b'k'; 1 << 20]].concat();
    assert_eq!(served.get(long(b'k')).unwrap(), None);
    assert_eq!(served.range(long(b'a')..long(b'z')).count(), 1);
    assert_eq!(served.range(long(b'k')..).count(), 0);
    assert_eq!(served.range(..long(b'k')).count(), 1);
    drop(served);
    store.close().unwrap();
}

#[test]
fn store_says_why_it_is_not_served() {
    let place = Place::new();
    std::fs::write(place.path().with_file_name("store.sock"), "a note").unwrap();
    let store = place.open();
    append(&store).unwrap();
    assert!(store.socket().unwrap_err().to_string().contains("is no socket"));
    store.close().unwrap();
    let reader = Place::options().open_read_only(place.path()).unwrap();
    assert!(reader.socket().unwrap_err().to_string().contains("reading only"));
}
