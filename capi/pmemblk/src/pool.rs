//! An open pool: its table of blocks.

use lode_btt::{Btt, BttError, PoolUuids};
use lode_capi_entry::{Failure, PoolFiles, PoolMemory, forget_refusal, unless_refused};
use lode_layout::{PmdkBlk, PoolOffset};
use lode_pmem::Medium;
use std::path::Path;

/// An open pool.
#[derive(Debug)]
pub(crate) struct Pool {
    table: Btt<PoolMemory>,
}

impl Pool {
    /// Opens the pool at `path`, with blocks of this size; 0 for any.
    pub(crate) fn open(files: &PoolFiles, path: &Path, block_size: usize) -> Result<Pool, Failure> {
        unless_refused(|| Pool::of(files.open(path)?, block_size))
    }

    /// Makes a pool at `path`, as [`PoolFiles::create`] says. The first write makes its table.
    pub(crate) fn create(
        files: &PoolFiles,
        path: &Path,
        block_size: usize,
        len: u64,
        mode: u32,
    ) -> Result<Pool, Failure> {
        let invalid =
            || Failure::invalid(format!("Invalid block size {block_size}; it is between 1 and {}", u32::MAX));
        let size = u32::try_from(block_size).ok().filter(|size| *size != 0).ok_or_else(invalid)?;
        forget_refusal();
        let new = files.create(path, len, mode)?;
        lode_btt::format_content(&new.medium, size, new.is_zeroed).map_err(|error| match error {
            BttError::Info { error, .. } => Failure::invalid(format!(
                "pool initialization failed: {error}; choose a larger pool, or other blocks"
            )),
            error => failure(&error),
        })?;
        Pool::of(new.publish()?, block_size)
    }

    /// Checks the pool at `path`. Returns false if its table is damaged.
    pub(crate) fn check(files: &PoolFiles, path: &Path, block_size: usize) -> Result<bool, Failure> {
        let medium = files.open_to_check(path)?;
        check_block_size(&medium, block_size)?;
        let findings = lode_btt::check_pool(&medium, uuids(&medium));
        let Some(first) = findings.first() else { return Ok(true) };
        // As PMDK, whose check opens the pool: one that can't be opened is an error.
        Pool::of(medium, block_size)?;
        lode_capi_entry::message::set(&first.to_string());
        Ok(false)
    }

    fn of(medium: PoolMemory, block_size: usize) -> Result<Pool, Failure> {
        check_block_size(&medium, block_size)?;
        let uuids = uuids(&medium);
        Ok(Pool { table: Btt::open_pool(medium, uuids).map_err(|error| failure(&error))? })
    }

    /// Returns the size of a block in bytes.
    pub(crate) fn block_size(&self) -> usize {
        self.table.block_size()
    }

    /// Returns the number of blocks.
    pub(crate) fn block_count(&self) -> u64 {
        self.table.block_count()
    }

    /// Reads a block into `into`, of its size.
    #[inline]
    pub(crate) fn read(&self, block: i64, into: &mut [u8]) -> Result<(), Failure> {
        self.table.read(self.number(block)?, into).map_err(|error| failure(&error))
    }

    /// Writes a block.
    ///
    /// # Durability
    /// On return.
    #[inline]
    pub(crate) fn write(&self, block: i64, from: &[u8]) -> Result<(), Failure> {
        self.check_writable()?;
        self.durably(self.table.write(self.number(block)?, from))
    }

    /// Makes a block read as zeros.
    ///
    /// # Durability
    /// On return.
    pub(crate) fn zero(&self, block: i64) -> Result<(), Failure> {
        self.check_writable()?;
        let block = self.number(block)?;
        // A pool without a table needs none for zeros.
        if self.table.is_zero(block).map_err(|error| failure(&error))? {
            return Ok(());
        }
        self.durably(self.table.zero(block, 1))
    }

    /// Makes reads of a block fail until it is written again.
    ///
    /// # Durability
    /// On return.
    pub(crate) fn mark_lost(&self, block: i64) -> Result<(), Failure> {
        self.check_writable()?;
        self.durably(self.table.mark_lost(self.number(block)?))
    }

    /// Returns the number of a block. A change of one that does not exist makes no table.
    #[inline]
    fn number(&self, block: i64) -> Result<u64, Failure> {
        let lba = u64::try_from(block)
            .map_err(|_| Failure::invalid("negative block number; the first block is 0"))?;
        let count = self.table.block_count();
        if lba < count { Ok(lba) } else { Err(failure(&BttError::NoBlock { lba, count })) }
    }

    fn check_writable(&self) -> Result<(), Failure> {
        if !self.table.medium().memory().is_private_view() {
            return Ok(());
        }
        Err(Failure::new(
            libc::EROFS,
            "EROFS (pool is read-only); its features allow no change by this version of the library",
        ))
    }

    /// Makes a change durable that was made in the volatile cache.
    #[inline]
    fn durably(&self, changed: Result<(), BttError>) -> Result<(), Failure> {
        let durable = match changed {
            Ok(()) if self.table.has_volatile_cache() => self.table.flush(),
            changed => changed,
        };
        durable.map_err(|error| failure(&error))
    }
}

/// Returns the UUIDs that the table of a pool has.
fn uuids(medium: &PoolMemory) -> PoolUuids {
    PoolUuids { poolset: medium.header().poolset_uuid, part: medium.header().uuid }
}

/// Compares the size of a pool's blocks with the one that the program expects, unless that is 0.
fn check_block_size(medium: &PoolMemory, expected: usize) -> Result<(), Failure> {
    let mut bytes = [0; PmdkBlk::LEN];
    let read = medium.memory().reading(|memory| memory.read(PoolOffset::new(PmdkBlk::OFF), &mut bytes));
    read.map_err(|fault| failure(&BttError::Memory(fault)))?;
    let found = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    if expected == 0 || expected == found {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "wrong bsize ({expected}), pool created with bsize {found}; pass that, or 0 for any"
    )))
}

/// Returns the failure of a call by an error of the table.
#[cold]
fn failure(error: &BttError) -> Failure {
    match error {
        BttError::NoBlock { count, .. } => {
            Failure::invalid(format!("lba out of range (nlba {count}); {error}"))
        }
        BttError::Lost { .. } => Failure::new(libc::EIO, format!("EIO due to map entry error flag; {error}")),
        BttError::ReadOnly { .. } => {
            Failure::new(libc::EIO, format!("EIO due to btt_info error flags 0x1; {error}"))
        }
        BttError::Memory(_) | BttError::InDoubt(_) | BttError::Poisoned => {
            Failure::new(libc::EIO, error.to_string())
        }
        _ => Failure::invalid(error.to_string()),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::PmdkKind;
    use lode_pmem::{ByAddress, Cpu};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const LEN: u64 = (16 << 20) + 8192;

    fn files(forced: bool) -> PoolFiles {
        let instructions = ByAddress::new(Cpu::oldest());
        PoolFiles { kind: PmdkKind::Blocks, instructions, forced: Some(forced) }
    }

    fn is_zeros(pool: &Pool, block: i64) -> bool {
        let mut into = vec![1; pool.block_size()];
        pool.read(block, &mut into).unwrap();
        into.iter().all(|byte| *byte == 0)
    }

    #[test]
    fn blocks_are_there_after_reopening() {
        let folder = tempfile::tempdir().unwrap();
        for forced in [true, false] {
            let (files, path) = (files(forced), folder.path().join(forced.to_string()));
            let pool = Pool::create(&files, &path, 512, LEN, 0o600).unwrap();
            assert_eq!((pool.block_size(), pool.block_count() > 30_000), (512, true));
            let file = File::open(&path).unwrap();
            let made = || {
                let mut first = [0; 8];
                file.read_exact_at(&mut first, PmdkBlk::TABLE_OFF).unwrap();
                first != [0; 8]
            };
            assert!(is_zeros(&pool, 3));
            pool.zero(3).unwrap();
            assert!(!made(), "zeros need no table");
            pool.write(3, &[7; 512]).unwrap();
            pool.mark_lost(4).unwrap();
            pool.write(5, &[5; 512]).unwrap();
            pool.zero(5).unwrap();
            assert!(made());
            assert_eq!(Pool::open(&files, &path, 0).unwrap_err().errno, libc::EAGAIN);
            drop(pool);
            let pool = Pool::open(&files, &path, 512).unwrap();
            let mut into = [0; 512];
            pool.read(3, &mut into).unwrap();
            assert_eq!(into, [7; 512]);
            let lost = pool.read(4, &mut into).unwrap_err();
            assert_eq!(lost.errno, libc::EIO);
            assert!(lost.text.starts_with("EIO due to map entry error flag"), "{}", lost.text);
            assert!(is_zeros(&pool, 5) && is_zeros(&pool, 6));
            drop(pool);
            assert_eq!(Pool::check(&files, &path, 0), Ok(true));
        }
    }

    #[test]
    fn bad_numbers_and_sizes_are_refused_in_pmdks_words() {
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(true), folder.path().join("pool"));
        for (size, words) in [(0, "Invalid block size 0"), (1 << 32, "Invalid block size 4294967296")] {
            let refused = Pool::create(&files, &path, size, LEN, 0o600).unwrap_err();
            assert!(refused.errno == libc::EINVAL && refused.text.starts_with(words), "{refused:?}");
        }
        let too_large = Pool::create(&files, &path, 1 << 30, LEN, 0o600).unwrap_err();
        assert!(too_large.errno == libc::EINVAL && !path.exists(), "{too_large:?}");
        let pool = Pool::create(&files, &path, 4096, LEN, 0o600).unwrap();
        let mut into = [0; 4096];
        for (block, words) in [(-1, "negative block number"), (1 << 40, "lba out of range (nlba ")] {
            let refusals = [
                pool.read(block, &mut into).unwrap_err(),
                pool.write(block, &[0; 4096]).unwrap_err(),
                pool.zero(block).unwrap_err(),
                pool.mark_lost(block).unwrap_err(),
            ];
            for refused in refusals {
                assert!(refused.errno == libc::EINVAL && refused.text.starts_with(words), "{refused:?}");
            }
            let mut table = [1; 8];
            File::open(&path).unwrap().read_exact_at(&mut table, PmdkBlk::TABLE_OFF).unwrap();
            assert_eq!(table, [0; 8], "no table for {block}");
        }
        drop(pool);
        let refused = Pool::open(&files, &path, 512).unwrap_err();
        assert!(refused.text.starts_with("wrong bsize (512), pool created with bsize 4096"), "{refused:?}");
    }

    #[test]
    fn read_only_pools_and_damage() {
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(true), folder.path().join("pool"));
        let pool = Pool::create(&files, &path, 512, LEN, 0o600).unwrap();
        pool.write(0, &[9; 512]).unwrap();
        drop(pool);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut header = [0; 4096];
        file.read_exact_at(&mut header, 0).unwrap();
        let sound = header;
        header[20] = 1;
        lode_layout::store_pmdk_checksum(&mut header);
        file.write_all_at(&header, 0).unwrap();
        let pool = Pool::open(&files, &path, 0).unwrap();
        let mut into = [0; 512];
        pool.read(0, &mut into).unwrap();
        assert_eq!(into, [9; 512]);
        assert_eq!(pool.write(0, &[1; 512]).unwrap_err().errno, libc::EROFS);
        drop(pool);
        file.write_all_at(&sound, 0).unwrap();
        // The second info block.
        let at = LEN - 4096;
        file.write_all_at(&[1; 64], at).unwrap();
        assert_eq!(Pool::check(&files, &path, 0), Ok(false));
    }
}
