//! The recovery of a pool that a crash of PMDK left.
//!
//! The order is PMDK's, and each step is durable before the next one begins:
//!
//! 1. **Redo logs.** Lane by lane, the internal one and then the external one: the changes, then the end of the log. So
//!    allocations and frees, and commits that were under way, are complete, and the allocator's words are consistent.
//! 2. **Heap.** Zones of a pool that grew get their new chunks: the header of a free block, then the zone's size. The footers of
//!    free *and* used blocks are written anew, since PMDK makes them durable by chance only.
//! 3. **Undo logs.** All old bytes, then the next number of the log, which makes its entries invalid. Then the log lets go of its
//!    extensions, the last one first: a change of the allocator's word and of the word that leads to it, through the lane's
//!    internal redo log. Space that the program lent is unlinked.
//!
//! | stops after | media | next recovery |
//! |---|---|---|
//! | some changes of a redo log | the log is in force | makes all changes again: each bit gets a constant or stays, so twice is once |
//! | the end of a redo log | as after the operation | goes on with the next log |
//! | some footers, a header of new chunks | the zone has its old size | writes them again |
//! | some old bytes | the undo log is in force | puts all bytes back again |
//! | the number of an undo log | extensions without valid entries | lets go of them |
//! | an atomic change to let go of one | an internal redo log in force, or none | step 1 completes it |
//!
//! PMDK's own recovery leaves extensions of a log without valid entries linked, for the lane's next transaction. Here every log
//! lets go of all: lanes are as in a new pool then, and a crash inside of this recovery changes nothing of its result.

use crate::bugs;
use crate::error::{LogKind, ObjError};
use crate::log::{Log, LogEntry, LogPart};
use crate::object::Object;
use crate::pool::{Pool, is_in_use};
use crate::redo::WordChange;
use crate::view::ObjView;
use crate::words::store_words;
use lode_layout::{
    PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkObjState, PmdkUlog, PmdkWordChange, PmdkZone, PoolOffset, WORD,
};
use lode_pmem::{FaultScope, Medium};

/// The steps of a recovery, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// True if a crash of Lodestone left the pool. The other counts are those of PMDK's recovery.
    pub was_in_use: bool,
    /// Redo logs that were replayed.
    pub redone: u64,
    /// Transactions that were rolled back.
    pub undone: u64,
    /// Extensions of logs that were given back, or back to the program that lent them.
    pub extensions: u64,
    /// Footers that were written.
    pub footers: u64,
    /// Zones that got new chunks.
    pub grown_zones: u64,
}

/// Recovers the pool on `medium` as the next open would, and leaves it closed. A pool that is not in use gets PMDK's recovery, which
/// does nothing to one that was closed. One in use, which a crash of Lodestone left, gets that of its log, and is closed: PMDK opens it
/// then.
///
/// # Errors
/// Those of [`Pool::open`] and [`Pool::close`] for a pool in use. Otherwise [`ObjError::Damaged`] if a log, or what it leads to, is damaged. No step began then, except for those before the one whose
/// logs are damaged. [`ObjError::InDoubt`] if a sync failed. The same call completes what was begun.
///
/// # Durability
/// The pool is recovered durably on return. A crash before that leaves a pool that the same call, or PMDK, recovers.
///
/// # Cost
/// Reads all lanes, and the headers of all blocks. Two drains for a redo log in force, two for an undo log, three for an extension.
pub fn recover<M: Medium>(medium: &M) -> Result<Recovery, ObjError> {
    if is_in_use(medium)? {
        Pool::open(medium)?.close()?;
        return Ok(Recovery { was_in_use: true, ..Recovery::default() });
    }
    recover_lanes(medium)
}

/// Recovers a pool that PMDK had last.
pub(crate) fn recover_lanes<M: Medium>(medium: &M) -> Result<Recovery, ObjError> {
    let scope = FaultScope::open();
    let recovered = recover_lanes_in(medium);
    // A store to lost memory is no store: the next recovery makes it again, or meets the same.
    scope.close()?;
    recovered
}

fn recover_lanes_in<M: Medium>(medium: &M) -> Result<Recovery, ObjError> {
    let mut done = Recovery::default();
    let view = ObjView::open(medium)?;
    view.redo(&mut done)?;
    // The redo logs may have changed the words of the root.
    let view = ObjView::open(medium)?;
    view.boot_heap(&mut done)?;
    view.undo(&mut done)?;
    Ok(done)
}

/// Begins the next run of a pool that was recovered: locks of earlier runs count as free from now on.
///
/// # Errors
/// [`ObjError::Damaged`], [`ObjError::Memory`], [`ObjError::InDoubt`].
///
/// # Durability
/// The number is durable on return.
///
/// # Cost
/// One drain.
pub fn begin_run<M: Medium>(medium: &M) -> Result<u64, ObjError> {
    let next = ObjView::open(medium)?.state().next_run();
    store_words(medium, [(PmdkObjState::RUN_ID_OFF, next)])?;
    // ORDER: the number before any lock that the run takes. Stop here: the run before has it, and its locks are free.
    medium.drain()?;
    Ok(next)
}

/// An extension that a log lets go of.
struct Extension {
    /// The word that leads to it.
    link: PoolOffset,
    /// Its object; `None` if the program lent the space.
    object: Option<Object>,
}

impl<M: Medium> ObjView<M> {
    fn lanes(&self) -> impl Iterator<Item = u64> {
        0..self.descriptor().lane_count
    }

    /// Returns true if a log needs recovery.
    ///
    /// # Errors
    /// [`ObjError::Damaged`], [`ObjError::Memory`].
    pub fn needs_recovery(&self) -> Result<bool, ObjError> {
        for lane in self.lanes() {
            for kind in LogKind::ALL {
                if !self.entries(&self.log(lane, kind)?)?.is_empty() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn redo(&self, done: &mut Recovery) -> Result<(), ObjError> {
        let mut in_force = Vec::new();
        for lane in self.lanes() {
            for kind in [LogKind::Internal, LogKind::External] {
                let log = self.log(lane, kind)?;
                let entries = self.entries(&log)?;
                if !entries.is_empty() {
                    in_force.push((log, entries));
                }
            }
        }
        for (log, entries) in in_force {
            self.apply_all(&entries)?;
            let LogPart { at, header } = *log.first();
            self.clobber(at, header.next)?;
            done.redone += 1;
        }
        Ok(())
    }

    fn apply_all(&self, entries: &[LogEntry]) -> Result<(), ObjError> {
        entries.iter().try_for_each(|entry| self.apply(entry))
    }

    fn boot_heap(&self, done: &mut Recovery) -> Result<(), ObjError> {
        let medium = self.medium();
        if self.state().heap_size == 0 {
            medium.store8(PmdkObjState::HEAP_SIZE_OFF, self.heap_size());
            medium.flush(PmdkObjState::HEAP_SIZE_OFF, WORD);
        }
        done.grown_zones += self.grow_zones()?;
        for block in self.blocks() {
            let block = block?;
            if block.header.kind == PmdkChunkKind::Run || block.header.size == 1 {
                continue;
            }
            let last = block.chunk + block.header.size - 1;
            let at = self.chunk_header_at(block.zone, last);
            let footer = PmdkChunk { kind: PmdkChunkKind::Footer, ..block.header };
            let found = self.chunk(block.zone, last);
            // The flags of a footer mean nothing.
            if found.is_ok_and(|found| (found.kind, found.size) == (footer.kind, footer.size)) {
                continue;
            }
            medium.store8(at, footer.encode());
            medium.flush(at, WORD);
            done.footers += 1;
        }
        if done.footers > 0 || self.state().heap_size == 0 {
            // ORDER: footers and the heap's size before the undo logs give extensions back. Stop here: they are written again.
            medium.drain()?;
        }
        Ok(())
    }

    /// Gives zones in use the chunks that they lack, since a crash stopped a growth of the heap after its new size was durable. Returns the
    /// number of these zones.
    ///
    /// # Durability
    /// Durable on return.
    pub(crate) fn grow_zones(&self) -> Result<u64, ObjError> {
        let mut grown = 0;
        for zone in 0..self.zone_count() {
            let Some(PmdkZone { chunk_count }) = self.zone(zone)? else { continue };
            let wanted = PmdkHeap::chunk_count(self.heap_size(), zone);
            if wanted > chunk_count {
                self.grow_zone(zone, chunk_count, wanted)?;
                grown += 1;
            }
        }
        Ok(grown)
    }

    fn grow_zone(&self, zone: u64, chunk_count: u32, wanted: u32) -> Result<(), ObjError> {
        let medium = self.medium();
        let new = PmdkChunk { kind: PmdkChunkKind::Free, flags: 0, size: wanted - chunk_count };
        let footer = PmdkChunk { kind: PmdkChunkKind::Footer, ..new };
        for (chunk, header) in [(wanted - 1, footer), (chunk_count, new)] {
            let at = self.chunk_header_at(zone, chunk);
            medium.store8(at, header.encode());
            medium.flush(at, WORD);
        }
        if !bugs::ZONE_BEFORE_CHUNKS.is_active() {
            // ORDER: the header of the new block before the size that makes it part of the zone. Stop here: it is written again.
            medium.drain()?;
        }
        let at = self.zone_at(zone);
        medium.store8(at, PmdkZone { chunk_count: wanted }.encode());
        medium.flush(at, WORD);
        // ORDER: the size before the footers, which are of the new block, too. Stop here: they are written again.
        Ok(medium.drain()?)
    }

    fn undo(&self, done: &mut Recovery) -> Result<(), ObjError> {
        let mut logs = Vec::new();
        for lane in self.lanes() {
            for kind in [LogKind::External, LogKind::Undo] {
                let log = self.log(lane, kind)?;
                let entries = if kind == LogKind::Undo { self.entries(&log)? } else { Vec::new() };
                if !entries.is_empty() || log.parts.len() > 1 {
                    let extensions = self.extensions(&log)?;
                    logs.push((log, entries, extensions));
                }
            }
        }
        for (log, entries, extensions) in logs {
            if !entries.is_empty() {
                self.apply_all(&entries)?;
                if !bugs::UNDO_NOT_ENDED.is_active() {
                    self.end_undo(&log)?;
                }
                done.undone += 1;
            }
            for extension in extensions.iter().rev() {
                self.let_go(log.lane, extension)?;
                done.extensions += 1;
            }
        }
        Ok(())
    }

    /// Makes the entries of an undo log invalid, whose bytes are put back and in write-back.
    fn end_undo(&self, log: &Log) -> Result<(), ObjError> {
        let medium = self.medium();
        if !bugs::UNDO_NOT_DRAINED.is_active() {
            // ORDER: the old bytes before the log's next number. Stop here: recovery puts them back again.
            medium.drain()?;
        }
        let LogPart { at, header } = *log.first();
        let at = at.plus(PmdkUlog::GEN_NUM_OFF);
        medium.store8(at, header.gen_num.wrapping_add(1));
        medium.flush(at, WORD);
        // ORDER: the number before an extension is given back. Stop here: the log has no entries, and its extensions are let go.
        Ok(medium.drain()?)
    }

    /// Returns the extensions of a log, which can be let go of.
    fn extensions(&self, log: &Log) -> Result<Vec<Extension>, ObjError> {
        let pairs = log.parts.iter().zip(&log.parts[1..]);
        let extensions = pairs.map(|(before, part)| {
            let object = match part.header.is_user_owned {
                true => None,
                false => Some(self.object_at(before.header.next)?),
            };
            Ok(Extension { link: before.next_at(), object })
        });
        extensions.collect()
    }

    /// Lets go of an extension, after those behind it.
    fn let_go(&self, lane: u64, extension: &Extension) -> Result<(), ObjError> {
        let Extension { link, object } = extension;
        let unlink = (*link, PmdkWordChange::Set, 0);
        let Some(object) = object else {
            return self.change_atomically(lane, &[unlink]);
        };
        let free = self.freeing(object);
        if bugs::EXTENSION_FREED_FIRST.is_active() {
            self.change_atomically(lane, &[free])?;
            return self.change_atomically(lane, &[unlink]);
        }
        self.change_atomically(lane, &[unlink, free])
    }

    /// Returns the change that makes an object free.
    pub(crate) fn freeing(&self, object: &Object) -> WordChange {
        let block = &object.place.block;
        match object.place.units {
            None => {
                let free = PmdkChunk { kind: PmdkChunkKind::Free, ..block.header };
                (self.chunk_header_at(block.zone, block.chunk), PmdkWordChange::Set, free.encode())
            }
            Some((unit, count)) => {
                let bits = (u64::MAX >> (64 - count.clamp(1, 64))) << (unit % 64);
                (self.bitmap_word_at(block, unit / 64), PmdkWordChange::And, !bits)
            }
        }
    }
}
