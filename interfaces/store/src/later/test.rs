//! Tickets of a store whose syncs fail.

use super::*;
use lode_heap::CreateOptions;
use lode_pmem::{Durability, Layer, Mapping, SyncError};
use lode_pool::{Access, OpenOptions};
use std::task::Wake;

/// A mapping whose log writes fail, once they are to.
struct Failing {
    inner: Arc<Mapping>,
    fails: Arc<AtomicBool>,
}

impl Layer for Failing {
    type Inner = Arc<Mapping>;

    fn inner(&self) -> &Arc<Mapping> {
        &self.inner
    }
    fn log_write(&self, at: lode_layout::PoolOffset, bytes: &[u8]) -> std::result::Result<(), SyncError> {
        // ORDER: none: a flag of one test.
        if self.fails.load(Ordering::Relaxed) {
            return Err(SyncError { errno: 5 });
        }
        Medium::log_write(&self.inner, at, bytes)
    }
}

/// Counts its wakes.
#[derive(Default)]
struct Wakes(Mutex<u32>, Condvar);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }
}

impl Wakes {
    fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |wakes| *wakes == 0).unwrap());
    }
}

/// Returns a pool whose log writes fail when the flag is set, and a word in it that has a lock.
fn pool() -> (tempfile::TempDir, Arc<Pool<Failing>>, Arc<AtomicBool>, lode_layout::PoolOffset) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let layout = crate::store::layout_name();
    let options =
        CreateOptions { durability: Some(Durability::Commit), ..CreateOptions::new(1 << 20, layout) };
    Pool::create_with::<OpenError>(&path, &options, |_| Ok(())).unwrap().close().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let wrap = |inner| Failing { inner, fails: Arc::clone(&fails) };
    let pool = Pool::open_through(&path, &OpenOptions::new(Access::ReadWrite), wrap).unwrap();
    let word = pool.heap().run(|tx| tx.alloc_zeroed(64, 64, 1)).unwrap();
    (folder, Arc::new(pool), fails, word)
}

fn store_later(pool: &Pool<Failing>, word: lode_layout::PoolOffset) -> LogPosition {
    let closure = |tx: &lode_heap::Tx<'_, Failing>| {
        tx.lock(word)?;
        tx.store8(word, tx.load8(word) + 1);
        Ok::<_, HeapError>(())
    };
    pool.heap().run_later(closure).unwrap().1
}

#[test]
fn failed_sync_reaches_every_ticket() {
    let (_folder, pool, fails, word) = pool();
    let flusher = Flusher::start(&pool, Duration::from_secs(3600)).unwrap();
    let ticket = || flusher.ticket(store_later(&pool, word), false);
    ticket().wait().unwrap();
    let durable = ticket();
    durable.wait().unwrap();
    let (first, second, mut third) = (ticket(), ticket(), ticket());
    let wakes = Arc::new(Wakes::default());
    // ORDER: none: a flag of one test.
    fails.store(true, Ordering::Relaxed);
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut third).poll(&mut context).is_pending());
    wakes.wait();
    let Poll::Ready(Err(error)) = Pin::new(&mut third).poll(&mut context) else { panic!("it has no answer") };
    assert!(error.is_in_doubt(), "{error}");
    for ticket in [&second, &first] {
        let error = ticket.wait().unwrap_err();
        assert!(error.is_in_doubt() && !ticket.is_durable(), "{error}");
    }
    drop(flusher);
    assert!(first.wait().unwrap_err().is_in_doubt(), "the answer stays when the store is closed");
    assert!(durable.is_durable() && durable.wait().is_ok(), "what was durable stays so");
}

#[test]
fn end_of_the_thread_answers_tickets() {
    let (_folder, pool, _fails, word) = pool();
    let flusher = Flusher::start(&pool, Duration::from_secs(3600)).unwrap();
    let mut ticket = flusher.ticket(store_later(&pool, word), false);
    let (waits, dropped) =
        (flusher.ticket(store_later(&pool, word), false), flusher.ticket(store_later(&pool, word), false));
    drop(dropped);
    assert!(!ticket.is_durable());
    drop(flusher);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes);
    assert!(matches!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
    waits.wait().unwrap();
    assert_eq!(pool.heap().memory().reading(|memory| memory.load8(word)).unwrap(), 3);
}
