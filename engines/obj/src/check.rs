//! The check of a heap, which PMDK does not have: each chunk, bitmap and header against each other.
//!
//! A crash leaves changes half made, which is no damage. So a caller recovers the pool, or a private view of it, and checks that.

use crate::block::Block;
use crate::error::{Damage, DamageReason, LogKind, ObjError, Structure};
use crate::object::Object;
use crate::view::ObjView;
use lode_layout::{
    LINE, PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkRun, PmdkUlog, PmdkZone, PoolOffset, align_up,
};
use lode_pmem::{Fault, Medium};
use std::collections::HashMap;

/// Findings after which a check ends.
const FINDINGS_MAX: usize = 1000;

/// A thing that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A structure that breaks a rule. Objects may be lost.
    #[error(transparent)]
    Damage(Damage),
    /// Memory that is lost.
    #[error(transparent)]
    Memory(Fault),
    /// A log is in force: the pool was not closed, and [`recover`](crate::recover()) completes what was begun.
    #[error(
        "the {kind} log of lane {lane} is in force: the pool was left in a crash, and the next open recovers it"
    )]
    InForce {
        /// Index of the lane.
        lane: u64,
        /// The log.
        kind: LogKind,
    },
    /// A zone has fewer chunks than its heap has room for.
    #[error("zone {zone} has {found} chunks, and there is room for {room}; the next open adds them")]
    SmallZone {
        /// Index of the zone.
        zone: u64,
        /// Its chunks.
        found: u32,
        /// Chunks that fit.
        room: u32,
    },
    /// The footer of a block of several chunks does not fit it.
    #[error("chunk {chunk} of zone {zone} has no footer of its block of {size} chunks")]
    Footer {
        /// Index of the zone.
        zone: u64,
        /// Index of the block's last chunk.
        chunk: u32,
        /// Chunks of the block.
        size: u32,
    },
    /// A chunk of a run does not lead to the run's first chunk.
    #[error("chunk {chunk} of zone {zone} does not lead to its run, {distance} chunks before it")]
    RunData {
        /// Index of the zone.
        zone: u64,
        /// Index of the chunk.
        chunk: u32,
        /// Chunks from the first one of the run.
        distance: u32,
    },
    /// Bits past the last block of a run are clear, so that an allocation may take bytes outside of it.
    #[error(
        "word {word} of the bitmap of the run in chunk {chunk} of zone {zone} has bits of blocks that do not exist"
    )]
    BitsPastEnd {
        /// Index of the zone.
        zone: u64,
        /// Index of the run's first chunk.
        chunk: u32,
        /// Index of the word.
        word: u64,
    },
    /// Some blocks of an object are free.
    #[error("the object at {at} has {blocks} blocks of its run, and some of them are free")]
    FreeBlocks {
        /// Offset of its data.
        at: PoolOffset,
        /// Its blocks.
        blocks: u64,
    },
    /// An object of the library to which neither a log nor the root leads.
    #[error("{size} bytes at {at} are lost: neither a log nor the word of the root leads there")]
    Lost {
        /// Offset of its data.
        at: PoolOffset,
        /// Bytes that it has room for.
        size: u64,
    },
    /// An extension of a log belongs to two logs.
    #[error("the extension at {at} belongs to the {kind} log of lane {lane}, and to another one")]
    SharedExtension {
        /// Offset of its space.
        at: PoolOffset,
        /// Index of the lane.
        lane: u64,
        /// The log.
        kind: LogKind,
    },
    /// An extension of a log is longer than its object.
    #[error("the extension at {at} of the {kind} log of lane {lane} does not fit its object")]
    LongExtension {
        /// Offset of its space.
        at: PoolOffset,
        /// Index of the lane.
        lane: u64,
        /// The log.
        kind: LogKind,
    },
    /// The root object is smaller than it must be.
    #[error("the root object at {at} has room for {room} bytes, and must have {size}")]
    SmallRoot {
        /// Offset of its data.
        at: PoolOffset,
        /// Bytes that it has room for.
        room: u64,
        /// Bytes that it must have.
        size: u64,
    },
}

impl Finding {
    /// Returns true if something is damaged: not for what the next open completes.
    pub fn is_damage(&self) -> bool {
        !matches!(
            self,
            Finding::InForce { .. }
                | Finding::SmallZone { .. }
                | Finding::Footer { .. }
                | Finding::Lost { .. }
        )
    }
}

/// Checks the pool on `medium`. Returns the findings, at most about a thousand: none if it is sound and was closed.
///
/// # Cost
/// Reads all lanes, headers and bitmaps, and stores nothing.
pub fn check<M: Medium>(medium: &M) -> Vec<Finding> {
    let mut findings = Vec::new();
    match ObjView::open(medium) {
        Ok(view) => Check { view: &view, findings: &mut findings }.run(),
        Err(error) => note(&mut findings, error),
    }
    findings.truncate(FINDINGS_MAX);
    findings
}

fn note(findings: &mut Vec<Finding>, error: ObjError) {
    match error {
        ObjError::Damaged(damage) => findings.push(Finding::Damage(damage)),
        ObjError::Memory(fault) => findings.push(Finding::Memory(fault)),
        // A check reads structures, and does nothing else.
        _ => {}
    }
}

struct Check<'c, M> {
    view: &'c ObjView<M>,
    findings: &'c mut Vec<Finding>,
}

impl<M: Medium> Check<'_, M> {
    fn run(&mut self) {
        self.zones();
        for block in self.view.blocks() {
            if self.findings.len() > FINDINGS_MAX {
                return;
            }
            let checked = block.and_then(|block| match block.header.kind {
                PmdkChunkKind::Run => self.run_block(&block),
                _ => self.footer(&block),
            });
            self.note(checked);
        }
        let owned = self.logs();
        self.objects(&owned);
        let root = self.root();
        self.note(root);
    }

    fn note(&mut self, result: Result<(), ObjError>) {
        if let Err(error) = result {
            note(self.findings, error);
        }
    }

    fn zones(&mut self) {
        for zone in 0..self.view.zone_count() {
            let room = PmdkHeap::chunk_count(self.view.heap_size(), zone);
            // Damage of the header is found by the walk over the blocks.
            if let Ok(Some(PmdkZone { chunk_count: found })) = self.view.zone(zone)
                && found < room
            {
                self.findings.push(Finding::SmallZone { zone, found, room });
            }
        }
    }

    fn footer(&mut self, block: &Block) -> Result<(), ObjError> {
        let Block { zone, chunk, header: PmdkChunk { size, .. } } = *block;
        if size > 1 {
            let chunk = chunk + size - 1;
            let fits = |found: PmdkChunk| found.kind == PmdkChunkKind::Footer && found.size == size;
            match self.view.chunk(zone, chunk) {
                Ok(found) if fits(found) => {}
                Ok(_) | Err(ObjError::Damaged(_)) => {
                    self.findings.push(Finding::Footer { zone, chunk, size })
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn run_block(&mut self, block: &Block) -> Result<(), ObjError> {
        let Block { zone, chunk: first, header } = *block;
        for distance in 1..header.size {
            let chunk = first + distance;
            let fits = |found: PmdkChunk| found.kind == PmdkChunkKind::RunData && found.size == distance;
            match self.view.chunk(zone, chunk) {
                Ok(found) if fits(found) => {}
                Ok(_) | Err(ObjError::Damaged(_)) => {
                    self.findings.push(Finding::RunData { zone, chunk, distance });
                }
                Err(error) => return Err(error),
            }
        }
        let run = self.view.run(block)?;
        for word in 0..run.bitmap_words {
            let bits = self.view.word(self.view.bitmap_word_at(block, word))?;
            if bits | run.block_bits(word) != u64::MAX {
                self.findings.push(Finding::BitsPastEnd { zone, chunk: first, word });
            }
        }
        Ok(())
    }

    /// Checks the logs. Returns the objects that are extensions, by the offset of their data.
    fn logs(&mut self) -> HashMap<PoolOffset, ()> {
        let mut owned = HashMap::new();
        for lane in 0..self.view.descriptor().lane_count {
            for kind in LogKind::ALL {
                let checked = self.log(lane, kind, &mut owned);
                self.note(checked);
                if self.findings.len() > FINDINGS_MAX {
                    return owned;
                }
            }
        }
        owned
    }

    fn log(&mut self, lane: u64, kind: LogKind, owned: &mut HashMap<PoolOffset, ()>) -> Result<(), ObjError> {
        let log = self.view.log(lane, kind)?;
        if !self.view.entries(&log)?.is_empty() {
            self.findings.push(Finding::InForce { lane, kind });
        }
        // All of them first: one that is damaged does not make those behind it lost.
        for before in &log.parts[..log.parts.len() - 1] {
            let at = before.header.next;
            if owned.insert(at, ()).is_some() {
                self.findings.push(Finding::SharedExtension { at, lane, kind });
            }
        }
        for (before, part) in log.parts.iter().zip(&log.parts[1..]) {
            let at = before.header.next;
            // Space that the program lent may lie anywhere in an object.
            if !part.header.is_user_owned {
                let object = self.view.object_at(at)?;
                let end = align_up(at.get(), LINE) + PmdkUlog::LEN as u64 + part.header.capacity;
                if end > at.get() + object.usable_size || !object.is_internal {
                    self.findings.push(Finding::LongExtension { at, lane, kind });
                }
            }
        }
        Ok(())
    }

    fn objects(&mut self, owned: &HashMap<PoolOffset, ()>) {
        let root = self.view.state().root;
        for object in self.view.objects() {
            match object {
                // The walk over the blocks has told what is wrong with these.
                Err(ObjError::Damaged(Damage { structure, reason, .. }))
                    if structure != Structure::Object || matches!(reason, DamageReason::Field(_)) => {}
                Err(error) => note(self.findings, error),
                Ok(object) => {
                    let blocks = self.blocks_of(&object);
                    self.note(blocks);
                    if object.is_internal && object.at != root && !owned.contains_key(&object.at) {
                        self.findings.push(Finding::Lost { at: object.at, size: object.usable_size });
                    }
                }
            }
            if self.findings.len() > FINDINGS_MAX {
                return;
            }
        }
    }

    /// Checks that all blocks of an object in a run are used.
    fn blocks_of(&mut self, object: &Object) -> Result<(), ObjError> {
        if let Some((unit, blocks)) = object.place.units {
            let (at, _, mask) = self.view.freeing(object);
            debug_assert!(unit % 64 + blocks <= 64);
            if self.view.word(at)? | mask != u64::MAX {
                self.findings.push(Finding::FreeBlocks { at: object.at, blocks });
            }
        }
        Ok(())
    }

    fn root(&mut self) -> Result<(), ObjError> {
        let (at, size) = (self.view.state().root, self.view.state().root_size);
        if at.is_null() {
            return Ok(());
        }
        let object = self.view.object_at(at).map_err(|error| match error {
            ObjError::Damaged(damage) => ObjError::of(Structure::Root, at, damage.reason),
            error => error,
        })?;
        let room = object.usable_size;
        if room < size {
            self.findings.push(Finding::SmallRoot { at, room, size });
        }
        Ok(())
    }
}

/// Returns the bits that a word of a run's bitmap must have set.
pub(crate) fn bits_past_end(run: &PmdkRun, word: u64) -> u64 {
    !run.block_bits(word)
}
