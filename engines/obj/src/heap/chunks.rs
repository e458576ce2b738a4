//! Space of whole chunks: reservations, zones that come into use, and free blocks that become larger.

use super::class::RunKey;
use super::free_space::{Extent, FreeSpace, Transit};
use super::slots::{BlockPlace, Slot};
use super::{Heap, WHOLE_CHUNKS, chunk_headers, lock};
use crate::action::Reservation;
use crate::bugs;
use crate::error::ObjError;
use lode_layout::{PmdkHeap, PmdkObjectHeaderKind, Record};
use lode_pmem::{Medium, hold};
use lode_redo::cover::Cover;
use std::collections::BTreeMap;

/// Most blocks whose headers one record changes, when free blocks become larger.
const GATHERED_MAX: usize = 64;

/// A free block, and the free blocks that it was made of.
pub(super) type Merged = (Extent, Vec<Extent>);

impl Heap {
    /// Reserves `count` chunks. `None` if there is no space.
    pub(super) fn reserve_chunks<M: Medium>(
        &self,
        cover: &Cover<M>,
        count: u32,
    ) -> Result<Option<Reservation>, ObjError> {
        let place = match self.take_exact(count) {
            Some(place) => Some(place),
            None => self.split_block(cover, count)?,
        };
        let header = PmdkObjectHeaderKind::Compact.len();
        Ok(place.map(|place| Reservation {
            at: self.chunk_at(place).plus(header),
            usable_size: u64::from(count) * PmdkHeap::CHUNK - header,
            zone: place.0,
            chunk: place.1,
            unit: WHOLE_CHUNKS,
            count,
        }))
    }

    /// Returns the error for an object that no free space has room for.
    pub(super) fn full(&self, size: u64) -> ObjError {
        let largest = u64::from(lock(&self.free).largest()) * PmdkHeap::CHUNK;
        let largest = largest.saturating_sub(PmdkObjectHeaderKind::Compact.len());
        ObjError::Full { size, largest, growth: self.growing.refusal() }
    }

    /// Takes a free block of exactly so many chunks.
    fn take_exact(&self, count: u32) -> Option<BlockPlace> {
        let mut free = lock(&self.free);
        let (place, len) = free.best_fit(count).filter(|(_, len)| *len == count)?;
        free.remove((place, len));
        free.set_transit((place, len), Transit::Reserved);
        Some(place)
    }

    /// Makes two free blocks of one, and takes the first. `None` if no block is large enough.
    fn split_block<M: Medium>(&self, cover: &Cover<M>, count: u32) -> Result<Option<BlockPlace>, ObjError> {
        let _order = hold(&self.order, cover.medium());
        let Some((place, len)) = self.take_block(cover, count)? else { return Ok(None) };
        if len > count {
            let rest = ((place.0, place.1 + count), len - count);
            let mut headers = Record::new();
            self.push_free(&mut headers, (place, count));
            self.push_free(&mut headers, rest);
            // ORDER: two free blocks on the medium before one of them is given away. Stop here: the block is whole, or two.
            let split = match bugs::SPLIT_NOT_LOGGED.is_active() {
                true => Ok(()),
                false => chunk_headers::commit(cover, &[], &headers),
            };
            let mut free = lock(&self.free);
            match split {
                Ok(()) => free.add(rest),
                Err(error) => {
                    free.add((place, len));
                    return Err(error);
                }
            }
        }
        lock(&self.free).set_transit((place, count), Transit::Reserved);
        Ok(Some(place))
    }

    /// Takes the smallest free block of at least so many chunks. If there is none, a zone comes into use, or empty runs become free
    /// blocks, or the heap grows, or the log gives its chunks up. The caller holds [`Heap::order`].
    pub(super) fn take_block<M: Medium>(
        &self,
        cover: &Cover<M>,
        count: u32,
    ) -> Result<Option<Extent>, ObjError> {
        loop {
            {
                let mut free = lock(&self.free);
                if let Some(block) = free.best_fit(count) {
                    free.remove(block);
                    return Ok(Some(block));
                }
            }
            let has_more =
                self.begin_zone(cover)? || self.free_empty_runs(cover)? || self.join_neighbours(cover)?;
            if !has_more && !self.grow_by_itself(cover)? && !self.take_log_block(cover, count)? {
                return Ok(None);
            }
        }
    }

    /// Lets the next zone come into use. False if all are in use.
    fn begin_zone<M: Medium>(&self, cover: &Cover<M>) -> Result<bool, ObjError> {
        let Some(zone) = lock(&self.free).unused_zones.pop() else { return Ok(false) };
        let count = PmdkHeap::chunk_count(self.places.heap_size(), zone.into());
        let mut headers = Record::new();
        self.push_zone(&mut headers, zone, count);
        // ORDER: the zone's headers before a block of it is given away. Stop here: it was never used.
        let begun = chunk_headers::commit(cover, &[], &headers);
        let mut free = lock(&self.free);
        match begun {
            Ok(()) => free.add(((zone, 0), count)),
            Err(error) => {
                free.unused_zones.push(zone);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Makes free blocks of empty runs. False if there are none.
    fn free_empty_runs<M: Medium>(&self, cover: &Cover<M>) -> Result<bool, ObjError> {
        self.read_all_runs(cover.medium())?;
        loop {
            let listed = lock(&self.free).take_empty(GATHERED_MAX);
            if listed.is_empty() {
                return Ok(false);
            }
            let taken: Vec<(BlockPlace, RunKey)> =
                listed.into_iter().filter_map(|place| self.take_empty_run(place)).collect();
            if taken.is_empty() {
                continue;
            }
            let merged = self.merge(taken.iter().map(|(place, key)| (*place, key.chunks)).collect());
            let mut headers = Record::new();
            merged.iter().for_each(|(block, _)| self.push_free(&mut headers, *block));
            // ORDER: the runs are free blocks on the medium before their chunks are given away. Stop here: they are runs, and empty.
            if let Err(error) = chunk_headers::commit(cover, &[], &headers) {
                let mut free = lock(&self.free);
                Heap::unmerge(&mut free, &merged);
                for (place, key) in taken {
                    self.slots.set_run(place, key.chunks, Slot::Unread);
                    free.add_unread((key.flags, key.chunks), place);
                }
                return Err(error);
            }
            if !bugs::BITS_OF_FREED_RUNS.is_active() {
                // ORDER: no record with bits of these runs is replayed any more, before other content takes their place. Stop here:
                // the blocks are free.
                cover.checkpoint().map_err(lode_redo::cover::CoverError::from)?;
            }
            let mut free = lock(&self.free);
            merged.into_iter().for_each(|(block, _)| free.add(block));
            return Ok(true);
        }
    }

    /// Takes a run away that has no object. `None` if it has one by now.
    fn take_empty_run(&self, place: BlockPlace) -> Option<(BlockPlace, RunKey)> {
        let key = {
            let mut slot = lock(self.slots.get(place)?);
            let Slot::Run(run) = &mut *slot else { return None };
            run.is_listed_as_empty = false;
            if !run.is_empty() {
                return None;
            }
            let key = run.key;
            // Its header says so until the record is durable, and no object of it is there to be freed.
            *slot = Slot::NoRun;
            key
        };
        self.slots.set_later(place, key.chunks, |_| Slot::NoRun);
        Some((place, key))
    }

    /// Makes larger blocks of free blocks that lie beside one another. False if there are none.
    fn join_neighbours<M: Medium>(&self, cover: &Cover<M>) -> Result<bool, ObjError> {
        let joined = {
            let mut free = lock(&self.free);
            let joined = free.neighbours(GATHERED_MAX);
            joined.iter().flat_map(|(_, parts)| parts).for_each(|part| free.remove(*part));
            joined
        };
        if joined.is_empty() {
            return Ok(false);
        }
        let mut headers = Record::new();
        joined.iter().for_each(|(block, _)| self.push_free(&mut headers, *block));
        // ORDER: the larger blocks on the medium before one is given away. Stop here: they are several.
        let committed = chunk_headers::commit(cover, &[], &headers);
        let mut free = lock(&self.free);
        for (block, parts) in joined {
            match committed {
                Ok(()) => free.add(block),
                Err(_) => parts.into_iter().for_each(|part| free.add(part)),
            }
        }
        committed.map(|()| true)
    }

    /// Returns blocks together with the free blocks beside them, which are taken. The caller holds [`Heap::order`].
    pub(super) fn merge(&self, blocks: Vec<Extent>) -> Vec<Merged> {
        let mut free = lock(&self.free);
        let mut parts: BTreeMap<BlockPlace, (u32, bool)> = BTreeMap::new();
        for (place, len) in blocks {
            parts.insert(place, (len, false));
            let beside = [free.before(place), free.after((place, len))];
            for (place, len) in beside.into_iter().flatten() {
                free.remove((place, len));
                parts.insert(place, (len, true));
            }
        }
        drop(free);
        let mut merged: Vec<Merged> = Vec::new();
        for (place, (len, was_free)) in parts {
            let was_free = was_free.then_some((place, len));
            match merged.last_mut() {
                Some(((first, total), taken)) if (first.0, first.1 + *total) == place => {
                    *total += len;
                    taken.extend(was_free);
                }
                _ => merged.push(((place, len), was_free.into_iter().collect())),
            }
        }
        merged
    }

    /// Commits merged blocks as free ones, after the headers that are in the record already, and gives them away. If that fails, the merge
    /// is undone. The caller holds [`Heap::order`].
    pub(super) fn commit_merged<M: Medium>(
        &self,
        cover: &Cover<M>,
        merged: Vec<Merged>,
        mut headers: Record,
    ) -> Result<(), ObjError> {
        merged.iter().for_each(|(block, _)| self.push_free(&mut headers, *block));
        // ORDER: argued at each call.
        let committed = chunk_headers::commit(cover, &[], &headers);
        let mut free = lock(&self.free);
        match committed {
            Ok(()) => merged.into_iter().for_each(|(block, _)| free.add(block)),
            Err(_) => Heap::unmerge(&mut free, &merged),
        }
        committed
    }

    /// Undoes a merge: the free blocks are free again.
    pub(super) fn unmerge(free: &mut FreeSpace, merged: &[Merged]) {
        merged.iter().flat_map(|(_, taken)| taken).for_each(|block| free.add(*block));
    }
}
