//! The handle of a table.

use crate::error::BttError;
use crate::open::{self, FoundTable};
use crate::plan::Plan;
use crate::pool::PoolUuids;
use crate::table::Table;
use lode_nvdimm::{BttBlockState, BttDialect};
use lode_pmem::Medium;
use lode_pmem::hold;
use lode_pmem::sync::SpinMutex;
use std::sync::OnceLock;

/// A table that is open: blocks that are read and written whole, by any number of threads.
///
/// # Durability
/// Without a [volatile cache](Btt::has_volatile_cache), a write is durable when it returns. With one it is visible then,
/// and durable after the next [`flush`](Btt::flush). Either way a block is its old self or its new self after a power
/// cut, never a mixture.
///
/// # Locks
/// Writes of one block wait for each other, and a write waits for readers of the block that it writes to, which no map
/// entry has any more. Reads wait for no write.
#[derive(Debug)]
pub struct Btt<M> {
    medium: M,
    /// Set if another layer has checked the headers of the pool.
    pool: Option<PoolUuids>,
    /// Empty until the table of `plan` is made.
    table: OnceLock<Table>,
    plan: Option<Plan>,
    /// Held while the table is made; true if that has failed.
    making: SpinMutex<bool>,
    block_size: usize,
    dialect: BttDialect,
}

/// Bytes that Linux reads of a table at a time.
const PAGE: usize = 4096;

impl<M: Medium> Btt<M> {
    /// Opens the table on `medium`, and finishes the writes that a crash left unfinished. In a block pool of PMDK that has
    /// no table yet, the first write makes it, and until then all blocks read as zeros.
    ///
    /// # Errors
    /// Fails if there is no table, or if its info blocks or flogs are damaged.
    ///
    /// # Cost
    /// Reads the info blocks, the flogs, and a map entry for each lane; one drain if a write was unfinished.
    pub fn open(medium: M) -> Result<Btt<M>, BttError> {
        Btt::open_in(medium, None)
    }

    /// Opens the table of a block pool of PMDK whose headers another layer has checked: they may be those of a pool set, which lie
    /// between the parts and are no part of the medium.
    ///
    /// # Errors
    /// As [`open`](Btt::open), but for those of the header.
    ///
    /// # Cost
    /// As [`open`](Btt::open).
    pub fn open_pool(medium: M, pool: PoolUuids) -> Result<Btt<M>, BttError> {
        Btt::open_in(medium, Some(pool))
    }

    fn open_in(medium: M, pool: Option<PoolUuids>) -> Result<Btt<M>, BttError> {
        let (table, plan, block_size, dialect) = match open::find_table_of(&medium, pool)? {
            FoundTable::Arenas(dialect, arenas) => {
                let table = open::open_arenas(&medium, dialect, &arenas)?;
                let block_size = table.locate(0)?.0.geometry.external_lbasize() as usize;
                (OnceLock::from(table), None, block_size, dialect)
            }
            FoundTable::Planned(plan) => {
                let (block_size, dialect) = (plan.block_size(), plan.dialect());
                (OnceLock::new(), Some(plan), block_size, dialect)
            }
        };
        Ok(Btt { medium, pool, table, plan, making: SpinMutex::new(false), block_size, dialect })
    }

    /// Opens the table on `medium`. If there is none, the first write makes that of `plan`, and until then all blocks
    /// read as zeros. The caller knows that the medium holds nothing else.
    ///
    /// # Errors
    /// Fails as [`open`](Btt::open) does, except for [`BttError::Absent`].
    pub fn open_or_plan(medium: M, plan: Plan) -> Result<Btt<M>, BttError> {
        match open::find_table(&medium) {
            Err(BttError::Absent) => {
                let (block_size, dialect) = (plan.block_size(), plan.dialect());
                let (table, making) = (OnceLock::new(), SpinMutex::new(false));
                Ok(Btt { medium, pool: None, table, plan: Some(plan), making, block_size, dialect })
            }
            _ => Btt::open(medium),
        }
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Returns the size of a block in bytes, with its metadata.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> u64 {
        match (self.table.get(), &self.plan) {
            (Some(table), _) => table.block_count(),
            (None, plan) => plan.as_ref().map_or(0, Plan::block_count),
        }
    }

    /// Returns true if a kernel reads the table, and its blocks are shorter than a page: Linux (6.1 and 6.12, `btt_read_pg`) ends the read of a
    /// page at the first block that [`zero`](Btt::zero) has marked, and leaves the rest of the page as it was, without an error.
    pub fn hides_blocks_after_zeros(&self) -> bool {
        self.dialect == BttDialect::Kernel && self.block_size < PAGE
    }

    /// Returns true if a write is durable only after a [`flush`](Btt::flush).
    pub fn has_volatile_cache(&self) -> bool {
        self.medium.durability() == lode_pmem::Durability::Commit
    }

    /// Reads a block.
    ///
    /// # Errors
    /// Fails if there is no such block, if its content is lost, or if memory is. Other blocks can still be read.
    ///
    /// # Cost
    /// No drain; two loads of the map entry.
    pub fn read(&self, lba: u64, into: &mut [u8]) -> Result<(), BttError> {
        self.check_length(into.len())?;
        match self.table.get() {
            Some(table) => table.read(&self.medium, lba, into),
            None if lba < self.block_count() => {
                into.fill(0);
                Ok(())
            }
            None => Err(BttError::NoBlock { lba, count: self.block_count() }),
        }
    }

    /// Returns true if the map entry of a block says that it reads as zeros.
    ///
    /// # Errors
    /// Fails if there is no such block, or if its map entry can't be used.
    ///
    /// # Cost
    /// No drain; a load of the map entry.
    pub fn is_zero(&self, lba: u64) -> Result<bool, BttError> {
        match self.table.get() {
            Some(table) => table.is_zero(&self.medium, lba),
            None if lba < self.block_count() => Ok(true),
            None => Err(BttError::NoBlock { lba, count: self.block_count() }),
        }
    }

    /// Writes a block.
    ///
    /// # Errors
    /// With [`BttError::InDoubt`] the write may or may not be there after the table is opened again, and the handle
    /// accepts no more writes. With any other error nothing was changed.
    ///
    /// # Durability
    /// See [`Btt`].
    ///
    /// # Cost
    /// Two drains without a volatile cache, none with one.
    pub fn write(&self, lba: u64, from: &[u8]) -> Result<(), BttError> {
        self.check_length(from.len())?;
        self.made()?.write(&self.medium, lba, from)
    }

    /// Writes blocks. If a block is there twice, the last content counts. Each block is written whole or not at all; blocks
    /// are independent of each other.
    ///
    /// # Errors
    /// As [`write`](Btt::write), apart from this: some of the blocks may be written. Errors of the arguments are found first.
    ///
    /// # Durability
    /// See [`Btt`].
    ///
    /// # Cost
    /// Without a volatile cache, two drains for as many blocks as there are lanes that no other write holds; with one, none.
    pub fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<(), BttError> {
        for (_, from) in writes {
            self.check_length(from.len())?;
        }
        self.made()?.write_batch(&self.medium, writes)
    }

    /// Writes blocks, and makes those without content (`None`) read as zeros. Otherwise as [`write_batch`](Btt::write_batch).
    ///
    /// # Errors
    /// As [`write_batch`](Btt::write_batch).
    ///
    /// # Durability
    /// See [`Btt`].
    ///
    /// # Cost
    /// That of [`write_batch`](Btt::write_batch): zeros share its first drain, for up to 65,536 blocks. One drain without a write.
    pub fn change_batch(&self, changes: &[(u64, Option<&[u8]>)]) -> Result<(), BttError> {
        for from in changes.iter().filter_map(|(_, change)| *change) {
            self.check_length(from.len())?;
        }
        self.made()?.change_batch(&self.medium, changes)
    }

    /// Writes blocks to the places that they have, so a power cut may leave a mixture of the old and the new content in each
    /// of them, and a reader may see one. A block that reads as zeros or is lost has no place, and is written as by
    /// [`write_batch`](Btt::write_batch). If a block is there twice, the last content counts.
    ///
    /// # Errors
    /// As [`write_batch`](Btt::write_batch), apart from this: blocks of a failed batch may be mixtures.
    ///
    /// # Durability
    /// Without a [volatile cache](Btt::has_volatile_cache), durable on return. With one, after the next
    /// [`flush`](Btt::flush).
    ///
    /// # Cost
    /// One drain without a volatile cache, none with one; the lines of the blocks. No line of the flog or the map.
    pub fn write_in_place(&self, writes: &[(u64, &[u8])]) -> Result<(), BttError> {
        for (_, from) in writes {
            self.check_length(from.len())?;
        }
        self.made()?.write_batch_in_place(&self.medium, writes)
    }

    /// Makes `count` blocks from `first` on read as zeros.
    ///
    /// Write zeros in place of this call to a table that [hides blocks after zeros](Btt::hides_blocks_after_zeros).
    ///
    /// # Errors
    /// As [`write_batch`](Btt::write_batch).
    ///
    /// # Durability
    /// See [`Btt`].
    ///
    /// # Cost
    /// Without a volatile cache, one drain for up to 65,536 blocks of an arena, and none if all are zeros already; with one,
    /// none. No data.
    pub fn zero(&self, first: u64, count: u64) -> Result<(), BttError> {
        self.made()?.set_state(&self.medium, first, count, BttBlockState::Zero)
    }

    /// Makes reads of a block fail until it is written again.
    ///
    /// # Errors
    /// As [`write`](Btt::write).
    ///
    /// # Durability
    /// See [`Btt`].
    ///
    /// # Cost
    /// As [`zero`](Btt::zero) of one block.
    pub fn mark_lost(&self, lba: u64) -> Result<(), BttError> {
        self.made()?.set_state(&self.medium, lba, 1, BttBlockState::Error)
    }

    /// Makes all writes durable that have returned.
    ///
    /// # Errors
    /// Fails if a sync does, now or before. What was not flushed before may or may not be there after the table is
    /// opened again.
    ///
    /// # Cost
    /// Two drains if anything waits in the volatile cache, one if only writes in place do; otherwise none.
    pub fn flush(&self) -> Result<(), BttError> {
        self.table.get().map_or(Ok(()), |table| table.flush(&self.medium))
    }

    /// Returns the table, and makes it first if there is none.
    fn made(&self) -> Result<&Table, BttError> {
        if let (None, Some(plan)) = (self.table.get(), &self.plan) {
            let mut has_failed = hold(&self.making, &self.medium);
            if *has_failed {
                return Err(BttError::Poisoned);
            }
            if self.table.get().is_none() {
                let made = plan.format(&self.medium).and_then(|()| open::open(&self.medium, self.pool));
                *has_failed = made.is_err();
                // The lock is held, so the table is not there yet.
                let _ = self.table.set(made?);
            }
        }
        self.table.get().ok_or(BttError::Absent)
    }

    fn check_length(&self, len: usize) -> Result<(), BttError> {
        let want = self.block_size;
        if len == want { Ok(()) } else { Err(BttError::Length { len, want }) }
    }
}
