//! A redo log of one ring for a few registers, small enough to be checked by reading, with ten ways to break it.

use lode_layout::{LINE, PoolOffset, WORD, align_up, bug};
use lode_pmem::{Event, Medium, SyncError};
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) const SIZE: u64 = 64 << 10;
const CHECKPOINT: PoolOffset = PoolOffset::new(0);
const LOG: u64 = 4096;
const LOG_LEN: u64 = 4096;
const TARGETS: u64 = 8192;
const REGISTERS: usize = 48;
const LARGE: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    NoChecksum,
    MissingDrain,
    CheckpointWithoutFlush,
    FlushWithoutDrain,
    WriteBackBeforeDrain,
    SequenceNotInCrc,
    SequenceAsCrcSeed,
    ReuseBeforeCheckpoint,
    WrongThreadDrain,
    TornSector,
    FailedSyncIgnored,
    SharedBeforeDrain,
    LockNeverFreed,
}

/// A bug that is planted at run time, as those of shipped engines are.
pub(crate) static WRITE_BACK_EARLY: bug::Bug =
    bug::Bug::new("toy-write-back-early", "a transaction is there in part");
/// A bug that is asked for and does no harm.
pub(crate) static HARMLESS: bug::Bug = bug::Bug::new("toy-harmless", "nothing");

#[derive(Debug, Default)]
struct State {
    sequence: u64,
    head: u64,
    dirty: BTreeSet<u64>,
    is_poisoned: bool,
}

/// The engine. It is generic over the medium, as the shipped engines are.
pub(crate) struct Toy<M> {
    medium: Arc<M>,
    bug: Option<Bug>,
    is_busy: AtomicBool,
    event: Event,
    drains: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) enum ToyError {
    Refused,
    InDoubt,
}

fn target(register: usize) -> PoolOffset {
    PoolOffset::new(TARGETS + register as u64 * 4 * WORD)
}

impl<M: Medium> Toy<M> {
    pub(crate) fn open(medium: Arc<M>, bug: Option<Bug>) -> Result<Toy<M>, SyncError> {
        let toy = Toy {
            medium,
            bug,
            is_busy: AtomicBool::new(false),
            event: Event::new(),
            drains: AtomicU64::new(0),
            state: Mutex::default(),
        };
        toy.recover()?;
        Ok(toy)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self, register: usize) -> u64 {
        self.medium.memory().reading(|memory| memory.load8(target(register))).expect("memory")
    }

    fn recover(&self) -> Result<(), SyncError> {
        let memory = self.medium.memory();
        let mut sequence = memory.reading(|memory| memory.load8(CHECKPOINT)).expect("memory");
        let first = sequence;
        let mut at = 0;
        while let Some((len, entries)) = self.decode(at, sequence + 1) {
            for (register, value) in entries {
                self.medium.store8(target(register), value);
                self.medium.flush(target(register), WORD);
            }
            (sequence, at) = (sequence + 1, at + len);
        }
        if sequence != first {
            self.medium.drain()?;
            self.medium.store8(CHECKPOINT, sequence);
            self.medium.flush(CHECKPOINT, WORD);
            self.medium.drain()?;
        }
        self.state().sequence = sequence;
        Ok(())
    }

    fn crc(&self, sequence: u64, entries: &[u8]) -> u64 {
        let covered = if self.bug == Some(Bug::TornSector) { entries.len().min(480) } else { entries.len() };
        let entries = &entries[..covered];
        u64::from(match self.bug {
            Some(Bug::NoChecksum) => 0,
            Some(Bug::SequenceNotInCrc) => crc32c::crc32c(entries),
            // The first four bytes can cancel the difference of two sequence numbers.
            Some(Bug::SequenceAsCrcSeed) => crc32c::crc32c_append(sequence as u32, entries),
            _ => crc32c::crc32c_append(crc32c::crc32c(&sequence.to_le_bytes()), entries),
        })
    }

    fn decode(&self, at: u64, sequence: u64) -> Option<(u64, Vec<(usize, u64)>)> {
        let memory = self.medium.memory();
        let word = |offset: u64| {
            memory.reading(|memory| memory.load8(PoolOffset::new(LOG + offset))).expect("memory")
        };
        if at + 2 * WORD > LOG_LEN || word(at) != sequence {
            return None;
        }
        let (count, crc) = (word(at + WORD) >> 32, word(at + WORD) & u64::from(u32::MAX));
        let len = align_up((2 + 2 * count) * WORD, self.medium.log_block());
        if count as usize > REGISTERS || at + len > LOG_LEN {
            return None;
        }
        let words: Vec<u64> = (0..2 * count).map(|index| word(at + (2 + index) * WORD)).collect();
        let bytes: Vec<u8> = words.iter().copied().flat_map(u64::to_le_bytes).collect();
        let entries: Vec<(usize, u64)> =
            words.chunks_exact(2).map(|pair| (pair[0] as usize, pair[1])).collect();
        let in_range = entries.iter().all(|entry| entry.0 < REGISTERS);
        (in_range && self.crc(sequence, &bytes) == crc).then_some((len, entries))
    }

    fn encode(&self, sequence: u64, entries: &[(usize, u64)]) -> Vec<u8> {
        let words = entries.iter().flat_map(|entry| [entry.0 as u64, entry.1]);
        let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let crc = self.crc(sequence, &body);
        let mut record = sequence.to_le_bytes().to_vec();
        record.extend((((entries.len() as u64) << 32) | crc).to_le_bytes());
        record.extend(body);
        record.resize(align_up(record.len() as u64, self.medium.log_block()) as usize, 0);
        record
    }

    fn lock(&self) {
        while self.is_busy.swap(true, Ordering::AcqRel) {
            self.medium.wait_while(&self.event, &mut || self.is_busy.load(Ordering::Acquire));
        }
    }

    fn unlock(&self) {
        if self.bug != Some(Bug::LockNeverFreed) {
            self.is_busy.store(false, Ordering::Release);
            self.event.notify_all();
        }
    }

    /// Changes registers; `make` gets the values of the registers that it reads.
    pub(crate) fn transact(
        &self,
        make: impl FnOnce(&dyn Fn(usize) -> u64) -> Vec<(usize, u64)>,
    ) -> Result<(), ToyError> {
        self.lock();
        let done = if self.state().is_poisoned { Err(ToyError::Refused) } else { self.commit(make) };
        self.unlock();
        if done.is_ok() && self.bug == Some(Bug::WrongThreadDrain) {
            self.await_any_drain();
        }
        if done.is_ok() && self.bug == Some(Bug::SharedBeforeDrain) {
            let _ = self.medium.drain();
        }
        done
    }

    fn commit(&self, make: impl FnOnce(&dyn Fn(usize) -> u64) -> Vec<(usize, u64)>) -> Result<(), ToyError> {
        let entries = make(&|register| self.read(register));
        let sequence = self.state().sequence + 1;
        let record = self.encode(sequence, &entries);
        let is_full = self.state().head + record.len() as u64 > LOG_LEN;
        let early = self.bug == Some(Bug::ReuseBeforeCheckpoint);
        if is_full && !early {
            self.checkpoint().map_err(|_| self.poison(ToyError::Refused))?;
        }
        if is_full {
            self.state().head = 0;
        }
        let at_rest = entries.is_empty();
        if self.bug == Some(Bug::WriteBackBeforeDrain)
            || WRITE_BACK_EARLY.is_active()
            || HARMLESS.is_active() && at_rest
        {
            self.apply(&entries);
        }
        let at = PoolOffset::new(LOG + self.state().head);
        self.append(at, &record).map_err(|_| self.poison(ToyError::InDoubt))?;
        self.apply(&entries);
        let mut state = self.state();
        state.head += record.len() as u64;
        state.sequence = sequence;
        drop(state);
        if is_full && early {
            self.checkpoint().map_err(|_| self.poison(ToyError::InDoubt))?;
        }
        Ok(())
    }

    fn append(&self, at: PoolOffset, record: &[u8]) -> Result<(), SyncError> {
        match self.bug {
            Some(Bug::MissingDrain | Bug::WrongThreadDrain | Bug::SharedBeforeDrain) => {
                self.medium.copy(at, record);
                Ok(())
            }
            Some(Bug::FailedSyncIgnored) => {
                let _ = self.medium.log_write(at, record);
                Ok(())
            }
            _ => self.medium.log_write(at, record),
        }
    }

    fn await_any_drain(&self) {
        let before = self.drains.load(Ordering::Acquire);
        for round in 0..4 {
            self.medium.relax(round);
            if self.drains.load(Ordering::Acquire) != before {
                return;
            }
        }
        let _ = self.medium.drain();
        self.drains.fetch_add(1, Ordering::AcqRel);
    }

    fn apply(&self, entries: &[(usize, u64)]) {
        for (register, value) in entries {
            self.medium.store8(target(*register), *value);
            self.state().dirty.insert(target(*register).line());
        }
    }

    fn checkpoint(&self) -> Result<(), SyncError> {
        let (sequence, dirty) = {
            let mut state = self.state();
            (state.sequence, std::mem::take(&mut state.dirty))
        };
        if self.bug != Some(Bug::CheckpointWithoutFlush) {
            dirty.iter().for_each(|line| self.medium.flush(PoolOffset::new(line * LINE), LINE));
        }
        if self.bug != Some(Bug::FlushWithoutDrain) {
            self.medium.drain()?;
        }
        self.medium.store8(CHECKPOINT, sequence);
        self.medium.flush(CHECKPOINT, WORD);
        self.medium.drain()
    }

    fn poison(&self, error: ToyError) -> ToyError {
        self.state().is_poisoned = true;
        error
    }
}

/// A transaction, as the history notes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    reads: Vec<(usize, u64)>,
    writes: Vec<(usize, u64)>,
}

pub(crate) struct ToySubject {
    pub(crate) bug: Option<Bug>,
}

impl Subject for ToySubject {
    type Engine = Toy<SimMedium>;
    type Operation = Transaction;
    type Contents = Vec<(usize, u64)>;
    type Legal = Registers<usize, u64>;
    type Mismatch = RegisterMismatch<usize, u64>;
    type Error = SyncError;

    fn size(&self) -> u64 {
        SIZE
    }

    fn format(&self, _medium: Arc<SimMedium>) -> Result<(), SyncError> {
        // A medium of zeros is an empty log.
        Ok(())
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Toy<SimMedium>, SyncError> {
        Toy::open(medium, self.bug)
    }

    fn run(&self, toy: &Toy<SimMedium>, actor: &mut Actor<'_, Transaction>) {
        for _ in 0..actor.operations {
            let large = actor.rng.u8(0..12) == 0;
            let count = if large { LARGE } else { actor.rng.usize(1..4) };
            let first = actor.rng.usize(0..REGISTERS);
            let step = if large { 1 } else { actor.rng.usize(1..4) };
            let writes: Vec<(usize, u64)> =
                (0..count).map(|index| ((first + index * step) % REGISTERS, actor.rng.u64(1..))).collect();
            let source = actor.rng.usize(0..REGISTERS);
            let ticket = actor.begin(Transaction { reads: Vec::new(), writes: writes.clone() });
            let done = toy.transact(|read| {
                let reads = vec![(source, read(source))];
                actor.revise(ticket, Transaction { reads, writes: writes.clone() });
                writes
            });
            match done {
                Ok(()) => actor.returned(ticket),
                Err(ToyError::InDoubt) => actor.in_doubt(ticket),
                Err(ToyError::Refused) => actor.refused(ticket),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<(usize, u64)>, SyncError> {
        let toy = Toy::open(medium, self.bug)?;
        let values = (0..REGISTERS).map(|register| (register, toy.read(register)));
        Ok(values.filter(|pair| pair.1 != 0).collect())
    }

    fn legal(&self, history: &HistoryPrefix<Transaction>) -> Registers<usize, u64> {
        Registers::new(&[], history, |transaction| {
            let reads = transaction.reads.iter().map(|(register, value)| {
                let value = (*value != 0).then_some(*value);
                (*register, value)
            });
            let writes = transaction.writes.iter().map(|(register, value)| (*register, Some(*value)));
            Access { reads: reads.collect(), writes: writes.collect() }
        })
    }

    fn check(
        &self,
        legal: &Registers<usize, u64>,
        contents: &Vec<(usize, u64)>,
    ) -> Result<(), RegisterMismatch<usize, u64>> {
        legal.check(contents)
    }
}
