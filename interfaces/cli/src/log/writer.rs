//! A log that is open for appending, in either format.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::log::{LogFormat, failed, log_error, pmem_failed, pmem_log_error};
use lode_layout::{LINE, LogRecordHeader, LogRecordKind};
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
        let mut left = match self {
            // The last record of an append is rounded up to a line.
            Writer::Log(_) => self.room().saturating_sub(LINE),
            Writer::Pmemlog(_) => self.room(),
        };
        let mut count = 0;
        for line in lines {
            let len = match self {
                Writer::Log(_) => LogRecordHeader::stride(line.len() as u64, LogRecordKind::Inner),
                Writer::Pmemlog(_) => line.len() as u64,
            };
            if len > left {
                break;
            }
            (left, count) = (left - len, count + 1);
        }
        count.max(1)
    }

    /// Appends lines and makes them durable.
    pub(super) fn append(&self, what: &'static str, path: &Path, lines: &[&[u8]]) -> Result<(), Failure> {
        match self {
            Writer::Log(pool) => {
                let records: Vec<&[u8]> =
                    lines.iter().map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect();
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
