//! A workload for the crash explorer: making pools, growing them, and changing their headers.

use crate::{HeaderCopy, Headers, PoolError, check_headers, format};
use lode_layout::{CHUNK, Durability, Extent, Geometry, Header, LINE, LayoutName, PoolOffset, WORD};
use lode_pmem::{Counter, Medium, Readable};
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, Outcome, SimMedium, Subject};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// Size in bytes at which a growing pool gets a second extent.
const EXTENT_END: u64 = 32 << 20;
/// Number of chunks by which a pool can grow here.
const GROWTH: u64 = 8;
/// Number of lines of a pool's content.
const CONTENT_LINES: u64 = 16;
/// Content of the chunk tables of new extents before a pool grows over them.
const GARBAGE: [u8; 64] = [0xa5; 64];

/// A workload of pools that are made and grown on one medium.
#[derive(Clone, Copy, Debug)]
pub enum PoolSubject {
    /// Small pools: now and then a new pool replaces the old one.
    Create,
    /// One pool that grows into a second extent.
    Grow,
}

/// A pool's headers, which one logical thread at a time may use.
#[derive(Debug)]
pub struct Engine {
    medium: Arc<SimMedium>,
    is_taken: AtomicBool,
    /// `None` when a pool could not be made.
    headers: Mutex<Option<Headers>>,
    number: Counter,
}

/// A part of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Number of the pool among those that were made.
    Pool,
    /// Size in bytes.
    Size,
    /// The dirty shutdowns at open, plus one; 0 while no writer has the pool open.
    Watched,
}

/// The parts that an operation writes.
#[derive(Clone, Debug)]
pub struct Change {
    parts: Vec<(Part, u64)>,
    /// True if the operation makes a pool. Until it is done, there may be no pool.
    creates: bool,
}

/// The parts of a header; empty where there is no pool.
pub type Contents = Vec<(Part, u64)>;

/// The contents that are legal after a power cut.
#[derive(Debug)]
pub struct Legal {
    parts: Registers<Part, u64>,
    may_be_absent: bool,
}

/// Reasons why a pool can't be opened after a power cut.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The headers can't be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A word of slots, log or chunk table is not zero, though no store changed it.
    #[error("the word at {0} is not zero")]
    Dirty(PoolOffset),
    /// The content at this offset does not belong to the pool that the header names.
    #[error("the content at {0} is another pool's")]
    Foreign(PoolOffset),
    /// Damage is left after the open has ended an interrupted update.
    #[error("the headers are damaged")]
    Damaged,
}

impl PoolSubject {
    fn first_size(self) -> u64 {
        match self {
            PoolSubject::Create => Geometry::SIZE_MIN,
            PoolSubject::Grow => EXTENT_END - GROWTH / 2 * CHUNK,
        }
    }

    fn header(self, number: u64) -> Header {
        let layout = LayoutName::new("explored").expect("a layout name");
        let geometry = Geometry::plan(self.first_size()).expect("a size");
        Header::new(Uuid::from_u128(u128::from(number)), layout, geometry, Durability::None, 1)
    }

    /// Returns the first word that should be zero and is not. It looks at the chunk tables, and where pools are made
    /// also at slots and log.
    fn dirty_word(self, memory: &Readable, header: &Header) -> Option<PoolOffset> {
        let geometry = &header.geometry;
        let log = Geometry::SLOT_0.get()..geometry.log_off().get() + geometry.log_len();
        let log = matches!(self, PoolSubject::Create).then_some(log);
        let table = |extent: &Extent| extent.start.get()..extent.start.get() + extent.table_len;
        let ranges = log.into_iter().chain(geometry.extents().iter().map(table));
        let mut words = ranges.flat_map(|range| range.step_by(WORD as usize)).map(PoolOffset::new);
        words.find(|at| memory.load8(*at) != 0)
    }
}

/// Returns the offsets of a pool's content: words in lines of their own. Each holds the pool's number, which is in the
/// header, too.
fn content_at(header: &Header) -> impl Iterator<Item = PoolOffset> + use<> {
    let extent = header.geometry.extents()[0];
    (0..CONTENT_LINES).map(move |line| extent.start.plus(extent.table_len + line * LINE))
}

fn write_content<M: Medium>(medium: &M, header: &Header) -> Result<(), PoolError> {
    for at in content_at(header) {
        medium.store8(at, header.uuid.as_u128() as u64);
        medium.flush(at, WORD);
    }
    Ok(())
}

fn contents(header: &Header) -> Contents {
    let number = header.uuid.as_u128() as u64;
    let dirty_shutdowns = header.dirty_shutdowns.map_or(0, |count| count + 1);
    vec![(Part::Pool, number), (Part::Size, header.geometry.size()), (Part::Watched, dirty_shutdowns)]
}

impl Engine {
    fn acquire(&self) {
        // ORDER: acquires all that the last holder did.
        let mut round = 0;
        // ORDER: acquires all that the last holder did.
        while self.is_taken.swap(true, Ordering::Acquire) {
            self.medium.relax(round);
            round += 1;
        }
    }

    fn release(&self) {
        // ORDER: releases all that this holder did.
        self.is_taken.store(false, Ordering::Release);
    }
}

impl PoolSubject {
    /// Draws an operation and runs it.
    fn step(self, engine: &Engine, actor: &mut Actor<'_, Change>) {
        let mut slot = engine.headers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(headers) = slot.as_mut() else { return };
        let medium = &*engine.medium;
        let (kind, amount) = (actor.rng.u8(..8), actor.rng.u64(1..4));
        let size = headers.geometry().size();
        let larger = (size + amount * CHUNK).min(self.size());
        let creates = kind == 0 && matches!(self, PoolSubject::Create);
        let new = self.header(engine.number.add(1));
        let parts = match kind {
            0 if creates => contents(&new),
            0..4 => vec![(Part::Size, larger)],
            _ => vec![(Part::Watched, amount)],
        };
        let ticket = actor.begin(Change { parts, creates });
        let done = match kind {
            0 if creates => format(medium, new, write_content).map(|headers| *slot = Some(headers)),
            0..4 => headers.grow(medium, larger),
            _ => headers.set_dirty_shutdowns(medium, Some(amount - 1)),
        };
        match done {
            Ok(()) => actor.returned(ticket),
            Err(PoolError::Poisoned) => actor.refused(ticket),
            Err(_) => actor.in_doubt(ticket),
        }
        if creates && done.is_err() {
            *slot = None;
        }
    }
}

impl Subject for PoolSubject {
    type Engine = Engine;
    type Operation = Change;
    type Contents = Contents;
    type Legal = Legal;
    type Mismatch = RegisterMismatch<Part, u64>;
    type Error = Unusable;

    fn size(&self) -> u64 {
        self.first_size() + GROWTH * CHUNK
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        let end = self.first_size();
        for at in (end..self.size()).step_by(GARBAGE.len()) {
            medium.copy(PoolOffset::new(at), &GARBAGE);
        }
        let mut headers = format(&*medium, self.header(1), write_content)?;
        if matches!(self, PoolSubject::Create) {
            return Ok(());
        }
        // The last change was written to its first copy only: the runs begin with a stale header.
        headers.set_dirty_shutdowns(&*medium, Some(0))?;
        let next = Header {
            generation: headers.current().generation + 1,
            dirty_shutdowns: None,
            ..*headers.current()
        };
        headers.newest().write(&*medium, &next.encode()).map_err(|fault| PoolError::Memory { fault })?;
        // ORDER: nothing follows.
        medium.drain().map_err(|error| PoolError::Drain { error })?;
        Ok(())
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Unusable> {
        let headers = Mutex::new(Some(Headers::read(&*medium)?));
        Ok(Engine { medium, is_taken: AtomicBool::new(false), headers, number: Counter::new(2) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Change>) {
        for _ in 0..actor.operations {
            engine.acquire();
            self.step(engine, actor);
            engine.release();
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, Unusable> {
        let mut headers = match Headers::read(&*medium) {
            Ok(headers) => headers,
            Err(PoolError::Headers { .. }) if !is_pool(&medium) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        headers.complete_update(&*medium)?;
        let remaining = check_headers(&*medium);
        // A new pool exists once its first header copy is written, and works without the second.
        if !remaining.is_empty() && headers.damage().is_none() {
            return Err(Unusable::Damaged);
        }
        let number = headers.current().uuid.as_u128() as u64;
        let mut content = content_at(headers.current());
        let found = medium.memory().reading(|memory| {
            let foreign = content.find(|at| memory.load8(*at) != number);
            (foreign, self.dirty_word(memory, headers.current()))
        });
        let (foreign, dirty) = found.map_err(|fault| PoolError::Memory { fault })?;
        match (foreign, dirty) {
            (Some(at), _) => Err(Unusable::Foreign(at)),
            (None, Some(at)) => Err(Unusable::Dirty(at)),
            (None, None) => Ok(contents(headers.current())),
        }
    }

    fn legal(&self, history: &HistoryPrefix<Change>) -> Legal {
        let initial = contents(&self.header(1));
        let parts = Registers::new(&initial, history, |change| Access {
            reads: Vec::new(),
            writes: change.parts.iter().map(|(part, value)| (*part, Some(*value))).collect(),
        });
        let is_open = |outcome| matches!(outcome, Outcome::InFlight | Outcome::InDoubt);
        let may_be_absent =
            history.operations().iter().any(|operation| operation.what.creates && is_open(operation.outcome));
        Legal { parts, may_be_absent }
    }

    fn check(&self, legal: &Legal, contents: &Contents) -> Result<(), RegisterMismatch<Part, u64>> {
        if contents.is_empty() && legal.may_be_absent {
            return Ok(());
        }
        legal.parts.check(contents)
    }
}

/// Returns true if a copy of the header is whole.
fn is_pool(medium: &SimMedium) -> bool {
    [HeaderCopy::A, HeaderCopy::B].iter().any(|copy| copy.read(medium).is_ok())
}
