//! A workload for the crash explorer: threads that read, write, zero and flush blocks of a small pool.

use crate::segments::Segments;
use crate::{Blocks, BlocksError, Damage, check};
use lode_layout::{Durability, Geometry, Header, LayoutName, PoolOffset};
use lode_pmem::{Counter, Medium};
use lode_pool::{Headers, PoolError};
use lode_sim::{
    Actor, BlockContent, BlockMismatch, BlockRequest, BlockWorkload, HistoryPrefix, SimMedium, Subject,
    WriteCache,
};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

const UUID: [u8; 16] = [7; 16];
/// The value of block 0 when the runs begin.
const FIRST: u64 = 1;
/// The bytes of a medium where a pool grows to.
const GARBAGE: [u8; 512] = [0xa5; 512];

/// A pool with few spares, so that data blocks are soon written again.
#[derive(Clone, Copy, Debug)]
pub struct BlocksSubject {
    /// Size of the pool in bytes.
    pub size: u64,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// The promise of the medium.
    pub cache: WriteCache,
    /// Size in bytes to which the first thread grows the pool half-way; 0 if it does not.
    pub grown: u64,
    /// Number of blocks of a large request; 0 if there are none. One with more than 102 needs several records.
    pub large_request: usize,
}

/// The blocks while they are used.
#[derive(Debug)]
pub struct Engine {
    blocks: Blocks<Arc<SimMedium>>,
    value: Counter,
    /// The headers of a pool that grows.
    headers: Option<Mutex<Headers>>,
}

/// Reasons why blocks can't be used after a power cut.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The blocks can't be opened, or one can't be read.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// The headers can't be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The pool is impossible.
    #[error(transparent)]
    Geometry(#[from] lode_layout::GeometryError),
    /// The check found damage, and a power cut is none.
    #[error("the check finds damage: {0}")]
    Damaged(Damage),
}

impl BlocksSubject {
    fn open(&self, medium: Arc<SimMedium>, epoch: u64) -> Result<Blocks<Arc<SimMedium>>, Unusable> {
        let geometry = self.geometry(&medium)?;
        Ok(Blocks::open(medium, &geometry, UUID, [epoch; 2])?.0)
    }

    /// Returns the geometry of the pool: that of its header if it grows.
    fn geometry(&self, medium: &Arc<SimMedium>) -> Result<Geometry, Unusable> {
        match self.grown {
            0 => Ok(Geometry::plan(self.size)?),
            _ => Ok(*Headers::read(medium)?.geometry()),
        }
    }

    /// Makes the pool. One that grows has headers, and other bytes where it grows to.
    fn make(&self, medium: &Arc<SimMedium>) -> Result<(), Unusable> {
        let geometry = Geometry::plan(self.size)?;
        let make = |geometry: &Geometry| Blocks::format(medium, geometry, &UUID, self.block_size, [1; 2]);
        if self.grown == 0 {
            return Ok(make(&geometry)?);
        }
        for at in (self.size..self.grown).step_by(GARBAGE.len()).map(PoolOffset::new) {
            medium.store(at, &GARBAGE);
            medium.flush(at, GARBAGE.len() as u64);
        }
        let layout = LayoutName::new("blocks").expect("a layout name");
        let header = Header::new(Uuid::from_bytes(UUID), layout, geometry, Durability::None, 1);
        lode_pool::format(medium, header, |_, header| make(&header.geometry).map_err(Unusable::from))?;
        Ok(())
    }

    /// Grows the pool while its blocks are used. After a failed drain the pool is in doubt, as the workload finds.
    fn grow(&self, engine: &Engine) -> Result<(), Unusable> {
        let Some(headers) = &engine.headers else { return Ok(()) };
        let mut headers = headers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = headers.geometry().grow(self.grown)?;
        let grown = headers.grow_to(engine.blocks.medium(), new, |geometry, publish| {
            let growth = engine.blocks.begin_growth(geometry)?;
            publish()?;
            engine.blocks.finish_growth(growth);
            Ok::<(), Unusable>(())
        });
        // After a failed sync of the headers a mapping refuses those of the blocks, too.
        grown.inspect_err(|_| engine.blocks.log.fail())
    }

    fn sound(&self, medium: &Arc<SimMedium>) -> Result<(), Unusable> {
        match check(medium, &self.geometry(medium)?, &UUID).first() {
            Some(damage) => Err(Unusable::Damaged(*damage)),
            None => Ok(()),
        }
    }

    fn legal_with(
        &self,
        cache: WriteCache,
        history: &HistoryPrefix<BlockRequest<BlockContent>>,
    ) -> lode_sim::Blocks<BlockContent> {
        let mut initial = vec![BlockContent::ZERO; self.count() as usize];
        initial[0] = BlockContent::Whole(FIRST);
        lode_sim::Blocks::new(&initial, &BlockContent::ZERO, cache, history, Clone::clone)
    }

    fn count(&self) -> u64 {
        let count = || {
            let geometry = Geometry::plan(self.size).ok()?;
            let first = crate::plan::plan(&geometry, self.block_size).ok()?;
            let next = match self.grown {
                0 => Vec::new(),
                size => Segments::of(first).plan_next(&geometry.grow(size).ok()?).ok()?,
            };
            Some(first.block_count + next.iter().map(|segment| segment.block_count).sum::<u64>())
        };
        count().unwrap_or_default()
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
                        let changes: Vec<(u64, Option<&[u8]>)> = writes
                            .iter()
                            .zip(&contents)
                            .map(|((_, value), (block, bytes))| {
                                (*block, (*value != BlockContent::ZERO).then_some(bytes.as_slice()))
                            })
                            .collect();
                        blocks.change_batch(&changes)?;
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
        self.size.max(self.grown)
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        self.make(&medium)?;
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
        let headers = match self.grown {
            0 => None,
            _ => Some(Mutex::new(Headers::read(&medium)?)),
        };
        Ok(Engine { blocks: self.open(medium, 3)?, value: Counter::new(FIRST + 1), headers })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, BlockRequest<BlockContent>>) {
        let run = |request: &BlockRequest<BlockContent>| {
            let done = self.request(&engine.blocks, request);
            if let Err(BlocksError::Damaged(damage)) = done {
                panic!("a power cut is no damage: {damage}");
            }
            done
        };
        let is_refusal =
            |error: &BlocksError| matches!(error, BlocksError::Poisoned | BlocksError::Memory(_));
        let run_all = |actor: &mut Actor<'_, BlockRequest<BlockContent>>| {
            let (block_count, value) = (engine.blocks.block_count(), &engine.value);
            BlockWorkload { block_count, value, large_request: self.large_request }
                .run(actor, run, is_refusal);
        };
        if self.grown == 0 {
            return run_all(actor);
        }
        let rest = actor.operations.div_ceil(2);
        actor.operations /= 2;
        run_all(actor);
        if actor.thread == 0 {
            let _ = self.grow(engine);
        }
        actor.operations = rest;
        run_all(actor);
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<BlockContent>, Unusable> {
        self.sound(&medium)?;
        let blocks = self.open(Arc::clone(&medium), 4)?;
        let mut contents: Vec<BlockContent> =
            (0..blocks.block_count()).map(|lba| content(&blocks, lba)).collect::<Result<_, _>>()?;
        // A block that the pool does not have was never written.
        contents.resize(self.count() as usize, BlockContent::ZERO);
        self.sound(&medium)?;
        blocks.log.begin_epoch().map_err(BlocksError::from)?;
        Ok(contents)
    }

    fn legal(&self, history: &HistoryPrefix<BlockRequest<BlockContent>>) -> lode_sim::Blocks<BlockContent> {
        self.legal_with(self.cache, history)
    }

    /// A kill loses no write that returned.
    fn legal_after_kill(
        &self,
        history: &HistoryPrefix<BlockRequest<BlockContent>>,
    ) -> Option<lode_sim::Blocks<BlockContent>> {
        Some(self.legal_with(WriteCache::None, history))
    }

    fn check(
        &self,
        legal: &lode_sim::Blocks<BlockContent>,
        contents: &Vec<BlockContent>,
    ) -> Result<(), BlockMismatch<BlockContent>> {
        legal.check(contents)
    }
}
