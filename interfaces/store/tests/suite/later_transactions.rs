//! Transactions that return before they are durable, and their tickets.

use crate::place::Place;
use lodestone::{Durability, Options, Store, Ticket, TreeDef};
use std::thread;
use std::time::{Duration, Instant};

const SUMS: TreeDef<u8, u64> = TreeDef::new("sums");
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

fn options(interval: Duration) -> Options {
    Store::options().durability(Durability::Commit).later_interval(interval).clone()
}

fn open(place: &Place, interval: Duration) -> Store {
    let store = options(interval).open(place.path()).unwrap();
    // The first value takes new space, for which a transaction waits.
    store.put(SUMS, 1, 0).unwrap();
    store
}

fn add(store: &Store) -> (u64, Ticket) {
    let add = store.write_later(|tx| {
        let sums = tx.tree(SUMS)?;
        let sum = sums.get(1)?.unwrap_or(0) + 1;
        sums.put(1, sum)?;
        Ok(sum)
    });
    add.unwrap()
}

#[test]
fn tickets_tell_what_is_durable() {
    let place = Place::new();
    let store = open(&place, NEVER);
    let (first, second) = (add(&store), add(&store));
    assert_eq!((first.0, second.0), (1, 2), "a transaction sees the one before it");
    assert!(!first.1.is_durable() && !second.1.is_durable(), "nothing waits for the medium");
    assert_eq!(store.get(SUMS, 1).unwrap(), Some(0), "reads outside of transactions see what is durable");
    let (newest, seen) = store.write_later(|tx| tx.tree(SUMS)?.get(1)).unwrap();
    assert_eq!(
        (newest, seen.is_durable()),
        (Some(2), false),
        "a transaction that only reads sees the newest"
    );
    first.1.wait().unwrap();
    assert!(first.1.is_durable());
    let third = add(&store);
    second.1.wait().unwrap();
    assert!(store.get(SUMS, 1).unwrap() >= Some(2));
    store.make_durable().unwrap();
    assert!(third.1.is_durable());
    assert_eq!(store.get(SUMS, 1).unwrap(), Some(3));
    let fourth = add(&store);
    store.put(SUMS, 2, 0).unwrap();
    assert!(fourth.1.is_durable(), "a transaction that waits makes those before it durable");
    let fifth = add(&store);
    let looked = store.read(|view| view.tree(SUMS)?.get(1)).unwrap();
    assert_eq!((looked, fifth.1.is_durable()), (Some(5), true), "a snapshot sees all that has returned");
}

/// Nobody waits for it: the store's own thread makes it durable.
#[test]
fn interval_makes_durable() {
    let place = Place::new();
    let store = open(&place, Duration::from_millis(1));
    for round in 1..=3 {
        let (_, ticket) = add(&store);
        let begun = Instant::now();
        while !ticket.is_durable() {
            assert!(begun.elapsed() < Duration::from_secs(60), "round {round}");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(store.get(SUMS, 1).unwrap(), Some(round));
    }
}

#[test]
fn limit_of_bytes_makes_the_next_one_wait() {
    let place = Place::new();
    let store = options(NEVER).later_bytes(0).open(place.path()).unwrap();
    assert!((0..10).all(|_| add(&store).1.is_durable()));
    drop(store);
    // Half of the limit wakes the store's thread. The log is large enough for more.
    let place = Place::new();
    let store = options(NEVER).size(8 << 20).later_bytes(32 << 10).open(place.path()).unwrap();
    store.put(SUMS, 1, 0).unwrap();
    // A record takes 64 bytes or more.
    let tickets: Vec<Ticket> = (0..300).map(|_| add(&store).1).collect();
    let begun = Instant::now();
    while !tickets[0].is_durable() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn tickets_outlive_the_store() {
    let place = Place::new();
    let store = open(&place, NEVER);
    let (_, dropped) = add(&store);
    drop(dropped);
    let (_, left) = add(&store);
    store.close().unwrap();
    assert!(left.is_durable(), "closing makes everything durable");
    left.wait().unwrap();
    let store = open(&place, NEVER);
    assert_eq!(store.get(SUMS, 1).unwrap(), Some(0), "`open` has put it");
    let (_, left) = add(&store);
    drop(store);
    left.wait().unwrap();
    place.check(1);
    let store = options(NEVER).open(place.path()).unwrap();
    assert_eq!(store.get(SUMS, 1).unwrap(), Some(1));
}

#[test]
fn waiting_thread_is_answered_by_the_end_of_the_store() {
    let place = Place::new();
    let store = open(&place, NEVER);
    let tickets: Vec<Ticket> = (0..4).map(|_| add(&store).1).collect();
    thread::scope(|scope| {
        for ticket in &tickets {
            scope.spawn(|| ticket.wait().unwrap());
        }
        store.close().unwrap();
    });
}

#[test]
fn begun_transaction_commits_later() {
    let place = Place::new();
    let store = open(&place, NEVER);
    let tx = store.begin().unwrap();
    tx.tree(SUMS).unwrap().put(1, 7).unwrap();
    assert!(store.write_later(|_| Ok(())).unwrap_err().is_in_transaction());
    let ticket = tx.commit_later().unwrap();
    assert_eq!((ticket.is_durable(), store.get(SUMS, 1).unwrap()), (false, Some(0)));
    ticket.wait().unwrap();
    assert_eq!(store.get(SUMS, 1).unwrap(), Some(7));
}

#[test]
fn threads_lose_no_update() {
    const THREADS: u64 = 4;
    const ADDS: u64 = 500;
    let place = Place::new();
    let store = open(&place, Duration::from_millis(1));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for number in 0..ADDS {
                    let (sum, ticket) = add(store);
                    if (number + thread) % 50 == 0 {
                        ticket.wait().unwrap();
                        assert!(store.get(SUMS, 1).unwrap() >= Some(sum));
                    }
                }
            });
        }
    });
    store.make_durable().unwrap();
    assert_eq!(store.get(SUMS, 1).unwrap(), Some(THREADS * ADDS));
    store.close().unwrap();
    place.check(1);
}

#[test]
fn errors_change_nothing() {
    let place = Place::new();
    let store = open(&place, NEVER);
    let failed = store.write_later(|tx| {
        tx.tree(SUMS)?.put(1, 9)?;
        Err::<(), _>(lodestone::Error::other("no"))
    });
    assert!(failed.is_err());
    assert_eq!(add(&store).0, 1);
    drop(store);
    let store = options(NEVER).open_read_only(place.path()).unwrap();
    assert!(store.write_later(|tx| tx.tree(SUMS)?.put(1, 9)).unwrap_err().is_read_only());
    let (sum, ticket) = store.write_later(|tx| tx.tree(SUMS)?.get(1)).unwrap();
    assert_eq!((sum, ticket.is_durable()), (Some(1), true));
}
