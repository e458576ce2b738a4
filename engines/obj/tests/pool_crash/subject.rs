//! An open pool under transactions of all sizes, publications, persists and checkpoints.

use crate::small_pool;
use lode_layout::{PoolOffset, WORD};
use lode_obj::{Action, Growth, GrowthRefusal, Mode, ObjError, ObjView, Pool, Request, Transaction, check};
use lode_pmdk::PoolMedium;
use lode_pmem::{Counter, Durability, FaultScope, Mapping, Medium};
use lode_redo::LogError;
use lode_redo::cover::CoverError;
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject, Ticket};
use lode_testing::memory;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Words of the program, in units of their own and beside each other.
const WORDS: u64 = 12;
/// A block whose words all have one value: its range does not fit into a record.
const BLOCK_KEY: u64 = 50;
const BLOCK_AT: u64 = 4096;
/// Words that lead to objects.
const FIRST_SLOT: u64 = 100;
const SLOTS: u64 = 4;
const SLOTS_AT: u64 = 2560;
/// Objects without a slot, and findings of the check: there are never any.
const LOST: u64 = 200;
const FINDINGS: u64 = 201;
/// Bytes of objects: what a record holds, and what is persisted before it.
const SIZES: [u64; 2] = [64, 1400];
const AREA_TYPE: u64 = 1;
const OBJECT_TYPE: u64 = 2;

/// The pool of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSubject {
    block_len: u64,
    starts_closed: bool,
    grows: bool,
    is_replica: bool,
    mode: Mode,
}

/// The medium of a pool that grows to its end: the first growth finds all of it there.
pub(crate) struct TestMedium(PoolMedium<Arc<dyn Medium>>);

impl fmt::Debug for TestMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestMedium")
    }
}

impl lode_pmem::Layer for TestMedium {
    type Inner = PoolMedium<Arc<dyn Medium>>;

    fn inner(&self) -> &PoolMedium<Arc<dyn Medium>> {
        &self.0
    }
}

impl Growth for TestMedium {
    fn grow(&self, _: u64) -> Result<(), GrowthRefusal> {
        Err(GrowthRefusal::Reserved { left: 0, least: 0 })
    }
}

/// The open pool, and locks of its program.
#[derive(Debug)]
pub(crate) struct Engine {
    pool: Pool<TestMedium>,
    area: PoolOffset,
    locks: BTreeMap<u64, AtomicBool>,
    value: Counter,
}

type Write = Vec<(u64, u64)>;

impl PoolSubject {
    pub(crate) fn new(durability: Durability, starts_closed: bool) -> PoolSubject {
        let block_len = if durability == Durability::Commit { 12 << 10 } else { 3000 };
        PoolSubject { block_len, starts_closed, grows: false, is_replica: false, mode: Mode::Fast }
    }

    /// Returns the same pool in careful mode: the program flushes some of its stores by itself.
    pub(crate) fn careful(self) -> PoolSubject {
        PoolSubject { mode: Mode::Careful, ..self }
    }

    /// Returns a pool of which the medium is the replica, and whose master is lost in the power cut.
    pub(crate) fn replica() -> PoolSubject {
        PoolSubject { is_replica: true, ..PoolSubject::new(Durability::Line, true) }
    }

    /// Returns the same pool, whose heap is short at first.
    pub(crate) fn growing(self) -> PoolSubject {
        PoolSubject { grows: true, ..self }
    }

    fn open(&self, medium: Arc<SimMedium>) -> Result<Pool<TestMedium>, ObjError> {
        let (master, replicas): (Arc<dyn Medium>, Vec<Arc<dyn Medium>>) = match self.is_replica {
            false => (medium, Vec::new()),
            true => (Arc::new(copy_of(&medium)?), vec![medium]),
        };
        let mut pool = Pool::open(TestMedium(PoolMedium::of(master, replicas)))?;
        if self.grows {
            pool.let_grow();
        }
        Ok(pool)
    }

    fn area_len(&self) -> u64 {
        BLOCK_AT + self.block_len
    }

    fn keys() -> impl Iterator<Item = u64> {
        (0..WORDS).chain([BLOCK_KEY]).chain(FIRST_SLOT..FIRST_SLOT + SLOTS)
    }

    /// Returns the offset in the area of the word with a key.
    fn place(key: u64) -> u64 {
        match key {
            BLOCK_KEY => BLOCK_AT,
            slot if slot >= FIRST_SLOT => SLOTS_AT + (slot - FIRST_SLOT) * 104,
            word => word / 3 * 512 + word % 3 * 40,
        }
    }

    /// Reads all that a closed pool holds.
    fn contents(&self, medium: &Arc<SimMedium>) -> Result<Vec<(u64, u64)>, ObjError> {
        let view = ObjView::open(Arc::clone(medium))?;
        let objects: Vec<_> = view.objects().collect::<Result<_, _>>()?;
        let area = objects.iter().find(|object| object.type_number == AREA_TYPE);
        let area = area.map_or(PoolOffset::NULL, |object| object.at);
        let mut linked = BTreeSet::new();
        let mut contents = medium.memory().reading(|memory| {
            let same = |at: PoolOffset, len: u64| {
                let first = memory.load8(at);
                let is_whole = (0..len / WORD).all(|word| memory.load8(at.plus(word * WORD)) == first);
                if is_whole { first } else { u64::MAX }
            };
            let value = |key: u64| {
                let at = area.plus(Self::place(key));
                match key {
                    BLOCK_KEY => same(at, self.block_len),
                    slot if slot >= FIRST_SLOT => {
                        let to = PoolOffset::new(memory.load8(at));
                        linked.insert(to);
                        let object = objects.iter().find(|object| object.at == to);
                        let len = |value: u64| SIZES[(value % 2) as usize];
                        match object {
                            _ if to.is_null() => 0,
                            None => u64::MAX - 1,
                            Some(_) => same(to, len(memory.load8(to))),
                        }
                    }
                    _ => memory.load8(at),
                }
            };
            Self::keys().map(value).collect::<Vec<u64>>()
        })?;
        let lost = objects.iter().filter(|object| object.at != area && !linked.contains(&object.at)).count();
        let mut found: Vec<(u64, u64)> = Self::keys().zip(contents.drain(..)).collect();
        found.push((LOST, lost as u64));
        found.push((FINDINGS, check(medium).len() as u64));
        Ok(found)
    }
}

impl Engine {
    fn medium(&self) -> &TestMedium {
        self.pool.medium()
    }

    fn at(&self, key: u64) -> PoolOffset {
        self.area.plus(PoolSubject::place(key))
    }

    fn store(&self, at: PoolOffset, value: u64, len: u64) -> Result<(), ObjError> {
        let bytes: Vec<u8> = (0..len / WORD).flat_map(|_| value.to_le_bytes()).collect();
        let stored = FaultScope::run(|| {
            for (part, bytes) in bytes.chunks(1024).enumerate() {
                self.medium().store(at.plus(part as u64 * 1024), bytes);
            }
        });
        Ok(stored?)
    }

    /// Flushes and drains as a program does that knows the instructions.
    fn flush(&self, at: PoolOffset, len: u64) -> Result<(), ObjError> {
        FaultScope::run(|| self.medium().flush(at, len))?;
        // ORDER: durable before the program goes on.
        Ok(self.medium().drain()?)
    }

    fn load(&self, at: PoolOffset) -> Result<u64, ObjError> {
        Ok(self.medium().memory().reading(|memory| memory.load8(at))?)
    }

    fn try_lock(&self, key: u64) -> bool {
        // ORDER: acquires the stores of the last holder.
        !self.locks[&key].swap(true, Ordering::AcqRel)
    }

    fn lock(&self, keys: &BTreeSet<u64>) {
        for key in keys {
            for round in 0.. {
                if self.try_lock(*key) {
                    break;
                }
                self.medium().relax(round);
            }
        }
    }

    fn unlock<'k>(&self, keys: impl IntoIterator<Item = &'k u64>) {
        for key in keys {
            // ORDER: releases this holder's stores.
            self.locks[key].store(false, Ordering::Release);
        }
    }

    /// Makes a change of a transaction at a key.
    fn change(&self, tx: &mut Transaction, key: u64, value: u64, len: u64) -> Result<(), ObjError> {
        let at = self.at(key);
        if key < FIRST_SLOT {
            self.pool.add_range(tx, at, len)?;
            return self.store(at, value, len);
        }
        let old = PoolOffset::new(self.load(at)?);
        self.pool.add_range(tx, at, WORD)?;
        let new = match value {
            0 => PoolOffset::NULL,
            value => {
                let size = SIZES[(value % 2) as usize];
                let request = Request { size, type_number: OBJECT_TYPE, ..Request::default() };
                let new = self.pool.allocate(tx, &request)?.at;
                self.store(new, value, size)?;
                new
            }
        };
        if !old.is_null() {
            self.pool.free(tx, old)?;
        }
        self.store(at, new.get(), WORD)
    }
}

/// Returns memory with the content of a medium.
fn copy_of(medium: &SimMedium) -> Result<Mapping, ObjError> {
    let mut bytes = vec![0; medium.memory().len() as usize];
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes))?;
    Ok(memory::from_bytes(&bytes))
}

/// Notes the outcome of an operation.
fn end(actor: &mut Actor<'_, Write>, ticket: Ticket, outcome: Result<(), ObjError>) {
    match outcome {
        Ok(()) => actor.returned(ticket),
        Err(ObjError::Full { .. } | ObjError::Cover(CoverError::Log(LogError::Poisoned))) => {
            actor.refused(ticket);
        }
        Err(_) => actor.in_doubt(ticket),
    }
}

impl PoolSubject {
    fn persist(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        let key = if actor.rng.u8(..6) == 0 { BLOCK_KEY } else { actor.rng.u64(..WORDS) };
        if !engine.try_lock(key) {
            return engine.medium().relax(0);
        }
        let value = engine.value.add(1);
        let len = if key == BLOCK_KEY { self.block_len } else { WORD };
        // A block is torn by a power cut unless a transaction changes it.
        if key != BLOCK_KEY {
            let ticket = actor.begin(vec![(key, value)]);
            let at = engine.at(key);
            // A program whose pool has failed ends.
            let flushes_itself = self.mode == Mode::Careful && actor.rng.bool() && !engine.pool.has_failed();
            let persist = |()| match flushes_itself {
                true => engine.flush(at, len),
                false => engine.pool.persist(at, len),
            };
            match engine.store(at, value, len).and_then(persist) {
                Ok(()) => actor.returned(ticket),
                Err(_) => actor.in_doubt(ticket),
            }
        }
        engine.unlock([&key]);
    }

    fn transact(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        let mut keys: BTreeSet<u64> = (0..actor.rng.u64(1..4)).map(|_| actor.rng.u64(..WORDS)).collect();
        if actor.rng.u8(..4) == 0 {
            keys.insert(BLOCK_KEY);
        }
        if actor.rng.u8(..2) == 0 {
            keys.insert(FIRST_SLOT + actor.rng.u64(..SLOTS));
        }
        engine.lock(&keys);
        let Ok(mut tx) = engine.pool.begin() else { return engine.unlock(&keys) };
        let value = engine.value.add(1);
        let aborts = actor.rng.u8(..4) == 0;
        let of = |key: u64, actor: &mut Actor<'_, Write>| match key >= FIRST_SLOT && actor.rng.bool() {
            true => 0,
            false => value,
        };
        let writes: Write = keys.iter().map(|key| (*key, of(*key, actor))).collect();
        let ticket = (!aborts).then(|| actor.begin(writes.clone()));
        let mut changed = Ok(());
        for (key, value) in &writes {
            let len = if *key == BLOCK_KEY { self.block_len / WORD * WORD } else { WORD };
            changed = changed.and_then(|()| engine.change(&mut tx, *key, *value, len));
            if actor.rng.u8(..6) == 0 {
                self.persist(engine, actor);
            }
        }
        let outcome = match changed {
            Ok(()) if !aborts => engine.pool.commit(tx),
            changed => engine.pool.abort(tx).and(changed),
        };
        if let Some(ticket) = ticket {
            end(actor, ticket, outcome);
        }
        engine.unlock(&keys);
    }

    /// Replaces the object of a slot by a publication.
    fn publish(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        let key = FIRST_SLOT + actor.rng.u64(..SLOTS);
        if !engine.try_lock(key) {
            return engine.medium().relax(0);
        }
        let value = engine.value.add(1);
        let size = SIZES[(value % 2) as usize];
        let request = Request { size, type_number: OBJECT_TYPE, ..Request::default() };
        let prepared = engine.pool.reserve(&request).and_then(|new| {
            engine.store(new.at, value, size)?;
            engine.pool.persist(new.at, size)?;
            let old = PoolOffset::new(engine.load(engine.at(key))?);
            let mut actions =
                vec![Action::Store { at: engine.at(key), value: new.at.get() }, Action::Allocate(new)];
            actions.extend((!old.is_null()).then_some(Action::Free(old)));
            if actor.rng.u8(..5) == 0 {
                engine.pool.cancel(&new);
                return Ok(Vec::new());
            }
            Ok(actions)
        });
        if let Ok(actions) = prepared.as_ref()
            && !actions.is_empty()
        {
            let ticket = actor.begin(vec![(key, value)]);
            end(actor, ticket, engine.pool.publish(actions));
        }
        engine.unlock([&key]);
    }
}

impl Subject for PoolSubject {
    type Engine = Engine;
    type Operation = Write;
    type Contents = Vec<(u64, u64)>;
    type Legal = Registers<u64, u64>;
    type Mismatch = RegisterMismatch<u64, u64>;
    type Error = ObjError;

    fn size(&self) -> u64 {
        small_pool::SIZE
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), ObjError> {
        small_pool::store(&medium, self.grows);
        let pool = self.open(medium)?;
        let mut tx = pool.begin()?;
        let request =
            Request { size: self.area_len(), type_number: AREA_TYPE, is_zeroed: true, ..Request::default() };
        pool.allocate(&mut tx, &request)?;
        pool.commit(tx)?;
        if self.starts_closed { pool.close() } else { Ok(()) }
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, ObjError> {
        let mut pool = self.open(medium)?;
        pool.set_mode(self.mode);
        let area = pool.object_after(None)?.unwrap_or(PoolOffset::NULL);
        let locks = Self::keys().map(|key| (key, AtomicBool::new(false))).collect();
        Ok(Engine { pool, area, locks, value: Counter::new(1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        for _ in 0..actor.operations {
            match actor.rng.u8(..16) {
                // A failure shows in the next commit.
                0 => drop(engine.pool.checkpoint()),
                1..4 => self.persist(engine, actor),
                4..7 => self.publish(engine, actor),
                _ => self.transact(engine, actor),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, ObjError> {
        lode_obj::recover(&medium)?;
        self.contents(&medium)
    }

    fn legal(&self, history: &HistoryPrefix<Write>) -> Self::Legal {
        let keys = Self::keys().chain([LOST, FINDINGS]);
        let initial: Vec<(u64, u64)> = keys.map(|key| (key, 0)).collect();
        Registers::new(&initial, history, |writes| Access {
            reads: Vec::new(),
            writes: writes.iter().map(|(key, value)| (*key, Some(*value))).collect(),
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}
