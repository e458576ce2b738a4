//! A heap whose pool grows, and whose log moves, while transactions run.

use super::heap::{Contents, Engine, HeapSubject, Mismatch, Step, UUID, log_epoch};
use super::opened::{Unusable, format_pool};
use super::waiting::Waiting;
use crate::growth::{Growth, GrowthError, Install, Wanted};
use crate::heap::Heap;
use lode_layout::{CHUNK, PoolOffset};
use lode_pmem::Medium;
use lode_pool::{Headers, PoolError};
use lode_sim::oracle::Registers;
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::sync::{Arc, Mutex, PoisonError};

/// One in this many operations follows a growth that its thread asks for.
const GROW_ONE_IN: u8 = 24;
/// Number of growths between the first size of a pool and its last one.
const STEPS: u64 = 4;
/// Content of the medium beyond the pool before the pool grows over it.
const GARBAGE: [u8; 64] = [0xa5; 64];

/// A heap in a pool that grows from the size in `heap` to `size_max` bytes.
#[derive(Clone, Copy, Debug)]
pub struct GrowingSubject {
    /// The workload, and the first size.
    pub heap: HeapSubject,
    /// Length of the medium in bytes.
    pub size_max: u64,
}

/// The growth of a pool on a simulated medium, which has its last length from the start.
#[derive(Debug)]
struct SimGrowth {
    medium: Arc<SimMedium>,
    /// Used by one thread at a time: the one that reclaims.
    headers: Mutex<Headers>,
    step: u64,
}

impl Growth for SimGrowth {
    fn grow(&self, wanted: &Wanted<'_>, install: &mut Install<'_>) -> Result<(), GrowthError> {
        let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        let (size, size_max) = (headers.geometry().size(), self.medium.memory().len());
        let new = (size + self.step.max(wanted.bytes + 4 * CHUNK)).min(size_max);
        let new = headers.geometry().grow_with_log(new).map_err(PoolError::Geometry)?;
        if new.size() == size || !(wanted.fits)(&new) {
            return Err(PoolError::Maximum { size_max }.into());
        }
        headers.grow_to(&*self.medium, new, install)
    }
}

impl Subject for GrowingSubject {
    type Engine = Engine;
    type Operation = Step;
    type Contents = Contents;
    type Legal = Registers<u64, u64>;
    type Mismatch = Mismatch;
    type Error = Unusable;

    fn size(&self) -> u64 {
        self.size_max
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        for at in (self.heap.size..self.size_max).step_by(GARBAGE.len()) {
            medium.copy(PoolOffset::new(at), &GARBAGE);
        }
        let heap = format_pool(medium, self.heap.size, UUID)?;
        HeapSubject::make_root(&heap)?;
        Ok(heap.close()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Unusable> {
        let headers = Headers::read(&*medium)?;
        let (heap, _) = Heap::open(Arc::clone(&medium), headers.geometry(), UUID, log_epoch(3))?;
        let step = (self.size_max - self.heap.size) / STEPS;
        heap.set_growth(SimGrowth { medium, headers: Mutex::new(headers), step });
        Ok(Engine::new(heap)?)
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        let mut waiting = Waiting::default();
        for _ in 0..actor.operations {
            if actor.rng.u8(..GROW_ONE_IN) == 0 {
                // A failure shows in the next commit.
                let _ = engine.heap.grow(CHUNK);
            }
            self.heap.run_one(engine, actor, &mut waiting);
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, Unusable> {
        let mut headers = Headers::read(&*medium)?;
        headers.complete_update(&*medium)?;
        let heap = HeapSubject::open_left(medium, headers.geometry())?;
        Ok(HeapSubject::contents(&heap, headers.geometry())?)
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Registers<u64, u64> {
        self.heap.legal(history)
    }

    fn check(&self, legal: &Registers<u64, u64>, contents: &Contents) -> Result<(), Mismatch> {
        self.heap.check(legal, contents)
    }
}
