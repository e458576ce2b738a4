//! Transactions of a history that have returned before their sync.

use crate::error::HeapError;
use crate::heap::Heap;
use crate::later::LogPosition;
use lode_sim::{Actor, SimMedium, Ticket};
use std::sync::Arc;

/// Maximum number of transactions of one thread that wait: the oracle tries all subsets of them.
const WAITING_MAX: usize = 4;

/// Transactions of one thread that have returned, and may not be durable yet. Until they are, the oracle treats them as in
/// flight.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// In the order in which they returned.
    list: Vec<(Ticket, LogPosition)>,
}

impl Waiting {
    pub(super) fn add(&mut self, ticket: Ticket, position: LogPosition) {
        self.list.push((ticket, position));
    }

    /// Notes which of the transactions are durable now. Sometimes makes some of them durable.
    pub(super) fn look<T: Clone>(&mut self, heap: &Heap<Arc<SimMedium>>, actor: &mut Actor<'_, T>) {
        if self.list.len() >= WAITING_MAX || actor.rng.u8(..8) == 0 {
            let index = actor.rng.usize(..self.list.len().max(1));
            if let Some((_, position)) = self.list.get(index).copied() {
                match heap.make_durable(position) {
                    Ok(()) => assert!(heap.is_durable(position), "it was made durable"),
                    Err(HeapError::InDoubt(_)) => {
                        let failed = self.list.drain(..).filter(|(_, position)| !heap.is_durable(*position));
                        failed.for_each(|(ticket, _)| actor.in_doubt(ticket));
                    }
                    Err(error) => panic!("a transaction can't be made durable: {error}"),
                }
            }
        }
        self.list.retain(|(ticket, position)| {
            let is_durable = heap.is_durable(*position);
            if is_durable {
                actor.returned(*ticket);
            }
            !is_durable
        });
    }
}
