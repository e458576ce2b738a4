//! A view of a log that another process may have open.

use crate::area::{Area, index_in};
use crate::error::{AppendLogError, Damage};
use crate::frame::Frame;
use crate::pool::{LogPool, LogPoolError};
use crate::scan::{Step, find_end, step};
use crate::state::{self, Places, Words};
use crate::walk::LogRecord;
use crate::{descriptor, pool};
use lode_layout::{Geometry, LogDescriptor, LogFrameHeader, LogState};
use lode_pmem::{Fault, Mapping, Medium};
use lode_pool::{Headers, PoolError};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Attempts to read a state that a writer may be changing.
const ATTEMPTS: u32 = 200;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// A walk through a log without a lock and without a store, also while another process appends to it.
///
/// It returns records with their checksums, in order, and never one that was not appended at its position. A record may be
/// returned before it is durable: a power cut can lose it then, as it can lose any that was not acknowledged.
#[derive(Debug)]
pub struct LogView {
    medium: Mapping,
    geometry: Geometry,
    uuid: [u8; 16],
    descriptor: LogDescriptor,
    places: Places,
    area: Area,
    state: LogState,
    /// The copies of the state, as they were when it was read. A writer overwrites no record that is live by them.
    words: [Words; 2],
    /// Position up to which there are records, or damaged ones.
    end: u64,
    position: u64,
    frame: Frame,
}

impl LogView {
    /// Opens the log of the pool at `path`, at its head.
    ///
    /// # Errors
    /// [`LogPoolError`], but never because another process has the pool open.
    ///
    /// # Cost
    /// Reads the records after the end that was noted last.
    pub fn open(path: &Path) -> Result<LogView, LogPoolError> {
        let at = |error: PoolError| PoolError::At { path: path.to_owned(), error: Box::new(error) };
        let medium = Mapping::options().private_view().open(path)?;
        let header = *Headers::read(&medium).map_err(at)?.current();
        if header.layout != LogPool::layout() {
            return Err(LogPoolError::Layout { path: path.to_owned(), layout: header.layout });
        }
        LogView::over(medium, header.geometry, header.uuid.into_bytes()).map_err(pool::error_of(path))
    }

    fn over(medium: Mapping, geometry: Geometry, uuid: [u8; 16]) -> Result<LogView, AppendLogError> {
        let descriptor = descriptor::read(&medium, &geometry)?;
        let area = Area::new(&descriptor, &uuid);
        let places = state::places(&geometry);
        let (words, state) = read_state(&medium, &geometry, &uuid, &descriptor)?;
        let end = find_end(&area, medium.memory(), &state)?.end;
        let position = state.head;
        let frame = Frame::default();
        Ok(LogView { medium, geometry, uuid, descriptor, places, area, state, words, end, position, frame })
    }

    /// Returns the position of the first live record, as it was when the view last looked.
    pub fn head(&self) -> u64 {
        self.state.head
    }

    /// Returns the position of the next record.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes to the record at `position`, which an append or a walk returned, or to the end.
    ///
    /// # Errors
    /// [`AppendLogError::Dropped`]; [`AppendLogError::NoRecord`] if no record begins there.
    pub fn seek(&mut self, position: u64) -> Result<(), AppendLogError> {
        self.refresh()?;
        let head = self.state.head;
        if position < head {
            return Err(AppendLogError::Dropped { position, head });
        }
        let is_record = || {
            let frame = LogFrameHeader::frame_of(position);
            let found = self.medium.memory().reading(|memory| self.area.header(memory, frame, self.end));
            found.ok().flatten().is_some_and(|header| index_in(&header, position).is_some())
        };
        if position != self.end && !is_record() {
            return Err(AppendLogError::NoRecord { position });
        }
        self.position = position;
        Ok(())
    }

    /// Reads the content of the next record. Returns `None` if there is none yet.
    ///
    /// # Errors
    /// [`AppendLogError::Damaged`] with the range, or [`AppendLogError::Memory`]: the next call goes on after it.
    /// [`AppendLogError::Dropped`] if a truncation dropped the record: the next call goes on at the head.
    ///
    /// # Cost
    /// The checksum of each frame, at its first record, and the copies of the state.
    #[allow(clippy::should_implement_trait, reason = "the content is lent by the caller")]
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<Option<LogRecord>, AppendLogError> {
        loop {
            let position = self.position;
            let frame = LogFrameHeader::frame_of(position);
            let found = match self.frame.kept(position) {
                Some(header) => Some(Step::Intact(header)),
                None if position < self.end => {
                    Some(step(&self.area, self.medium.memory(), frame, self.end, into))
                }
                None => self.appended(into)?.map(Step::Intact),
            };
            let is_same = !self.refresh()?;
            let head = self.state.head;
            if position < head {
                self.position = head;
                return Err(AppendLogError::Dropped { position, head });
            }
            match found {
                // The state changed while it was read: another opening may have put another frame here.
                _ if !is_same => {}
                None => return Ok(None),
                Some(Step::Damaged { next, fault }) => {
                    self.position = next;
                    return Err(match fault {
                        Some(fault) => AppendLogError::Memory(fault),
                        None => self.area.damage(frame, next).into(),
                    });
                }
                Some(Step::Intact(header)) => {
                    self.end = self.end.max(header.next());
                    let next = self.frame.take(&header, position, into);
                    self.position = next.unwrap_or(header.next());
                    return match next {
                        Some(next) => Ok(Some(LogRecord { position, next })),
                        None => Err(AppendLogError::NoRecord { position }),
                    };
                }
            }
        }
    }

    /// Reads the frame at the position, if the writer of the last opening has appended one.
    fn appended(&self, into: &mut Vec<u8>) -> Result<Option<LogFrameHeader>, Fault> {
        let limit = self.area.limit(self.state.head);
        if self.position >= limit {
            return Ok(None);
        }
        let found =
            self.medium.memory().reading(|memory| self.area.frame(memory, self.position, limit, into))?;
        let is_of_epoch = |header: &LogFrameHeader| header.epoch == self.state.epoch;
        Ok(found.filter(|found| found.is_sound).map(|found| found.header).filter(is_of_epoch))
    }

    /// Reads the state again if a writer changed it. Returns true if so.
    fn refresh(&mut self) -> Result<bool, AppendLogError> {
        if state::words(&self.medium, &self.places)? == self.words {
            return Ok(false);
        }
        (self.words, self.state) = read_state(&self.medium, &self.geometry, &self.uuid, &self.descriptor)?;
        self.end = self.end.max(self.state.end);
        self.frame.forget();
        Ok(true)
    }
}

/// Reads the state, and its copies as they were meanwhile.
///
/// # Errors
/// Fails if the state can't be read, and no writer is changing it.
fn read_state<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    descriptor: &LogDescriptor,
) -> Result<([Words; 2], LogState), Damage> {
    let places = state::places(geometry);
    let mut attempt = 0;
    loop {
        let before = state::words(medium, &places)?;
        let state = state::newest(medium, geometry, uuid, descriptor);
        let is_same = state::words(medium, &places)? == before;
        attempt += 1;
        match state {
            Ok(state) if is_same => return Ok((before, state)),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            _ => thread::sleep(PAUSE),
        }
    }
}
