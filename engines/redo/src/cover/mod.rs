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
//! `docs/decisions/covered-units.md` argues each rule.
//!
//! # Cost
//! A transaction over covered units: one fence. One over free units: another one for each [`Transaction::add_range`].

mod claims;
mod commit;
mod epoch;
mod error;
mod image_hooks;
mod open_transactions;
mod persist;
mod snapshots;
mod transaction;
mod units;

pub use commit::Changes;
pub use error::CoverError;
pub use transaction::Transaction;

use crate::{Log, LogArea, LogError, Recovery, bugs};
use epoch::EpochHooks;
use lode_layout::{BLOCK, PoolOffset, WORD};
use lode_pmem::sync::{AtomicU64, Ordering};
use lode_pmem::{Durability, Medium};
use open_transactions::OpenTransactions;
use std::sync::Arc;
use units::Units;

/// Length of a unit in bytes, except at durability commit.
const UNIT: u64 = 256;
/// Words of the head of an entry with content.
const HEAD_WORDS: u64 = 2;

/// Memory that programs store to in place, after its log in a pool.
#[derive(Debug)]
pub struct Cover<M: Medium> {
    log: Log<M>,
    covered: Arc<Covered>,
    /// Offset of the first byte that programs store to.
    start: PoolOffset,
}

/// The state that threads share beside the log.
#[derive(Debug)]
struct Covered {
    units: Units,
    open: OpenTransactions,
    /// Bytes of the log that images of the units of all open transactions take.
    held: AtomicU64,
}

impl<M: Medium> Cover<M> {
    /// Opens the memory after the log in `area` of the pool `uuid`, as [`Log::recover`] opens the log. At most `transactions` may be
    /// open at a time.
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
        uuid: [u8; 16],
        log_epoch: [u64; 2],
        transactions: usize,
    ) -> Result<(Cover<M>, Recovery), CoverError> {
        let (mut log, recovery) = Log::recover(medium, area, uuid, log_epoch)?;
        let unit = if log.medium().durability() == Durability::Commit { BLOCK } else { UNIT };
        if (log.record_words_max() as u64) < words_of_unit(unit) {
            return Err(CoverError::LogTooShort { len: area.len, unit });
        }
        if !bugs::EPOCH_NOT_BEGUN.is_active() {
            // ORDER: the old epoch has ended before a store in place becomes durable. Stop here: recovery does the same again.
            log.begin_epoch()?;
        }
        let covered = Arc::new(Covered {
            units: Units::new(log.medium().memory().len(), unit),
            open: OpenTransactions::new(transactions),
            held: AtomicU64::new(0),
        });
        log.hook_checkpoints(Box::new(EpochHooks::new(Arc::clone(&covered))));
        Ok((Cover { log, covered, start: area.start.plus(area.len) }, recovery))
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        self.log.medium()
    }

    /// Begins a transaction. It belongs to no thread.
    ///
    /// # Errors
    /// [`CoverError::TooManyOpen`].
    ///
    /// # Cost
    /// No access to the medium.
    pub fn begin(&self) -> Result<Transaction<'_, M>, CoverError> {
        let place = self.covered.open.take();
        place
            .map(|place| Transaction::new(self, place))
            .ok_or(CoverError::TooManyOpen { open: self.covered.open.count() })
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

    /// Closes the log. Transactions that were forgotten without an end are aborted.
    ///
    /// # Errors
    /// Those of [`Log::close`].
    pub fn close(self) -> Result<(), LogError> {
        for place in self.covered.open.taken() {
            transaction::put_back(&self, place)?;
        }
        self.log.close()
    }

    /// Returns an error if a range is not in the memory that programs store to.
    fn check_range(&self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        let end = self.medium().memory().len();
        let is_inside = at >= self.start && at.get().checked_add(len).is_some_and(|last| last <= end);
        if is_inside { Ok(()) } else { Err(CoverError::OutOfRange { at: at.get(), len, end }) }
    }

    /// Returns the number of units that a record may hold together with as many bytes of other entries.
    fn units_in_record(&self) -> u64 {
        self.log.record_words_max() as u64 / words_of_unit(self.covered.units.unit_len())
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

impl Covered {
    /// Takes `needed` bytes of the log's share for open transactions, which is `room` bytes.
    fn hold(&self, needed: u64, room: u64) -> Result<(), CoverError> {
        // ORDER: none: a bound, counted apart from what it bounds.
        let mut held = self.held.load(Ordering::Relaxed);
        while let Some(sum) = held.checked_add(needed).filter(|sum| *sum <= room) {
            match self.held.compare_exchange(held, sum, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(found) => held = found,
            }
        }
        Err(CoverError::TooLarge { needed, room: room.saturating_sub(held) })
    }

    /// Gives bytes of the share back.
    fn release(&self, bytes: u64) {
        // ORDER: as in `hold`.
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}
