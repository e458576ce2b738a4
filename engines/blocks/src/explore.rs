//! A workload for the crash explorer: threads that read, write, zero and flush blocks of a small pool.

use crate::{Blocks, BlocksError, Damage, check};
use lode_layout::{Geometry, WORD};
use lode_pmem::Counter;
use lode_sim::{Actor, BlockMismatch, BlockRequest, HistoryPrefix, SimMedium, Subject, WriteCache};
use std::sync::Arc;

const UUID: [u8; 16] = [7; 16];
/// The value of block 0 when the runs begin.
const FIRST: u64 = 1;

/// A pool with few spares, so that data blocks are soon written again.
#[derive(Clone, Copy, Debug)]
pub struct BlocksSubject {
    /// Size of the pool in bytes.
    pub size: u64,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// The promise of the medium.
    pub cache: WriteCache,
    /// Number of blocks of a large request; 0 if there are none. One with more than 102 needs several records.
    pub large_request: usize,
}

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The word that fills the block.
    Whole(u64),
    /// Words that differ: the first one that is not the first of the block, and the first of the block.
    Torn(u64, u64),
}

/// The zeros of a block.
const ZERO: Content = Content::Whole(0);

/// The blocks while they are used.
#[derive(Debug)]
pub struct Engine {
    blocks: Blocks<Arc<SimMedium>>,
    value: Counter,
}

/// Reasons why blocks can't be used after a power cut.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The blocks can't be opened, or one can't be read.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// The pool is impossible.
    #[error(transparent)]
    Geometry(#[from] lode_layout::GeometryError),
    /// The check found damage, and a power cut is none.
    #[error("the check finds damage: {0}")]
    Damaged(Damage),
}

impl BlocksSubject {
    fn open(&self, medium: Arc<SimMedium>, epoch: u64) -> Result<Blocks<Arc<SimMedium>>, Unusable> {
        let geometry = Geometry::plan(self.size)?;
        Ok(Blocks::open(medium, &geometry, UUID, [epoch; 2])?.0)
    }

    fn sound(&self, medium: &Arc<SimMedium>) -> Result<(), Unusable> {
        match check(medium, &Geometry::plan(self.size)?, &UUID).first() {
            Some(damage) => Err(Unusable::Damaged(*damage)),
            None => Ok(()),
        }
    }

    fn count(&self) -> u64 {
        let geometry = Geometry::plan(self.size).ok();
        geometry
            .and_then(|geometry| crate::plan::plan(&geometry, self.block_size).ok())
            .map_or(0, |plan| plan.block_count)
    }

    fn bytes(&self, value: u64) -> Vec<u8> {
        value.to_le_bytes().repeat(self.block_size as usize / WORD as usize)
    }
}

/// Reads a block.
fn content(blocks: &Blocks<Arc<SimMedium>>, lba: u64) -> Result<Content, BlocksError> {
    let mut bytes = vec![0; blocks.block_size()];
    blocks.read(lba, &mut bytes)?;
    let words = bytes.as_chunks::<{ WORD as usize }>().0;
    let first = u64::from_le_bytes(words[0]);
    let other = words.iter().map(|word| u64::from_le_bytes(*word)).find(|word| *word != first);
    Ok(other.map_or(Content::Whole(first), |other| Content::Torn(other, first)))
}

impl BlocksSubject {
    /// Runs a request. Returns what it read.
    fn request(
        &self,
        blocks: &Blocks<Arc<SimMedium>>,
        request: &BlockRequest<Content>,
    ) -> Result<Option<Content>, BlocksError> {
        match request {
            BlockRequest::Write { blocks: writes, is_fua } => {
                match &writes[..] {
                    [(block, Content::Whole(0))] => blocks.zero(*block as u64, 1)?,
                    writes => {
                        let contents: Vec<(u64, Vec<u8>)> = writes
                            .iter()
                            .map(|(block, Content::Whole(value) | Content::Torn(value, _))| {
                                (*block as u64, self.bytes(*value))
                            })
                            .collect();
                        let writes: Vec<(u64, &[u8])> =
                            contents.iter().map(|(block, bytes)| (*block, bytes.as_slice())).collect();
                        blocks.write_batch(&writes)?;
                    }
                }
                if *is_fua {
                    blocks.flush()?;
                }
            }
            BlockRequest::Flush => blocks.flush()?,
            BlockRequest::Read { block, .. } => return content(blocks, *block as u64).map(Some),
            BlockRequest::Trim { blocks: trimmed } => {
                trimmed.iter().try_for_each(|block| blocks.zero(*block as u64, 1))?;
            }
        }
        Ok(None)
    }
}

impl Subject for BlocksSubject {
    type Engine = Engine;
    type Operation = BlockRequest<Content>;
    type Contents = Vec<Content>;
    type Legal = lode_sim::Blocks<Content>;
    type Mismatch = BlockMismatch<Content>;
    type Error = Unusable;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        Blocks::format(&medium, &Geometry::plan(self.size)?, &UUID, self.block_size, [1; 2])?;
        // A log epoch before the explored one leaves records that must not be replayed.
        let blocks = self.open(medium, 2)?;
        blocks.write(1, &self.bytes(FIRST))?;
        blocks.flush()?;
        blocks.zero(1, 1)?;
        blocks.write(0, &self.bytes(FIRST))?;
        Ok(blocks.flush()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Unusable> {
        Ok(Engine { blocks: self.open(medium, 3)?, value: Counter::new(FIRST + 1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, BlockRequest<Content>>) {
        // Most requests meet at few blocks.
        let few = if actor.rng.bool() { 2 } else { engine.blocks.block_count() };
        for _ in 0..actor.operations {
            let block = actor.rng.u64(..few) as usize;
            let value = Content::Whole(engine.value.add(1));
            let write = |value, is_fua| BlockRequest::Write { blocks: vec![(block, value)], is_fua };
            let request = match actor.rng.u8(..16) {
                0..4 => BlockRequest::Read { block, seen: None },
                4..6 => BlockRequest::Flush,
                6 => write(value, true),
                7 => write(ZERO, false),
                8 => BlockRequest::Trim { blocks: vec![block] },
                10 if self.large_request > 0 => {
                    let blocks = (0..self.large_request).map(|block| (block, value)).collect();
                    BlockRequest::Write { blocks, is_fua: actor.rng.bool() }
                }
                9 => {
                    let next = (block + 1) % engine.blocks.block_count() as usize;
                    BlockRequest::Write { blocks: vec![(block, value), (next, value)], is_fua: false }
                }
                _ => write(value, false),
            };
            let ticket = actor.begin(request.clone());
            match self.request(&engine.blocks, &request) {
                Ok(seen) => {
                    if seen.is_some() {
                        actor.revise(ticket, BlockRequest::Read { block, seen });
                    }
                    actor.returned(ticket);
                }
                Err(BlocksError::Poisoned | BlocksError::Memory(_)) if is_one_step(&request) => {
                    actor.refused(ticket)
                }
                Err(BlocksError::Damaged(damage)) => panic!("a power cut is no damage: {damage}"),
                Err(_) => actor.in_doubt(ticket),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<Content>, Unusable> {
        self.sound(&medium)?;
        let blocks = self.open(Arc::clone(&medium), 4)?;
        let contents =
            (0..blocks.block_count()).map(|lba| content(&blocks, lba)).collect::<Result<_, _>>()?;
        self.sound(&medium)?;
        Ok(contents)
    }

    fn legal(&self, history: &HistoryPrefix<BlockRequest<Content>>) -> lode_sim::Blocks<Content> {
        let mut initial = vec![ZERO; self.count() as usize];
        initial[0] = Content::Whole(FIRST);
        lode_sim::Blocks::new(&initial, &ZERO, self.cache, history, Clone::clone)
    }

    fn check(
        &self,
        legal: &lode_sim::Blocks<Content>,
        contents: &Vec<Content>,
    ) -> Result<(), BlockMismatch<Content>> {
        legal.check(contents)
    }
}

/// Returns true if the request is one call of the blocks, which was refused as a whole.
fn is_one_step(request: &BlockRequest<Content>) -> bool {
    !matches!(request, BlockRequest::Write { blocks, is_fua } if *is_fua || blocks.len() > 1)
}
