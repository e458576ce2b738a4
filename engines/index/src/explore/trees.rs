//! A workload of named trees: transactions that make trees, change their keys and drop them, beside threads that give the
//! space of dropped trees back. In a pool of typed data the same transactions change cells, too.

use super::maps::Reached;
use super::{Contents, Mismatch, UUID};
use crate::{Finding, IndexError, Tree, Trees};
use lode_heap::explore::{format_heap, open_heap};
use lode_heap::structure::raw_tx;
use lode_heap::{Heap, HeapError, PCell, Persist, Tx, TypedHeap, TypedTx, raw_heap};
use lode_pmem::Counter;
use lode_sim::oracle::{Access, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::collections::BTreeMap;
use std::sync::Arc;

lode_heap::brand!(Explored);

/// Number of names.
const NAMES: u64 = 3;
/// Number of keys of a tree.
const KEYS: u64 = 5;
/// Registers of a tree. The first one is the number of its creation, the others are its keys.
const REGISTERS: u64 = KEYS + 1;
/// Number of cells of typed data.
const CELLS: u64 = 2;
/// Register of the first cell.
const FIRST_CELL: u64 = NAMES * REGISTERS;
/// One in this many operations gives the space of dropped trees back.
const RECLAIM_ONE_IN: u8 = 3;
/// Keys that one such operation deletes.
const RECLAIM_KEYS: usize = 2;

/// Named trees in a pool of `size` bytes. Some of the transactions fail.
#[derive(Clone, Copy, Debug)]
pub struct TreesSubject {
    /// Bytes of the medium.
    pub size: u64,
    /// True for trees beside typed data, whose table the first tree makes.
    pub in_typed_pool: bool,
}

/// The typed data.
#[derive(Persist)]
#[persist(brand = Explored)]
#[repr(C)]
struct Root {
    cells: [PCell<u64, Explored>; CELLS as usize],
}

type Typed = TypedHeap<Explored, Arc<SimMedium>>;

/// Named trees that are in use.
#[derive(Debug)]
pub struct Engine {
    heap: Typed,
    in_typed_pool: bool,
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
    /// Gives a cell a value.
    Cell(u64),
}

impl Step {
    fn read(&mut self, register: u64, value: Option<u64>) {
        // Later reads see the transaction's own writes.
        if !self.writes.contains_key(&register) {
            self.reads.push((register, value));
        }
    }
}

/// Returns the trees as they were last committed.
fn trees_of(
    heap: &Heap<Arc<SimMedium>>,
    in_typed_pool: bool,
) -> Result<Trees<'_, Arc<SimMedium>>, IndexError> {
    if in_typed_pool { Trees::of_typed(heap) } else { Trees::open(heap, heap.root()?) }
}

impl Engine {
    /// Returns the trees as the transaction sees them. A pool of typed data may have no table of them yet: `makes` makes it.
    fn trees_in(
        &self,
        tx: &Tx<'_, Arc<SimMedium>>,
        makes: bool,
    ) -> Result<Trees<'_, Arc<SimMedium>>, IndexError> {
        let heap = raw_heap(&self.heap);
        let table = match (self.in_typed_pool, makes) {
            (false, _) => tx.root()?,
            (true, false) => Trees::find_typed_in(tx)?,
            (true, true) => Trees::find_or_create_typed_in(tx)?.expect("the pool has a root"),
        };
        if table.is_null() { Trees::open(heap, table) } else { Trees::open_in(heap, tx, table) }
    }

    fn apply(
        &self,
        tx: &TypedTx<'_, Explored, Arc<SimMedium>>,
        change: &Change,
        step: &mut Step,
    ) -> Result<(), IndexError> {
        let (tree, new) = match *change {
            Change::Drop(tree) => (tree, None),
            Change::Key(tree, ..) => (tree, Some(self.number.add(2))),
            Change::Cell(cell) => {
                let root = tx.root::<Root>()?.expect("made at the start");
                let (slot, new) = (&root.cells[cell as usize], self.number.add(2));
                let old = slot.get(tx)?;
                step.read(FIRST_CELL + cell, (old != 0).then_some(old));
                slot.set(tx, new)?;
                step.writes.insert(FIRST_CELL + cell, Some(new));
                return Ok(());
            }
        };
        let tx = raw_tx(tx);
        let trees = self.trees_in(tx, new.is_some())?;
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
                let keys = Tree::open_in(raw_heap(&self.heap), tx, found.root)?;
                let register = tree * REGISTERS + 1 + number;
                if is_put {
                    keys.insert_in(tx, &key(number), &(new + 1).to_le_bytes())?;
                    step.writes.insert(register, Some(new + 1));
                } else if keys.delete_in(tx, &key(number))? {
                    step.writes.insert(register, None);
                }
            }
            Change::Cell(_) => unreachable!("it was made above"),
        }
        Ok(())
    }

    fn step(&self, changes: &[Change], fails: bool, note: impl Fn(Step)) -> Result<(), IndexError> {
        self.heap.try_run(|tx| {
            let mut step = Step::default();
            changes.iter().try_for_each(|change| self.apply(tx, change, &mut step))?;
            note(step);
            if fails { Err(IndexError::KeyTooLong { len: 0 }) } else { Ok(()) }
        })
    }
}

/// Returns a description of what is not sound: the objects of all trees, and of the typed data, are exactly those of the heap.
fn unsound(
    typed: &Typed,
    trees: &Trees<'_, Arc<SimMedium>>,
    in_typed_pool: bool,
) -> Result<Option<String>, IndexError> {
    let heap = raw_heap(typed);
    let (mut unsound, mut lost) = (None, None);
    let mut reached = Vec::new();
    for root in trees.roots()? {
        Tree::open(heap, root)?.check(|finding| match finding {
            Finding::Object(object) => reached.push(object.at),
            Finding::Damage(error @ IndexError::Fault(_)) => lost = lost.take().or(Some(error)),
            other => unsound = Some(format!("{other:?}")),
        });
    }
    if let Some(lost) = lost {
        return Err(lost);
    }
    if in_typed_pool {
        let mut survey = typed.survey()?.expect("made at the start");
        let mut found = Reached::default();
        survey.visit(&mut found);
        reached.extend(found.objects.into_iter().chain(survey.frame()));
        unsound = unsound.or(found.damage);
    }
    reached.sort();
    let objects = heap.objects().map(|object| Ok(object?.at)).collect::<Result<Vec<_>, HeapError>>()?;
    if reached != objects {
        unsound.get_or_insert(format!("the trees and the root have {reached:?}, the heap {objects:?}"));
    }
    Ok(unsound)
}

fn contents(typed: &Typed, in_typed_pool: bool) -> Result<Contents, IndexError> {
    let heap = raw_heap(typed);
    let trees = trees_of(heap, in_typed_pool)?;
    let mut found = unsound(typed, &trees, in_typed_pool)?;
    // What the run has left is given back now. A power cut in between leaves it to the next recovery.
    while trees.reclaim(RECLAIM_KEYS)? {}
    if trees.has_dropped()? {
        found.get_or_insert("a dropped tree is left".into());
    }
    if let Some(after) = unsound(typed, &trees, in_typed_pool)? {
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
    if in_typed_pool {
        let root = typed.root::<Root>()?.expect("made at the start");
        for (register, cell) in (FIRST_CELL..).zip(&root.cells) {
            // A cell that no transaction has stored is an absent register.
            let value = cell.load(&typed.guard())?;
            keys.extend((value != 0).then_some((register, value)));
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
        if self.in_typed_pool {
            let heap = Typed::new(heap);
            heap.root_or_init(|_| Ok(Root { cells: std::array::from_fn(|_| PCell::new(0)) }))?;
            return Ok(heap.close()?);
        }
        heap.run(|tx| Trees::create(tx).map(drop))?;
        Ok(heap.close()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, IndexError> {
        let heap = Typed::new(open_heap(medium, self.size, UUID, 3)?);
        Ok(Engine { heap, in_typed_pool: self.in_typed_pool, number: Counter::new(2) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        for _ in 0..actor.operations {
            if actor.rng.u8(..RECLAIM_ONE_IN) == 0 {
                // It changes no register. A failure shows in the next commit.
                let trees = trees_of(raw_heap(&engine.heap), self.in_typed_pool);
                let _ = trees.and_then(|trees| trees.reclaim(RECLAIM_KEYS));
            }
            let count = [1, 1, 2, 4][actor.rng.usize(..4)];
            let changes: Vec<Change> = (0..count)
                .map(|_| {
                    if self.in_typed_pool && actor.rng.u8(..4) == 0 {
                        return Change::Cell(actor.rng.u64(..CELLS));
                    }
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
        contents(&Typed::new(open_heap(medium, self.size, UUID, 4)?), self.in_typed_pool)
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        let writes = |step: &Step| step.writes.iter().map(|(register, value)| (*register, *value)).collect();
        Registers::new(&[], history, |step| Access { reads: step.reads.clone(), writes: writes(step) })
    }

    fn check(&self, legal: &Self::Legal, contents: &Contents) -> Result<(), Mismatch> {
        contents.check(legal)
    }
}
