//! Transactions on an area of words and on slots that hold blocks.

use super::pool::{self, Mapped};
use crate::engine::{AREA_WORDS, BLOCK_WORDS, SLOTS, Transactions};
use anyhow::{Result, bail, ensure};
use lode_heap::{Heap, HeapError, Pool, Tx};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Durability, Medium, Readable};
use std::array;
use std::path::Path;

/// Bytes of its pool: as many as the peer's has.
const POOL_LEN: u64 = 128 << 20;
/// Type numbers.
const AREA: u64 = 1;
const SLOT_TABLE: u64 = 2;
const BLOCK: u64 = 3;
/// Strongest alignment that any of the objects needs.
const ALIGN: u64 = 16;

/// An area of words, slots, and a slot for the block that comes and goes.
pub(super) struct Area<M: Medium> {
    pool: Pool<M>,
    words: PoolOffset,
    slots: PoolOffset,
    single: PoolOffset,
    /// The word that the next transaction stores first.
    stamp: u64,
}

impl<M: Medium> Area<M> {
    fn contents_in(&self, memory: &Readable) -> Vec<u64> {
        let words = (0..u64::from(AREA_WORDS)).map(|place| memory.load8(self.words.plus(place * WORD)));
        let blocks = (0..u64::from(SLOTS)).flat_map(|slot| {
            let block = PoolOffset::new(memory.load8(self.slots.plus(slot * WORD)));
            let word = move |index| if block.is_null() { 0 } else { memory.load8(block.plus(index * WORD)) };
            (0..u64::from(BLOCK_WORDS)).map(word)
        });
        words.chain(blocks).collect()
    }

    /// An area in a fresh pool, its pages touched, that stores through what `wrap` makes of the mapping.
    pub(super) fn create(
        path: &Path,
        durability: Durability,
        wrap: impl FnOnce(Mapped) -> M,
    ) -> Result<Area<M>> {
        let pool = pool::create(path, POOL_LEN, durability, wrap)?;
        pool::touch(&pool)?;
        let (words, slots) = pool.heap().run(|tx| {
            let words = tx.alloc_zeroed(u64::from(AREA_WORDS) * WORD, ALIGN, AREA)?;
            let slots = tx.alloc_zeroed((u64::from(SLOTS) + 1) * WORD, ALIGN, SLOT_TABLE)?;
            tx.set_root(words);
            Ok::<_, HeapError>((words, slots))
        })?;
        let single = slots.plus(u64::from(SLOTS) * WORD);
        Ok(Area { pool, words, slots, single, stamp: 1 })
    }

    /// Allocates a block and links it at `link`, then unlinks and frees it.
    fn alloc_free_linked(&self, link: PoolOffset) -> Result<()> {
        let block = self.heap().run(|tx| alloc_in(tx, link))?;
        Ok(self.heap().run(|tx| free_in(tx, link, block))?)
    }

    /// The heap.
    pub(super) fn heap(&self) -> &Heap<M> {
        self.pool.heap()
    }

    /// The closures of [`change`](Transactions::change), each of which fails at its end.
    pub(super) fn abandon_change(&self, places: &[u32], ranges: usize) -> Result<()> {
        places.chunks_exact(ranges).try_for_each(|places| {
            abandoned(self.heap().run(|tx| {
                self.store_at(tx, places);
                failed()
            }))
        })
    }

    /// The closures of [`replace`](Transactions::replace), each of which fails at its end.
    pub(super) fn abandon_replace(&self, slots: &[u32]) -> Result<()> {
        slots.iter().try_for_each(|slot| {
            abandoned(self.heap().run(|tx| {
                self.replace_in(tx, *slot)?;
                failed()
            }))
        })
    }

    /// The closures of [`alloc_free`](Transactions::alloc_free), each of which fails at its end.
    pub(super) fn abandon_alloc_free(&self, times: usize) -> Result<()> {
        let heap = self.heap();
        let block = heap.run(|tx| alloc_in(tx, self.single))?;
        for _ in 0..times {
            abandoned(heap.run(|tx| {
                alloc_in(tx, self.single)?;
                failed()
            }))?;
            abandoned(heap.run(|tx| {
                free_in(tx, self.single, block)?;
                failed()
            }))?;
        }
        Ok(heap.run(|tx| free_in(tx, self.single, block))?)
    }

    fn store_at(&self, tx: &Tx<'_, M>, places: &[u32]) {
        for (place, value) in places.iter().zip(self.stamp..) {
            tx.store8(self.words.plus(u64::from(*place) * WORD), value);
        }
    }

    fn replace_in(&self, tx: &Tx<'_, M>, slot: u32) -> Result<(), HeapError> {
        let slot = self.slots.plus(u64::from(slot) * WORD);
        let content: [u64; BLOCK_WORDS as usize] = array::from_fn(|index| self.stamp + index as u64);
        let block = tx.alloc(u64::from(BLOCK_WORDS) * WORD, ALIGN, BLOCK)?;
        tx.store_words(block, &content);
        let old = PoolOffset::new(tx.load8(slot));
        tx.store8(slot, block.get());
        if old.is_null() { Ok(()) } else { tx.free(old) }
    }
}

/// Allocates a block and links it at `link`.
fn alloc_in<M: Medium>(tx: &Tx<'_, M>, link: PoolOffset) -> Result<PoolOffset, HeapError> {
    let block = tx.alloc(u64::from(BLOCK_WORDS) * WORD, ALIGN, BLOCK)?;
    tx.store8(link, block.get());
    Ok(block)
}

/// Unlinks a block and frees it.
fn free_in<M: Medium>(tx: &Tx<'_, M>, link: PoolOffset, block: PoolOffset) -> Result<(), HeapError> {
    tx.store8(link, PoolOffset::NULL.get());
    tx.free(block)
}

/// The end of a closure whose transaction is to be rolled back.
fn failed() -> Result<(), HeapError> {
    Err(HeapError::NestedFailed)
}

/// Checks that a transaction was rolled back as [`failed`] wanted.
fn abandoned(result: Result<(), HeapError>) -> Result<()> {
    match result {
        Err(HeapError::NestedFailed) => Ok(()),
        other => bail!("a closure that fails ends with {other:?}"),
    }
}

impl<M: Medium> Transactions for Area<M> {
    fn change(&mut self, places: &[u32], ranges: usize) -> Result<()> {
        ensure!(places.iter().all(|place| *place < AREA_WORDS));
        for places in places.chunks_exact(ranges) {
            self.heap().run(|tx| {
                self.store_at(tx, places);
                Ok::<_, HeapError>(())
            })?;
            self.stamp += ranges as u64;
        }
        Ok(())
    }

    fn replace(&mut self, slots: &[u32]) -> Result<()> {
        ensure!(slots.iter().all(|slot| *slot < SLOTS));
        for slot in slots {
            self.heap().run(|tx| self.replace_in(tx, *slot))?;
            self.stamp += u64::from(BLOCK_WORDS);
        }
        Ok(())
    }

    fn alloc_free(&mut self, times: usize) -> Result<()> {
        (0..times).try_for_each(|_| self.alloc_free_linked(self.single))
    }

    fn alloc_free_at(&mut self, places: &[u32]) -> Result<()> {
        ensure!(places.iter().all(|place| *place < AREA_WORDS));
        places.iter().try_for_each(|place| self.alloc_free_linked(self.words.plus(u64::from(*place) * WORD)))
    }

    fn contents(&self) -> Result<Vec<u64>> {
        Ok(self.pool.heap().memory().reading(|memory| self.contents_in(memory))?)
    }
}
