//! The walks that are under way. A rewind waits for their ends, since the bytes that they show may be overwritten after it.

use std::sync::{Condvar, Mutex, PoisonError};

/// The walks of a pool.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    /// The thread of each walk.
    threads: Mutex<Vec<u64>>,
    ended: Condvar,
}

/// A walk, until drop.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    walks: &'a Walks,
    thread: u64,
}

impl Walks {
    /// Begins a walk of this thread.
    pub(crate) fn begin(&self, thread: u64) -> Walk<'_> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Walk { walks: self, thread }
    }

    /// Runs `call` while there is no walk, and waits for that. `None` if this thread itself walks.
    pub(crate) fn without<T>(&self, thread: u64, call: impl FnOnce() -> T) -> Option<T> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.contains(&thread) {
            return None;
        }
        while !threads.is_empty() {
            threads = self.ended.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
        Some(call())
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        let mut threads = self.walks.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = threads.iter().position(|thread| *thread == self.thread) {
            threads.swap_remove(index);
        }
        self.walks.ended.notify_all();
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
        let walks = Walks::default();
        let walk = walks.begin(1);
        let inner = walks.begin(1);
        assert_eq!(walks.without(1, || ()), None);
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
}
