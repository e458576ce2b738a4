//! A workload for the crash explorer: threads that read, write, zero and flush blocks of a small pool.

use crate::{Blocks, BlocksError, Damage, check};
use lode_layout::Geometry;
use lode_pmem::Counter;
use lode_sim::{
    Actor, BlockContent, BlockMismatch, BlockRequest, BlockWorkload, HistoryPrefix, SimMedium, Subject,
    WriteCache,
};
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
}

/// Reads a block.
fn content(blocks: &Blocks<Arc<SimMedium>>, lba: u64) -> Result<BlockContent, BlocksError> {
    let mut bytes = vec![0; blocks.block_size()];
    blocks.read(lba, &mut bytes)?;
    Ok(BlockContent::of(&bytes))
}

impl BlocksSubject {
    /// Runs a request. Returns what it read.
    fn request(
        &self,
        blocks: &Blocks<Arc<SimMedium>>,
        request: &BlockRequest<BlockContent>,
    ) -> Result<Option<BlockContent>, BlocksError> {
        match request {
            BlockRequest::Write { blocks: writes, is_fua } => {
                match &writes[..] {
                    [(block, BlockContent::ZERO)] => blocks.zero(*block as u64, 1)?,
                    writes => {
                        let contents: Vec<(u64, Vec<u8>)> = writes
                            .iter()
                            .map(|(block, value)| (*block as u64, value.bytes(self.block_size as usize)))
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
    type Operation = BlockRequest<BlockContent>;
    type Contents = Vec<BlockContent>;
    type Legal = lode_sim::Blocks<BlockContent>;
    type Mismatch = BlockMismatch<BlockContent>;
    type Error = Unusable;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        Blocks::format(&medium, &Geometry::plan(self.size)?, &UUID, self.block_size, [1; 2])?;
        // A log epoch before the explored one leaves records that must not be replayed.
        let blocks = self.open(medium, 2)?;
        let first = BlockContent::Whole(FIRST).bytes(self.block_size as usize);
        blocks.write(1, &first)?;
        blocks.flush()?;
        blocks.zero(1, 1)?;
        blocks.write(0, &first)?;
        Ok(blocks.flush()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Unusable> {
        Ok(Engine { blocks: self.open(medium, 3)?, value: Counter::new(FIRST + 1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, BlockRequest<BlockContent>>) {
        let (block_count, value) = (engine.blocks.block_count(), &engine.value);
        let run = |request: &BlockRequest<BlockContent>| {
            let done = self.request(&engine.blocks, request);
            if let Err(BlocksError::Damaged(damage)) = done {
                panic!("a power cut is no damage: {damage}");
            }
            done
        };
        let is_refusal =
            |error: &BlocksError| matches!(error, BlocksError::Poisoned | BlocksError::Memory(_));
        BlockWorkload { block_count, value, large_request: self.large_request }.run(actor, run, is_refusal);
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<BlockContent>, Unusable> {
        self.sound(&medium)?;
        let blocks = self.open(Arc::clone(&medium), 4)?;
        let contents =
            (0..blocks.block_count()).map(|lba| content(&blocks, lba)).collect::<Result<_, _>>()?;
        self.sound(&medium)?;
        Ok(contents)
    }

    fn legal(&self, history: &HistoryPrefix<BlockRequest<BlockContent>>) -> lode_sim::Blocks<BlockContent> {
        let mut initial = vec![BlockContent::ZERO; self.count() as usize];
        initial[0] = BlockContent::Whole(FIRST);
        lode_sim::Blocks::new(&initial, &BlockContent::ZERO, self.cache, history, Clone::clone)
    }

    fn check(
        &self,
        legal: &lode_sim::Blocks<BlockContent>,
        contents: &Vec<BlockContent>,
    ) -> Result<(), BlockMismatch<BlockContent>> {
        legal.check(contents)
    }
}
