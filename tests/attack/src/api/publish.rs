//! Reservations: filled, published by closures that end in every way, kept, dropped.

use super::objects::{Known, Objects, PoolHeap, content};
use super::{Done, EARLY, ensure, must};
use crate::Finding;
use crate::panics::{Deliberate, deliberate};
use fastrand::Rng;
use lode_heap::{HeapError, Reservation, Tx};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use std::rc::Rc;
use std::sync::Arc;

/// A reservation and the content stored to it.
#[derive(Debug)]
pub(super) struct Held<'h> {
    reservation: Reservation<'h, Arc<Mapping>>,
    content: Vec<u8>,
}

impl<'h> Held<'h> {
    /// Fills a reservation.
    pub(super) fn fill(
        reservation: Reservation<'h, Arc<Mapping>>,
        content: Vec<u8>,
    ) -> Result<Held<'h>, Finding> {
        must("store to a reservation", reservation.store(0, &content))?;
        Ok(Held { reservation, content })
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
enum How {
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

const HOW: [(How, &str); 9] = [
    (How::Plain, "published"),
    (How::Leave, "left by its transaction"),
    (How::Nested, "published in an inner transaction"),
    (How::NestedError, "published in an inner transaction that fails"),
    (How::StoreByTransaction, "published, then stored to by the transaction"),
    (How::Error, "published after an error"),
    (How::Panic, "published in a transaction that panics"),
    (How::Restart, "published by a transaction that is started again"),
    (How::RestartAndDrop, "published, and dropped when started again"),
];

/// The end of an attempt that did not panic.
enum Ended<'h> {
    /// The attempt committed; true if it published an object.
    Committed(bool),
    /// The attempt failed, and the reservation is as before.
    Failed(HeapError, Option<Reservation<'h, Arc<Mapping>>>),
}

/// Publishes one of the reservations.
pub(super) fn publish<'h>(
    heap: &'h PoolHeap,
    held: &mut Vec<Held<'h>>,
    rng: &mut Rng,
    model: &mut Objects,
) -> Done {
    if held.is_empty() {
        return Ok(());
    }
    let Held { reservation, mut content } = held.swap_remove(rng.usize(..held.len()));
    let (how, origin) = HOW[rng.usize(..HOW.len())];
    let (at, len) = (reservation.at(), content.len());
    let (from, patch) = patch(rng, len);
    let stored = |content: &mut Vec<u8>| content[from..from + patch.len()].copy_from_slice(&patch);
    let mut ended = deliberate(|| attempt(heap, reservation, how, from, &patch));
    if let (How::Error, Some(Ended::Failed(_, back))) = (how, &mut ended) {
        let Some(back) = back.take() else {
            return Err(Finding::new("reservation", "a transaction that failed keeps its reservation"));
        };
        must("store to a reservation that came back", back.store(from as u64, &patch))?;
        stored(&mut content);
        ended = deliberate(|| attempt(heap, back, How::Plain, from, &patch));
    }
    match ended {
        Some(Ended::Committed(is_published)) => {
            ensure(!matches!(how, How::NestedError | How::Panic), "committed", origin)?;
            if !is_published {
                return Ok(());
            }
            if how == How::StoreByTransaction {
                stored(&mut content);
            }
            let type_number = heap.object(at).map_or(0, |object| object.type_number);
            model.add(at, Known { type_number, content: Rc::new(content), origin })
        }
        Some(Ended::Failed(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }, _)) | None => Ok(()),
        Some(Ended::Failed(HeapError::NestedFailed, _)) if how == How::NestedError => Ok(()),
        Some(Ended::Failed(error, _)) => {
            Err(Finding::new("refused", format_args!("publish ({how:?}): {error}")))
        }
    }
}

/// Runs one transaction with a reservation.
fn attempt<'h>(
    heap: &'h PoolHeap,
    reservation: Reservation<'h, Arc<Mapping>>,
    how: How,
    from: usize,
    patch: &[u8],
) -> Ended<'h> {
    let mut rounds = 0;
    let done = heap.run_with(reservation, |tx, reserved| {
        rounds += 1;
        let first = rounds == 1;
        match how {
            How::Leave => return Ok(false),
            How::RestartAndDrop if !first => return Ok(false),
            How::Nested | How::NestedError => {
                let mut given = Some(reserved);
                let inner = heap.run(|tx| {
                    if let Some(reserved) = given.take() {
                        tx.publish(reserved)?;
                    }
                    if how == How::Nested { Ok(()) } else { Err(EARLY) }
                });
                if how == How::Nested {
                    inner?;
                }
                return Ok(true);
            }
            _ => {}
        }
        let at = tx.publish(reserved)?;
        match how {
            How::StoreByTransaction => tx.store(at.plus(from as u64), patch),
            How::Error => return Err(EARLY),
            How::Panic => std::panic::resume_unwind(Box::new(Deliberate)),
            How::Restart | How::RestartAndDrop if first => return Err(tx.restart()),
            _ => {}
        }
        Ok(true)
    });
    match done {
        Ok(is_published) => Ended::Committed(is_published),
        Err(failed) => Ended::Failed(failed.error, failed.reservations),
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
