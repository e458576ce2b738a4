//! A log that is open for appending, in either format.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::log::{LogFormat, failed, log_error, pmem_failed, pmem_log_error};
use lode_log::LogPool;
use lode_log::pmdk::PmemLogPool;
use lode_pool::{Access, OpenOptions};
use std::path::Path;

/// Bytes that a record takes besides its content and the rounding.
const HEADER_LEN: u64 = 32;
const WORD: u64 = 8;
/// The last record of an append is rounded up to a line.
const LINE: u64 = 64;

/// An open log. A line has its newline, which is no part of a record of the format `log`.
pub(super) enum Writer {
    Log(LogPool),
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
                LogPool::open(path, &options).map(Writer::Log).map_err(failed(what))
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
        let (mut left, last) = match self {
            Writer::Log(_) => (self.room().saturating_sub(LINE), HEADER_LEN),
            Writer::Pmemlog(_) => (self.room(), 0),
        };
        let mut count = 0;
        for line in lines {
            let len = match self {
                Writer::Log(_) => (last + line.len() as u64).next_multiple_of(WORD),
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
