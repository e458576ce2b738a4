//! Reservations: filled, published in every way in which a closure can, kept, dropped.

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

/// A reservation and what was stored to it.
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

/// What is done beside publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Publishes, and drops the reservation when the transaction is over.
    Plain,
    /// Drops the reservation in the closure, after publishing it.
    DropInside,
    /// Stores through the reservation after publishing it.
    StoreAfter,
    /// Stores through the transaction after publishing it.
    StoreByTransaction,
    /// Fails after publishing: the reservation is as before, and is published after that.
    Error,
    /// Panics after publishing.
    Panic,
    /// Is started again after publishing.
    Restart,
}

impl From<How> for &'static str {
    fn from(how: How) -> &'static str {
        match how {
            How::Plain => "published",
            How::DropInside => "published, dropped in the closure",
            How::StoreAfter => "published, then stored to by the reservation",
            How::StoreByTransaction => "published, then stored to by the transaction",
            How::Error => "published after an error",
            How::Panic => "published after a panic",
            How::Restart => "published twice, started again",
        }
    }
}

const HOW: [How; 7] = [
    How::Plain,
    How::DropInside,
    How::StoreAfter,
    How::StoreByTransaction,
    How::Error,
    How::Panic,
    How::Restart,
];

/// Publishes one of the reservations.
pub(super) fn publish(
    heap: &PoolHeap,
    held: &mut Vec<Held<'_>>,
    rng: &mut Rng,
    model: &mut Objects,
) -> Done {
    if held.is_empty() {
        return Ok(());
    }
    let Held { reservation, mut content } = held.swap_remove(rng.usize(..held.len()));
    let how = HOW[rng.usize(..HOW.len())];
    let (at, len) = (reservation.at(), content.len());
    let (from, patch) = patch(rng, len);
    let mut slot = Some(reservation);
    let (mut stored, mut rounds) = (false, 0);
    let mut run = |how: How| {
        deliberate(|| {
            heap.run(|tx| {
                rounds += 1;
                let Some(reservation) = slot.take() else {
                    // A closure that gave the reservation away can't be started again.
                    return Err(EARLY);
                };
                let published = tx.publish(&reservation);
                stored = published.is_ok()
                    && match how {
                        How::StoreAfter => reservation.store(from as u64, &patch).is_ok(),
                        How::StoreByTransaction => {
                            tx.store(at.plus(from as u64), &patch);
                            true
                        }
                        _ => false,
                    };
                if how != How::DropInside {
                    slot = Some(reservation);
                }
                published?;
                match how {
                    How::Error => Err(EARLY),
                    How::Panic => std::panic::resume_unwind(Box::new(Deliberate)),
                    How::Restart if rounds == 1 => Err(tx.restart()),
                    _ => Ok(()),
                }
            })
        })
    };
    let mut result = run(how);
    if matches!(how, How::Error | How::Panic) {
        ensure(!matches!(result, Some(Ok(()))), "committed", format_args!("{how:?}"))?;
        result = run(How::Plain);
    }
    match result {
        Some(Ok(())) => {
            if stored {
                content[from..from + patch.len()].copy_from_slice(&patch);
            }
            let type_number = heap.object(at).map_or(0, |object| object.type_number);
            model.add(at, Known { type_number, content: Rc::new(content), origin: how.into() })
        }
        Some(Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. })) | None => Ok(()),
        Some(Err(error)) => Err(Finding::new("refused", format_args!("publish ({how:?}): {error}"))),
    }
}

/// New bytes for a part of `len` bytes.
fn patch(rng: &mut Rng, len: usize) -> (usize, Vec<u8>) {
    let from = rng.usize(..len);
    let count = rng.usize(1..=len - from);
    (from, content(rng, count))
}

/// Publishes `reservation` in a transaction with what `also` does.
pub(crate) fn publish_with(
    heap: &PoolHeap,
    reservation: Reservation<'_, Arc<Mapping>>,
    mut also: impl FnMut(&Tx<'_, Arc<Mapping>>, PoolOffset) -> Result<(), HeapError>,
) -> Result<(), HeapError> {
    heap.run(|tx| {
        tx.publish(&reservation)?;
        also(tx, reservation.at())
    })
}
