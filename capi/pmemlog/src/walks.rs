//! The walks that are under way. A rewind waits for their ends, since the bytes that they show may be overwritten after it.
//!
//! The list is one of the process, so that a child of a fork finds it, and forgets the walks of its parent's other threads.

use lode_capi_entry::fork_gate;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, thread};

/// The walks and rewinds of all pools.
static UNDER_WAY: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// A walk or a rewind that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The number of the pool's walks.
    walks: u64,
    thread: u64,
    is_rewind: bool,
}

/// The walks of a pool.
#[derive(Debug)]
pub(crate) struct Walks {
    /// A number that no other pool of the process has.
    number: u64,
}

/// A walk or a rewind, until drop.
#[derive(Debug)]
pub(crate) struct Walk(Entry);

impl Walks {
    /// Returns the walks of a new handle.
    pub(crate) fn new() -> Walks {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // ORDER: a number alone.
        Walks { number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Begins a walk of this thread. Waits for a rewind.
    pub(crate) fn begin(&self, thread: u64) -> Walk {
        let entry = Entry { walks: self.number, thread, is_rewind: false };
        enter(entry, |other| other.is_rewind);
        Walk(entry)
    }

    /// Runs `call` while there is no walk, and waits for that. `None` if this thread itself walks.
    pub(crate) fn without<T>(&self, thread: u64, call: impl FnOnce() -> T) -> Option<T> {
        let entry = Entry { walks: self.number, thread, is_rewind: true };
        let is_own = |other: &Entry| other.walks == self.number && other.thread == thread;
        // Only this thread makes it true.
        if list().iter().any(is_own) {
            return None;
        }
        enter(entry, |_| true);
        let _rewind = Walk(entry);
        Some(call())
    }
}

fn list() -> MutexGuard<'static, Vec<Entry>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds an entry of a pool when the list has none for which it has to wait. A fork of another thread does not wait for it meanwhile: the fork
/// may be that of a walk.
fn enter(entry: Entry, waits_for: impl Fn(&Entry) -> bool) {
    for round in 0u64.. {
        let mut entries = list();
        if entries.iter().any(|other| other.walks == entry.walks && waits_for(other)) {
            drop(entries);
            let pause = Duration::from_micros(round.min(50) * 20);
            fork_gate::interruptible(|| thread::sleep(pause));
        } else if entries.len() < entries.capacity() {
            return entries.push(entry);
        } else {
            // The program's function for memory may call the library, so nothing is held meanwhile.
            let len = entries.len();
            drop(entries);
            replace(Vec::with_capacity(2 * len + 4));
        }
    }
}

/// Moves the entries to another vector, if they have room there.
fn replace(mut other: Vec<Entry>) {
    let mut entries = list();
    if entries.len() <= other.capacity() {
        other.append(&mut entries);
        mem::swap(&mut *entries, &mut other);
    }
    drop(entries);
    // Freed with nothing held, as above.
    drop(other);
}

impl Drop for Walk {
    fn drop(&mut self) {
        fork_gate::under_way(|| {
            let mut entries = list();
            if let Some(index) = entries.iter().position(|other| *other == self.0) {
                entries.swap_remove(index);
            }
            // The library may be unloaded.
            let unused = if entries.is_empty() { mem::take(&mut *entries) } else { Vec::new() };
            drop(entries);
            drop(unused);
        });
    }
}

/// Forgets the walks of other threads, in a child of a fork. `thread` is its only one.
pub(crate) fn forget_other_threads(thread: u64) {
    // A signal handler that forks may have interrupted a use of the list.
    if let Ok(mut entries) = UNDER_WAY.try_lock() {
        entries.retain(|entry| entry.thread == thread);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn change_waits_for_walks_of_other_threads() {
        let walks = Walks::new();
        let walk = walks.begin(1);
        let inner = walks.begin(1);
        assert_eq!(walks.without(1, || ()), None);
        assert_eq!(Walks::new().without(1, || ()), Some(()), "another pool");
        thread::scope(|threads| {
            let (send, receive) = mpsc::channel();
            let walks = &walks;
            threads.spawn(move || send.send(walks.without(2, || ())).unwrap());
            assert!(receive.recv_timeout(Duration::from_millis(50)).is_err());
            drop(walk);
            assert!(receive.recv_timeout(Duration::from_millis(50)).is_err());
            drop(inner);
            assert_eq!(receive.recv_timeout(Duration::from_secs(60)), Ok(Some(())));
        });
        assert_eq!(walks.without(1, || 7), Some(7));
    }

    #[test]
    fn walks_wait_for_a_rewind() {
        let walks = Walks::new();
        thread::scope(|threads| {
            let (send, receive) = mpsc::channel();
            let rewound = walks.without(1, || {
                let walks = &walks;
                threads.spawn(move || send.send(walks.begin(2)).unwrap());
                assert!(receive.recv_timeout(Duration::from_millis(50)).is_err());
            });
            assert_eq!(rewound, Some(()));
            receive.recv_timeout(Duration::from_secs(60)).unwrap();
        });
    }
}
