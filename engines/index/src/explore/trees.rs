//! A workload of named trees: transactions that make trees, change their keys and drop them, beside threads that give the
//! space of dropped trees back.

use super::{Contents, Mismatch, UUID};
use crate::{Finding, IndexError, Tree, Trees};
use lode_heap::explore::{format_heap, open_heap};
use lode_heap::{Heap, HeapError, Tx};
use lode_pmem::Counter;
use lode_sim::oracle::{Access, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of names.
const NAMES: u64 = 3;
/// Number of keys of a tree.
const KEYS: u64 = 5;
/// Registers of a tree. The first one is the number of its creation, the others are its keys.
const REGISTERS: u64 = KEYS + 1;
/// One in this many operations gives the space of dropped trees back.
const RECLAIM_ONE_IN: u8 = 3;
/// Keys that one such operation deletes.
const RECLAIM_KEYS: usize = 2;

/// Named trees in a pool of `size` bytes. Some of the transactions fail.
#[derive(Clone, Copy, Debug)]
pub struct TreesSubject {
    /// Bytes of the medium.
    pub size: u64,
}

/// Named trees that are in use.
#[derive(Debug)]
pub struct Engine {
    heap: Heap<Arc<SimMedium>>,
    number: Counter,
}

/// The registers that a transaction read and wrote.
#[derive(Clone, Debug, Default)]
pub struct Step {
    reads: Vec<(u64, Option<u64>)>,
    writes: BTreeMap<u64, Option<u64>>,
}

fn name(tree: u64) -> String {
    format!("tree {tree}")
}

/// Returns the key. Keys of all trees are the same, so a leaf in the wrong tree shows.
fn key(key: u64) -> [u8; 2] {
    [b'k', key as u8 * 50]
}

/// A change of one tree.
#[derive(Clone, Debug)]
enum Change {
    /// Drops the tree, if it is there.
    Drop(u64),
    /// Gives a key a value, or deletes it, in a tree that is made if it is missing.
    Key(u64, u64, bool),
}

impl Step {
    fn read(&mut self, register: u64, value: Option<u64>) {
        // Later reads see the transaction's own writes.
        if !self.writes.contains_key(&register) {
            self.reads.push((register, value));
        }
    }
}

impl Engine {
    fn apply(
        &self,
        trees: &Trees<'_, Arc<SimMedium>>,
        tx: &Tx<'_, Arc<SimMedium>>,
        change: &Change,
        step: &mut Step,
    ) -> Result<(), IndexError> {
        let (tree, new) = match *change {
            Change::Drop(tree) => (tree, None),
            Change::Key(tree, ..) => (tree, Some(self.number.add(2))),
        };
        let found = trees.get_in(tx, &name(tree))?;
        let created: Option<u64> = found.as_ref().map(|found| found.key_type.parse().expect("a number"));
        step.read(tree * REGISTERS, created);
        match *change {
            Change::Drop(_) => {
                if trees.drop_in(tx, &name(tree))?.is_some() {
                    step.writes.extend((0..REGISTERS).map(|register| (tree * REGISTERS + register, None)));
                }
            }
            Change::Key(_, number, is_put) => {
                let new = new.expect("a number for the change");
                let found = match found {
                    Some(found) => found,
                    None => {
                        step.writes.insert(tree * REGISTERS, Some(new));
                        trees.create_in(tx, &name(tree), &new.to_string(), "")?
                    }
                };
                let keys = Tree::open_in(tx.heap(), tx, found.root)?;
                let register = tree * REGISTERS + 1 + number;
                if is_put {
                    keys.insert_in(tx, &key(number), &(new + 1).to_le_bytes())?;
                    step.writes.insert(register, Some(new + 1));
                } else if keys.delete_in(tx, &key(number))? {
                    step.writes.insert(register, None);
                }
            }
        }
        Ok(())
    }

    fn step(&self, changes: &[Change], fails: bool, note: impl Fn(Step)) -> Result<(), IndexError> {
        let trees = Trees::open(&self.heap, self.heap.root()?)?;
        self.heap.run(|tx| {
            let mut step = Step::default();
            changes.iter().try_for_each(|change| self.apply(&trees, tx, change, &mut step))?;
            note(step);
            if fails { Err(IndexError::KeyTooLong { len: 0 }) } else { Ok(()) }
        })
    }
}

/// Returns a description of what is not sound: the objects of all trees are exactly those of the heap.
fn unsound(
    heap: &Heap<Arc<SimMedium>>,
    trees: &Trees<'_, Arc<SimMedium>>,
) -> Result<Option<String>, IndexError> {
    let (mut unsound, mut lost) = (None, None);
    let mut reached = Vec::new();
    for root in trees.roots()? {
        Tree::open(heap, root)?.check(|finding| match finding {
            Finding::Object(object) => reached.push(object),
            Finding::Damage(error @ IndexError::Fault(_)) => lost = lost.take().or(Some(error)),
            other => unsound = Some(format!("{other:?}")),
        });
    }
    if let Some(lost) = lost {
        return Err(lost);
    }
    reached.sort_by_key(|object| object.at);
    let objects: Vec<_> = heap.objects().collect::<Result<_, HeapError>>()?;
    if reached != objects {
        unsound.get_or_insert(format!("the trees have {reached:?}, the heap {objects:?}"));
    }
    Ok(unsound)
}

fn contents(heap: &Heap<Arc<SimMedium>>) -> Result<Contents, IndexError> {
    let trees = Trees::open(heap, heap.root()?)?;
    let mut found = unsound(heap, &trees)?;
    // What the run has left is given back now. A power cut in between leaves it to the next recovery.
    while trees.reclaim(RECLAIM_KEYS)? {}
    if trees.has_dropped()? {
        found.get_or_insert("a dropped tree is left".into());
    }
    if let Some(after) = unsound(heap, &trees)? {
        found.get_or_insert(after);
    }
    let mut keys = Vec::new();
    for tree in 0..NAMES {
        let Some(named) = trees.get(&name(tree))? else { continue };
        keys.push((tree * REGISTERS, named.key_type.parse().unwrap_or(0)));
        let reader = Tree::open(heap, named.root)?.reader();
        for number in 0..KEYS {
            if let Some(value) = reader.get(&key(number))? {
                let value = value[..].try_into().map_or(0, u64::from_le_bytes);
                keys.push((tree * REGISTERS + 1 + number, value));
            }
        }
    }
    Ok(Contents { keys, unsound: found })
}

impl Subject for TreesSubject {
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
        heap.run(|tx| Trees::create(tx).map(drop))?;
        Ok(heap.close()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, IndexError> {
        let heap = open_heap(medium, self.size, UUID, 3)?;
        Ok(Engine { heap, number: Counter::new(2) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        for _ in 0..actor.operations {
            if actor.rng.u8(..RECLAIM_ONE_IN) == 0 {
                // It changes no register. A failure shows in the next commit.
                let trees = engine.heap.root().map_err(IndexError::from);
                let trees = trees.and_then(|root| Trees::open(&engine.heap, root));
                let _ = trees.and_then(|trees| trees.reclaim(RECLAIM_KEYS));
            }
            let count = [1, 1, 2, 4][actor.rng.usize(..4)];
            let changes: Vec<Change> = (0..count)
                .map(|_| {
                    let tree = actor.rng.u64(..NAMES);
                    match actor.rng.u8(..10) {
                        0..2 => Change::Drop(tree),
                        kind => Change::Key(tree, actor.rng.u64(..KEYS), kind < 8),
                    }
                })
                .collect();
            let fails = actor.rng.u8(..10) == 0;
            let ticket = actor.begin(Step::default());
            match engine.step(&changes, fails, |step| actor.revise(ticket, step)) {
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
        let writes = |step: &Step| step.writes.iter().map(|(register, value)| (*register, *value)).collect();
        Registers::new(&[], history, |step| Access { reads: step.reads.clone(), writes: writes(step) })
    }

    fn check(&self, legal: &Self::Legal, contents: &Contents) -> Result<(), Mismatch> {
        contents.check(legal)
    }
}
