//! Content of a part, by calls of the kernel: lost memory and a file that was cut are errors of the call, without a signal.

use crate::error::PmdkError;
use crate::locked_part::LockedPart;
use crate::stops;
use rustix::io::retry_on_intr;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

impl LockedPart {
    /// Reads bytes of the part. All of them are there.
    pub(crate) fn read_content(&self, at: u64, bytes: &mut [u8]) -> Result<(), PmdkError> {
        if self.is_node()? {
            return self.read_node(at, bytes);
        }
        self.file().read_exact_at(bytes, at).map_err(PmdkError::io("read", self.path()))
    }

    /// Writes bytes of the part. They are durable after [`persist_content`](LockedPart::persist_content).
    pub(crate) fn write_content(&self, at: u64, bytes: &[u8]) -> Result<(), PmdkError> {
        if self.is_node()? {
            return self.write_node(at, bytes);
        }
        self.file().write_all_at(bytes, at).map_err(PmdkError::io("write", self.path()))
    }

    /// Makes what was written durable.
    pub(crate) fn persist_content(&self) -> Result<(), PmdkError> {
        if self.is_node()? {
            return Ok(());
        }
        retry_on_intr(|| rustix::fs::fsync(self.file().as_fd()))
            .map_err(PmdkError::errno("fsync", self.path()))?;
        stops::content_persisted(self.file());
        Ok(())
    }
}
