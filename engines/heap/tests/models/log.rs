//! Checkpoints cover no transaction whose write-backs are to come, and a transaction returns when its record is
//! durable, alone or in a group.

use super::yielding::Yielding;
use crate::explore;
use lode_heap::{Log, LogArea, WaitingRecords};
use lode_layout::{
    BLOCK, CHECKPOINT_SLOT_WORDS, CHECKPOINT_SLOTS_OFF, CheckpointSlot, Entries, Entry, PoolOffset,
    RECORD_HEADER_WORDS, RECORD_LINE_WORDS, Record, align_up,
};
use lode_pmem::{Durability, FaultScope, Medium, SyncError};
use lode_redo::CommitHooks;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Mutex;
use zerocopy::FromBytes;

const UUID: [u8; 16] = [5; 16];
/// The most transactions of a model; each writes one word back, its own.
const COUNT: usize = 4;
const AREA: LogArea = LogArea { start: PoolOffset::new(4 * BLOCK), len: 4 * BLOCK };
const TARGETS: PoolOffset = AREA.start.plus(AREA.len);

/// The progress of one transaction, as loom sees it. No reader of these flags waits for them, so only the log's own
/// ordering makes them visible.
#[derive(Debug)]
struct Observed {
    durable: AtomicBool,
    written_back: AtomicBool,
}

/// A medium that watches the transactions.
#[derive(Debug)]
struct Watched {
    inner: Yielding,
    durability: Durability,
    observed: [Observed; COUNT],
    /// The sequence number of each transaction that is in the log.
    numbers: Mutex<[Option<u64>; COUNT]>,
}

impl Watched {
    fn new(durability: Durability) -> Watched {
        let inner = Yielding::new(TARGETS.get() + BLOCK);
        let observed = || Observed { durable: AtomicBool::new(false), written_back: AtomicBool::new(false) };
        let observed = std::array::from_fn(|_| observed());
        Watched { inner, durability, observed, numbers: Mutex::new([None; COUNT]) }
    }

    fn target(index: usize) -> PoolOffset {
        TARGETS.plus(64 * index as u64)
    }

    /// The transaction whose word is at `at`.
    fn index_of(at: PoolOffset) -> Option<usize> {
        (0..COUNT).find(|index| Watched::target(*index) == at)
    }

    fn stored(&self, at: PoolOffset) {
        if let Some(index) = Watched::index_of(at) {
            self.observed[index].written_back.store(true, Ordering::Relaxed);
        }
    }

    /// Takes in the records of a write that is finished.
    fn written(&self, mut words: &[u64]) {
        while let [head, sequence, ..] = words
            && *head != 0
        {
            let len = RECORD_HEADER_WORDS + (*head >> 32) as usize;
            for entry in Entries::new(&words[RECORD_HEADER_WORDS..len]).map(Result::unwrap) {
                if let Entry::Words { at, .. } = entry
                    && let Some(index) = Watched::index_of(at)
                {
                    self.numbers.lock().unwrap()[index] = Some(*sequence);
                    self.observed[index].durable.store(true, Ordering::Relaxed);
                }
            }
            words = &words[(align_up(len as u64, RECORD_LINE_WORDS as u64) as usize).min(words.len())..];
        }
    }

    /// Everything that the slot covers must have been written back.
    fn covers(&self, slot: &CheckpointSlot) {
        let numbers = *self.numbers.lock().unwrap();
        for (observed, number) in self.observed.iter().zip(numbers) {
            if number.is_some_and(|number| number <= slot.sequence) {
                assert!(
                    observed.written_back.load(Ordering::Relaxed),
                    "{slot:?} covers {number:?}, which is not written back"
                );
            }
        }
    }
}

impl lode_pmem::Layer for Watched {
    type Inner = Yielding;

    fn inner(&self) -> &Yielding {
        &self.inner
    }
    fn durability(&self) -> Durability {
        self.durability
    }
    fn log_block(&self) -> u64 {
        if self.durability == Durability::Commit { BLOCK } else { Medium::log_block(&self.inner) }
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        Medium::store8(&self.inner, at, value);
        self.stored(at);
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        Medium::store(&self.inner, at, bytes);
        self.stored(at);
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        let words: Vec<u64> = bytes.chunks_exact(8).map(|word| u64::read_from_bytes(word).unwrap()).collect();
        Medium::log_write(&self.inner, at, bytes)?;
        if at < CHECKPOINT_SLOTS_OFF.plus(2 * BLOCK) {
            let words: [u64; CHECKPOINT_SLOT_WORDS] = words[..CHECKPOINT_SLOT_WORDS].try_into().unwrap();
            self.covers(&CheckpointSlot::decode(&words, &UUID).unwrap());
        } else {
            self.written(&words);
        }
        Ok(())
    }
}

fn open(durability: Durability) -> Arc<Log<Watched>> {
    let medium = Watched::new(durability);
    Log::format(&medium, AREA, &UUID, [1; 2]).unwrap();
    let (log, _) = Log::recover(medium, AREA, UUID, [2; 2]).unwrap();
    log.begin_epoch().unwrap();
    Arc::new(log)
}

/// Runs transaction `index`; it returns when its record is durable and its word is written back.
fn commit(log: &Log<Watched>, index: usize) {
    let mut record = Record::new();
    record.push_word(Watched::target(index), 1);
    let number = log.commit(&mut record, &[]).unwrap();
    let observed = &log.medium().observed[index];
    assert!(observed.durable.load(Ordering::Relaxed), "transaction {number} returned before it was durable");
    assert!(
        observed.written_back.load(Ordering::Relaxed),
        "transaction {number} returned before it was visible"
    );
    assert_eq!(log.medium().numbers.lock().unwrap()[index], Some(number));
}

/// Threads commit while one checkpoints; the next checkpoint covers all.
fn commit_beside_checkpoint(durability: Durability, threads: usize, preemptions: usize) {
    explore(preemptions, move || {
        let log = open(durability);
        let threads: Vec<_> = (0..threads)
            .map(|index| {
                let log = Arc::clone(&log);
                thread::spawn(move || commit(&log, index))
            })
            .collect();
        log.checkpoint().unwrap();
        for thread in threads {
            thread.join().unwrap();
        }
        log.checkpoint().unwrap();
        assert_eq!(Some(log.checkpointed()), assigned_numbers(&log).last().copied());
    });
}

/// The numbers of all transactions, ascending.
fn assigned_numbers(log: &Log<Watched>) -> Vec<u64> {
    let mut numbers: Vec<u64> = log.medium().numbers.lock().unwrap().iter().flatten().copied().collect();
    numbers.sort_unstable();
    assert!(
        numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "two transactions drew one number: {numbers:?}"
    );
    numbers
}

/// Two threads that hold a lane each draw numbers at once.
#[test]
fn sequence_numbers_are_unique() {
    explore(2, || {
        let log = open(Durability::Line);
        let other = Arc::clone(&log);
        let other = thread::spawn(move || commit(&other, 0));
        commit(&log, 1);
        other.join().unwrap();
        assert_eq!(assigned_numbers(&log).len(), 2);
    });
}

#[test]
fn checkpoint_covers_written_back_records_only() {
    commit_beside_checkpoint(Durability::Line, 1, 3);
    commit_beside_checkpoint(Durability::Line, 2, 1);
}

#[test]
fn group_checkpoint_covers_written_back_records_only() {
    commit_beside_checkpoint(Durability::Commit, 1, 3);
    commit_beside_checkpoint(Durability::Commit, 2, 1);
}

#[test]
fn group_commit_returns_when_durable() {
    explore(3, || {
        let log = open(Durability::Commit);
        let other = Arc::clone(&log);
        let other = thread::spawn(move || commit(&other, 0));
        commit(&log, 1);
        commit(&log, 2);
        other.join().unwrap();
    });
}

/// A read between two write-backs sees all words of a transaction, or none.
#[test]
fn group_writes_back_between_phases() {
    explore(3, || {
        let log = open(Durability::Commit);
        let other = Arc::clone(&log);
        let writer = thread::spawn(move || {
            let mut record = Record::new();
            record.push_word(Watched::target(0), 1);
            record.push_word(Watched::target(1), 1);
            other.commit(&mut record, &[]).unwrap();
        });
        let written_back = log.written_back().unwrap();
        for _ in 0..2 {
            thread::yield_now();
            let Some(phase) = written_back.phase() else { continue };
            let [first, second] =
                [0, 1].map(|index| log.medium().observed[index].written_back.load(Ordering::Relaxed));
            if written_back.is_in(phase) {
                assert_eq!(first, second, "a part of a transaction");
            }
        }
        writer.join().unwrap();
    });
}

/// Between two write-backs memory has the records up to the number, and no part of others. Those that have a number wait.
#[test]
fn memory_is_that_of_a_number_between_write_backs() {
    explore(2, || {
        let log = open(Durability::Commit);
        let other = Arc::clone(&log);
        let other = thread::spawn(move || commit_hooked(&other, 0));
        thread::yield_now();
        look_between_write_backs(&log);
        commit_hooked(&log, 1);
        look_between_write_backs(&log);
        other.join().unwrap();
    });
}

/// Tells which words a record replaces.
struct ReplacesWords;

impl CommitHooks for ReplacesWords {
    fn replaced(&self, entries: &[u64]) -> Option<Vec<(PoolOffset, PoolOffset)>> {
        let entries = Entries::new(entries).map(Result::unwrap);
        entries
            .map(|entry| if let Entry::Words { at, .. } = entry { Some((at, at.plus(8))) } else { None })
            .collect()
    }
}

/// Commits as [`commit`] does, with those hooks.
fn commit_hooked(log: &Log<Watched>, index: usize) {
    let mut record = Record::new();
    record.push_word(Watched::target(index), 1);
    let scope = FaultScope::open();
    log.commit_in(&scope, &mut record, &[], &mut ReplacesWords).unwrap().unwrap();
    scope.close().unwrap();
}

fn look_between_write_backs(log: &Log<Watched>) {
    let look = |number: u64, waiting: &WaitingRecords<'_>| {
        let waits: Vec<u64> = waiting.replaced().map(|(sequence, ..)| sequence).collect();
        assert!(waits.iter().all(|sequence| *sequence > number), "{waits:?} wait at {number}");
        let numbers = *log.medium().numbers.lock().unwrap();
        for (observed, sequence) in log.medium().observed.iter().zip(numbers) {
            let is_seen = sequence.is_some_and(|sequence| sequence <= number);
            assert_eq!(observed.written_back.load(Ordering::Relaxed), is_seen, "{sequence:?} at {number}");
            let has_number = sequence.is_none_or(|sequence| is_seen || waits.contains(&sequence));
            assert!(has_number, "{sequence:?} is durable, and neither seen at {number} nor waiting");
        }
    };
    log.between_write_backs(look);
}

/// The first checkpoint leaves the one used lane to its thread alone. Then the lane is taken from it in the middle of
/// a transaction: by a thread that needs one, by a checkpoint, or by both.
fn a_lane_alone(another: bool, checkpoint: bool, preemptions: usize) {
    explore(preemptions, move || {
        let log = open(Durability::Line);
        commit(&log, 0);
        log.checkpoint().unwrap();
        let spawn = |run: fn(&Log<Watched>)| {
            let log = Arc::clone(&log);
            thread::spawn(move || run(&log))
        };
        let another = another.then(|| spawn(|log| commit(log, 1)));
        let checkpoint = checkpoint.then(|| spawn(|log| log.checkpoint().unwrap()));
        commit(&log, 2);
        another.into_iter().chain(checkpoint).for_each(|thread| thread.join().unwrap());
        commit(&log, 3);
        log.checkpoint().unwrap();
        assert_eq!(Some(log.checkpointed()), assigned_numbers(&log).last().copied());
    });
}

#[test]
fn exclusive_lane_is_revoked_by_thread() {
    a_lane_alone(true, false, 3);
}

#[test]
fn exclusive_lane_is_revoked_by_checkpoint() {
    a_lane_alone(false, true, 3);
    a_lane_alone(true, true, 1);
}

/// With fewer lanes than threads, one that is biased to a thread which has ended is taken from it.
#[test]
fn lanes_of_exited_threads_are_reused() {
    explore(2, || {
        let log = open(Durability::Line);
        for index in 0..2 {
            let gone = Arc::clone(&log);
            thread::spawn(move || commit(&gone, index)).join().unwrap();
        }
        log.checkpoint().unwrap();
        let other = Arc::clone(&log);
        let other = thread::spawn(move || commit(&other, 2));
        commit(&log, 3);
        other.join().unwrap();
    });
}
