//! The feature `tracing` has a span for each open, transaction and snapshot.

use crate::place::Place;
use lodestone::{Result, Store, TreeDef};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const NUMBERS: TreeDef<u8, u8> = TreeDef::new("numbers");

/// The names of all spans that were entered and not left, and of those that were left, in the order of their end.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<(Vec<&'static str>, Vec<&'static str>)>>);

impl Spans {
    fn with<T>(&self, with: impl FnOnce(&mut Vec<&'static str>, &mut Vec<&'static str>) -> T) -> T {
        let (entered, left) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        with(entered, left)
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "lodestone"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.with(|entered, _| entered.push(span.metadata().name()));
        Id::from_u64(1)
    }

    fn exit(&self, _span: &Id) {
        self.with(|entered, left| left.extend(entered.pop()));
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
}

#[test]
fn spans_are_entered() -> Result<()> {
    let spans = Spans::default();
    let in_spans = spans.clone();
    tracing::subscriber::with_default(spans.clone(), || -> Result<()> {
        let place = Place::new();
        let store: Store = place.open();
        store.put(NUMBERS, 1, 1)?;
        store.write(|tx| {
            assert_eq!(in_spans.with(|entered, _| entered.clone()), ["write"]);
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
        Ok(())
    })?;
    let left = spans.with(|entered, left| {
        assert!(entered.is_empty(), "{entered:?}");
        left.clone()
    });
    assert_eq!(
        left,
        [
            "open",
            "create",
            "write",
            "write",
            "write_later",
            "commit",
            "commit_later",
            "snapshot",
            "open",
            "shrink"
        ]
    );
    Ok(())
}
