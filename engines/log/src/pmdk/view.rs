//! A view of a log pool of PMDK that another process may have open.

use crate::pmdk::error::PmemLogError;
use crate::pmdk::log::describe;
use crate::pmdk::pool::PmemLogPoolError;
use lode_layout::PmdkLog;
use lode_pmem::{Mapping, Medium};
use std::path::Path;

/// A walk through a log pool of PMDK without a lock and without a store, also while another process appends to it.
///
/// A rewind is noticed if the log is shorter then: the format does not tell it from appends otherwise.
#[derive(Debug)]
pub struct PmemLogView {
    medium: Mapping,
    position: u64,
}

impl PmemLogView {
    /// Opens the log of the pool at `path`, at its start.
    ///
    /// # Errors
    /// [`PmemLogPoolError`], but never because another process has the pool open.
    pub fn open(path: &Path) -> Result<PmemLogView, PmemLogPoolError> {
        let medium = Mapping::options().private_view().open(path)?;
        describe(&medium).map_err(PmemLogPoolError::log(path))?;
        Ok(PmemLogView { medium, position: 0 })
    }

    /// Returns the position of the next byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes of the log.
    ///
    /// # Errors
    /// Fails if header or descriptor are damaged.
    #[allow(clippy::len_without_is_empty, reason = "it can fail")]
    pub fn len(&self) -> Result<u64, PmemLogError> {
        Ok(describe(&self.medium)?.write.get() - PmdkLog::START.get())
    }

    /// Goes to a position up to the end. Returns false if the log ends before it.
    ///
    /// # Errors
    /// As [`len`](PmemLogView::len).
    pub fn seek(&mut self, position: u64) -> Result<bool, PmemLogError> {
        let is_there = position <= self.len()?;
        if is_there {
            self.position = position;
        }
        Ok(is_there)
    }

    /// Reads the next bytes into `into`, and returns how many there are; 0 if there are none yet.
    ///
    /// # Errors
    /// [`PmemLogError::Rewound`] if the log is shorter than it was: the next call begins at its start.
    /// [`PmemLogError::Memory`]: the next call goes on after these bytes.
    pub fn next(&mut self, into: &mut [u8]) -> Result<usize, PmemLogError> {
        let rest = self.len()?.checked_sub(self.position).ok_or_else(|| self.rewound())?;
        let len = usize::try_from(rest).map_or(into.len(), |rest| rest.min(into.len()));
        let at = PmdkLog::START.plus(self.position);
        self.position += len as u64;
        self.medium.memory().reading(|memory| memory.read(at, &mut into[..len]))?;
        match self.len()? < self.position {
            true => Err(self.rewound()),
            false => Ok(len),
        }
    }

    fn rewound(&mut self) -> PmemLogError {
        self.position = 0;
        PmemLogError::Rewound
    }
}
