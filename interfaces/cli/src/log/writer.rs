//! A log that is open for appending, in either format.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::log::{LogFormat, failed, log_error, pmem_failed, pmem_log_error};
use lode_layout::LogFrames;
use lode_log::LogPool;
use lode_log::pmdk::PmemLogPool;
use lode_pool::{Access, OpenOptions};
use std::path::Path;

/// An open log. A line has its newline, which is no part of a record of the format `log`.
pub(super) enum Writer {
    Log(Box<LogPool>),
    Pmemlog(PmemLogPool),
}

impl Writer {
    pub(super) fn open(
        what: &'static str,
        path: &Path,
        durability: DurabilityOption,
    ) -> Result<Writer, Failure> {
        let durability = durability.forced();
        match LogFormat::recognise(what, path)? {
            LogFormat::Log => {
                let options = OpenOptions { durability, ..OpenOptions::new(Access::ReadWrite) };
                let pool = LogPool::open(path, &options).map_err(failed(what))?;
                Ok(Writer::Log(Box::new(pool)))
            }
            LogFormat::Pmemlog => PmemLogPool::open(path, Access::ReadWrite, durability)
                .map(Writer::Pmemlog)
                .map_err(pmem_failed(what)),
        }
    }

    /// Returns the most bytes of one append, as far as the log has room.
    pub(super) fn room(&self) -> u64 {
        match self {
            Writer::Log(pool) => pool.log().append_max().min(pool.log().free()),
            Writer::Pmemlog(pool) => pool.log().capacity() - pool.log().len(),
        }
    }

    /// Returns how many of these lines one append can take: at least one, which may fail.
    pub(super) fn fitting(&self, lines: &[&[u8]]) -> usize {
        let room = self.room();
        let (mut frames, mut bytes) = (LogFrames::default(), 0);
        let fits = |line: &&&[u8]| match self {
            Writer::Log(_) => {
                frames.push(record_of(line).len() as u64);
                frames.len() <= room
            }
            Writer::Pmemlog(_) => {
                bytes += line.len() as u64;
                bytes <= room
            }
        };
        lines.iter().take_while(fits).count().max(1)
    }

    /// Appends lines and makes them durable.
    pub(super) fn append(&self, what: &'static str, path: &Path, lines: &[&[u8]]) -> Result<(), Failure> {
        match self {
            Writer::Log(pool) => {
                let records: Vec<&[u8]> = lines.iter().map(|line| record_of(line)).collect();
                let log = pool.log();
                log.append_batch(&records)
                    .and_then(|_| log.persist())
                    .map_err(|error| failed(what)(log_error(path, error)))
            }
            Writer::Pmemlog(pool) => {
                let log = pool.log();
                log.appendv(lines)
                    .and_then(|_| log.persist())
                    .map_err(|error| pmem_failed(what)(pmem_log_error(path, error)))
            }
        }
    }

    /// Returns the position after the last record.
    pub(super) fn end(&self) -> u64 {
        match self {
            Writer::Log(pool) => pool.log().end(),
            Writer::Pmemlog(pool) => pool.log().len(),
        }
    }

    pub(super) fn close(self, what: &'static str) -> Result<(), Failure> {
        match self {
            Writer::Log(pool) => pool.close().map_err(failed(what)),
            Writer::Pmemlog(pool) => pool.close().map_err(pmem_failed(what)),
        }
    }
}

/// Returns the record of a line.
fn record_of(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}
