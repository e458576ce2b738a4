//! A reader that is killed at any moment leaves no snapshot and no connection.

use crate::place::Place;
use lode_follow::Connection;
use lode_index::Direction;
use lode_testing::{scaled, seed};
use std::io::{BufRead, BufReader};
use std::ops::Bound;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

#[test]
#[ignore = "the process that the other test starts"]
fn reader_process() {
    let path = PathBuf::from(std::env::var_os("LODE_TEST_POOL").expect("started by another test"));
    let (mut kept, mut last) = (Vec::new(), 0);
    println!("reading");
    loop {
        let connection = Connection::open(&path).unwrap().unwrap();
        let mut bounds = (Bound::Unbounded, Bound::Unbounded);
        // All keys have the number of the last transaction as their value.
        let (mut count, mut number) = (0, None);
        loop {
            let batch = connection.scan(connection.root(), &bounds, Direction::Forward, 64).unwrap();
            for item in batch.items {
                let lode_follow::ScanItem::Entry(entry) = item else { panic!("{item:?}") };
                let found = u64::from_le_bytes(entry.value[..8].try_into().unwrap());
                assert_eq!(*number.get_or_insert(found), found, "one commit");
                bounds.0 = Bound::Excluded(entry.key);
                count += 1;
            }
            if batch.is_last {
                break;
            }
        }
        let number = number.unwrap();
        assert!(count == 200 && number >= last, "{count} keys; {number} after {last}");
        last = number;
        // Some snapshots are held for longer.
        kept.push(connection);
        if kept.len() > 5 {
            kept.clear();
        }
    }
}

#[test]
fn killed_readers_leave_no_snapshot() {
    let place = Place::new();
    let heap = place.pool.heap();
    let tree = lode_index::Tree::open(heap, heap.root().unwrap()).unwrap();
    let mut number = 0u64;
    let mut commit = || {
        number += 1;
        let put = |tx: &lode_heap::Tx<'_, _>| {
            (0..200u32).try_for_each(|key| {
                tree.insert_in(tx, &key.to_be_bytes(), &[number.to_le_bytes(); 4].concat()).map(drop)
            })
        };
        heap.run(put).unwrap();
    };
    commit();
    let server = place.serve();
    let mut random = fastrand::Rng::with_seed(seed(3));
    for _ in 0..scaled(20) {
        // Two followers at a time.
        let mut readers = [(); 2].map(|()| {
            let mut reader = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "killed_readers_keep_nothing_back::reader_process",
                    "--ignored",
                    "--nocapture",
                ])
                .env("LODE_TEST_POOL", place.path())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let output = BufReader::new(reader.stdout.take().unwrap());
            assert!(output.lines().any(|line| line.unwrap().ends_with("reading")));
            reader
        });
        (0..random.u32(1..40)).for_each(|_| commit());
        thread::sleep(Duration::from_micros(random.u64(..20_000)));
        for reader in &mut readers {
            assert_eq!(reader.try_wait().unwrap(), None, "it has found nothing wrong");
            reader.kill().unwrap();
            reader.wait().unwrap();
        }
        place.wait_for_snapshots(0);
        commit();
        assert_eq!(heap.snapshot_stats(), Default::default(), "nothing is kept back");
    }
    drop(server);
}
