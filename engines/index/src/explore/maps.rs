//! A workload of typed data with maps: transactions that make objects with a map, change and clear the maps, and free the objects
//! with all their entries.

use super::{Contents, Mismatch, UUID};
use crate::{IndexError, PMap, visit_map};
use lode_heap::explore::{format_heap, open_heap};
use lode_heap::{HeapError, PBox, PCell, Persist, TypedDamage, TypedHeap, TypedPlace, TypedTx, TypedVisitor};
use lode_layout::PoolOffset;
use lode_pmem::Counter;
use lode_sim::oracle::{Access, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::collections::BTreeMap;
use std::sync::Arc;

lode_heap::brand!(Explored);

/// Number of objects with a map.
const OWNERS: u64 = 2;
/// Number of keys of a map.
const KEYS: u64 = 6;
/// Registers of an object. The first one is the number of its creation, the others are the keys of its map.
const REGISTERS: u64 = KEYS + 1;

#[derive(Persist)]
#[persist(brand = Explored)]
#[repr(C)]
struct Root {
    owners: [PBox<Owner, Explored>; OWNERS as usize],
}

#[derive(Persist)]
#[persist(brand = Explored)]
#[repr(C)]
struct Owner {
    created: PCell<u64, Explored>,
    map: PMap<(u8, String), u64, Explored>,
}

type Heap = TypedHeap<Explored, Arc<SimMedium>>;
type Tx<'a> = TypedTx<'a, Explored, Arc<SimMedium>>;

/// Typed data with maps in a pool of `size` bytes. Some of the transactions fail.
#[derive(Clone, Copy, Debug)]
pub struct MapsSubject {
    /// Bytes of the medium.
    pub size: u64,
}

/// Typed data that is in use.
#[derive(Debug)]
pub struct Engine {
    heap: Heap,
    number: Counter,
}

/// The registers that a transaction read and wrote.
#[derive(Clone, Debug, Default)]
pub struct Step {
    reads: Vec<(u64, Option<u64>)>,
    writes: BTreeMap<u64, Option<u64>>,
}

/// A change of one object, or of its map.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Frees the object, if it is there.
    Drop(u64),
    /// Removes all keys, if the object is there.
    Clear(u64),
    /// Gives a key a value, or removes it, in an object that is made if it is missing.
    Key(u64, u64, bool),
}

/// Returns key number `key`: two parts of the map, each with keys that are prefixes of each other.
fn key(key: u64) -> (u8, String) {
    ((key % 2) as u8, "k".repeat(key as usize))
}

impl Step {
    fn read(&mut self, register: u64, value: Option<u64>) {
        // Later reads see the transaction's own writes.
        if !self.writes.contains_key(&register) {
            self.reads.push((register, value));
        }
    }

    fn clear(&mut self, registers: std::ops::Range<u64>) {
        self.writes.extend(registers.map(|register| (register, None)));
    }
}

impl Engine {
    fn apply(&self, root: &Root, tx: &Tx<'_>, change: &Change, step: &mut Step) -> Result<(), HeapError> {
        let (Change::Drop(number) | Change::Clear(number) | Change::Key(number, ..)) = *change;
        let (slot, first) = (&root.owners[number as usize], number * REGISTERS);
        let owner = slot.get(tx)?;
        step.read(first, owner.map(|owner| owner.created.get(tx)).transpose()?);
        match (*change, owner) {
            (Change::Drop(_), Some(_)) => {
                drop(slot.take(tx)?);
                step.clear(first..first + REGISTERS);
            }
            (Change::Clear(_), Some(owner)) => {
                let is_empty = owner.map.is_empty(tx)?;
                owner.map.clear(tx)?;
                if !is_empty {
                    step.clear(first + 1..first + REGISTERS);
                }
            }
            (Change::Drop(_) | Change::Clear(_), None) => {}
            (Change::Key(_, number, is_put), owner) => {
                let owner = match owner {
                    Some(owner) => owner,
                    None => {
                        let new = self.number.add(1);
                        slot.set(tx, tx.alloc(Owner { created: PCell::new(new), map: PMap::new() })?)?;
                        step.writes.insert(first, Some(new));
                        slot.get(tx)?.expect("just set")
                    }
                };
                let (register, new) = (first + 1 + number, is_put.then(|| self.number.add(1)));
                let old = match new {
                    Some(new) => owner.map.insert(tx, key(number), new)?,
                    None => owner.map.remove(tx, key(number))?,
                };
                step.read(register, old);
                if old != new {
                    step.writes.insert(register, new);
                }
            }
        }
        Ok(())
    }

    fn step(&self, changes: &[Change], fails: bool, note: impl Fn(Step)) -> Result<(), HeapError> {
        let root = self.heap.root::<Root>()?.expect("made at the start");
        self.heap.run(|tx| {
            let mut step = Step::default();
            changes.iter().try_for_each(|change| self.apply(root, tx, change, &mut step))?;
            note(step);
            if fails { Err(HeapError::InTransaction) } else { Ok(()) }
        })
    }
}

/// Notes the objects that are reached, and damage.
#[derive(Default)]
pub(super) struct Reached {
    pub(super) objects: Vec<PoolOffset>,
    pub(super) damage: Option<String>,
}

impl TypedVisitor for Reached {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        self.objects.push(place.at());
        true
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        self.damage = Some(format!("{}: {}", place.path(), damage.means()));
    }
}

fn contents(heap: &Heap) -> Result<Contents, HeapError> {
    let mut reached = Reached::default();
    let survey = heap.survey()?.expect("made at the start");
    reached.objects.extend(survey.frame());
    survey.with_maps(visit_map).visit(&mut reached);
    reached.objects.sort();
    let objects = heap.objects().map(|object| Ok(object?.at)).collect::<Result<Vec<_>, HeapError>>()?;
    let mut unsound = reached.damage;
    if reached.objects != objects {
        unsound.get_or_insert(format!("the root reaches {:?}, the heap has {objects:?}", reached.objects));
    }
    let (root, guard) = (heap.root::<Root>()?.expect("made at the start"), heap.guard());
    let mut keys = Vec::new();
    for (first, owner) in (0..).step_by(REGISTERS as usize).zip(&root.owners) {
        let Some(owner) = owner.load(&guard)? else { continue };
        keys.push((first, owner.created.load(&guard)?));
        let mut count = 0;
        for number in 0..KEYS {
            if let Some(value) = owner.map.load(&guard, key(number))? {
                keys.push((first + 1 + number, value));
                count += 1;
            }
        }
        let scanned = owner.map.load_range(&guard, ..).filter_map(Result::ok).count();
        if (scanned as u64, owner.map.load_len(&guard)?) != (count, count) {
            unsound.get_or_insert(format!("{scanned} keys are scanned, and {count} found"));
        }
    }
    Ok(Contents { keys, unsound })
}

impl Subject for MapsSubject {
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
        let heap = Heap::new(format_heap(medium, self.size, UUID)?);
        heap.root_or_init(|_| Ok(Root { owners: std::array::from_fn(|_| PBox::null()) }))?;
        Ok(heap.close()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, IndexError> {
        let heap = Heap::new(open_heap(medium, self.size, UUID, 3)?);
        Ok(Engine { heap, number: Counter::new(1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        for _ in 0..actor.operations {
            let count = [1, 1, 2, 4][actor.rng.usize(..4)];
            let changes: Vec<Change> = (0..count)
                .map(|_| {
                    let owner = actor.rng.u64(..OWNERS);
                    match actor.rng.u8(..12) {
                        0 => Change::Drop(owner),
                        1 => Change::Clear(owner),
                        kind => Change::Key(owner, actor.rng.u64(..KEYS), kind < 9),
                    }
                })
                .collect();
            let fails = actor.rng.u8(..10) == 0;
            let ticket = actor.begin(Step::default());
            match engine.step(&changes, fails, |step| actor.revise(ticket, step)) {
                Ok(()) => actor.returned(ticket),
                Err(HeapError::InDoubt(_)) => actor.in_doubt(ticket),
                Err(_) => actor.refused(ticket),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, IndexError> {
        Ok(contents(&Heap::new(open_heap(medium, self.size, UUID, 4)?))?)
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        let writes = |step: &Step| step.writes.iter().map(|(register, value)| (*register, *value)).collect();
        Registers::new(&[], history, |step| Access { reads: step.reads.clone(), writes: writes(step) })
    }

    fn check(&self, legal: &Self::Legal, contents: &Contents) -> Result<(), Mismatch> {
        contents.check(legal)
    }
}
