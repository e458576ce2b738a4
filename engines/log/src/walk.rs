//! Reading: one record, or one after the other.

use crate::append_log::AppendLog;
use crate::area::Found;
use crate::bugs;
use crate::error::AppendLogError;
use crate::frame::{Frame, cut};
use crate::scan::{Step, step};
use lode_layout::LogFrameHeader;
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
    frame: Frame,
    /// True if it reads only what is durable.
    is_follower: bool,
}

impl<M: Medium> AppendLog<M> {
    /// Walks from the record at `position`, which an append or a walk returned, or from the [head](AppendLog::head).
    pub fn walk(&self, position: u64) -> Walk<'_, M> {
        Walk { log: self, position, frame: Frame::default(), is_follower: false }
    }

    /// Walks as [`walk`](AppendLog::walk) does, and returns only records that are durable: for readers that act on what they
    /// read while others append.
    pub fn follow(&self, position: u64) -> Walk<'_, M> {
        Walk { log: self, position, frame: Frame::default(), is_follower: true }
    }

    /// Reads the content of the record at `position`, which an append or a walk returned.
    ///
    /// # Errors
    /// [`AppendLogError::NoRecord`], [`AppendLogError::Dropped`]; [`AppendLogError::Damaged`] or [`AppendLogError::Memory`] if it
    /// is not what was appended. The content of `into` has no meaning then.
    ///
    /// # Cost
    /// No drain; the checksum of the record's frame, which has at most 4096 bytes of other records.
    pub fn read(&self, position: u64, into: &mut Vec<u8>) -> Result<LogRecord, AppendLogError> {
        let end = self.end();
        if position >= end {
            return Err(AppendLogError::NoRecord { position });
        }
        self.check_live(position)?;
        let frame = LogFrameHeader::frame_of(position);
        let found = self.medium().memory().reading(|memory| self.area.frame(memory, frame, end, into));
        self.check_live(position)?;
        match found? {
            Some(Found { header, is_sound: true }) => match cut(&header, position, into) {
                Some(next) => Ok(LogRecord { position, next }),
                None => Err(AppendLogError::NoRecord { position }),
            },
            Some(Found { header, .. }) => Err(self.area.damage(frame, header.next()).into()),
            None => Err(AppendLogError::NoRecord { position }),
        }
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
    /// head. [`AppendLogError::NoRecord`] if the walk began at a wrong position: the next call goes on after its frame.
    ///
    /// # Cost
    /// No drain; the checksum of each frame, at its first record. Damage whose length is not known takes a search for the next
    /// frame.
    #[allow(clippy::should_implement_trait, reason = "the content is lent by the caller")]
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<Option<LogRecord>, AppendLogError> {
        let (position, end) = (self.position, self.end());
        if position >= end {
            return Ok(None);
        }
        let frame = LogFrameHeader::frame_of(position);
        let found = match self.frame.kept(position) {
            Some(header) => Step::Intact(header),
            None => step(&self.log.area, self.log.medium().memory(), frame, end, into),
        };
        if let Err(error) = self.log.check_live(position) {
            self.position = self.log.head();
            return Err(error);
        }
        match found {
            Step::Intact(header) => match self.frame.take(&header, position, into) {
                Some(next) => {
                    self.position = next;
                    Ok(Some(LogRecord { position, next }))
                }
                None => {
                    self.position = header.next();
                    Err(AppendLogError::NoRecord { position })
                }
            },
            Step::Damaged { next, fault } => {
                self.position = next;
                Err(match fault {
                    Some(fault) => AppendLogError::Memory(fault),
                    None => self.log.area.damage(frame, next).into(),
                })
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
