//! A workload for the crash explorer: threads that read, write, zero and flush blocks of a small table.

use crate::arena::Arena;
use crate::error::BttError;
use crate::found::FoundArena;
use crate::open::{FoundTable, find_table, read_flog};
use crate::plan::Plan;
use crate::{Btt, Finding, check, open};
use lode_layout::{PmdkBlk, PmdkHeader, PmdkKind, WORD};
use lode_nvdimm::{BttDialect, BttGeometry, BttMapEntry, BttRules, BttVersion, InfoBlockError};
use lode_pmem::{Counter, FaultScope, Medium};
use lode_sim::{
    Actor, BlockContent, BlockMismatch, BlockRequest, BlockWorkload, Blocks, HistoryPrefix, SimMedium,
    Subject, WriteCache,
};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of a block.
const LBASIZE: usize = 512;
/// Bytes of the structures of an arena, and then for each lane.
const ARENA_LEN: [u64; 2] = [12 << 10, 4 << 10];
/// The value of block 0 when the runs begin.
const FIRST: u64 = 1;

/// Blocks of a large request.
const LARGE_REQUEST: u64 = 6;
/// A content that no block ever has: a later one of the same batch replaces it.
const NEVER: [u8; LBASIZE] = [0xfe; LBASIZE];

/// A table of small arenas, whose lanes are few, so that threads share them.
#[derive(Clone, Copy, Debug)]
pub struct BttSubject {
    /// Number of arenas, 1 or 2.
    pub arenas: u64,
    /// Number of lanes of an arena, 2 to 4: the blocks are few, too.
    pub lanes: u32,
    /// True if the table is made by the first write of a run.
    pub is_lazy: bool,
    /// The dialect: a namespace, or a block pool of PMDK.
    pub dialect: BttDialect,
    /// The promise of the medium.
    pub cache: WriteCache,
    /// True if half of the writes of the last block go to the place that it has. Only its first word counts then.
    pub in_place: bool,
}

impl BttSubject {
    /// A table of an arena that is there, without a volatile cache.
    pub const SMALL: BttSubject = BttSubject {
        arenas: 1,
        lanes: 2,
        is_lazy: false,
        dialect: BttDialect::Kernel,
        cache: WriteCache::None,
        in_place: false,
    };
}

/// The table while it is used.
#[derive(Debug)]
pub struct Engine {
    btt: Btt<Arc<SimMedium>>,
    value: Counter,
    in_place: bool,
}

/// Reasons why a table can't be used after a power cut.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The table can't be opened, or a block can't be read.
    #[error(transparent)]
    Btt(#[from] BttError),
    /// The plan is impossible.
    #[error(transparent)]
    Plan(#[from] InfoBlockError),
    /// The check found damage, and a power cut is none.
    #[error("the check finds damage: {0}")]
    Damaged(Finding),
    /// PMDK would not finish a write that this engine finishes.
    #[error("PMDK leaves out a write of block {lba}: its flog has {old_map:#x}, the map {entry:#x}")]
    LeftOut {
        /// The number of the block in its arena.
        lba: u32,
        /// The old map entry in the flog.
        old_map: u32,
        /// The map entry, as PMDK reads it.
        entry: u32,
    },
}

impl BttSubject {
    fn plan(&self) -> Result<Plan, InfoBlockError> {
        let rules = BttRules { nfree: self.lanes, ..BttRules::kernel(LBASIZE as u32) };
        let arena = |index: u64| -> Result<(u64, BttGeometry), InfoBlockError> {
            let start = self.arenas_off() + index * self.arena_len();
            Ok((start, BttGeometry::arena(self.arena_len(), &rules, index + 1 == self.arenas)?))
        };
        let arenas = (0..self.arenas).map(arena).collect::<Result<_, _>>()?;
        let plan = Plan::of_arenas(Uuid::from_u128(7), BttVersion::V1_1, arenas);
        let header = PmdkHeader::new(PmdkKind::Blocks, Uuid::from_u128(8), Uuid::from_u128(9), 1);
        Ok(match self.dialect {
            BttDialect::Kernel => plan,
            BttDialect::Pmdk => plan.in_new_pool(header),
        })
    }

    fn arena_len(&self) -> u64 {
        ARENA_LEN[0] + u64::from(self.lanes) * ARENA_LEN[1]
    }

    fn arenas_off(&self) -> u64 {
        match self.dialect {
            BttDialect::Kernel => BttVersion::V1_1.arenas_off(),
            BttDialect::Pmdk => PmdkBlk::TABLE_OFF,
        }
    }

    fn open(&self, medium: Arc<SimMedium>) -> Result<Btt<Arc<SimMedium>>, Unusable> {
        Ok(if self.is_lazy { Btt::open_or_plan(medium, self.plan()?)? } else { Btt::open(medium)? })
    }

    /// Returns the contents of all blocks when the runs begin.
    fn initial(&self) -> Vec<BlockContent> {
        let count = self.plan().map_or(0, |plan| plan.block_count());
        let mut initial = vec![BlockContent::ZERO; count as usize];
        if !self.is_lazy {
            initial[0] = BlockContent::Whole(FIRST);
        }
        initial
    }
}

/// Writes block 0, and takes its map entry back: a crash can leave that, and an open has to finish the write.
fn leave_unfinished_write(medium: &Arc<SimMedium>) -> Result<(), BttError> {
    let table = open::open(medium, None)?;
    let (arena, lba) = table.locate(0)?;
    let old = arena.entry(medium, lba)?;
    table.write(medium, 0, &BlockContent::Whole(FIRST).bytes(LBASIZE))?;
    table.flush(medium)?;
    let back = BttMapEntry { state: lode_nvdimm::BttBlockState::Normal, ..old };
    FaultScope::run(|| arena.store_entry(medium, lba, back))?;
    // ORDER: nothing follows.
    Ok(medium.drain()?)
}

/// Reads a block; of one that is written in place only the first word, since the rest may be a mixture.
fn content(btt: &Btt<Arc<SimMedium>>, lba: u64, in_place: bool) -> Result<BlockContent, BttError> {
    let mut bytes = [0; LBASIZE];
    btt.read(lba, &mut bytes)?;
    let is_mixture = in_place && lba + 1 == btt.block_count();
    Ok(BlockContent::of(if is_mixture { &bytes[..WORD as usize] } else { &bytes }))
}

impl Engine {
    /// Writes blocks as one batch. In one of several blocks, the first block is there twice.
    fn write(&self, blocks: &[(usize, BlockContent)]) -> Result<(), BttError> {
        if let [(block, BlockContent::ZERO)] = blocks {
            return self.btt.zero(*block as u64, 1);
        }
        if let [(block, value @ BlockContent::Whole(word))] = blocks
            && self.in_place
            && *block as u64 + 1 == self.btt.block_count()
            && word % 2 == 0
        {
            return self.btt.write_in_place(&[(*block as u64, &value.bytes(LBASIZE))]);
        }
        let contents: Vec<Vec<u8>> = blocks.iter().map(|(_, value)| value.bytes(LBASIZE)).collect();
        let mut batch: Vec<(u64, Option<&[u8]>)> = blocks
            .iter()
            .zip(&contents)
            .map(|((block, value), bytes)| {
                (*block as u64, (*value != BlockContent::ZERO).then_some(&bytes[..]))
            })
            .collect();
        if batch.len() > 1 {
            batch.insert(0, (batch[0].0, Some(&NEVER)));
        }
        self.btt.change_batch(&batch)
    }

    /// Runs a request. Returns what it read.
    fn run(&self, request: &BlockRequest<BlockContent>) -> Result<Option<BlockContent>, BttError> {
        match request {
            BlockRequest::Write { blocks, is_fua } => {
                self.write(blocks)?;
                if *is_fua {
                    self.btt.flush()?;
                }
            }
            BlockRequest::Flush => self.btt.flush()?,
            BlockRequest::Read { block, .. } => {
                return content(&self.btt, *block as u64, self.in_place).map(Some);
            }
            // As a device does: a trim that stands alone is no batch.
            BlockRequest::Trim { blocks } if blocks.len() == 1 => self.btt.zero(blocks[0] as u64, 1)?,
            BlockRequest::Trim { blocks } => {
                let zeros: Vec<_> = blocks.iter().map(|block| (*block as u64, None)).collect();
                self.btt.change_batch(&zeros)?;
            }
        }
        Ok(None)
    }
}

impl Subject for BttSubject {
    type Engine = Engine;
    type Operation = BlockRequest<BlockContent>;
    type Contents = Vec<BlockContent>;
    type Legal = Blocks<BlockContent>;
    type Mismatch = BlockMismatch<BlockContent>;
    type Error = Unusable;

    fn size(&self) -> u64 {
        self.arenas_off() + self.arenas * self.arena_len()
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        if self.is_lazy {
            return Ok(());
        }
        self.plan()?.format(&medium)?;
        Ok(leave_unfinished_write(&medium)?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Unusable> {
        Ok(Engine { btt: self.open(medium)?, value: Counter::new(FIRST + 1), in_place: self.in_place })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, BlockRequest<BlockContent>>) {
        let (block_count, value) = (engine.btt.block_count(), &engine.value);
        let large_request = LARGE_REQUEST.min(block_count) as usize;
        let is_refusal = |error: &BttError| matches!(error, BttError::Poisoned | BttError::Memory(_));
        BlockWorkload { block_count, value, large_request }.run(
            actor,
            |request| engine.run(request),
            is_refusal,
        );
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<BlockContent>, Unusable> {
        let is_there = !matches!(find_table(&medium), Err(BttError::Absent));
        if is_there {
            sound(&medium)?;
            pmdk_agrees(&medium)?;
        }
        let btt = self.open(Arc::clone(&medium))?;
        let contents =
            (0..btt.block_count()).map(|lba| content(&btt, lba, self.in_place)).collect::<Result<_, _>>()?;
        if is_there {
            sound(&medium)?;
        }
        Ok(contents)
    }

    fn legal_after_kill(
        &self,
        history: &HistoryPrefix<BlockRequest<BlockContent>>,
    ) -> Option<Blocks<BlockContent>> {
        Some(self.legal(history))
    }

    fn legal(&self, history: &HistoryPrefix<BlockRequest<BlockContent>>) -> Blocks<BlockContent> {
        Blocks::new(&self.initial(), &BlockContent::ZERO, self.cache, history, Clone::clone)
    }

    fn check(
        &self,
        legal: &Blocks<BlockContent>,
        contents: &Vec<BlockContent>,
    ) -> Result<(), BlockMismatch<BlockContent>> {
        legal.check(contents)
    }
}

/// Fails unless the table is sound. A second copy of the first info block that a new table still lacks is no damage.
fn sound(medium: &Arc<SimMedium>) -> Result<(), Unusable> {
    let lacks_copy = |finding: &Finding| matches!(finding, Finding::InfoCopy { arena: 0, .. });
    match check(medium).into_iter().find(|finding| !lacks_copy(finding)) {
        Some(finding) => Err(Unusable::Damaged(finding)),
        None => Ok(()),
    }
}

/// Fails if PMDK's recovery would not finish a write that this engine's finishes: PMDK compares whole map entries, and
/// takes one that was never written as one that names the block of its own number.
fn pmdk_agrees(medium: &Arc<SimMedium>) -> Result<(), Unusable> {
    let FoundTable::Arenas(BttDialect::Pmdk, arenas) = find_table(medium)? else { return Ok(()) };
    for found in &arenas {
        let flog = read_flog(medium, found)?;
        let arena = Arena::new(found, BttDialect::Pmdk, 0, &flog);
        for write in flog.current().filter(|write| write.free_block() != write.written_block()) {
            let entry = arena.entry(medium, write.lba)?;
            let (lba, old_map) = (write.lba, write.old_map);
            let word = BttDialect::Pmdk.flog_word(entry);
            if entry.number == write.free_block() && word != old_map {
                return Err(Unusable::LeftOut { lba, old_map, entry: word });
            }
        }
    }
    Ok(())
}

/// Returns the arenas, for tests that change their bytes.
#[doc(hidden)]
pub fn arenas<M: Medium>(medium: &M) -> Vec<(u64, BttGeometry)> {
    let place = |arena: &FoundArena| (arena.start.get(), arena.info.geometry);
    find_table(medium).map_or(Vec::new(), |table| table.arenas().iter().map(place).collect())
}
