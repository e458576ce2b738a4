//! Reading: one record, or one after the other.

use crate::append_log::AppendLog;
use crate::bugs;
use crate::error::{AppendLogError, Damage};
use crate::scan::{Step, step};
use lode_layout::LogRecordKind;
use lode_pmem::Medium;
use lode_pmem::sync::{Ordering, fence};

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its position.
    pub position: u64,
    /// The position after it, where the next one begins.
    pub next: u64,
}

/// A walk from record to record. It goes on where it was when there are more.
#[derive(Debug)]
pub struct Walk<'l, M: Medium> {
    log: &'l AppendLog<M>,
    position: u64,
    /// True if it reads only what is durable.
    is_follower: bool,
}

impl<M: Medium> AppendLog<M> {
    /// Walks from the record at `position`, which an append or a walk returned, or from the [head](AppendLog::head).
    pub fn walk(&self, position: u64) -> Walk<'_, M> {
        Walk { log: self, position, is_follower: false }
    }

    /// Walks as [`walk`](AppendLog::walk) does, and returns only records that are durable: for readers that act on what they
    /// read while others append.
    pub fn follow(&self, position: u64) -> Walk<'_, M> {
        Walk { log: self, position, is_follower: true }
    }

    /// Reads the content of the record at `position`, which an append or a walk returned.
    ///
    /// # Errors
    /// [`AppendLogError::NoRecord`], [`AppendLogError::Dropped`]; [`AppendLogError::Damaged`] or [`AppendLogError::Memory`] if it
    /// is not what was appended. The content of `into` has no meaning then.
    ///
    /// # Cost
    /// No drain; the checksum of the content.
    pub fn read(&self, position: u64, into: &mut Vec<u8>) -> Result<LogRecord, AppendLogError> {
        let end = self.end();
        if !position.is_multiple_of(lode_layout::WORD) || position >= end {
            return Err(AppendLogError::NoRecord { position });
        }
        self.check_live(position)?;
        let found = self.medium().memory().reading(|memory| self.area.record(memory, position, end, into));
        self.check_live(position)?;
        match found? {
            Some(found) if found.header.kind == LogRecordKind::Filler => {
                Err(AppendLogError::NoRecord { position })
            }
            Some(found) if found.is_sound => Ok(LogRecord { position, next: found.header.next() }),
            Some(found) => Err(self.damage(position, found.header.next())),
            None => Err(AppendLogError::NoRecord { position }),
        }
    }

    fn damage(&self, position: u64, next: u64) -> AppendLogError {
        let (len, at) = (next - position, self.area.at(position));
        Damage::Records { position, len, at }.into()
    }

    /// Fails if the record at `position` was dropped, perhaps while it was read.
    fn check_live(&self, position: u64) -> Result<(), AppendLogError> {
        // ORDER: acquires: loads of the record come before that of the head.
        fence(Ordering::Acquire);
        match self.head() {
            head if position < head => Err(AppendLogError::Dropped { position, head }),
            _ => Ok(()),
        }
    }
}

impl<M: Medium> Walk<'_, M> {
    /// Returns the position of the next record.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads the content of the next record. Returns `None` if there is none yet.
    ///
    /// # Errors
    /// [`AppendLogError::Damaged`] with the range, or [`AppendLogError::Memory`], if records are not what was appended: the
    /// next call goes on after them. [`AppendLogError::Dropped`] if a truncation dropped the record: the next call goes on at the
    /// head. [`AppendLogError::NoRecord`] if the walk began at a wrong position.
    ///
    /// # Cost
    /// No drain; the checksum of the content. Damage whose length is not known takes a search for the next record.
    #[allow(clippy::should_implement_trait, reason = "the content is lent by the caller")]
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<Option<LogRecord>, AppendLogError> {
        loop {
            let end = self.end();
            let position = self.position;
            if !position.is_multiple_of(lode_layout::WORD) {
                return Err(AppendLogError::NoRecord { position });
            }
            if position >= end {
                return Ok(None);
            }
            let found = step(&self.log.area, self.log.medium().memory(), position, end, into);
            if let Err(error) = self.log.check_live(position) {
                self.position = self.log.head();
                return Err(error);
            }
            match found {
                Step::Intact(header) => {
                    self.position = header.next();
                    if header.kind != LogRecordKind::Filler {
                        return Ok(Some(LogRecord { position, next: self.position }));
                    }
                }
                Step::Damaged { next, fault } => {
                    self.position = next;
                    return Err(match fault {
                        Some(fault) => AppendLogError::Memory(fault),
                        None => self.log.damage(position, next),
                    });
                }
            }
        }
    }

    fn end(&self) -> u64 {
        if self.is_follower && !bugs::FOLLOWED_BEFORE_DURABLE.is_active() {
            self.log.durable()
        } else {
            self.log.end()
        }
    }
}
