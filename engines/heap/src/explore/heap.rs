//! The heap: a root with slots, whose objects transactions allocate, rewrite, replace, copy and free.

use super::waiting::Waiting;
use crate::check::{MarkResult, Report, Severity, SpaceMap, check_log, check_slots};
use crate::error::HeapError;
use crate::heap::Heap;
use crate::tx::Tx;
use lode_layout::{Geometry, PoolOffset, WORD};
use lode_pmem::{Counter, Readable};
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::fmt;
use std::sync::Arc;

const SLOTS: u64 = 10;
pub(super) const UUID: [u8; 16] = [8; 16];
const ROOT_TYPE: u64 = 1;
const OBJECT_TYPE: u64 = 2;
/// Bits of an object's first word with the number of its words; the object's number is above them.
const WORDS_MASK: u64 = 0x7FFF;
/// Set in an object's first word if all other words are zero.
const ZEROED: u64 = 0x8000;
/// One in this many operations follows a checkpoint that its thread asks for.
const CHECKPOINT_ONE_IN: u8 = 24;
/// One in this many transactions changes several slots. Its record may then be longer than a ring takes.
const WIDE_ONE_IN: u8 = 10;
/// Lengths of objects in words. Small ones share superblocks, larger ones are written past the log, and the largest
/// have a span of their own.
const SIZES: [u64; 6] = [1, 5, 30, 150, 260, 4200];

/// A heap of `size` bytes, some of whose transactions fail on purpose.
#[derive(Clone, Copy, Debug)]
pub struct HeapSubject {
    /// Length of the medium in bytes.
    pub size: u64,
    /// Number of object sizes in use, smallest first.
    pub sizes: usize,
    /// True if half of the transactions return before their sync.
    pub later: bool,
}

/// The heap while it is used.
#[derive(Debug)]
pub struct Engine {
    pub(super) heap: Heap<Arc<SimMedium>>,
    root: PoolOffset,
    number: Counter,
}

/// The slots that a transaction reads and writes, each with the number of its object; 0 for none.
#[derive(Clone, Debug, Default)]
pub struct Step {
    reads: Vec<(u64, u64)>,
    writes: Vec<(u64, u64)>,
}

/// The reason why a recovered heap is wrong.
#[derive(Debug)]
pub enum Mismatch {
    /// Slots have objects that no order of the transactions leaves.
    Registers(RegisterMismatch<u64, u64>),
    /// An object has content that no transaction gave it.
    Object {
        /// The slot that leads to it.
        slot: u64,
        /// Offset of the object.
        at: PoolOffset,
    },
    /// A slot leads to an object that is free, or to one that another slot has.
    Free {
        /// The slot.
        slot: u64,
        /// Offset at which the object should be.
        at: PoolOffset,
    },
    /// An object is allocated and no slot leads to it.
    Leaked {
        /// Offset of the object.
        at: PoolOffset,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Registers(wrong) => wrong.fmt(f),
            Mismatch::Object { slot, at } => write!(f, "slot {slot} has an object at {at} that is not whole"),
            Mismatch::Free { slot, at } => {
                write!(f, "slot {slot} leads to {at}, which is free or another slot's")
            }
            Mismatch::Leaked { at } => write!(f, "the object at {at} is allocated, and no slot leads to it"),
        }
    }
}

/// The object that a slot leads to, as it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Object {
    /// The number of a whole object; 0 if the slot is null.
    Whole(u64),
    /// Offset of an object that is not whole.
    Broken(PoolOffset),
    /// Offset of an object that is free, or another slot's.
    Free(PoolOffset),
}

/// The content of a recovered heap.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The slots' objects.
    objects: Vec<Object>,
    /// An allocated object to which no slot leads, if there is one.
    leaked: Option<PoolOffset>,
}

fn slot_at(root: PoolOffset, slot: u64) -> PoolOffset {
    root.plus(slot * WORD)
}

/// Returns a log epoch that is as good as random. A torn slot with it must not look like one with a flipped bit.
pub(super) fn log_epoch(number: u64) -> [u64; 2] {
    [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03].map(|odd: u64| odd.wrapping_mul(number))
}

/// Returns the words of the object of this number and length, if it is not zeroed.
fn content(number: u64, words: u64) -> Vec<u64> {
    (0..words).map(|word| if word == 0 { number << 16 | words } else { number ^ word }).collect()
}

/// Returns the first word of the zeroed object of this number and length.
fn zeroed(number: u64, words: u64) -> u64 {
    number << 16 | ZEROED | words
}

/// Returns the object that a slot leads to, as `load` sees it.
fn number(load: impl Fn(PoolOffset) -> u64, slot: PoolOffset) -> Object {
    let at = PoolOffset::new(load(slot));
    if at.is_null() {
        return Object::Whole(0);
    }
    let first = load(at);
    let (number, words) = (first >> 16, first & WORDS_MASK);
    let want = |word| if first & ZEROED == 0 { number ^ word } else { 0 };
    let whole = words > 0 && (1..words).all(|word| load(at.plus(word * WORD)) == want(word));
    if whole { Object::Whole(number) } else { Object::Broken(at) }
}

impl Engine {
    pub(super) fn new(heap: Heap<Arc<SimMedium>>) -> Result<Engine, HeapError> {
        let root = heap.root()?;
        Ok(Engine { heap, root, number: Counter::new(1) })
    }

    fn step(&self, tx: &Tx<'_, Arc<SimMedium>>, plan: &Plan) -> Result<Step, HeapError> {
        let mut step = Step::default();
        for slot in plan.slots.iter().chain([&plan.from]) {
            tx.lock(slot_at(self.root, *slot))?;
        }
        if plan.copies {
            match number(|at| tx.load8(at), slot_at(self.root, plan.from)) {
                Object::Whole(seen) => step.reads.push((plan.from, seen)),
                // The transaction fails with its fault.
                _ if tx.memory().fault().is_some() => {}
                _ => panic!("a broken object was read"),
            }
        }
        for slot in &plan.slots {
            let at = slot_at(self.root, *slot);
            let stays_empty = plan.words == 0 && tx.load8(at) == 0;
            self.change(tx, plan, at)?;
            // No store changes a slot that stays empty, so it is read only: the transaction may succeed on a log that
            // accepts no more records.
            let noted = if stays_empty { &mut step.reads } else { &mut step.writes };
            noted.push((*slot, plan.value()));
        }
        Ok(step)
    }

    /// Changes one slot as the plan says.
    fn change(&self, tx: &Tx<'_, Arc<SimMedium>>, plan: &Plan, at: PoolOffset) -> Result<(), HeapError> {
        let old = PoolOffset::new(tx.load8(at));
        let new = match plan.words {
            0 => PoolOffset::NULL,
            _ if plan.rewrites && !old.is_null() => {
                let words = tx.load8(old) & WORDS_MASK;
                if plan.zeroes {
                    tx.zero(old, words * WORD);
                    tx.store8(old, zeroed(plan.number, words));
                } else {
                    tx.store_words(old, &content(plan.number, words));
                }
                old
            }
            words if plan.zeroes => {
                let new = tx.alloc_zeroed(words * WORD, 16, OBJECT_TYPE)?;
                tx.store8(new, zeroed(plan.number, words));
                new
            }
            words => tx.alloc_with(&content(plan.number, words), 16, OBJECT_TYPE)?,
        };
        if new != old {
            tx.store8(at, new.get());
            if !old.is_null() {
                tx.free(old)?;
            }
        }
        Ok(())
    }
}

/// The plan of a transaction.
struct Plan {
    /// The slots to change, in no order.
    slots: Vec<u64>,
    from: u64,
    copies: bool,
    words: u64,
    /// True if a slot's object is rewritten in place.
    rewrites: bool,
    /// True if new content is zeros, except for the first word.
    zeroes: bool,
    number: u64,
    fails: bool,
}

impl Plan {
    /// Returns the number of the object that the transaction stores in its slots, or 0 if it empties them.
    fn value(&self) -> u64 {
        if self.words == 0 { 0 } else { self.number }
    }
}

impl HeapSubject {
    fn plan(&self, engine: &Engine, actor: &mut Actor<'_, Step>) -> Plan {
        let is_wide = actor.rng.u8(..WIDE_ONE_IN) == 0;
        let first = actor.rng.u64(..SLOTS);
        let count = if is_wide { actor.rng.u64(2..=SLOTS) } else { 1 };
        let largest = self.sizes - 1;
        // The largest objects may have spans of their own. They come and go often enough for the spans to be used
        // again.
        let size = if actor.rng.u8(..8) == 0 { largest } else { actor.rng.usize(..self.sizes) };
        let words = if is_wide { SIZES[size.min(3)] } else { SIZES[size] };
        Plan {
            slots: (first..first + count).map(|slot| slot % SLOTS).collect(),
            from: actor.rng.u64(..SLOTS),
            copies: actor.rng.bool(),
            words: if actor.rng.u8(..5) == 0 { 0 } else { words },
            number: engine.number.add(1),
            rewrites: actor.rng.u8(..3) == 0,
            zeroes: actor.rng.u8(..4) == 0,
            fails: actor.rng.u8(..8) == 0,
        }
    }

    /// Puts the root into a new heap.
    pub(super) fn make_root(heap: &Heap<Arc<SimMedium>>) -> Result<(), HeapError> {
        heap.run(|tx| {
            let root = tx.alloc_zeroed(SLOTS * WORD, 16, ROOT_TYPE)?;
            tx.set_root(root);
            Ok(())
        })
    }

    /// Runs one operation.
    pub(super) fn run_one(&self, engine: &Engine, actor: &mut Actor<'_, Step>, waiting: &mut Waiting) {
        if self.later {
            waiting.look(&engine.heap, actor);
        }
        if actor.rng.u8(..CHECKPOINT_ONE_IN) == 0 {
            // A failure shows in the next commit.
            let _ = engine.heap.log().checkpoint();
        }
        let plan = self.plan(engine, actor);
        let is_later = self.later && actor.rng.bool();
        let writes = plan.slots.iter().map(|slot| (*slot, plan.value())).collect();
        let ticket = actor.begin(Step { reads: Vec::new(), writes });
        let closure = |tx: &Tx<'_, Arc<SimMedium>>| {
            let step = engine.step(tx, &plan)?;
            actor.revise(ticket, step);
            if plan.fails { Err(HeapError::NestedFailed) } else { Ok(()) }
        };
        let result = match is_later {
            true => engine.heap.run_later(closure).map(|((), position)| Some(position)),
            false => engine.heap.run(closure).map(|()| None),
        };
        match result {
            Ok(Some(position)) => waiting.add(ticket, position),
            Ok(None) => actor.returned(ticket),
            Err(HeapError::InDoubt(_)) => actor.in_doubt(ticket),
            Err(_) => actor.refused(ticket),
        }
    }

    /// Checks slots and log of a heap that a power cut left, and opens it.
    pub(super) fn open_left(
        medium: Arc<SimMedium>,
        geometry: &Geometry,
    ) -> Result<Heap<Arc<SimMedium>>, HeapError> {
        let mut report = Report::default();
        if let Some(slot) = check_slots(&*medium, &UUID, &mut report) {
            check_log(&*medium, geometry, &UUID, &slot, &mut report);
        }
        if let Some(damage) = report.findings.iter().find(|finding| finding.severity == Severity::Damage) {
            return Err(HeapError::Corrupt { what: damage.what, at: damage.at });
        }
        let (heap, _) = Heap::open(medium, geometry, UUID, log_epoch(4))?;
        heap.log().begin_epoch()?;
        Ok(heap)
    }

    pub(super) fn contents(heap: &Heap<Arc<SimMedium>>, geometry: &Geometry) -> Result<Contents, HeapError> {
        let mut report = Report::default();
        let map = SpaceMap::read(heap.memory(), geometry, &mut report);
        if let Some(damage) = report.findings.first() {
            return Err(HeapError::Corrupt { what: damage.what, at: damage.at });
        }
        let root = heap.root()?;
        Ok(heap.memory().reading(|memory| found(memory, map, root))?)
    }
}

/// Returns the content of a heap with this space and root.
fn found(memory: &Readable, mut map: SpaceMap, root: PoolOffset) -> Contents {
    map.mark(memory, root);
    let mut object = |slot| {
        let at = PoolOffset::new(memory.load8(slot_at(root, slot)));
        if !at.is_null() && map.mark(memory, at) != MarkResult::Marked {
            return Object::Free(at);
        }
        number(|at| memory.load8(at), slot_at(root, slot))
    };
    let objects = (0..SLOTS).map(&mut object).collect();
    let mut leaked = None;
    map.visit_unmarked(memory, |at| leaked = leaked.or(Some(at)));
    Contents { objects, leaked }
}

impl Subject for HeapSubject {
    type Engine = Engine;
    type Operation = Step;
    type Contents = Contents;
    type Legal = Registers<u64, u64>;
    type Mismatch = Mismatch;
    type Error = HeapError;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), HeapError> {
        let geometry = Geometry::plan(self.size).expect("a size");
        Heap::format(&medium, &geometry, &UUID, log_epoch(1))?;
        let (heap, _) = Heap::open(medium, &geometry, UUID, log_epoch(2))?;
        HeapSubject::make_root(&heap)?;
        heap.close()
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, HeapError> {
        let geometry = Geometry::plan(self.size).expect("a size");
        let (heap, _) = Heap::open(medium, &geometry, UUID, log_epoch(3))?;
        Engine::new(heap)
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        let mut waiting = Waiting::default();
        for _ in 0..actor.operations {
            self.run_one(engine, actor, &mut waiting);
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, HeapError> {
        let geometry = Geometry::plan(self.size).expect("a size");
        let heap = HeapSubject::open_left(medium, &geometry)?;
        HeapSubject::contents(&heap, &geometry)
    }

    fn legal_after_kill(&self, history: &HistoryPrefix<Step>) -> Option<Self::Legal> {
        Some(self.legal(history))
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        let initial: Vec<(u64, u64)> = (0..SLOTS).map(|slot| (slot, 0)).collect();
        let pairs =
            |pairs: &[(u64, u64)]| pairs.iter().map(|(slot, number)| (*slot, Some(*number))).collect();
        Registers::new(&initial, history, |step| Access {
            reads: pairs(&step.reads),
            writes: pairs(&step.writes),
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Mismatch> {
        let found: Result<Vec<(u64, u64)>, Mismatch> = contents
            .objects
            .iter()
            .zip(0..)
            .map(|(object, slot)| match *object {
                Object::Whole(number) => Ok((slot, number)),
                Object::Broken(at) => Err(Mismatch::Object { slot, at }),
                Object::Free(at) => Err(Mismatch::Free { slot, at }),
            })
            .collect();
        legal.check(&found?).map_err(Mismatch::Registers)?;
        contents.leaked.map_or(Ok(()), |at| Err(Mismatch::Leaked { at }))
    }
}
