//! Counts of chunks, blocks and bytes.

use crate::error::ObjError;
use crate::view::ObjView;
use lode_layout::{PmdkChunkKind, PmdkHeap};
use lode_pmem::Medium;
use std::collections::BTreeMap;

/// The content of a heap in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Zones that have chunks, and those that were never used.
    pub zones: (u64, u64),
    /// Chunks of free blocks.
    pub free_chunks: u64,
    /// Chunks of blocks that are one object.
    pub used_chunks: u64,
    /// Chunks of runs.
    pub run_chunks: u64,
    /// Chunks of the longest free block.
    pub largest_free: u64,
    /// Objects of the program, the root apart.
    pub objects: u64,
    /// Objects of PMDK: the root, and extensions of logs.
    pub internal_objects: u64,
    /// Bytes that objects take, with their headers: of all, and of those in runs.
    pub allocated: (u64, u64),
    /// The runs, by the bytes of a block.
    pub runs: BTreeMap<u64, RunStatistics>,
}

/// The runs of one block size in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// Number of runs.
    pub runs: u64,
    /// Blocks that can be used.
    pub blocks: u64,
    /// Blocks that are used.
    pub used: u64,
}

impl<M: Medium> ObjView<M> {
    /// Counts what the heap holds. Damaged parts are left out.
    ///
    /// # Errors
    /// [`ObjError::Memory`].
    ///
    /// # Cost
    /// Reads all headers and bitmaps.
    pub fn statistics(&self) -> Result<Statistics, ObjError> {
        let mut found = Statistics::default();
        for zone in 0..self.zone_count() {
            match self.zone(zone) {
                Ok(Some(_)) => found.zones.0 += 1,
                Ok(None) => found.zones.1 += 1,
                Err(error) => skip_damage(error)?,
            }
        }
        for block in self.blocks() {
            let block = match block {
                Ok(block) => block,
                Err(error) => {
                    skip_damage(error)?;
                    continue;
                }
            };
            let chunks = u64::from(block.header.size);
            match block.header.kind {
                PmdkChunkKind::Free => {
                    found.free_chunks += chunks;
                    found.largest_free = found.largest_free.max(chunks);
                }
                PmdkChunkKind::Used => found.used_chunks += chunks,
                _ => {
                    found.run_chunks += chunks;
                    match self.run(&block) {
                        Ok(run) => {
                            let of_size = found.runs.entry(run.block_size).or_default();
                            of_size.runs += 1;
                            of_size.blocks += run.usable_count();
                        }
                        Err(error) => skip_damage(error)?,
                    }
                }
            }
        }
        self.count_objects(&mut found)?;
        Ok(found)
    }

    /// Counts the bytes of objects: of all, and of those in runs; and the bytes of runs. Damaged parts are left out.
    ///
    /// # Errors
    /// [`ObjError::Memory`].
    ///
    /// # Cost
    /// Reads the headers of blocks and the bitmaps, and no object.
    pub(crate) fn usage(&self) -> Result<(u64, u64, u64), ObjError> {
        let (mut whole_chunks, mut in_runs, mut runs) = (0, 0, 0);
        for block in self.blocks() {
            let counted = block.and_then(|block| {
                let bytes = u64::from(block.header.size) * PmdkHeap::CHUNK;
                match block.header.kind {
                    PmdkChunkKind::Used => whole_chunks += bytes,
                    PmdkChunkKind::Run => {
                        runs += bytes;
                        let run = self.run(&block)?;
                        for word in 0..run.bitmap_words {
                            let used = self.word(self.bitmap_word_at(&block, word))? & run.block_bits(word);
                            in_runs += u64::from(used.count_ones()) * run.block_size;
                        }
                    }
                    _ => {}
                }
                Ok(())
            });
            counted.or_else(skip_damage)?;
        }
        Ok((whole_chunks + in_runs, in_runs, runs))
    }

    fn count_objects(&self, found: &mut Statistics) -> Result<(), ObjError> {
        for object in self.objects() {
            let object = match object {
                Ok(object) => object,
                Err(error) => {
                    skip_damage(error)?;
                    continue;
                }
            };
            let count = if object.is_internal { &mut found.internal_objects } else { &mut found.objects };
            *count += 1;
            let header = object.place.block.header.object_header().len();
            let bytes = object.usable_size + header;
            found.allocated.0 += bytes;
            if let Some((_, units)) = object.place.units {
                found.allocated.1 += bytes;
                let of_size = found.runs.entry(bytes / units.max(1)).or_default();
                of_size.used += units;
            }
        }
        Ok(())
    }
}

impl Statistics {
    /// Returns the bytes of all chunks.
    pub fn chunk_bytes(&self) -> u64 {
        (self.free_chunks + self.used_chunks + self.run_chunks) * PmdkHeap::CHUNK
    }
}

fn skip_damage(error: ObjError) -> Result<(), ObjError> {
    match error {
        ObjError::Damaged(_) => Ok(()),
        error => Err(error),
    }
}
