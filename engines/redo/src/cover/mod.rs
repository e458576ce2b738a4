//! One fence under stores in place: memory that programs store to without the log, and transactions over it.
//!
//! The log *covers* a unit of the pool once it holds an image of it: recovery rewrites the unit to its last logged content.
//! A unit is 256 bytes, or a page at durability commit.
//!
//! ```text
//!   add_range:   keep the old bytes in DRAM -> claim the free units -> log their images (the one fence) -> covered
//!   the program stores in place
//!   commit:      log what the ranges hold now, and the library's words (the one fence) -> write the words back
//!   abort:       put the old bytes back
//!   persist:     flush, drain; where the log covers the unit, log the bytes
//!   checkpoint:  log images of the units of open transactions anew -> flush -> slot -> all other units are free
//!   recover:     the images, in order; then all else, in order
//! ```
//!
//! In [careful mode](Mode::Careful) the log covers the ranges of open transactions alone, for programs that flush by themselves.
//! `docs/decisions/covered-units.md` argues each rule.
//!
//! # Cost
//! A transaction over covered units: one fence. One over free units: another one for each [`Transaction::add_range`].

mod area;
mod careful;
mod claims;
mod commit;
mod content;
mod epoch;
mod error;
mod image_hooks;
mod limits;
mod mode;
mod open_transaction;
mod open_transactions;
mod persist;
mod snapshots;
mod transaction;
mod units;

pub use crate::ranges::parts_beside;
pub use commit::Changes;
pub use error::CoverError;
pub use mode::Mode;
pub use open_transaction::OpenTransaction;
pub use transaction::Transaction;

use crate::{Log, LogArea, LogError, Recovery, bugs, slots};
use area::LogAreas;
use epoch::EpochHooks;
use limits::{CurrentLimits, Limits};
use lode_layout::{BLOCK, Geometry, PoolOffset, WORD};
use lode_pmem::{Counter, Durability, Medium};
use open_transactions::OpenTransactions;
use snapshots::Snapshots;
use std::ops::Range;
use std::sync::Arc;
use units::Units;

/// Length of a unit in bytes, except at durability commit.
const UNIT: u64 = 256;
/// Words of the head of an entry with content.
const HEAD_WORDS: u64 = 2;

/// Memory that programs store to in place, and its log: a part of a pool, all but the log.
#[derive(Debug)]
pub struct Cover<M: Medium> {
    log: Log<M>,
    covered: Arc<Covered>,
    /// Offset of the first byte that programs may store to.
    start: PoolOffset,
    areas: LogAreas,
    limits: CurrentLimits,
    mode: Mode,
    /// The numbers of old bytes, and of words, that are pending.
    pending_ids: Counter,
}

/// The state that threads share beside the log.
#[derive(Debug)]
struct Covered {
    units: Units,
    open: OpenTransactions,
}

impl<M: Medium> Cover<M> {
    /// Opens the memory of the pool `uuid` from `start` on, all but the log in `area`, as [`Log::recover`] opens the log. `start` is a
    /// multiple of 4096, and lies after the checkpoint slots. At most `transactions` may be open at a time.
    ///
    /// # Errors
    /// [`CoverError::LogTooShort`]; [`CoverError::Log`] as [`Log::recover`].
    ///
    /// # Durability
    /// What transactions and persists had made durable when they returned is there. A transaction that had not committed is not.
    ///
    /// # Cost
    /// That of [`Log::recover`], and two drains. Two bits of DRAM for each unit of the pool.
    pub fn recover(
        medium: M,
        area: LogArea,
        start: PoolOffset,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
        transactions: usize,
    ) -> Result<(Cover<M>, Recovery), CoverError> {
        let areas = LogAreas::one(area);
        Cover::recover_in(medium, areas, start, uuid, log_epoch, transactions)
    }

    /// Opens memory as [`recover`](Cover::recover) does, whose log lies in the first of two areas, or in the second if it has
    /// [moved](Cover::move_log).
    ///
    /// # Errors
    /// As [`recover`](Cover::recover).
    pub fn recover_movable(
        medium: M,
        [first, second]: [LogArea; 2],
        start: PoolOffset,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
        transactions: usize,
    ) -> Result<(Cover<M>, Recovery), CoverError> {
        let slot = medium.memory().reading(|memory| slots::read(memory, &uuid)).map_err(LogError::from)?;
        let areas = LogAreas::two(first, second, slot.is_some_and(|slot| slot.in_second_area));
        Cover::recover_in(medium, areas, start, uuid, log_epoch, transactions)
    }

    fn recover_in(
        medium: M,
        areas: LogAreas,
        start: PoolOffset,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
        transactions: usize,
    ) -> Result<(Cover<M>, Recovery), CoverError> {
        debug_assert!(
            start >= Geometry::LOG && start.get().is_multiple_of(BLOCK),
            "recovery believes no record of headers and slots, and images have whole pages"
        );
        let (mut log, recovery) = Log::recover(medium, areas.current(), uuid, log_epoch)?;
        let unit = if log.medium().durability() == Durability::Commit { BLOCK } else { UNIT };
        if (log.record_words_max() as u64) < words_of_unit(unit) {
            return Err(CoverError::LogTooShort { len: areas.current().len, unit });
        }
        if !bugs::EPOCH_NOT_BEGUN.is_active() {
            // ORDER: the old epoch has ended before a store in place becomes durable. Stop here: recovery does the same again.
            log.begin_epoch()?;
        }
        let covered = Arc::new(Covered {
            units: Units::new(log.medium().memory().len(), unit),
            open: OpenTransactions::new(transactions, unit),
        });
        log.hook_checkpoints(Box::new(EpochHooks::new(Arc::clone(&covered))));
        log.bias_to_opener();
        let limits = Limits::of(log.rings(), log.ring_len_in(areas.current()), unit, transactions);
        let (limits, mode, pending_ids) = (CurrentLimits::new(limits), Mode::Fast, Counter::new(1));
        Ok((Cover { log, covered, start, areas, limits, mode, pending_ids }, recovery))
    }

    /// Chooses the mode before the first transaction and the first persist.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        self.log.medium()
    }

    /// Takes the bytes by which the medium's memory has grown: ranges may lie in them from now on.
    ///
    /// # Cost
    /// No access to the medium. Two bits of DRAM for each new unit, and at most as many again.
    pub fn grow(&self) {
        self.covered.units.grow(self.medium().memory().len());
    }

    /// Begins a transaction. It belongs to no thread.
    ///
    /// # Errors
    /// [`CoverError::TooManyOpen`].
    ///
    /// # Cost
    /// No access to the medium.
    pub fn begin(&self) -> Result<Transaction<'_, M>, CoverError> {
        Ok(Transaction::new(self, self.begin_open()?))
    }

    /// Begins a transaction without a guard, as [`begin`](Cover::begin) does. Its end is a call of [`commit`](Cover::commit) or
    /// [`abort`](Cover::abort).
    ///
    /// # Errors
    /// As [`begin`](Cover::begin).
    pub fn begin_open(&self) -> Result<OpenTransaction, CoverError> {
        let place = self.covered.open.take(self.medium());
        place.map(OpenTransaction::new).ok_or(CoverError::TooManyOpen { open: self.covered.open.count() })
    }

    /// Adds a range to a transaction, as [`Transaction::add_range`] does.
    ///
    /// # Errors
    /// As [`Transaction::add_range`].
    pub fn add_range(
        &self,
        transaction: &mut OpenTransaction,
        at: PoolOffset,
        len: u64,
    ) -> Result<(), CoverError> {
        transaction.add_range(self, at, len)
    }

    /// Commits a transaction, as [`Transaction::commit`] does.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit(&self, transaction: OpenTransaction, changes: Changes<'_>) -> Result<(), CoverError> {
        Transaction::new(self, transaction).commit(changes)
    }

    /// Commits as [`commit`](Cover::commit) does; if that aborts, the bytes of the ranges `kept` stay as they are, as in
    /// [`abort_keeping`](Cover::abort_keeping).
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_keeping(
        &self,
        transaction: OpenTransaction,
        changes: Changes<'_>,
        kept: &[Range<u64>],
    ) -> Result<(), CoverError> {
        Transaction::new(self, transaction).keeping(kept).commit(changes)
    }

    /// Aborts a transaction, as [`Transaction::abort`] does.
    ///
    /// # Errors
    /// As [`Transaction::abort`].
    pub fn abort(&self, transaction: OpenTransaction) -> Result<(), LogError> {
        Transaction::new(self, transaction).abort()
    }

    /// Aborts a transaction as [`abort`](Cover::abort) does, but leaves the bytes of the ranges `kept` as they are, which are in the order
    /// of their offsets and do not overlap. After a crash they have their old bytes.
    ///
    /// # Errors
    /// As [`Transaction::abort`].
    pub fn abort_keeping(&self, transaction: OpenTransaction, kept: &[Range<u64>]) -> Result<(), LogError> {
        Transaction::new(self, transaction).keeping(kept).abort()
    }

    /// Returns the parts of a range that a transaction has not added.
    pub fn parts_not_added(
        &self,
        transaction: &OpenTransaction,
        at: PoolOffset,
        len: u64,
    ) -> Vec<Range<u64>> {
        let mut snapshots = self.covered.open.snapshots(transaction.place, self.medium());
        snapshots.parts_not_kept(at.get()..at.get() + len)
    }

    /// Returns the most bytes of a record, of which a transaction has one.
    pub fn record_len_max(&self) -> u64 {
        self.limits.record_words() * WORD
    }

    /// Returns the most bytes of its record that the ranges of a transaction should take: the rest is for what else it commits, and the log
    /// [moves](Cover::move_log) if no transaction has more.
    pub fn ranges_len_max(&self) -> u64 {
        self.limits.ranges_words() * WORD
    }

    /// Returns true if the log accepts no more records: an error of a commit then says nothing about its record.
    pub fn has_failed(&self) -> bool {
        self.log.check_not_failed().is_err()
    }

    /// Lets the log accept no more records, after an error that only the next open can mend.
    pub fn fail(&self) {
        self.log.fail();
    }

    /// Makes all changes so far durable at home, and frees the log's space. Open transactions stay open.
    ///
    /// # Errors
    /// Those of [`Log::checkpoint`].
    ///
    /// # Cost
    /// That of [`Log::checkpoint`], and a drain for each record with images of the units of open transactions.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.log.checkpoint()
    }

    /// Closes the log. Transactions that have not ended are aborted.
    ///
    /// # Errors
    /// Those of [`Log::close`].
    pub fn close(self) -> Result<(), LogError> {
        for place in self.covered.open.taken() {
            transaction::put_back(&self, place, &[])?;
        }
        self.log.close()
    }

    /// Returns an error if a range is not in the memory that programs store to.
    fn check_range(&self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        let end = self.covered.units.len();
        let area = self.log_area();
        let log = area.start.get()..area.start.get() + area.len;
        let is_admitted = |last: u64| last <= end && (last <= log.start || at.get() >= log.end);
        if at >= self.start && at.get().checked_add(len).is_some_and(is_admitted) {
            return Ok(());
        }
        let (start, log_start, log_end) = (self.start.get(), log.start, log.end);
        Err(CoverError::OutOfRange { at: at.get(), len, start, end, log_start, log_end })
    }

    /// Ends the transaction at a place. All that its end stores is stored.
    fn leave(&self, place: usize) {
        let end = |snapshots: &mut Snapshots| self.limits.reduce(&mut snapshots.allowance, 0);
        self.covered.open.leave(place, self.medium(), end);
    }

    /// Extends the allowance of a place to `needed` bytes of the log, or more.
    fn extend(&self, allowance: &mut u64, needed: u64) -> Result<(), CoverError> {
        let least = needed - *allowance;
        self.limits.extend(allowance, needed).map_err(|room| CoverError::TooLarge { needed: least, room })
    }

    /// Returns the error for a record of so many words.
    fn too_large(&self, words: u64) -> CoverError {
        CoverError::TooLarge { needed: words * WORD, room: self.limits.record_words() * WORD }
    }

    /// Returns the number of units that a record may hold together with as many bytes of other entries.
    fn units_in_record(&self) -> u64 {
        self.limits.record_words() / words_of_unit(self.covered.units.unit_len())
    }

    /// Splits a range into parts whose units fit into a record.
    fn parts(&self, at: PoolOffset, len: u64) -> impl Iterator<Item = (PoolOffset, u64)> + use<M> {
        let step = self.units_in_record() * self.covered.units.unit_len();
        let (from, end) = (at.get(), at.get() + len);
        let starts = (from / step..end.div_ceil(step)).map(move |part| (part * step).max(from));
        starts.map(move |start| (PoolOffset::new(start), ((start / step + 1) * step).min(end) - start))
    }
}

/// Returns the words of a record for the image of a unit, and as many bytes of other entries.
fn words_of_unit(unit: u64) -> u64 {
    2 * (unit / WORD + 2 * HEAD_WORDS)
}
