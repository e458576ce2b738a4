//! Transactions that return before their sync, among others that wait for it, and begun ones of both kinds: a power cut
//! leaves all of them up to some place in the log.

use super::opened::{format_heap, open_heap};
use super::waiting::Waiting;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::later::LogPosition;
use crate::tx::Tx;
use lode_layout::{LINE, PoolOffset};
use lode_pmem::Medium;
use lode_sim::{Actor, HistoryPrefix, OrderMismatch, SerialOrders, SimMedium, Subject, Ticket};
use std::sync::Arc;

const UUID: [u8; 16] = [9; 16];
const TYPE: u64 = 4;
const WORDS: usize = 5;
/// The word that counts transactions. Of those that count, the oracle knows the order, so none may be there without those
/// before it.
const COUNT: usize = 0;
/// The word that lies in an object, made by the transaction that stored it. All others lie in the root.
const IN_OBJECT: usize = WORDS - 1;
/// Words of that object.
const OBJECT_WORDS: usize = 6;
/// Types of such objects. Each type has superblocks of its own.
const OBJECT_TYPES: u64 = 4;
/// One in this many operations follows a checkpoint that its thread requested.
const CHECKPOINT_ONE_IN: u8 = 24;

/// Words in a heap of `size` bytes.
#[derive(Clone, Copy, Debug)]
pub struct LaterSubject {
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
    /// True if it is a read outside of transactions, which sees what is durable.
    is_plain: bool,
}

fn word_at(root: PoolOffset, word: usize) -> PoolOffset {
    root.plus(word as u64 * LINE)
}

/// Returns the word as `load` loads it.
fn load_word<E>(
    root: PoolOffset,
    word: usize,
    load: impl Fn(PoolOffset) -> Result<u64, E>,
) -> Result<u64, E> {
    let value = load(word_at(root, word))?;
    if word == IN_OBJECT { load(PoolOffset::new(value)) } else { Ok(value) }
}

/// Makes an object with the value, and stores its offset to the root.
fn make_object(tx: &Tx<'_, Arc<SimMedium>>, root: PoolOffset, value: u64) -> Result<(), HeapError> {
    let object = tx.alloc_with(&[value; OBJECT_WORDS], LINE, TYPE + 1 + value % OBJECT_TYPES)?;
    tx.store8(word_at(root, IN_OBJECT), object.get());
    Ok(())
}

impl Engine {
    /// Stores a word whose lock the transaction holds.
    fn store(&self, tx: &Tx<'_, Arc<SimMedium>>, word: usize, value: u64) -> Result<(), HeapError> {
        let at = word_at(self.root, word);
        if word == IN_OBJECT {
            let old = PoolOffset::new(tx.load8(at));
            make_object(tx, self.root, value)?;
            return tx.free(old);
        }
        tx.store8(at, value);
        Ok(())
    }

    /// Adds one word to others, and perhaps one to the count.
    fn add(&self, tx: &Tx<'_, Arc<SimMedium>>, words: &[usize], is_counted: bool) -> Result<Step, HeapError> {
        let mut step = Step::default();
        let read = |step: &mut Step, word| -> Result<u64, HeapError> {
            let value = load_word(self.root, word, |at| tx.read8(at))?;
            step.reads.push((word, value));
            Ok(value)
        };
        let from = read(&mut step, words[0])?;
        let added = words[1..].iter().map(|word| (*word, from | 1));
        for (word, added) in added.chain(is_counted.then_some((COUNT, 1))) {
            let value = read(&mut step, word)?.wrapping_add(added);
            tx.lock(word_at(self.root, word))?;
            self.store(tx, word, value)?;
            step.writes.push((word, value));
        }
        Ok(step)
    }

    /// Adds as a transaction that is no closure. Returns its position if it was committed before its sync.
    fn add_in_begun(
        &self,
        actor: &Actor<'_, Step>,
        ticket: Ticket,
        words: &[usize],
        is_counted: bool,
    ) -> Result<Option<LogPosition>, HeapError> {
        let begun = self.heap.begin()?;
        actor.revise(ticket, begun.step(|tx| self.add(tx, words, is_counted))?);
        if is_counted { begun.commit_later().map(Some) } else { begun.commit().map(|()| None) }
    }

    /// Reads a word outside of transactions, which is durable.
    fn read_plainly(&self, word: usize) -> Result<Step, HeapError> {
        let at = word_at(self.root, word);
        let _pin = self.heap.pin();
        for round in 0.. {
            if let Some(mark) = self.heap.begin_read(at) {
                let load = |at| self.heap.memory().reading(|memory| memory.load8(at));
                let value = load_word(self.root, word, load)?;
                if self.heap.is_unchanged(at, mark) {
                    return Ok(Step { reads: vec![(word, value)], writes: Vec::new(), is_plain: true });
                }
            }
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a word")
    }

    /// Reads all words from a snapshot, which are durable.
    fn look(&self) -> Result<Step, HeapError> {
        let snapshot = self.heap.snapshot()?;
        let reads = snapshot.try_reading(|view| {
            let load = |word| {
                self.heap.medium().relax(0);
                let value = load_word(self.root, word, |at| Ok::<_, HeapError>(view.load8(at)))?;
                Ok::<_, HeapError>((word, value))
            };
            (0..WORDS).map(load).collect()
        })?;
        Ok(Step { reads, writes: Vec::new(), is_plain: true })
    }

    /// Runs a read outside of transactions, as a transaction that changes nothing.
    fn note_read(&self, actor: &Actor<'_, Step>, read: impl FnOnce() -> Result<Step, HeapError>) {
        let ticket = actor.begin(Step::default());
        match read() {
            Ok(step) => {
                actor.revise(ticket, step);
                actor.returned(ticket);
            }
            Err(error) => {
                assert!(self.heap.log().check_not_failed().is_err(), "a read failed: {error}");
                actor.refused(ticket);
            }
        }
    }
}

impl Subject for LaterSubject {
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
            let root = tx.alloc_zeroed(WORDS as u64 * LINE, LINE, TYPE)?;
            make_object(tx, root, 0)?;
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
        let (heap, mut waiting) = (&engine.heap, Waiting::default());
        for _ in 0..actor.operations {
            waiting.look(heap, actor);
            if actor.rng.u8(..CHECKPOINT_ONE_IN) == 0 {
                // A failure shows in the next commit.
                let _ = heap.log().checkpoint();
            }
            let word = actor.rng.usize(1..WORDS);
            match actor.rng.u8(..16) {
                0 => {
                    engine.note_read(actor, || engine.look());
                    continue;
                }
                1..=2 => {
                    engine.note_read(actor, || engine.read_plainly(word));
                    continue;
                }
                _ => {}
            }
            let words: Vec<usize> =
                (0..actor.rng.usize(1..4)).map(|next| (word - 1 + next) % (WORDS - 1) + 1).collect();
            let (is_counted, call) = (actor.rng.bool(), actor.rng.u8(..8));
            let ticket = actor.begin(Step::default());
            let mut closure = |tx: &Tx<'_, Arc<SimMedium>>| {
                actor.revise(ticket, engine.add(tx, &words, is_counted)?);
                Ok::<_, HeapError>(())
            };
            let result = match call {
                0..=1 => heap.run(&mut closure).map(|()| None),
                2 => engine.add_in_begun(actor, ticket, &words, is_counted),
                _ => heap.run_later(closure).map(|((), position)| Some(position)),
            };
            match result {
                Ok(Some(position)) => waiting.add(ticket, position),
                Ok(None) => actor.returned(ticket),
                Err(HeapError::InDoubt(_)) => actor.in_doubt(ticket),
                Err(_) => actor.refused(ticket),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<u64>, HeapError> {
        let heap = open_heap(medium, self.size, UUID, 4)?;
        let root = heap.root()?;
        let object = heap.memory().reading(|memory| memory.load8(word_at(root, IN_OBJECT)))?;
        heap.object(PoolOffset::new(object))?;
        let load = |at| heap.memory().reading(|memory| memory.load8(at));
        Ok((0..WORDS).map(|word| load_word(root, word, load)).collect::<Result<_, _>>()?)
    }

    fn legal_after_kill(&self, history: &HistoryPrefix<Step>) -> Option<Self::Legal> {
        Some(self.legal(history))
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        // A plain read sees what is durable, which its thread has left behind.
        let mut operations = history.operations().to_vec();
        for (index, operation) in operations.iter_mut().enumerate().filter(|(_, read)| read.what.is_plain) {
            operation.thread = usize::MAX - index;
        }
        SerialOrders::new(vec![0; WORDS], &HistoryPrefix::of(operations), |words, step| {
            let reads_hold = step.reads.iter().all(|(word, value)| words[*word] == *value);
            step.writes.iter().for_each(|(word, value)| words[*word] = *value);
            reads_hold
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Vec<u64>) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}
