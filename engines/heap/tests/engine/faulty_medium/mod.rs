//! A mapping whose log writes can be made to fail, and whose stores can be listened to.

use lode_layout::PoolOffset;
use lode_pmem::{Event, Mapping, Medium, SyncError};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Called with the range of a store, before it.
type Listener = Box<dyn Fn(PoolOffset, u64) + Send>;

/// Called by a thread that waits.
type Waiting = Box<dyn Fn() + Send>;

#[derive(Clone)]
pub(crate) struct FaultyMedium {
    inner: Arc<Mapping>,
    refuses: Arc<AtomicBool>,
    listener: Arc<Mutex<Option<Listener>>>,
    waiting: Arc<Mutex<Option<Waiting>>>,
}

impl fmt::Debug for FaultyMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyMedium").finish_non_exhaustive()
    }
}

impl FaultyMedium {
    pub(crate) fn new(inner: Arc<Mapping>) -> FaultyMedium {
        FaultyMedium { inner, refuses: Arc::default(), listener: Arc::default(), waiting: Arc::default() }
    }

    /// The mapping itself.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.inner
    }

    /// From now on log writes reach the medium and report an error.
    pub(crate) fn refuse_log_writes(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// Calls `listener` before each store.
    pub(crate) fn listen(&self, listener: impl Fn(PoolOffset, u64) + Send + 'static) {
        *self.listener.lock().expect("a lock") = Some(Box::new(listener));
    }

    /// Calls `waiting` each time that a thread waits for another one.
    pub(crate) fn when_waiting(&self, waiting: impl Fn() + Send + 'static) {
        *self.waiting.lock().expect("a lock") = Some(Box::new(waiting));
    }

    fn tell_waiting(&self) {
        if let Some(waiting) = &*self.waiting.lock().expect("a lock") {
            waiting();
        }
    }

    fn tell(&self, at: PoolOffset, len: u64) {
        // Taken out for the call, so that other threads' stores don't wait for it.
        let listener = self.listener.lock().expect("a lock").take();
        if let Some(listener) = listener {
            listener(at, len);
            self.listener.lock().expect("a lock").get_or_insert(listener);
        }
    }
}

impl lode_pmem::Layer for FaultyMedium {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.inner
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.tell(at, 8);
        self.inner().store8(at, value);
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.tell(at, bytes.len() as u64);
        self.inner().store(at, bytes);
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.inner().log_write(at, bytes)?;
        if self.refuses.load(Ordering::SeqCst) { Err(SyncError { errno: 5 }) } else { Ok(()) }
    }
    fn relax(&self, round: u32) {
        self.tell_waiting();
        self.inner().relax(round);
    }
    fn wait_while(&self, event: &Event, blocked: &mut dyn FnMut() -> bool) {
        self.tell_waiting();
        self.inner().wait_while(event, blocked);
    }
}
