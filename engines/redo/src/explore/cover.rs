//! Memory that programs store to in place: transactions, persists beside and inside of them, new objects, checkpoints.

use crate::cover::{Changes, Cover, CoverError, Mode, Transaction};
use crate::{Log, LogArea, LogError};
use lode_layout::{CoverEntry, Entry, PoolOffset, Record, WORD};
use lode_pmem::{Counter, Durability, FaultScope, Medium, Readable};
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const UUID: [u8; 16] = [9; 16];
/// Words that programs store to, spread over three units.
const WORDS: u64 = 18;
/// Bytes of each of the three units that programs know of.
const PROGRAM_LEN: u64 = 248;
/// Words between and after the objects.
const WORDS_BESIDE: u64 = 3;
/// Bits of which only the library knows, in a word of each of the three units.
const BITS: u64 = 6;
/// Keys of bits, of objects, and of the first word of each object, to which the program stores later.
const FIRST_BIT: u64 = 100;
const FIRST_OBJECT: u64 = 200;
const FIRST_FIELD: u64 = 300;
/// Offsets of the objects after the units, and their lengths.
const OBJECTS: [(u64, u64); 3] = [(0, 96), (104, 96), (208, 1104)];
/// Set in values that no transaction commits. They must never be found.
const UNCOMMITTED: u64 = 1 << 63;
const TRANSACTIONS: usize = 8;

/// A log of some length, and the memory after it.
#[derive(Clone, Copy, Debug)]
pub struct CoverSubject {
    /// Length of the log in bytes.
    pub log_len: u64,
    /// Length of a unit in bytes.
    unit: u64,
    /// True if the log is closed when the engine starts, so that there is nothing to replay.
    starts_closed: bool,
    /// In careful mode the program flushes some of its stores by itself.
    mode: Mode,
    /// Length of the second area of the log, to which it moves in the run; 0 if it has none.
    second_len: u64,
}

/// The memory while it is used, and locks of the program.
#[derive(Debug)]
pub struct Engine {
    cover: Cover<Arc<SimMedium>>,
    locks: BTreeMap<u64, AtomicBool>,
    value: Counter,
    /// True if a persist has failed: the program does not know whether a link that it has cleared is so durably, and its place free.
    has_persist_failed: AtomicBool,
}

/// New objects, words of links, and entries.
type LibraryChanges = (Vec<(PoolOffset, u64)>, Vec<(PoolOffset, u64)>, Record);

/// The keys that an operation changes, and the value of each.
type Write = Vec<(u64, u64)>;

/// Opens the memory in a log epoch.
fn open(
    medium: Arc<SimMedium>,
    subject: &CoverSubject,
    log_epoch: u64,
) -> Result<Cover<Arc<SimMedium>>, LogError> {
    let (area, base, log_epoch) = (subject.area(), subject.base(), [log_epoch; 2]);
    let recovered = match subject.second_area() {
        None => Cover::recover(medium, area, base, UUID, log_epoch, TRANSACTIONS),
        Some(second) => Cover::recover_movable(medium, [area, second], base, UUID, log_epoch, TRANSACTIONS),
    };
    match recovered {
        Ok((cover, _)) => Ok(cover),
        Err(CoverError::Log(error)) => Err(error),
        Err(error) => unreachable!("the log is long enough: {error}"),
    }
}

/// Returns the key of the field of an object.
fn field(object: u64) -> u64 {
    object - FIRST_OBJECT + FIRST_FIELD
}

impl CoverSubject {
    const FAST: CoverSubject =
        CoverSubject { log_len: 0, unit: 0, starts_closed: false, mode: Mode::Fast, second_len: 0 };

    /// Returns the subject for media of that durability.
    pub fn new(durability: Durability) -> CoverSubject {
        match durability {
            Durability::Commit => CoverSubject { log_len: 512 << 10, unit: 4096, ..CoverSubject::FAST },
            _ => CoverSubject { log_len: 32 << 10, unit: 256, ..CoverSubject::FAST },
        }
    }

    /// Returns the subject whose log is closed when the engine starts.
    pub fn closed(durability: Durability) -> CoverSubject {
        CoverSubject { starts_closed: true, ..CoverSubject::new(durability) }
    }

    /// Returns the same subject in careful mode.
    #[must_use]
    pub fn careful(self) -> CoverSubject {
        CoverSubject { mode: Mode::Careful, ..self }
    }

    /// Returns the same subject with a log of twice the length, which moves to an area of the length that it had.
    #[must_use]
    pub fn moving(self) -> CoverSubject {
        CoverSubject { log_len: 2 * self.log_len, second_len: self.log_len, ..self }
    }

    fn second_area(&self) -> Option<LogArea> {
        let start = self.area().start.plus(self.log_len);
        (self.second_len > 0).then_some(LogArea { start, len: self.second_len })
    }

    fn area(&self) -> LogArea {
        LogArea { start: PoolOffset::new(0x4000), len: self.log_len }
    }

    fn base(&self) -> PoolOffset {
        self.area().start.plus(self.log_len + self.second_len)
    }

    /// Returns the offset of a word that programs store to.
    fn word(&self, key: u64) -> PoolOffset {
        match key.checked_sub(WORDS) {
            None => self.base().plus(key % 3 * self.unit + key / 3 * 40),
            Some(beside) => {
                let (at, len) = OBJECTS[beside as usize];
                self.base().plus(3 * self.unit + at + len)
            }
        }
    }

    /// Returns the offset of the word that has a bit, and the bit.
    fn bit(&self, key: u64) -> (PoolOffset, u64) {
        let bit = key - FIRST_BIT;
        (self.base().plus(bit % 3 * self.unit + PROGRAM_LEN), 1 << (bit * 11))
    }

    /// Returns the offset of the word that says which object is at a place, and the place.
    fn object(&self, key: u64) -> (PoolOffset, PoolOffset, u64) {
        let index = key - FIRST_OBJECT;
        let (at, len) = OBJECTS[index as usize];
        (self.base().plus(index * self.unit + 232), self.base().plus(3 * self.unit + at), len)
    }

    fn keys() -> impl Iterator<Item = u64> {
        (0..WORDS + WORDS_BESIDE)
            .chain(FIRST_BIT..FIRST_BIT + BITS)
            .chain(FIRST_OBJECT..FIRST_OBJECT + OBJECTS.len() as u64)
            .chain(FIRST_FIELD..FIRST_FIELD + OBJECTS.len() as u64)
    }

    fn value(&self, memory: &Readable, key: u64) -> u64 {
        if key < FIRST_BIT {
            return memory.load8(self.word(key));
        }
        if key < FIRST_OBJECT {
            let (at, mask) = self.bit(key);
            return u64::from(memory.load8(at) & mask != 0);
        }
        if key >= FIRST_FIELD {
            let (link, at, _) = self.object(key - FIRST_FIELD + FIRST_OBJECT);
            return if memory.load8(link) == 0 { 0 } else { memory.load8(at) };
        }
        let (link, at, len) = self.object(key);
        let linked = memory.load8(link);
        let is_whole = (1..len / WORD).all(|word| memory.load8(at.plus(word * WORD)) == linked);
        if linked == 0 || is_whole { linked } else { linked | UNCOMMITTED }
    }

    fn contents(&self, medium: &SimMedium) -> Result<Vec<(u64, u64)>, LogError> {
        let all = |memory: &Readable| Self::keys().map(|key| (key, self.value(memory, key))).collect();
        Ok(medium.memory().reading(all)?)
    }
}

impl Engine {
    fn medium(&self) -> &SimMedium {
        self.cover.medium()
    }

    /// Stores as the program does.
    fn store(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), CoverError> {
        Ok(FaultScope::run(|| self.medium().store(at, bytes))?)
    }

    /// Flushes and drains as a program does that knows the instructions.
    fn flush(&self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        FaultScope::run(|| self.medium().flush(at, len))?;
        // ORDER: durable before the program goes on.
        Ok(self.medium().drain().map_err(LogError::from)?)
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
}

/// Notes the outcome of an operation.
fn end(actor: &mut Actor<'_, Write>, ticket: Ticket, outcome: Result<(), CoverError>) {
    match outcome {
        Ok(()) => actor.returned(ticket),
        Err(CoverError::Log(LogError::Poisoned)) => actor.refused(ticket),
        Err(_) => actor.in_doubt(ticket),
    }
}

impl CoverSubject {
    /// Stores a word and persists it, with neighbours that other threads may have open.
    fn persist(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        let key = actor.rng.u64(..WORDS + WORDS_BESIDE);
        if !engine.try_lock(key) {
            return engine.medium().relax(0);
        }
        let value = engine.value.add(1);
        let ticket = actor.begin(vec![(key, value)]);
        let at = self.word(key);
        let stored = engine.store(at, &value.to_le_bytes());
        let before = if actor.rng.bool() { at.get() % self.unit } else { 0 };
        let room = if key < WORDS { PROGRAM_LEN - at.get() % self.unit } else { WORD };
        let len = before + if actor.rng.bool() { WORD } else { room.min(56) };
        self.persist_stored(engine, actor, ticket, stored, PoolOffset::new(at.get() - before), len);
        engine.unlock([&key]);
    }

    /// Persists what the program has stored: after an error it may be there.
    fn persist_stored(
        &self,
        engine: &Engine,
        actor: &mut Actor<'_, Write>,
        ticket: Ticket,
        stored: Result<(), CoverError>,
        at: PoolOffset,
        len: u64,
    ) {
        // A program whose log has failed ends.
        let flushes_itself =
            engine.cover.mode() == Mode::Careful && actor.rng.bool() && !engine.cover.has_failed();
        let persist = |()| match flushes_itself {
            true => engine.flush(at, len),
            false => engine.cover.persist(at, len),
        };
        match stored.and_then(persist) {
            Ok(()) => actor.returned(ticket),
            Err(_) => {
                // ORDER: none: released with the lock of the key.
                engine.has_persist_failed.store(true, Ordering::Relaxed);
                actor.in_doubt(ticket);
            }
        }
    }

    /// Stores to a field of an object, or to the word that links it, and persists that.
    fn change_field(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        let key = FIRST_OBJECT + actor.rng.u64(..OBJECTS.len() as u64);
        if !engine.try_lock(key) {
            return engine.medium().relax(0);
        }
        let (link, at, _) = self.object(key);
        let linked = engine.medium().memory().reading(|memory| memory.load8(link));
        if linked.is_ok_and(|linked| linked != 0) {
            let unlinks = actor.rng.u8(..4) == 0;
            let value = if unlinks { 0 } else { engine.value.add(1) };
            let (at, writes) = match unlinks {
                true => (link, vec![(key, 0), (field(key), 0)]),
                false => (at, vec![(field(key), value)]),
            };
            let ticket = actor.begin(writes);
            let stored = engine.store(at, &value.to_le_bytes());
            self.persist_stored(engine, actor, ticket, stored, at, WORD);
        }
        engine.unlock([&key]);
    }

    /// Adds the words to the transaction, and stores to them, with other calls meanwhile.
    fn change_words(
        &self,
        engine: &Engine,
        actor: &mut Actor<'_, Write>,
        transaction: &mut Transaction<'_, Arc<SimMedium>>,
        keys: &BTreeSet<u64>,
    ) -> Result<(), CoverError> {
        for key in keys.iter().filter(|key| **key < FIRST_BIT) {
            let at = self.word(*key);
            transaction.add_range(at, WORD)?;
            engine.store(at, &(engine.value.add(1) | UNCOMMITTED).to_le_bytes())?;
            match actor.rng.u8(..8) {
                0 => engine.cover.persist(at, WORD)?,
                1 => transaction.add_range(at, WORD)?,
                2 => self.persist(engine, actor),
                3 => engine.cover.checkpoint()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Fills new objects in place. Returns them, the words that link them and unlink others, and the entries that change bits.
    fn change_library(&self, engine: &Engine, writes: &mut Write) -> Result<LibraryChanges, CoverError> {
        let (mut objects, mut words, mut record) = (Vec::new(), Vec::new(), Record::new());
        let scope = FaultScope::open();
        let memory = scope.memory(engine.medium().memory());
        for (key, value) in writes.iter_mut().filter(|(key, _)| *key >= FIRST_BIT) {
            if *key < FIRST_OBJECT {
                let (at, mask) = self.bit(*key);
                *value = 1 - self.value(memory, *key);
                let set = Entry::Cover(CoverEntry::SetBits { at, mask });
                let clear = Entry::Cover(CoverEntry::ClearBits { at, mask });
                record.push(if *value == 1 { set } else { clear });
                continue;
            }
            let (link, at, len) = self.object(*key);
            let linked = memory.load8(link);
            if let Some(fault) = scope.fault() {
                scope.clear();
                return Err(fault.into());
            }
            if linked != 0 {
                *value = 0;
            } else {
                // ORDER: none: the thread that knows nothing of the failure has the lock of another key.
                if engine.has_persist_failed.load(Ordering::Relaxed) {
                    return Err(LogError::Poisoned.into());
                }
                let content: Vec<u8> = (0..len / WORD).flat_map(|_| value.to_le_bytes()).collect();
                for (part, bytes) in content.chunks(512).enumerate() {
                    engine.medium().store(at.plus(part as u64 * 512), bytes);
                }
                objects.push((at, len));
            }
            words.push((link, *value));
        }
        scope.close()?;
        Ok((objects, words, record))
    }

    fn transact(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        let count = if actor.rng.u8(..4) == 0 { actor.rng.u64(4..8) } else { actor.rng.u64(1..3) };
        let mut keys: BTreeSet<u64> = (0..count).map(|_| actor.rng.u64(..WORDS + WORDS_BESIDE)).collect();
        if actor.rng.u8(..3) == 0 {
            keys.insert(FIRST_BIT + actor.rng.u64(..BITS));
        }
        if actor.rng.u8(..3) == 0 {
            keys.insert(FIRST_OBJECT + actor.rng.u64(..OBJECTS.len() as u64));
        }
        engine.lock(&keys);
        let Ok(mut transaction) = engine.cover.begin() else { return engine.unlock(&keys) };
        if self.change_words(engine, actor, &mut transaction, &keys).is_err() || actor.rng.u8(..4) == 0 {
            // A failure shows in the next commit.
            let _ = transaction.abort();
            return engine.unlock(&keys);
        }
        let value = engine.value.add(1);
        let mut writes: Write = keys.iter().map(|key| (*key, value)).collect();
        let prepared = self.change_library(engine, &mut writes).and_then(|library| {
            let mut stores = keys.iter().filter(|key| **key < FIRST_BIT);
            stores.try_for_each(|key| engine.store(self.word(*key), &value.to_le_bytes()))?;
            Ok(library)
        });
        let Ok((objects, words, record)) = prepared else {
            let _ = transaction.abort();
            return engine.unlock(&keys);
        };
        let fields: Write = writes
            .iter()
            .filter(|(key, _)| *key >= FIRST_OBJECT)
            .map(|(key, value)| (field(*key), *value))
            .collect();
        writes.extend(fields);
        let ticket = actor.begin(writes);
        let changes = Changes { objects: &objects, words: &words, entries: record.body(), continued: &[] };
        end(actor, ticket, transaction.commit(changes));
        engine.unlock(&keys);
    }
}

impl Subject for CoverSubject {
    type Engine = Engine;
    type Operation = Write;
    type Contents = Vec<(u64, u64)>;
    type Legal = Registers<u64, u64>;
    type Mismatch = RegisterMismatch<u64, u64>;
    type Error = LogError;

    fn size(&self) -> u64 {
        self.base().get() + (3 * self.unit + 1344).next_multiple_of(4096)
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), LogError> {
        Log::format(&medium, self.area(), &UUID, [1, 1])?;
        // A log epoch before the explored one leaves records that must not be replayed.
        let cover = open(medium, self, 2)?;
        for value in [5 << 32, 0] {
            for key in 0..WORDS + WORDS_BESIDE {
                let Ok(mut transaction) = cover.begin() else { return Err(LogError::Poisoned) };
                let added = transaction.add_range(self.word(key), WORD);
                cover.medium().store8(self.word(key), value);
                let committed = added.and_then(|()| transaction.commit(Changes::default()));
                committed.map_err(|_| LogError::Poisoned)?;
            }
        }
        if self.starts_closed { cover.close() } else { Ok(()) }
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, LogError> {
        let mut cover = open(medium, self, 3)?;
        cover.set_mode(self.mode);
        let locks = Self::keys().map(|key| (key, AtomicBool::new(false))).collect();
        Ok(Engine { cover, locks, value: Counter::new(1), has_persist_failed: AtomicBool::new(false) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        for _ in 0..actor.operations {
            match actor.rng.u8(..16) {
                // A failure shows in the next commit.
                0 if self.second_len > 0 && actor.rng.bool() => drop(engine.cover.move_log()),
                0 => drop(engine.cover.checkpoint()),
                1..6 => self.persist(engine, actor),
                6 => self.change_field(engine, actor),
                _ => self.transact(engine, actor),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, LogError> {
        let cover = open(medium, self, 4)?;
        self.contents(cover.medium())
    }

    fn legal(&self, history: &HistoryPrefix<Write>) -> Self::Legal {
        let initial: Vec<(u64, u64)> = Self::keys().map(|key| (key, 0)).collect();
        Registers::new(&initial, history, |writes| Access {
            reads: Vec::new(),
            writes: writes.iter().map(|(key, value)| (*key, Some(*value))).collect(),
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}
