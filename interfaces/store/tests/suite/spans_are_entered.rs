//! The feature `tracing` has a span for each open, transaction and snapshot.

use crate::place::Place;
use lodestone::{Error, Result, Store, TreeDef};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const NUMBERS: TreeDef<u8, u8> = TreeDef::new("numbers");

/// The names of all spans of one thread that were entered and not left, and of those that were left, in the order of their end.
/// Other tests have threads, too.
#[derive(Clone)]
struct Spans {
    thread: ThreadId,
    names: Arc<Mutex<(Vec<&'static str>, Vec<&'static str>)>>,
}

impl Spans {
    fn with<T>(&self, with: impl FnOnce(&mut Vec<&'static str>, &mut Vec<&'static str>) -> T) -> T {
        let (entered, left) = &mut *self.names.lock().unwrap_or_else(PoisonError::into_inner);
        with(entered, left)
    }

    fn is_its_thread(&self) -> bool {
        thread::current().id() == self.thread
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "lodestone"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        if self.is_its_thread() {
            self.with(|entered, _| entered.push(span.metadata().name()));
        }
        Id::from_u64(1)
    }

    fn exit(&self, _span: &Id) {
        if self.is_its_thread() {
            self.with(|entered, left| left.extend(entered.pop()));
        }
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
}

#[test]
fn spans_are_entered() -> Result<()> {
    let spans = Spans { thread: thread::current().id(), names: Arc::default() };
    // For all threads: a subscriber of one thread may miss spans whose code another thread ran first.
    tracing::subscriber::set_global_default(spans.clone()).map_err(Error::other)?;
    let place = Place::new();
    let store: Store = place.open();
    store.put(NUMBERS, 1, 1)?;
    store.write(|tx| {
        assert_eq!(spans.with(|entered, _| entered.clone()), ["write"]);
        tx.tree(NUMBERS)?.put(1, 2)
    })?;
    store.write_later(|tx| tx.tree(NUMBERS)?.put(1, 3))?.1.wait()?;
    let tx = store.begin()?;
    tx.tree(NUMBERS)?.put(1, 4)?;
    tx.commit()?;
    let tx = store.begin()?;
    tx.tree(NUMBERS)?.put(1, 5)?;
    tx.commit_later()?.wait()?;
    drop(store.snapshot()?);
    store.close()?;
    Place::options().open(place.path())?.close()?;
    Place::options().shrink(place.path())?;
    let (open, left) = spans.with(|entered, left| (entered.clone(), left.clone()));
    assert_eq!(open, [""; 0]);
    let opened = ["open", "create"];
    let changed = ["write", "write", "write_later", "commit", "commit_later", "snapshot"];
    assert_eq!(left, [&opened[..], &changed, &["open", "shrink"]].concat());
    Ok(())
}
