//! Measures reads through the socket of a pool in use beside reads of the mapping: `cargo run --release -p lode-kv
//! --example served_reads`. The figures of docs/decisions/other-processes-read.md.

use lode_heap::{CreateOptions, Durability};
use lode_index::Direction;
use lode_kv::{Store, StoreReader};
use std::error::Error;
use std::hint::black_box;
use std::ops::Bound;
use std::time::Instant;

const KEYS: u64 = 200_000;
const GETS: u64 = 50_000;
const CONNECTIONS: u64 = 2_000;
const ROUNDS: usize = 5;

fn key(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(mixed ^ mixed >> 29).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Prints the median time of a step in nanoseconds.
fn print<E>(what: &str, steps: u64, mut run: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let mut times = [0.0; ROUNDS];
    for time in &mut times {
        let start = Instant::now();
        run()?;
        *time = start.elapsed().as_nanos() as f64 / steps as f64;
    }
    times.sort_by(f64::total_cmp);
    println!("{what:<42} {:>10.0} ns", times[ROUNDS / 2]);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pool");
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(128 << 20, Store::layout_name())
    };
    let store = Store::create(&path, &options)?;
    for number in 0..KEYS {
        store.put(&key(number), &[7; 100])?;
    }
    let all = || (Bound::<Vec<u8>>::Unbounded, Bound::Unbounded);
    let random = |number: u64| key(number.wrapping_mul(7_919) % KEYS);
    let own = store.snapshot()?;
    print("get, snapshot of the mapping", GETS, || {
        (0..GETS).try_for_each(|number| own.get(&random(number)).map(|value| drop(black_box(value))))
    })?;
    let served = StoreReader::open(&path)?;
    assert!(served.is_served());
    print("get, served", GETS, || {
        (0..GETS).try_for_each(|number| served.get(&random(number)).map(|value| drop(black_box(value))))
    })?;
    print("key of a scan, snapshot of the mapping", KEYS, || {
        own.tree()?.range(all()).try_for_each(|entry| entry.map(|entry| drop(black_box(entry))))?;
        Ok::<_, Box<dyn Error>>(())
    })?;
    print("key of a scan, served", KEYS, || {
        served.scan(all(), Direction::Forward, |entry| black_box(entry).is_ok()).map(drop)
    })?;
    print("snapshot opened and closed", CONNECTIONS, || {
        (0..CONNECTIONS).try_for_each(|_| store.snapshot().map(drop))
    })?;
    print("connection opened and closed", CONNECTIONS, || {
        (0..CONNECTIONS).try_for_each(|_| StoreReader::open(&path).map(drop))
    })?;
    Ok(())
}
