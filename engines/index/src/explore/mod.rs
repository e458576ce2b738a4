//! A workload for the crash explorer: transactions that insert, change and delete a few keys of one tree. The keys
//! meet in nodes of several kinds.

mod isolation;
mod maps;
mod shrinking;
mod trees;

use crate::{Finding, IndexError, Tree};
use lode_heap::explore::{format_heap, open_heap};
use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;
use lode_pmem::Counter;
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::sync::Arc;

pub use isolation::IsolationSubject;
pub use maps::MapsSubject;
pub use shrinking::ShrinkingSubject;
pub use trees::TreesSubject;

const UUID: [u8; 16] = [9; 16];
const KEYS: u64 = 28;
/// Lengths of values in words. A value of the first length changes in place, one of the last is written past the log.
const LENS: [usize; 4] = [1, 1, 3, 140];
/// One in this many operations follows a checkpoint that its thread requested.
const CHECKPOINT_ONE_IN: u8 = 24;

/// A tree in a pool of `size` bytes. Some of its transactions fail.
#[derive(Clone, Copy, Debug)]
pub struct TreeSubject {
    /// Bytes of the medium.
    pub size: u64,
    /// True if the insertions of a transaction come in one batch after that of its deletions, and transactions have more
    /// changes.
    pub in_batches: bool,
}

/// A tree that is in use.
#[derive(Debug)]
pub struct Engine {
    heap: Heap<Arc<SimMedium>>,
    root: PoolOffset,
    number: Counter,
}

/// Keys that a transaction read and wrote, each with the number of its value.
#[derive(Clone, Debug, Default)]
pub struct Step {
    reads: Vec<(u64, Option<u64>)>,
    writes: Vec<(u64, Option<u64>)>,
}

/// The content of a recovered pool: value numbers by key, and a description of what is not sound.
#[derive(Debug, PartialEq)]
pub struct Contents {
    keys: Vec<(u64, u64)>,
    unsound: Option<String>,
}

impl Contents {
    /// Refuses what is not sound, or what no order of the operations leaves.
    fn check(&self, legal: &Registers<u64, u64>) -> Result<(), Mismatch> {
        if let Some(what) = &self.unsound {
            return Err(Mismatch::Unsound(what.clone()));
        }
        legal.check(&self.keys).map_err(Mismatch::Registers)
    }
}

/// Reason why the recovered tree is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Mismatch {
    /// Keys have values that no order of the transactions leaves.
    #[error("{0}")]
    Registers(RegisterMismatch<u64, u64>),
    /// The tree is damaged, or an object is reached twice or leaked.
    #[error("{0}")]
    Unsound(String),
}

/// Returns key number `key`: 20 are in one node, the others are prefixes of each other or differ after a long common
/// prefix.
fn bytes(key: u64) -> Vec<u8> {
    match key {
        0..20 => vec![b'k', key as u8 * 3],
        20 => vec![],
        21 => vec![b'k'],
        22..25 => [&[b'x'; 1100][..], &[key as u8]].concat(),
        _ => [&[b'k', 9][..], &vec![7; key as usize - 24]].concat(),
    }
}

fn value(number: u64, words: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(words)
}

/// Returns the number of a value; `None` if the value is not whole.
fn number(value: &[u8]) -> Option<u64> {
    let (words, rest) = value.as_chunks::<8>();
    let first = words.first()?;
    (rest.is_empty() && words.iter().all(|word| word == first)).then_some(u64::from_le_bytes(*first))
}

impl Engine {
    fn step(
        &self,
        changes: &[(u64, Option<usize>)],
        fails: bool,
        in_batches: bool,
        note: impl Fn(Step),
    ) -> Result<(), IndexError> {
        let tree = Tree::open(&self.heap, self.root)?;
        self.heap.run(|tx| {
            let mut step = Step::default();
            let (mut batch, mut deleted) = (Vec::new(), Vec::new());
            for (key, words) in changes {
                let new = self.number.add(1);
                match words {
                    Some(words) if in_batches => {
                        batch.push((bytes(*key), value(new, *words)));
                        step.writes.push((*key, Some(new)));
                    }
                    Some(words) => {
                        let mut old = None;
                        tree.update_in(tx, &bytes(*key), |value_found| {
                            old = value_found.map(|value| number(value).expect("a whole value"));
                            Some(value(new, *words))
                        })?;
                        step.reads.push((*key, old));
                        step.writes.push((*key, Some(new)));
                    }
                    None if in_batches => {
                        deleted.push(bytes(*key));
                        step.writes.push((*key, None));
                    }
                    None => {
                        if tree.delete_in(tx, &bytes(*key))? {
                            step.writes.push((*key, None));
                        }
                    }
                }
            }
            if in_batches {
                deleted.sort();
                let keys: Vec<&[u8]> = deleted.iter().map(Vec::as_slice).collect();
                tree.delete_sorted_in(tx, &keys)?;
                batch.sort();
                let pairs: Vec<(&[u8], &[u8])> =
                    batch.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
                tree.insert_sorted_in(tx, &pairs)?;
            }
            note(step);
            if fails { Err(IndexError::KeyTooLong { len: 0 }) } else { Ok(()) }
        })
    }
}

/// Returns the content of the tree. It is unsound unless the objects of the tree are exactly those of the heap.
fn contents(heap: &Heap<Arc<SimMedium>>) -> Result<Contents, IndexError> {
    let tree = Tree::open(heap, heap.root()?)?;
    let (mut unsound, mut lost) = (None, None);
    let mut reached = Vec::new();
    tree.check(|finding| match finding {
        Finding::Object(object) => reached.push(object),
        Finding::Damage(error @ IndexError::Fault(_)) => lost = lost.take().or(Some(error)),
        other => unsound = Some(format!("{other:?}")),
    });
    if let Some(lost) = lost {
        return Err(lost);
    }
    reached.sort_by_key(|object| object.at);
    let objects: Vec<_> = heap.objects().collect::<Result<_, HeapError>>()?;
    if reached != objects {
        unsound.get_or_insert(format!("the tree has {reached:?}, the heap {objects:?}"));
    }
    let reader = tree.reader();
    let mut keys = Vec::new();
    for key in 0..KEYS {
        if let Some(found) = reader.get(&bytes(key))? {
            match number(&found) {
                Some(number) => keys.push((key, number)),
                None => unsound = Some(format!("the value of key {key} is not whole")),
            }
        }
    }
    let scanned = reader.iter().filter_map(Result::ok).count();
    if scanned != keys.len() {
        unsound.get_or_insert(format!("{scanned} keys are scanned, and {} found", keys.len()));
    }
    Ok(Contents { keys, unsound })
}

impl Subject for TreeSubject {
    type Engine = Engine;
    type Operation = Step;
    type Contents = Contents;
    type Legal = Registers<u64, u64>;
    type Mismatch = Mismatch;
    type Error = IndexError;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), IndexError> {
        let heap = format_heap(medium, self.size, UUID)?;
        heap.run(|tx| {
            let root = Tree::create(tx)?;
            tx.set_root(root);
            Ok::<_, IndexError>(())
        })?;
        Ok(heap.close()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, IndexError> {
        let heap = open_heap(medium, self.size, UUID, 3)?;
        let root = heap.root()?;
        Ok(Engine { heap, root, number: Counter::new(1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        // With few keys, threads contend for the same ones, and nodes shrink as often as they grow.
        let keys = [KEYS, KEYS / 2, 6][actor.rng.usize(..3)];
        for _ in 0..actor.operations {
            if actor.rng.u8(..CHECKPOINT_ONE_IN) == 0 {
                // A failure shows in the next commit.
                let _ = engine.heap.log().checkpoint();
            }
            // Inserts come first, so that nodes grow; then as many deletions.
            let mut count = [1, 1, 1, 2, 3][actor.rng.usize(..5)];
            if self.in_batches {
                count = (count * 3).min(keys as usize);
            }
            let mut changes: Vec<(u64, Option<usize>)> = Vec::new();
            while changes.len() < count {
                let key = actor.rng.u64(..keys);
                let words = (actor.rng.u8(..10) < 6).then(|| LENS[actor.rng.usize(..LENS.len())]);
                if changes.iter().all(|(other, _)| *other != key) {
                    changes.push((key, words));
                }
            }
            let fails = actor.rng.u8(..10) == 0;
            let ticket = actor.begin(Step::default());
            match engine.step(&changes, fails, self.in_batches, |step| actor.revise(ticket, step)) {
                Ok(()) => actor.returned(ticket),
                Err(IndexError::Heap(HeapError::InDoubt(_))) => actor.in_doubt(ticket),
                Err(_) => actor.refused(ticket),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, IndexError> {
        let heap = open_heap(medium, self.size, UUID, 4)?;
        contents(&heap)
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        Registers::new(&[], history, |step| Access { reads: step.reads.clone(), writes: step.writes.clone() })
    }

    fn check(&self, legal: &Self::Legal, contents: &Contents) -> Result<(), Mismatch> {
        contents.check(legal)
    }
}
