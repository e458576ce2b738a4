//! Reservations: filled, published by closures that end in every way, kept, dropped.

use super::objects::{KnownObject, ObjectModel, PoolHeap, content};
use super::{DELIBERATE_ERROR, Outcome, ensure, expect_ok};
use crate::Finding;
use crate::panic_hook::{DeliberatePanic, catch_deliberate};
use fastrand::Rng;
use lode_heap::{HeapError, Reservation, Tx};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use std::rc::Rc;
use std::sync::Arc;

/// A reservation and the content stored to it.
#[derive(Debug)]
pub(super) struct FilledReservation<'h> {
    reservation: Reservation<'h, Arc<Mapping>>,
    content: Vec<u8>,
}

impl<'h> FilledReservation<'h> {
    /// Fills a reservation.
    pub(super) fn fill(
        reservation: Reservation<'h, Arc<Mapping>>,
        content: Vec<u8>,
    ) -> Result<FilledReservation<'h>, Finding> {
        expect_ok("store to a reservation", reservation.store(0, &content))?;
        Ok(FilledReservation { reservation, content })
    }

    pub(super) fn at(&self) -> PoolOffset {
        self.reservation.at()
    }

    pub(super) fn len(&self) -> u64 {
        self.content.len() as u64
    }
}

/// The course of a transaction that publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublishCase {
    /// Publishes, and does nothing else.
    Plain,
    /// Publishes nothing. The space is given back at the commit.
    Leave,
    /// Publishes in a transaction inside of the transaction.
    Nested,
    /// As `Nested`, but the inner transaction fails, and its error is dropped.
    NestedError,
    /// Stores to the object through the transaction.
    StoreByTransaction,
    /// Fails after publishing. The reservation comes back, is stored to, and is then published.
    Error,
    /// Panics after publishing. The space is given back.
    Panic,
    /// Is restarted after publishing.
    Restart,
    /// Is restarted after publishing, and then drops the reservation.
    RestartAndDrop,
}

const PUBLISH_CASES: [(PublishCase, &str); 9] = [
    (PublishCase::Plain, "published"),
    (PublishCase::Leave, "left by its transaction"),
    (PublishCase::Nested, "published in an inner transaction"),
    (PublishCase::NestedError, "published in an inner transaction that fails"),
    (PublishCase::StoreByTransaction, "published, then stored to by the transaction"),
    (PublishCase::Error, "published after an error"),
    (PublishCase::Panic, "published in a transaction that panics"),
    (PublishCase::Restart, "published by a transaction that is started again"),
    (PublishCase::RestartAndDrop, "published, and dropped when started again"),
];

/// The end of an attempt that did not panic.
enum AttemptResult<'h> {
    /// The attempt committed; true if it published an object.
    Committed(bool),
    /// The attempt failed, and the reservation is as before.
    Failed(HeapError, Option<Reservation<'h, Arc<Mapping>>>),
}

/// Publishes one of the reservations.
pub(super) fn publish<'h>(
    heap: &'h PoolHeap,
    held: &mut Vec<FilledReservation<'h>>,
    rng: &mut Rng,
    model: &mut ObjectModel,
) -> Outcome {
    if held.is_empty() {
        return Ok(());
    }
    let FilledReservation { reservation, mut content } = held.swap_remove(rng.usize(..held.len()));
    let (case, origin) = PUBLISH_CASES[rng.usize(..PUBLISH_CASES.len())];
    let (at, len) = (reservation.at(), content.len());
    let (from, patch) = patch(rng, len);
    let stored = |content: &mut Vec<u8>| content[from..from + patch.len()].copy_from_slice(&patch);
    let mut result = catch_deliberate(|| attempt(heap, reservation, case, from, &patch));
    if let (PublishCase::Error, Some(AttemptResult::Failed(_, back))) = (case, &mut result) {
        let Some(back) = back.take() else {
            return Err(Finding::new("reservation", "a transaction that failed keeps its reservation"));
        };
        expect_ok("store to a reservation that came back", back.store(from as u64, &patch))?;
        stored(&mut content);
        result = catch_deliberate(|| attempt(heap, back, PublishCase::Plain, from, &patch));
    }
    match result {
        Some(AttemptResult::Committed(is_published)) => {
            ensure(!matches!(case, PublishCase::NestedError | PublishCase::Panic), "committed", origin)?;
            if !is_published {
                return Ok(());
            }
            if case == PublishCase::StoreByTransaction {
                stored(&mut content);
            }
            let type_number = heap.object(at).map_or(0, |object| object.type_number);
            model.add(at, KnownObject { type_number, content: Rc::new(content), origin })
        }
        Some(AttemptResult::Failed(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }, _)) | None => {
            Ok(())
        }
        Some(AttemptResult::Failed(HeapError::NestedFailed, _)) if case == PublishCase::NestedError => Ok(()),
        Some(AttemptResult::Failed(error, _)) => {
            Err(Finding::new("refused", format_args!("publish ({case:?}): {error}")))
        }
    }
}

/// Runs one transaction with a reservation.
fn attempt<'h>(
    heap: &'h PoolHeap,
    reservation: Reservation<'h, Arc<Mapping>>,
    case: PublishCase,
    from: usize,
    patch: &[u8],
) -> AttemptResult<'h> {
    let mut rounds = 0;
    let done = heap.run_with(reservation, |tx, reserved| {
        rounds += 1;
        let first = rounds == 1;
        match case {
            PublishCase::Leave => return Ok(false),
            PublishCase::RestartAndDrop if !first => return Ok(false),
            PublishCase::Nested | PublishCase::NestedError => {
                let mut given = Some(reserved);
                let inner = heap.run(|tx| {
                    if let Some(reserved) = given.take() {
                        tx.publish(reserved)?;
                    }
                    if case == PublishCase::Nested { Ok(()) } else { Err(DELIBERATE_ERROR) }
                });
                if case == PublishCase::Nested {
                    inner?;
                }
                return Ok(true);
            }
            _ => {}
        }
        let at = tx.publish(reserved)?;
        match case {
            PublishCase::StoreByTransaction => tx.store(at.plus(from as u64), patch),
            PublishCase::Error => return Err(DELIBERATE_ERROR),
            PublishCase::Panic => std::panic::resume_unwind(Box::new(DeliberatePanic)),
            PublishCase::Restart | PublishCase::RestartAndDrop if first => return Err(tx.restart()),
            _ => {}
        }
        Ok(true)
    });
    match done {
        Ok(is_published) => AttemptResult::Committed(is_published),
        Err(failed) => AttemptResult::Failed(failed.error, failed.reservations),
    }
}

/// Draws new bytes for a part of `len` bytes, and the offset of the part.
fn patch(rng: &mut Rng, len: usize) -> (usize, Vec<u8>) {
    let from = rng.usize(..len);
    let count = rng.usize(1..=len - from);
    (from, content(rng, count))
}

/// Publishes `reservation` in a transaction, together with the changes of `also`.
pub(crate) fn publish_with(
    heap: &PoolHeap,
    reservation: Reservation<'_, Arc<Mapping>>,
    mut also: impl FnMut(&Tx<'_, Arc<Mapping>>, PoolOffset) -> Result<(), HeapError>,
) -> Result<(), HeapError> {
    let done = heap.run_with(reservation, |tx, reserved| {
        let at = tx.publish(reserved)?;
        also(tx, at)
    });
    done.map_err(|failed| failed.error)
}
