//! Transactions of a program: ranges that it stores to in place, new objects, and freed ones.

use super::continued::Continued;
use super::spill::Spills;
use super::{Action, Pool, Request, Reservation};
use crate::begin::begin;
use crate::bugs;
use crate::error::ObjError;
use crate::heap::Publication;
use lode_layout::{PoolOffset, Record, WORD};
use lode_pmem::{FaultScope, Medium};
use lode_redo::Ranges;
use lode_redo::cover::{Changes, CoverError, OpenTransaction};
use std::ops::Range;

/// Most words that a record stores beside ranges.
const WORDS_MAX: usize = 16;

/// The consequences of a commit that is refused.
#[derive(Clone, Copy, Debug)]
struct Refusal<'k> {
    /// Ranges whose bytes stay as they are.
    kept: &'k [Range<u64>],
    keeps_reservations: bool,
}

/// An open transaction. It belongs to no thread, and borrows nothing. One that is dropped without an end stays open until the pool
/// is closed, or crashes: it is rolled back then.
#[derive(Debug)]
#[must_use = "a transaction that is dropped stays open"]
pub struct Transaction {
    open: OpenTransaction,
    spills: Spills,
    /// Ranges without old bytes: new objects, and what the program asked for.
    unsnapshotted: Ranges,
    actions: Vec<Action>,
    /// New objects that were freed again.
    dropped: Vec<PoolOffset>,
}

impl<M: Medium> Pool<M> {
    /// Begins a transaction. Waits for the end of another one while 1024 are open.
    ///
    /// # Errors
    /// None today.
    pub fn begin(&self) -> Result<Transaction, ObjError> {
        let open = begin(&self.cover)?;
        Ok(Transaction {
            open,
            spills: Spills::default(),
            unsnapshotted: Ranges::default(),
            actions: Vec::new(),
            dropped: Vec::new(),
        })
    }

    /// Adds a range, which the program may store to from now on. The range may be of any size that the pool has free space for.
    /// Parts that were added before, or are in objects that this transaction has allocated, cost nothing.
    ///
    /// # Errors
    /// [`ObjError::OutsideHeap`]; an error of the heap if the old bytes need more space than the heap has; [`ObjError::Cover`].
    ///
    /// # Durability
    /// A crash before the end of [`commit`](Pool::commit) leaves the range as it is now.
    ///
    /// # Cost
    /// None on the medium if the log covers the range; otherwise one drain. What is too large for the log's record costs two
    /// drains for each MiB.
    pub fn add_range(&self, tx: &mut Transaction, at: PoolOffset, len: u64) -> Result<(), ObjError> {
        self.check_in_heap(at, len)?;
        let range = at.get()..at.get() + len;
        if !tx.unsnapshotted.overlaps(&range) && !tx.spills.ranges().overlaps(&range) {
            return self.keep(tx, range);
        }
        let beside_objects = tx.unsnapshotted.parts_beside(range);
        let of_part = |part| tx.spills.ranges().parts_beside(part);
        let parts: Vec<_> = beside_objects.into_iter().flat_map(of_part).collect();
        parts.into_iter().try_for_each(|part| self.keep(tx, part))
    }

    /// Keeps the old bytes of a range, of which neither new objects nor spilled ranges have a part.
    fn keep(&self, tx: &mut Transaction, range: Range<u64>) -> Result<(), ObjError> {
        let (at, len) = (PoolOffset::new(range.start), range.end - range.start);
        if tx.open.record_len() + len <= self.cover.ranges_len_max() {
            match self.cover.add_range(&mut tx.open, at, len) {
                Err(CoverError::TooLarge { .. }) => {}
                outcome => return Ok(outcome?),
            }
        }
        for part in self.cover.parts_not_added(&tx.open, at, len) {
            self.spill(&mut tx.spills, part)?;
        }
        Ok(())
    }

    /// Adds a range that the commit makes durable and an abort leaves as it is.
    ///
    /// # Errors
    /// [`ObjError::OutsideHeap`].
    pub fn add_without_snapshot(
        &self,
        tx: &mut Transaction,
        at: PoolOffset,
        len: u64,
    ) -> Result<(), ObjError> {
        self.check_in_heap(at, len)?;
        let not_added = self.cover.parts_not_added(&tx.open, at, len);
        let not_spilled = not_added.into_iter().flat_map(|part| tx.spills.ranges().parts_beside(part));
        let parts: Vec<_> = not_spilled.flat_map(|part| tx.unsnapshotted.parts_beside(part)).collect();
        parts.into_iter().for_each(|part| tx.unsnapshotted.add_apart(part));
        Ok(())
    }

    /// Allocates an object, whose content the commit makes durable.
    ///
    /// # Errors
    /// As [`reserve`](Pool::reserve).
    pub fn allocate(&self, tx: &mut Transaction, request: &Request) -> Result<Reservation, ObjError> {
        let reservation = self.heap.reserve(&self.cover, request)?;
        let at = reservation.at.get();
        tx.unsnapshotted.add_apart(at..at + reservation.usable_size);
        tx.actions.push(Action::Allocate(reservation));
        Ok(reservation)
    }

    /// Frees the object at commit. One that the same transaction has allocated is freed at once: true is returned then. An object that the
    /// transaction has freed already stays so.
    ///
    /// # Errors
    /// [`ObjError::Damaged`] if no object begins at `at`.
    pub fn free(&self, tx: &mut Transaction, at: PoolOffset) -> Result<bool, ObjError> {
        let is_it = |action: &Action| matches!(action, Action::Allocate(reservation) if reservation.at == at);
        if tx.unsnapshotted.begins_at(at.get())
            && let Some(index) = tx.actions.iter().rposition(is_it)
            && let Action::Allocate(reservation) = tx.actions.remove(index)
        {
            tx.unsnapshotted.remove_within(&(at.get()..at.get() + reservation.usable_size));
            self.heap.cancel(&reservation);
            tx.dropped.push(at);
            return Ok(true);
        }
        match self.heap.check_object(self.cover.medium(), at) {
            Err(_) if tx.dropped.contains(&at) => {}
            checked => {
                checked?;
                tx.actions.push(Action::Free(at));
            }
        }
        Ok(false)
    }

    /// Lets the transaction publish the actions when it commits; when it aborts, reservations are given up. The content of reserved
    /// objects is the program's to persist.
    ///
    /// # Errors
    /// [`ObjError::OutsideHeap`] of a word to store.
    pub fn publish_in(&self, tx: &mut Transaction, actions: &[Action]) -> Result<(), ObjError> {
        for action in actions {
            if let Action::Store { at, .. } = action {
                self.check_in_heap(*at, WORD)?;
            }
        }
        tx.actions.extend_from_slice(actions);
        Ok(())
    }

    /// Makes all changes of the transaction durable.
    ///
    /// # Errors
    /// [`ObjError::Cover`] with [`CoverError::TooLarge`] if it allocates and frees more than a record holds, and the errors of the
    /// heap: the transaction is aborted. After another error of the log the next open decides.
    ///
    /// # Durability
    /// Durable on return. After a crash before the return, all of it is there or nothing.
    ///
    /// # Cost
    /// One drain. Another one for each new object of more than 1 KiB, and for each spilled range.
    pub fn commit(&self, tx: Transaction) -> Result<(), ObjError> {
        self.commit_keeping(tx, &[])
    }

    /// Commits as [`commit`](Pool::commit) does; if that aborts, the bytes of the ranges `kept` stay as they are, as in
    /// [`abort_keeping`](Pool::abort_keeping).
    ///
    /// # Errors
    /// As [`commit`](Pool::commit).
    pub fn commit_keeping(&self, tx: Transaction, kept: &[Range<u64>]) -> Result<(), ObjError> {
        self.commit_or(tx, Refusal { kept, keeps_reservations: false })
    }

    /// Publishes actions by a transaction, since a record may not hold them. After a refusal the reservations are still there.
    pub(super) fn publish_many(&self, actions: &[Action]) -> Result<(), ObjError> {
        let mut tx = self.begin()?;
        let refusal = Refusal { kept: &[], keeps_reservations: true };
        if let Err(error) = self.publish_in(&mut tx, actions) {
            return self.refuse(tx, None, refusal, error);
        }
        self.commit_or(tx, refusal)
    }

    /// Commits a transaction; if that is refused, its reservations are given up or kept.
    fn commit_or(&self, mut tx: Transaction, refusal: Refusal<'_>) -> Result<(), ObjError> {
        if tx.actions.is_empty() && tx.spills.is_empty() && tx.unsnapshotted.is_empty() {
            return Ok(self.cover.commit_keeping(tx.open, Changes::default(), refusal.kept)?);
        }
        if let Err(error) = self.store_words(&mut tx) {
            return self.refuse(tx, None, refusal, error);
        }
        // Before the heap is held, and after all else that may move the log: what a record holds is less then.
        let mut continued = match self.space_for_entries(tx.actions.len()) {
            Ok(continued) => continued,
            Err(error) => return self.refuse(tx, None, refusal, error),
        };
        let mut record = None;
        let mut publication = match self.prepare(&tx, continued.as_mut(), &mut record) {
            Ok(publication) => publication,
            Err(error) => return self.refuse(tx, continued, refusal, error),
        };
        for range in tx.unsnapshotted.iter() {
            publication.push_object(PoolOffset::new(range.start), range.end - range.start);
        }
        let ranges: Vec<_> = continued.iter().map(|continued| continued.range).collect();
        let changes = match &record {
            None => publication.changes(),
            Some(record) => Changes { entries: record.body(), continued: &ranges, ..publication.changes() },
        };
        let Transaction { open, spills, actions, .. } = tx;
        match self.cover.commit_keeping(open, changes, refusal.kept) {
            Ok(()) => {
                publication.done();
                self.leave_spills(spills);
                self.leave_continued(continued);
                Ok(())
            }
            // No record was written: the ranges have their old bytes.
            Err(error) if !self.cover.has_failed() => {
                drop(publication);
                let given_up = if refusal.keeps_reservations { &[] } else { &actions[..] };
                self.give_up(&spills, given_up, refusal.kept)?;
                self.leave_spills(spills);
                continued.iter().for_each(|continued| self.heap.cancel(&continued.space));
                Err(error.into())
            }
            // The record may be durable, so nothing is put back, and no space is given away. The next open decides.
            Err(error) => Err(error.into()),
        }
    }

    /// Prepares a commit: the new bytes of spilled ranges are durable, and `entries` has the entries if they are not those of the
    /// publication alone.
    fn prepare(
        &self,
        tx: &Transaction,
        continued: Option<&mut Continued>,
        entries: &mut Option<Record>,
    ) -> Result<Publication<'_>, ObjError> {
        // ORDER: the new bytes are durable before the record that clears the words of the spills. Stop here: the old ones count.
        if !tx.spills.is_empty() && !bugs::SPILLED_NOT_PERSISTED.is_active() {
            let ranges = tx.spills.ranges().iter();
            self.cover
                .persist_all(ranges.map(|range| (PoolOffset::new(range.start), range.end - range.start)))?;
        }
        let publication = self.heap.prepare(&self.cover, &tx.actions)?;
        if tx.spills.is_empty() && continued.is_none() {
            return Ok(publication);
        }
        let record = entries.get_or_insert_default();
        record.push_entries(publication.changes().entries);
        tx.spills.push_clearing(self.words, record);
        if let Some(continued) = continued {
            self.continue_in(continued, record)?;
        }
        Ok(publication)
    }

    /// Makes many words to store ranges of the transaction: each would take an image of its unit in the record.
    fn store_words(&self, tx: &mut Transaction) -> Result<(), ObjError> {
        let words: Vec<(PoolOffset, u64)> = tx.actions.iter().filter_map(Action::word).collect();
        if words.len() <= WORDS_MAX {
            return Ok(());
        }
        for (at, value) in words {
            self.add_range(tx, at, WORD)?;
            FaultScope::run(|| self.medium.store8(at, value))?;
        }
        tx.actions.retain(|action| action.word().is_none());
        Ok(())
    }

    /// Aborts a transaction whose commit was refused.
    fn refuse(
        &self,
        mut tx: Transaction,
        continued: Option<Continued>,
        refusal: Refusal<'_>,
        error: ObjError,
    ) -> Result<(), ObjError> {
        if refusal.keeps_reservations {
            tx.actions.clear();
        }
        continued.iter().for_each(|continued| self.heap.cancel(&continued.space));
        self.abort_keeping(tx, refusal.kept)?;
        Err(error)
    }

    /// Puts the old bytes back, and gives up what was allocated.
    ///
    /// # Errors
    /// [`ObjError::Cover`] if the old bytes can't be stored: the next open puts them back.
    ///
    /// # Cost
    /// No drain, but for spilled ranges.
    pub fn abort(&self, tx: Transaction) -> Result<(), ObjError> {
        self.abort_keeping(tx, &[])
    }

    /// Aborts as [`abort`](Pool::abort) does, but leaves the bytes of the ranges `kept` as they are: locks that the program holds. The
    /// ranges are in the order of their offsets, and none overlaps another. After a crash they have their old bytes.
    ///
    /// # Errors
    /// As [`abort`](Pool::abort).
    pub fn abort_keeping(&self, tx: Transaction, kept: &[Range<u64>]) -> Result<(), ObjError> {
        let Transaction { open, spills, actions, .. } = tx;
        self.cover.abort_keeping(open, kept)?;
        self.give_up(&spills, &actions, kept)?;
        self.leave_spills(spills);
        Ok(())
    }

    /// Puts spilled bytes back, and gives up what was reserved.
    fn give_up(&self, spills: &Spills, actions: &[Action], kept: &[Range<u64>]) -> Result<(), ObjError> {
        if !spills.is_empty() {
            // Recovery would put the old bytes back over what later transactions commit.
            self.put_back(spills, kept).inspect_err(|_| self.cover.fail())?;
        }
        for action in actions {
            if let Action::Allocate(reservation) = action {
                self.heap.cancel(reservation);
            }
        }
        Ok(())
    }

    fn check_in_heap(&self, at: PoolOffset, len: u64) -> Result<(), ObjError> {
        let (start, end) =
            (self.words.start().get() + lode_layout::ObjWords::LEN, self.medium.memory().len());
        let is_inside = at.get() >= start && at.get().checked_add(len).is_some_and(|last| last <= end);
        if is_inside { Ok(()) } else { Err(ObjError::OutsideHeap { at, len }) }
    }
}
