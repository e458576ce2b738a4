//! The private memory of transactions with many changes. A program of its own: other tests take memory, too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_index::IndexError;
use lode_kv::Store;
use lode_pmem::Durability;
use lode_pool::CreateOptions;
use lode_testing::scaled;
use std::cell::Cell;
use std::fs;
use std::time::Instant;

/// Bytes that a transaction may take for each change, and for anything else: 256 MiB for 5 million changes.
const BYTES_OF_CHANGE: u64 = 48;
const BYTES_OF_ALL: u64 = 16 << 20;

/// Returns the bytes of memory that are no mapping of a file.
fn private_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Returns the key number `number`, in random order.
fn key(number: u64) -> [u8; 24] {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mut key = [0; 24];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..16].copy_from_slice(&number.to_be_bytes());
    key
}

/// Puts many keys in one transaction and deletes half of them in another, in a pool that grows by itself. With
/// `LODE_BUDGET=25` there are 5 million keys.
#[test]
fn long_transactions_take_little_private_memory() {
    let count = scaled(200_000);
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions {
        durability: Some(Durability::Line),
        ..CreateOptions::new(1 << 20, Store::layout_name())
    };
    let store = Store::create(&folder.path().join("pool"), &options).unwrap();
    let tree = store.tree().unwrap();
    let before = private_bytes();
    let most = Cell::new(0);
    let run = |what: &str,
               changes: u64,
               change: &dyn Fn(&lode_heap::Tx<'_, _>, u64) -> Result<bool, IndexError>| {
        let start = Instant::now();
        let done = store.heap().run(|tx| {
            let done = (0..changes)
                .try_fold(0, |done, number| Ok::<_, IndexError>(done + u64::from(change(tx, number)?)));
            most.set(most.get().max(private_bytes().saturating_sub(before)));
            done
        });
        let each = start.elapsed().as_nanos() / u128::from(changes);
        println!(
            "{changes} {what}: {each} ns each, at most {} KiB of private memory so far",
            most.get() >> 10
        );
        done.unwrap()
    };
    let value = [7; 150];
    assert_eq!(run("puts", count, &|tx, number| tree.insert_in(tx, &key(number), &value)), 0);
    assert_eq!(run("deletes", count / 2, &|tx, number| tree.delete_in(tx, &key(2 * number))), count / 2);
    assert_eq!(tree.count().unwrap(), count - count / 2);
    let allowed = BYTES_OF_ALL + count * BYTES_OF_CHANGE;
    assert!(most.get() <= allowed, "{} KiB, where {} are allowed", most.get() >> 10, allowed >> 10);
}
