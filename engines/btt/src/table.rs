//! A table: its arenas, which its blocks fill in order.

use crate::arena::Arena;
use crate::bugs;
use crate::cache::Cache;
use crate::error::BttError;
use crate::write::{Staged, commit_batch};
use lode_nvdimm::{BttBlockState, BttMapEntry};
use lode_pmem::sync::{AtomicBool, Ordering};
use lode_pmem::{Durability, Medium, Readable};

/// Blocks whose state changes with one drain, at most: their stripes are held for so long.
const STATES_MAX: u64 = 1 << 16;

/// The new content of a block; `None` for zeros.
pub(crate) type Change<'c> = (u64, Option<&'c [u8]>);

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

    /// Returns the volatile cache, if there is one.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
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
    pub(crate) fn locate_writable(&self, lba: u64) -> Result<(&Arena, u32), BttError> {
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
        Ok(arena.read_state(entry) == BttBlockState::Zero)
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
            None => arena.write_one(medium, lba, from),
        })
    }

    /// Writes blocks. The last content of a block counts.
    pub(crate) fn write_batch<M: Medium>(&self, medium: &M, writes: &[(u64, &[u8])]) -> Result<(), BttError> {
        let changes: Vec<Change<'_>> = writes.iter().map(|(lba, from)| (*lba, Some(*from))).collect();
        self.change_batch(medium, &changes)
    }

    /// Writes blocks, and makes others zeros. The last change of a block counts.
    pub(crate) fn change_batch<M: Medium>(&self, medium: &M, changes: &[Change<'_>]) -> Result<(), BttError> {
        if let [(lba, Some(from))] = changes {
            return self.write(medium, *lba, from);
        }
        for (lba, _) in changes {
            self.locate_writable(*lba)?;
        }
        let changes = last_of_each(changes);
        if let Some(cache) = &self.cache {
            return changes.iter().try_for_each(|(lba, change)| match change {
                Some(from) => self.write(medium, *lba, from),
                None => self.poison_if_in_doubt(self.set_state_cached(
                    medium,
                    cache,
                    self.locate_writable(*lba)?,
                    BttBlockState::Zero,
                )),
            });
        }
        let writes: Vec<(u64, &[u8])> =
            changes.iter().filter_map(|(lba, change)| change.map(|from| (*lba, from))).collect();
        let zeros = changes.iter().filter(|(_, change)| change.is_none());
        let zeros = zeros.map(|(lba, _)| self.locate_writable(*lba)).collect::<Result<Vec<_>, _>>()?;
        let (mut writes, mut zeros) = (&writes[..], &zeros[..]);
        while !(writes.is_empty() && zeros.is_empty()) {
            let staged = self.stage_some(medium, writes)?;
            writes = &writes[staged.len()..];
            let now;
            (now, zeros) = zeros.split_at(zeros.len().min(STATES_MAX as usize));
            self.poison_if_in_doubt(commit_batch(medium, staged, now))?;
        }
        Ok(())
    }

    /// Writes blocks to the places that they have. A block that has none gets one. The last content of a block counts.
    pub(crate) fn write_batch_in_place<M: Medium>(
        &self,
        medium: &M,
        writes: &[(u64, &[u8])],
    ) -> Result<(), BttError> {
        let homeless = self.poison_if_in_doubt(self.write_in_place(medium, &last_of_each(writes)))?;
        if homeless.is_empty() { Ok(()) } else { self.write_batch(medium, &homeless) }
    }

    /// Stages the first of `writes`, and as many others as there are lanes for.
    fn stage_some<'a, M: Medium>(
        &'a self,
        medium: &M,
        writes: &[(u64, &[u8])],
    ) -> Result<Vec<Staged<'a>>, BttError> {
        let mut batch = Vec::with_capacity(writes.len());
        for (lba, from) in writes {
            let (arena, lba) = self.locate_writable(*lba)?;
            // Waits for a lane only while it has none: other writers may wait for those.
            let staged = match batch.is_empty() {
                true => Some(arena.stage(medium, lba, from)?.ok_or(BttError::Poisoned)?),
                false => arena.try_stage(medium, lba, from)?,
            };
            match staged {
                Some(staged) => batch.push(staged),
                None => break,
            }
        }
        Ok(batch)
    }

    /// Gives `count` blocks from `first` on another state.
    pub(crate) fn set_state<M: Medium>(
        &self,
        medium: &M,
        first: u64,
        count: u64,
        state: BttBlockState,
    ) -> Result<(), BttError> {
        let end = match first.checked_add(count) {
            Some(end) if end <= self.block_count => end,
            _ => {
                return Err(BttError::NoBlock { lba: first.max(self.block_count), count: self.block_count });
            }
        };
        let mut next = first;
        while next < end {
            let (arena, lba) = self.locate_writable(next)?;
            let in_arena = u64::from(arena.geometry.external_nlba() - lba);
            let count = in_arena.min(end - next).min(STATES_MAX);
            let lbas = lba..lba + count as u32;
            self.poison_if_in_doubt(match &self.cache {
                Some(cache) => lbas
                    .into_iter()
                    .try_for_each(|lba| self.set_state_cached(medium, cache, (arena, lba), state)),
                None => arena.set_state(medium, lbas, state),
            })?;
            next += count;
        }
        Ok(())
    }

    /// Gives a block another state in the cache, unless it reads like that already.
    fn set_state_cached<M: Medium>(
        &self,
        medium: &M,
        cache: &Cache,
        (arena, lba): (&Arena, u32),
        state: BttBlockState,
    ) -> Result<(), BttError> {
        let entry = medium.memory().try_reading(|memory| self.entry(medium, memory, (arena, lba)))?;
        if arena.read_state(entry) == state {
            return Ok(());
        }
        cache.set_state(medium, (arena, lba), state)
    }

    pub(crate) fn flush<M: Medium>(&self, medium: &M) -> Result<(), BttError> {
        self.check_sound()?;
        let Some(cache) = &self.cache else { return Ok(()) };
        #[cfg(lode_bugs)]
        if bugs::FLUSH_NOT_AWAITED.is_active() && cache.is_empty(medium) {
            return Ok(());
        }
        self.settle(medium, cache)
    }

    fn poison_if_in_doubt<T>(&self, result: Result<T, BttError>) -> Result<T, BttError> {
        if matches!(result, Err(BttError::InDoubt(_))) {
            self.poison();
        }
        result
    }
}

/// Returns the last change of each block.
fn last_of_each<T: Copy>(writes: &[(u64, T)]) -> Vec<(u64, T)> {
    let mut last = writes.to_vec();
    // Stable, so the writes of one block keep their order.
    last.sort_by_key(|(lba, _)| *lba);
    if bugs::BLOCK_TWICE_IN_BATCH.is_active() {
        return last;
    }
    let is_last = |index: usize| last.get(index + 1).is_none_or(|next| next.0 != last[index].0);
    (0..last.len()).filter(|index| is_last(*index)).map(|index| last[index]).collect()
}
