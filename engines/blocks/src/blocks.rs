//! The handle of atomic blocks.

use crate::bugs;
use crate::error::{BlocksError, Damage};
use crate::logged::LoggedWords;
use crate::segments::Segments;
use crate::spares::Spares;
use crate::stripes::Stripes;
use lode_layout::BlockMapWord;
use lode_pmem::{Medium, Readers, crc32c};
use lode_redo::Log;

/// The atomic blocks of a pool: read and written whole, by any number of threads.
///
/// # Durability
/// Without a [volatile cache](Blocks::has_volatile_cache), a write is durable when it returns. With one it is visible then,
/// durable after the next [`flush`](Blocks::flush), and not lost with the process. Either way a block is its old self or its
/// new self after a power cut, never a mixture.
///
/// # Locks
/// Writes of one block wait for each other, and a write waits for readers of the data block that it writes to, which no map
/// word names any more. Reads wait for no write.
#[derive(Debug)]
pub struct Blocks<M: Medium> {
    pub(crate) log: Log<M>,
    pub(crate) segments: Segments,
    pub(crate) spares: Spares,
    pub(crate) readers: Readers,
    pub(crate) stripes: Stripes,
    /// The map words of the log, where syncs make stores durable; `None` where flushes of lines do.
    pub(crate) logged: Option<LoggedWords>,
}

impl<M: Medium> Blocks<M> {
    /// Returns the medium.
    pub fn medium(&self) -> &M {
        self.log.medium()
    }

    /// Returns the size of a block in bytes.
    pub fn block_size(&self) -> usize {
        self.segments.block_size() as usize
    }

    /// Returns the number of blocks. It grows with the pool.
    pub fn block_count(&self) -> u64 {
        self.segments.block_count()
    }

    /// Returns the number of data blocks that no map word names.
    pub fn spare_count(&self) -> u64 {
        self.segments.spare_count()
    }

    /// Returns true if writes are durable after a flush only.
    pub fn has_volatile_cache(&self) -> bool {
        self.logged.is_some()
    }

    /// Reads a block.
    ///
    /// # Errors
    /// Fails if there is no such block, if its content is not what was written, or if memory is lost. Other blocks can still
    /// be read. The content of `into` has no meaning then.
    ///
    /// # Cost
    /// No drain; two loads of the map word, and the checksum of the content.
    pub fn read(&self, lba: u64, into: &mut [u8]) -> Result<(), BlocksError> {
        let word = self.copy_out(lba, into)?;
        let Some(BlockMapWord { block, crc }) = self.segments.decode(lba, word)? else { return Ok(()) };
        if crc32c(into) == crc {
            return Ok(());
        }
        let (at, len) = (self.segments.data_at(block), into.len() as u64);
        Err(Damage::Rotten { lba, at, len }.into())
    }

    /// Reads a block without a look at the checksum of its content.
    ///
    /// # Errors
    /// As [`read`](Blocks::read), apart from content that is not what was written.
    ///
    /// # Cost
    /// No drain; two loads of the map word.
    pub fn read_unchecked(&self, lba: u64, into: &mut [u8]) -> Result<(), BlocksError> {
        self.copy_out(lba, into).map(drop)
    }

    /// Waits until no reader reads one of these data blocks, which no map word names any more.
    #[inline]
    pub(crate) fn wait_for_readers(&self, blocks: &[u32]) {
        if !bugs::READERS_NOT_AWAITED.is_active() {
            self.readers.wait_for_readers(self.medium(), blocks);
        }
    }

    /// Copies the content of a block. Returns the map word that names it.
    ///
    /// It works on the words as they are stored. A decoded one would be copied through memory several times, and each copy
    /// could wait for the content of the block read before.
    fn copy_out(&self, lba: u64, into: &mut [u8]) -> Result<u64, BlocksError> {
        self.check_range(lba, 1)?;
        self.check_length(into.len())?;
        self.medium().memory().try_reading(|memory| {
            let mut word = self.stored_word(memory, lba);
            let Some(block) = self.data_block(word) else { return self.without_content(lba, word, into) };
            let mut at = self.segments.data_at(block);
            // Its lines are on the way while the announcement becomes visible.
            memory.prefetch_bytes(at, into.len());
            let announcement = self.readers.announce(self.medium(), block);
            loop {
                let again = self.stored_word(memory, lba);
                if again == word || bugs::READ_NOT_REPEATED.is_active() {
                    break;
                }
                word = again;
                let Some(newer) = self.data_block(word) else { return self.without_content(lba, word, into) };
                announcement.replace(newer);
                at = self.segments.data_at(newer);
            }
            // Nothing below calls the medium: without this, no other thread would run between note and copy.
            #[cfg(lode_bugs)]
            lode_pmem::scheduled::step();
            memory.read(at, into);
            drop(announcement);
            Ok(word)
        })
    }

    /// Reads a block whose map word names no data block.
    #[cold]
    fn without_content(&self, lba: u64, word: u64, into: &mut [u8]) -> Result<u64, BlocksError> {
        self.segments.decode(lba, word)?;
        into.fill(0);
        Ok(word)
    }

    /// Returns true if a block was never written, or was made zeros. It takes no data block then. A block that is lost is not
    /// zeros.
    ///
    /// # Errors
    /// Fails if there is no such block, or if its map word can't be used.
    pub fn is_zero(&self, lba: u64) -> Result<bool, BlocksError> {
        self.check_range(lba, 1)?;
        self.medium().memory().try_reading(|memory| match self.word(memory, lba) {
            Err(BlocksError::Damaged(Damage::Lost { .. })) => Ok(false),
            word => Ok(word?.is_none()),
        })
    }

    /// Writes a block.
    ///
    /// # Errors
    /// With [`BlocksError::InDoubt`] the write may or may not be there after the pool is opened again, and the handle
    /// accepts no more writes. With any other error nothing was changed.
    ///
    /// # Durability
    /// See [`Blocks`].
    ///
    /// # Cost
    /// One drain without a volatile cache, none with one. A checkpoint if there is no spare data block, and for as many
    /// records as fill half of the log, or 64 KiB of it while flushes overlap with writes.
    pub fn write(&self, lba: u64, from: &[u8]) -> Result<(), BlocksError> {
        self.check_range(lba, 1)?;
        self.check_length(from.len())?;
        self.log.begin_epoch()?;
        self.write_one(lba, from)?;
        self.log.checkpoint_if_due();
        Ok(())
    }

    /// Writes blocks. If a block is there twice, the last content counts. Each block is written whole or not at all; blocks
    /// are independent of each other.
    ///
    /// # Errors
    /// As [`write`](Blocks::write), apart from this: some of the blocks may be written. Errors of the arguments are found
    /// first.
    ///
    /// # Durability
    /// See [`Blocks`].
    ///
    /// # Cost
    /// Without a volatile cache, one drain for as many blocks as have room in a record, at least 50, and as there are spare
    /// data blocks; with one, none.
    pub fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<(), BlocksError> {
        let changes: Vec<(u64, Option<&[u8]>)> =
            writes.iter().map(|(lba, from)| (*lba, Some(*from))).collect();
        self.change_batch(&changes)
    }

    /// Writes blocks, and makes those without content (`None`) read as zeros. Otherwise as [`write_batch`](Blocks::write_batch).
    ///
    /// # Errors
    /// As [`write_batch`](Blocks::write_batch).
    ///
    /// # Durability
    /// See [`Blocks`].
    ///
    /// # Cost
    /// That of [`write_batch`](Blocks::write_batch): blocks that become zeros are in its records. Those that are zeros cost nothing.
    pub fn change_batch(&self, changes: &[(u64, Option<&[u8]>)]) -> Result<(), BlocksError> {
        if let [(lba, Some(from))] = changes {
            return self.write(*lba, from);
        }
        for (lba, change) in changes {
            self.check_range(*lba, 1)?;
            change.map_or(Ok(()), |from| self.check_length(from.len()))?;
        }
        self.log.begin_epoch()?;
        let mut last = Vec::with_capacity(changes.len());
        for (lba, change) in last_of_each(changes) {
            if change.is_some() || !self.is_zero(lba)? {
                last.push((lba, change));
            }
        }
        self.change_several(&last)?;
        self.log.checkpoint_if_due();
        Ok(())
    }

    /// Makes `count` blocks from `first` on read as zeros, and frees their data blocks.
    ///
    /// # Errors
    /// As [`write_batch`](Blocks::write_batch).
    ///
    /// # Durability
    /// See [`Blocks`].
    ///
    /// # Cost
    /// That of a batch of the blocks that are not zeros, without contents.
    pub fn zero(&self, first: u64, count: u64) -> Result<(), BlocksError> {
        self.check_range(first, count)?;
        self.log.begin_epoch()?;
        let mut lbas = Vec::new();
        for lba in first..first + count {
            if !self.is_zero(lba)? {
                lbas.push(lba);
            }
        }
        self.zero_each(&lbas)?;
        self.log.checkpoint_if_due();
        Ok(())
    }

    /// Makes all writes durable that have returned.
    ///
    /// # Errors
    /// Fails if a sync does, now or before. What was not flushed before may or may not be there after the pool is opened
    /// again.
    ///
    /// # Cost
    /// One sync if anything waits in the volatile cache; otherwise none. A checkpoint from time to time, as for
    /// [`write`](Blocks::write).
    pub fn flush(&self) -> Result<(), BlocksError> {
        if self.log.is_read_only() {
            return Ok(());
        }
        self.log.check_not_failed()?;
        #[cfg(lode_bugs)]
        if bugs::FLUSH_OF_OWN_WRITES.is_active() {
            return Ok(self.log.write_back_to(crate::record::LAST_OWN.get())?);
        }
        self.log.write_back_to(self.log.last_sequence())?;
        self.log.checkpoint_if_due();
        Ok(())
    }

    /// Makes all writes durable and stores all map words, so the next opening has nothing to replay. Blocks that are dropped
    /// instead leave what a crash would leave.
    ///
    /// # Errors
    /// As [`flush`](Blocks::flush).
    pub fn close(self) -> Result<(), BlocksError> {
        self.flush()?;
        Ok(self.log.close()?)
    }

    fn check_range(&self, first: u64, len: u64) -> Result<(), BlocksError> {
        let count = self.block_count();
        match first.checked_add(len) {
            Some(end) if end <= count && first < count => Ok(()),
            _ => Err(BlocksError::NoBlock { lba: first.max(count), count }),
        }
    }

    fn check_length(&self, len: usize) -> Result<(), BlocksError> {
        let want = self.block_size();
        if len == want { Ok(()) } else { Err(BlocksError::Length { len, want }) }
    }
}

/// Returns the last change of each block.
fn last_of_each<T: Copy>(writes: &[(u64, T)]) -> Vec<(u64, T)> {
    let mut last = writes.to_vec();
    // Stable, so the writes of one block keep their order.
    last.sort_by_key(|(lba, _)| *lba);
    let is_last = |index: usize| last.get(index + 1).is_none_or(|next| next.0 != last[index].0);
    (0..last.len()).filter(|index| is_last(*index)).map(|index| last[index]).collect()
}
