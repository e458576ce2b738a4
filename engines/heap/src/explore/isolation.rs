//! Transactions that read some words and change others: each history has an order that explains it.

use super::opened::{format_heap, open_heap};
use crate::error::HeapError;
use crate::heap::Heap;
use crate::snapshot::Snapshot;
use crate::tx::Tx;
use lode_layout::{LINE, PoolOffset};
use lode_pmem::Medium;
use lode_sim::{Actor, HistoryPrefix, OrderMismatch, SerialOrders, SimMedium, Subject};
use std::fmt;
use std::sync::Arc;

const UUID: [u8; 16] = [7; 16];
const TYPE: u64 = 3;
const WORDS: u64 = 6;
/// The wrapping sum of the words.
const TOTAL: u64 = 1_000_000;
/// One in this many operations follows a checkpoint that its thread requested.
const CHECKPOINT_ONE_IN: u8 = 24;

/// Words in a heap of `size` bytes, with a sum that no transaction changes.
#[derive(Clone, Copy, Debug)]
pub struct IsolationSubject {
    /// Length of the medium in bytes.
    pub size: u64,
}

/// The heap while it is used.
#[derive(Debug)]
pub struct Engine {
    heap: Heap<Arc<SimMedium>>,
    root: PoolOffset,
}

/// The words that a transaction read and wrote.
#[derive(Clone, Debug, Default)]
pub struct Step {
    reads: Vec<(usize, u64)>,
    writes: Vec<(usize, u64)>,
}

/// Runs a transaction that returns what it has read and written, and notes both. Sometimes makes a checkpoint first.
pub fn run_noted<T: Clone + Default, E: From<HeapError>>(
    heap: &Heap<Arc<SimMedium>>,
    actor: &mut Actor<'_, T>,
    is_in_doubt: impl Fn(&E) -> bool,
    mut transaction: impl FnMut(&Tx<'_, Arc<SimMedium>>) -> Result<T, E>,
) {
    if actor.rng.u8(..CHECKPOINT_ONE_IN) == 0 {
        // A failure shows in the next commit.
        let _ = heap.log().checkpoint();
    }
    let ticket = actor.begin(T::default());
    let result = heap.run(|tx| {
        actor.revise(ticket, transaction(tx)?);
        Ok(())
    });
    match result {
        Ok(()) => actor.returned(ticket),
        Err(error) if is_in_doubt(&error) => actor.in_doubt(ticket),
        Err(_) => actor.refused(ticket),
    }
}

/// Reads from a snapshot, and notes what `look` returns as a transaction that changes nothing.
pub fn look_noted<T: Clone + Default, E: From<HeapError> + fmt::Display>(
    heap: &Heap<Arc<SimMedium>>,
    actor: &mut Actor<'_, T>,
    look: impl FnOnce(&Snapshot<'_, Arc<SimMedium>>) -> Result<T, E>,
) {
    let ticket = actor.begin(T::default());
    match heap.snapshot().map_err(E::from).and_then(|snapshot| look(&snapshot)) {
        Ok(step) => {
            actor.revise(ticket, step);
            actor.returned(ticket);
        }
        Err(error) => {
            assert!(heap.log().check_not_failed().is_err(), "a snapshot failed: {error}");
            actor.refused(ticket);
        }
    }
}

fn word_at(root: PoolOffset, word: usize) -> PoolOffset {
    root.plus(word as u64 * LINE)
}

fn initial() -> Vec<u64> {
    let mut words = vec![0; WORDS as usize];
    words[0] = TOTAL;
    words
}

impl Engine {
    fn read(&self, tx: &Tx<'_, Arc<SimMedium>>, step: &mut Step, word: usize) -> Result<u64, HeapError> {
        let value = tx.read8(word_at(self.root, word))?;
        step.reads.push((word, value));
        Ok(value)
    }

    fn write(
        &self,
        tx: &Tx<'_, Arc<SimMedium>>,
        step: &mut Step,
        word: usize,
        value: u64,
    ) -> Result<(), HeapError> {
        let at = word_at(self.root, word);
        tx.lock(at)?;
        tx.store8(at, value);
        step.writes.push((word, value));
        Ok(())
    }

    /// Moves an amount that a third word decides, or two.
    fn transfer(&self, tx: &Tx<'_, Arc<SimMedium>>, words: [usize; 4]) -> Result<Step, HeapError> {
        let mut step = Step::default();
        let [from, to, first, second] = words;
        let amount = self.read(tx, &mut step, first)?.wrapping_mul(3) ^ self.read(tx, &mut step, second)?;
        let amount = (amount & 0xFFF) + 1;
        let left = self.read(tx, &mut step, from)?.wrapping_sub(amount);
        let sum = self.read(tx, &mut step, to)?.wrapping_add(amount);
        self.write(tx, &mut step, from, left)?;
        self.write(tx, &mut step, to, sum)?;
        Ok(step)
    }

    /// Reads all words. Their sum is right, also in a closure that starts again.
    fn audit(&self, tx: &Tx<'_, Arc<SimMedium>>, first: usize) -> Result<Step, HeapError> {
        let mut step = Step::default();
        let mut sum = 0u64;
        for word in 0..WORDS as usize {
            sum = sum.wrapping_add(self.read(tx, &mut step, (first + word) % WORDS as usize)?);
        }
        assert_eq!(sum, TOTAL, "a closure saw words of several moments");
        Ok(step)
    }

    /// Reads all words from a snapshot, while other transactions run. Reads them twice, the same.
    fn look_back(&self, snapshot: &Snapshot<'_, Arc<SimMedium>>, first: usize) -> Result<Step, HeapError> {
        let read = || {
            snapshot.try_reading(|view| {
                let words = (0..WORDS as usize).map(|word| (first + word) % WORDS as usize);
                let load = |word| {
                    self.heap.medium().relax(0);
                    (word, view.load8(word_at(self.root, word)))
                };
                Ok::<_, HeapError>(words.map(load).collect::<Vec<_>>())
            })
        };
        let (reads, again) = (read()?, read()?);
        assert_eq!(reads, again, "a snapshot changed");
        let sum = reads.iter().fold(0u64, |sum, (_, value)| sum.wrapping_add(*value));
        assert_eq!(sum, TOTAL, "a snapshot saw words of several moments");
        Ok(Step { reads, writes: Vec::new() })
    }
}

impl Subject for IsolationSubject {
    type Engine = Engine;
    type Operation = Step;
    type Contents = Vec<u64>;
    type Legal = SerialOrders<Vec<u64>>;
    type Mismatch = OrderMismatch<Vec<u64>>;
    type Error = HeapError;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), HeapError> {
        let heap = format_heap(medium, self.size, UUID)?;
        heap.run(|tx| {
            let root = tx.alloc_zeroed(WORDS * LINE, LINE, TYPE)?;
            tx.store8(root, TOTAL);
            tx.set_root(root);
            Ok::<_, HeapError>(())
        })?;
        heap.close()
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, HeapError> {
        let heap = open_heap(medium, self.size, UUID, 3)?;
        let root = heap.root()?;
        Ok(Engine { heap, root })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        for _ in 0..actor.operations {
            // Sometimes few words, which then conflict often.
            let count = if actor.rng.bool() { 3 } else { WORDS as usize };
            let from = actor.rng.usize(..count);
            let to = (from + actor.rng.usize(1..count)) % count;
            let words = [from, to, actor.rng.usize(..count), actor.rng.usize(..count)];
            let choice = actor.rng.u8(..8);
            if choice == 0 {
                look_noted(&engine.heap, actor, |snapshot| engine.look_back(snapshot, from));
                continue;
            }
            let is_in_doubt = |error: &HeapError| matches!(error, HeapError::InDoubt(_));
            run_noted(&engine.heap, actor, is_in_doubt, |tx| {
                if choice < 3 { engine.audit(tx, from) } else { engine.transfer(tx, words) }
            });
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<u64>, HeapError> {
        let heap = open_heap(medium, self.size, UUID, 4)?;
        let root = heap.root()?;
        let words = 0..WORDS as usize;
        Ok(heap.memory().reading(|memory| words.map(|word| memory.load8(word_at(root, word))).collect())?)
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        SerialOrders::new(initial(), history, |words, step| {
            let reads_hold = step.reads.iter().all(|(word, value)| words[*word] == *value);
            step.writes.iter().for_each(|(word, value)| words[*word] = *value);
            reads_hold
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Vec<u64>) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}
