//! An append log.

use crate::engine::{RecordLog, stamp_of, stamp_with};
use anyhow::Result;
use lode_layout::LogFrames;
use lode_log::LogPool;
use lode_pmem::Durability;
use lode_pool::CreateOptions;
use std::array;
use std::path::Path;

/// The most records of a call, as in `c/pmemlog.c`.
const PARTS_MAX: usize = 64;

/// The log of a pool.
pub(crate) struct Log {
    pool: LogPool,
}

impl Log {
    /// Makes a log in a new file of `len` bytes.
    pub(crate) fn create(path: &Path, len: u64, durability: Durability) -> Result<Log> {
        let options =
            CreateOptions { durability: Some(durability), ..CreateOptions::new(len, LogPool::layout()) };
        Ok(Log { pool: LogPool::create(path, &options)? })
    }
}

impl RecordLog for Log {
    fn append(&mut self, records: &mut [u8], len: usize, times: usize, mut stamp: u64) -> Result<()> {
        let log = self.pool.log();
        for _ in 0..times {
            for record in records.chunks_exact_mut(len) {
                stamp_with(record, stamp);
                stamp += 1;
            }
            if records.len() == len {
                log.append(records)?;
                continue;
            }
            let mut chunks = records.chunks_exact(len);
            let parts: [&[u8]; PARTS_MAX] = array::from_fn(|_| chunks.next().unwrap_or_default());
            log.append_batch(&parts[..records.len() / len])?;
        }
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.pool.log().rewind()?;
        Ok(())
    }

    fn room(&self, len: usize) -> usize {
        let mut frames = LogFrames::default();
        for _ in 0..PARTS_MAX {
            frames.push(len as u64);
        }
        (self.pool.log().capacity() / frames.len()) as usize * PARTS_MAX * len
    }

    fn digest(&self, _len: usize) -> Result<u64> {
        let log = self.pool.log();
        let (mut walk, mut record, mut digest) = (log.walk(log.head()), Vec::new(), 0);
        while walk.next(&mut record)?.is_some() {
            digest = mix(digest, stamp_of(&record));
        }
        Ok(digest)
    }
}

/// One step of the digest of a log, as `c/pmemlog.c` computes it. The multiplication keeps stamps that follow each other
/// from cancelling out.
fn mix(digest: u64, stamp: u64) -> u64 {
    (digest ^ stamp).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
