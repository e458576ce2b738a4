//! Transactions that return before they are durable, and their tickets.

use crate::place::Place;
use lodestone::{Durability, Options, Store, Ticket, TreeDef};
use std::future::Future;
use std::pin::Pin;
use std::process;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const SUMS: TreeDef<u8, u64> = TreeDef::new("sums");
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);
/// Longer than anything takes that does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let look = || store.read(|view| view.tree(SUMS)?.get(1)).unwrap();
    assert_eq!((look(), fifth.1.is_durable()), (Some(4), false), "a snapshot sees what is durable");
    store.make_durable().unwrap();
    assert_eq!(look(), Some(5));
}

fn open_again(place: &Place) -> Store {
    options(NEVER).open_existing(place.path()).unwrap()
}

/// Runs a function when it is woken first.
struct OnWake(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl OnWake {
    fn waker(run: impl FnOnce() + Send + 'static) -> Waker {
        Waker::from(Arc::new(OnWake(Mutex::new(Some(Box::new(run))))))
    }
}

impl Wake for OnWake {
    fn wake(self: Arc<Self>) {
        let run = self.0.lock().unwrap().take();
        run.into_iter().for_each(|run| run());
    }
}

fn poll(ticket: &mut Ticket, waker: &Waker) -> Poll<lodestone::Result<()>> {
    Pin::new(ticket).poll(&mut Context::from_waker(waker))
}

/// A task may have the last handle of the store, and drop or close it in the thread that wakes it.
#[test]
fn task_that_is_woken_ends_the_store() {
    let drops = |store: Store, told: Sender<bool>| {
        drop(store);
        told.send(true).unwrap();
    };
    let closes = |store: Store, told: Sender<bool>| told.send(store.close().is_ok()).unwrap();
    let ends: [fn(Store, Sender<bool>); 2] = [drops, closes];
    for end in ends {
        let place = Place::new();
        let store = open(&place, NEVER);
        let ((_, mut ticket), (_, other)) = (add(&store), add(&store));
        let (told, heard) = channel();
        let waker = OnWake::waker(move || {
            let (_, last) = add(&store);
            end(store, told);
            assert!(last.is_durable());
        });
        assert!(poll(&mut ticket, &waker).is_pending());
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(true));
        assert!(matches!(poll(&mut ticket, &waker), Poll::Ready(Ok(()))));
        other.wait().unwrap();
        place.check(1);
        assert_eq!(open_again(&place).get(SUMS, 1).unwrap(), Some(3));
    }
}

#[test]
fn task_that_panics_leaves_the_store_at_work() {
    let place = Place::new();
    let store = open(&place, NEVER);
    let ((_, mut first), (_, mut second)) = (add(&store), add(&store));
    let (woken, second_woken) = channel();
    let healthy = OnWake::waker(move || woken.send(()).unwrap());
    let panics = OnWake::waker(|| panic!("this panic is a part of the test"));
    // In one batch, the one that panics first.
    assert!(poll(&mut first, &panics).is_pending());
    let _ = poll(&mut second, &healthy).map(|answer| {
        answer.unwrap();
        healthy.wake_by_ref();
    });
    second_woken.recv_timeout(PATIENCE).unwrap();
    let (_, third) = add(&store);
    third.wait().unwrap();
    store.close().unwrap();
}

/// The waker that a poll replaces has the last handle of a task, and the task has another ticket.
#[test]
fn replaced_waker_drops_another_ticket() {
    let place = Place::new();
    let (told, heard) = channel();
    thread::spawn(move || {
        // Syncs do not end before the tickets are dropped.
        let store = open(&place, NEVER);
        for _ in 0..200 {
            let ((_, mut first), (_, mut second)) = (add(&store), add(&store));
            let none = OnWake::waker(|| {});
            let _ = poll(&mut second, &none);
            let _ = poll(&mut first, &OnWake::waker(move || drop(second)));
            let _ = poll(&mut first, &none);
        }
        told.send(()).unwrap();
    });
    heard.recv_timeout(PATIENCE).unwrap();
}

/// Runs `child` in a fork of this process, and returns the number of what fails in it, or its wait status.
fn in_fork(child: impl FnOnce() -> Option<u8>) -> Option<i32> {
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            // What hangs is to fail.
            thread::spawn(|| {
                thread::sleep(PATIENCE);
                process::exit(100);
            });
            // A panic would run the rest of the harness a second time.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            process::exit(done.map_or(101, |failed| failed.map_or(0, i32::from)))
        }
        fork::Fork::Parent(child) => {
            let status = fork::waitpid(child).unwrap();
            (status != 0).then(|| fork::WEXITSTATUS(status))
        }
    }
}

#[test]
fn child_of_a_fork_is_refused() {
    // With a name that is too long for a socket, no server shares the pool.
    for name in ["store".to_owned(), "s".repeat(200)] {
        let folder = tempfile::tempdir().unwrap();
        // The log is large enough to have no checkpoint.
        let store = options(NEVER).size(8 << 20).open(folder.path().join(&name)).unwrap();
        store.put(SUMS, 1, 0).unwrap();
        assert_eq!(store.socket().is_ok(), name == "store");
        let (_, durable) = add(&store);
        durable.wait().unwrap();
        let ((_, mut polled), (_, waits)) = (add(&store), add(&store));
        let mut store = Some(store);
        let handle = &mut store;
        let failed = in_fork(move || {
            let is_refused = |answer: lodestone::Result<()>| {
                answer.is_err_and(|error| error.to_string().contains("forked"))
            };
            let is_answered = match poll(&mut polled, &OnWake::waker(|| {})) {
                Poll::Ready(answer) => is_refused(answer),
                Poll::Pending => false,
            };
            let checks = [
                is_answered,
                is_refused(waits.wait()),
                durable.wait().is_ok(),
                is_refused(handle.take().unwrap().close()),
            ];
            drop(polled);
            (1..).zip(checks).find_map(|(number, is_fine)| (!is_fine).then_some(number))
        });
        assert_eq!(failed, None, "{name}");
        store.unwrap().close().unwrap();
    }
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
