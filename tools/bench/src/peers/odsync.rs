//! An ordinary file that was opened with O_DSYNC: each write is a synced one, and a power cut may leave a mixture.

use crate::engine::{BlockStore, fold, stamp_of, stamp_with};
use anyhow::Result;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A file of blocks.
pub(crate) struct OdsyncFile {
    file: File,
}

impl OdsyncFile {
    /// Opens the file.
    pub(crate) fn open(path: &Path) -> Result<OdsyncFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::DSYNC.bits().cast_signed());
        Ok(OdsyncFile { file: options.open(path)? })
    }
}

impl BlockStore for OdsyncFile {
    /// Each write is durable when it returns, so batches change nothing.
    fn write(&mut self, order: &[u32], _batch: usize, block: &mut [u8], stamp: u64) -> Result<()> {
        for (lba, stamp) in order.iter().zip(stamp..) {
            stamp_with(block, stamp);
            self.file.write_all_at(block, u64::from(*lba) * block.len() as u64)?;
        }
        Ok(())
    }

    fn read(&self, order: &[u32], block: &mut [u8]) -> Result<u64> {
        let mut digest = 0;
        for lba in order {
            self.file.read_exact_at(block, u64::from(*lba) * block.len() as u64)?;
            digest = fold(digest, stamp_of(block));
        }
        Ok(digest)
    }
}
