//! A table: its arenas, which its blocks fill in order.

use crate::arena::Arena;
use crate::cache::Cache;
use crate::error::BttError;
use lode_nvdimm::{BttBlockState, BttMapEntry};
use lode_pmem::sync::{AtomicBool, Ordering};
use lode_pmem::{Durability, Medium, Readable};

/// The arenas of a table that is open.
#[derive(Debug)]
pub(crate) struct Table {
    arenas: Box<[Arena]>,
    block_count: u64,
    /// The volatile cache; `None` where stores become durable by flushes of lines.
    cache: Option<Cache>,
    is_poisoned: AtomicBool,
}

impl Table {
    /// Returns the table of these arenas, at least one.
    pub(crate) fn new(arenas: Vec<Arena>, durability: Durability) -> Table {
        let block_count = arenas.iter().map(|arena| u64::from(arena.geometry.external_nlba())).sum();
        let cache = (durability == Durability::Commit).then(Cache::default);
        Table { arenas: arenas.into(), block_count, cache, is_poisoned: AtomicBool::new(false) }
    }

    pub(crate) fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Returns the arena of a block, and the number of the block in it.
    ///
    /// # Errors
    /// Fails if there is no such block.
    pub(crate) fn locate(&self, lba: u64) -> Result<(&Arena, u32), BttError> {
        if lba >= self.block_count {
            return Err(BttError::NoBlock { lba, count: self.block_count });
        }
        let arena = match &*self.arenas {
            [only] => only,
            arenas => &arenas[arenas.partition_point(|arena| arena.first_lba <= lba) - 1],
        };
        Ok((arena, (lba - arena.first_lba) as u32))
    }

    /// Refuses to go on after a write in doubt.
    pub(crate) fn check_sound(&self) -> Result<(), BttError> {
        // ORDER: acquires nothing: a write that misses the flag is one that began before the failure.
        if self.is_poisoned.load(Ordering::Relaxed) { Err(BttError::Poisoned) } else { Ok(()) }
    }

    pub(crate) fn poison(&self) {
        // ORDER: none, see `check_sound`; a flush sees the flag by the lock that it holds.
        self.is_poisoned.store(true, Ordering::Relaxed);
    }

    /// Finds the arena of a block that is to be changed.
    fn locate_writable(&self, lba: u64) -> Result<(&Arena, u32), BttError> {
        let (arena, inner) = self.locate(lba)?;
        self.check_sound()?;
        if arena.is_read_only {
            return Err(BttError::ReadOnly { arena: arena.index });
        }
        Ok((arena, inner))
    }

    pub(crate) fn read<M: Medium>(&self, medium: &M, lba: u64, into: &mut [u8]) -> Result<(), BttError> {
        let (arena, lba) = self.locate(lba)?;
        arena.copy_out(medium, lba, into, |memory| self.entry(medium, memory, (arena, lba)))
    }

    /// Returns true if the map entry of a block says that it reads as zeros.
    pub(crate) fn is_zero<M: Medium>(&self, medium: &M, lba: u64) -> Result<bool, BttError> {
        let (arena, lba) = self.locate(lba)?;
        let entry = medium.memory().try_reading(|memory| self.entry(medium, memory, (arena, lba)))?;
        Ok(match entry.state {
            BttBlockState::Zero => true,
            BttBlockState::Initial => arena.dialect.is_initial_zero(),
            BttBlockState::Error | BttBlockState::Normal => false,
        })
    }

    /// Returns the newest map entry of a block.
    fn entry<M: Medium>(
        &self,
        medium: &M,
        memory: &Readable,
        (arena, lba): (&Arena, u32),
    ) -> Result<BttMapEntry, BttError> {
        match &self.cache {
            Some(cache) => cache.entry(medium, memory, (arena, lba)),
            None => arena.load_entry(memory, lba),
        }
    }

    pub(crate) fn write<M: Medium>(&self, medium: &M, lba: u64, from: &[u8]) -> Result<(), BttError> {
        let (arena, lba) = self.locate_writable(lba)?;
        self.poison_if_in_doubt(match &self.cache {
            Some(cache) => self.write_cached(medium, cache, (arena, lba), from),
            None => arena.write_through(medium, lba, from),
        })
    }

    pub(crate) fn set_state<M: Medium>(
        &self,
        medium: &M,
        lba: u64,
        state: BttBlockState,
    ) -> Result<(), BttError> {
        let (arena, lba) = self.locate_writable(lba)?;
        self.poison_if_in_doubt(match &self.cache {
            Some(cache) => cache.set_state(medium, (arena, lba), state),
            None => arena.set_state(medium, lba, state),
        })
    }

    pub(crate) fn flush<M: Medium>(&self, medium: &M) -> Result<(), BttError> {
        self.check_sound()?;
        let Some(cache) = &self.cache else { return Ok(()) };
        #[cfg(lode_bugs)]
        if crate::bugs::FLUSH_NOT_AWAITED.is_active() && cache.is_empty(medium) {
            return Ok(());
        }
        self.settle(medium, cache)
    }

    fn poison_if_in_doubt(&self, result: Result<(), BttError>) -> Result<(), BttError> {
        if matches!(result, Err(BttError::InDoubt(_))) {
            self.poison();
        }
        result
    }
}
