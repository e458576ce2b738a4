//! Containers of typed data for the explorer: threads change vectors of boxes, vectors, queues, texts and hash maps of their own, and
//! a power cut leaves each thread's as one of its transactions left them, and leaks nothing.

use lode_heap::explore::{format_heap, open_heap};
use lode_heap::{HeapError, PBox, PCell, PDeque, PHashMap, PString, PVec, Persist};
use lode_heap::{TypedDamage, TypedHeap, TypedPlace, TypedTx, TypedVisitor};
use lode_sim::{Actor, HistoryPrefix, Outcome, SimMedium, Subject};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

lode_heap::brand!(pub(crate) Contained);

const UUID: [u8; 16] = [8; 16];
const THREADS: usize = 2;

/// The containers of one thread.
#[derive(Persist)]
#[persist(brand = Contained)]
#[repr(C)]
struct Part {
    /// Number of transactions so far.
    steps: PCell<u64, Contained>,
    names: PVec<PBox<PString<Contained>, Contained>, Contained>,
    numbers: PVec<u32, Contained>,
    queue: PDeque<(u8, u16), Contained>,
    counts: PHashMap<u8, u64, Contained>,
}

#[derive(Persist)]
#[persist(brand = Contained)]
#[repr(C)]
struct Root {
    parts: [Part; THREADS],
}

/// A part as the process has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    names: Vec<String>,
    numbers: Vec<u32>,
    queue: VecDeque<(u8, u16)>,
    counts: BTreeMap<u8, u64>,
}

type Heap = TypedHeap<Contained, Arc<SimMedium>>;
type Tx<'a> = TypedTx<'a, Contained, Arc<SimMedium>>;

/// Returns the changes of a step: the kind of each, and a number for its values.
fn changes(thread: usize, step: u64) -> Vec<(u8, u64)> {
    let mut random = fastrand::Rng::with_seed(step * THREADS as u64 + thread as u64);
    (0..random.u8(1..4)).map(|_| (random.u8(..12), random.u64(..))).collect()
}

fn change(tx: &Tx<'_>, part: &Part, (kind, number): (u8, u64)) -> Result<(), HeapError> {
    let Part { names, numbers, queue, counts, .. } = part;
    let index = || names.len(tx).map(|len| number % (len + 1));
    match kind {
        0 | 1 => names.push(tx, tx.alloc(PString::new())?)?.set(tx, &number.to_string())?,
        2 => drop(names.swap_remove(tx, index()?)?),
        3 => drop(names.replace(tx, index()?, tx.alloc(PString::new())?)?),
        4 => names.truncate(tx, index()?)?,
        5 => numbers.extend_from_slice(tx, &[1, number as u32])?,
        6 => drop(numbers.pop(tx)?),
        7 => queue.push_back(tx, (1, number as u16))?,
        8 => drop(queue.pop_front(tx)?),
        9 | 10 => drop(counts.insert(tx, number as u8 % 32, number)?),
        _ => drop(counts.remove(tx, number as u8 % 32)?),
    }
    Ok(())
}

impl Model {
    fn change(&mut self, (kind, number): (u8, u64)) {
        let Model { names, numbers, queue, counts } = self;
        let index = (number % (names.len() as u64 + 1)) as usize;
        match kind {
            0 | 1 => names.push(number.to_string()),
            2 if index < names.len() => drop(names.swap_remove(index)),
            2 => {}
            3 => names.get_mut(index).into_iter().for_each(String::clear),
            4 => names.truncate(index),
            5 => numbers.extend([1, number as u32]),
            6 => drop(numbers.pop()),
            7 => queue.push_back((1, number as u16)),
            8 => drop(queue.pop_front()),
            9 | 10 => drop(counts.insert(number as u8 % 32, number)),
            _ => drop(counts.remove(&(number as u8 % 32))),
        }
    }

    fn after(thread: usize, steps: u64) -> Model {
        let mut model = Model::default();
        (0..steps).flat_map(|step| changes(thread, step)).for_each(|one| model.change(one));
        model
    }
}

/// The heap of the threads.
pub(crate) struct Engine(Heap);

/// Each thread's number of steps and containers, and the number of objects that nothing leads to.
pub(crate) type Contents = (Vec<(u64, Model)>, usize);

/// Counts the objects that the root reaches.
struct Reached(usize);

impl TypedVisitor for Reached {
    fn object(&mut self, _: &TypedPlace<'_>) -> bool {
        self.0 += 1;
        true
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        panic!("{}: {}", place.path(), damage.means());
    }
}

/// Containers in a heap of `size` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainersSubject {
    /// Length of the medium in bytes.
    pub(crate) size: u64,
}

impl Subject for ContainersSubject {
    type Engine = Engine;
    type Operation = ();
    type Contents = Contents;
    /// The least and the largest number of steps of each thread.
    type Legal = Vec<(u64, u64)>;
    type Mismatch = String;
    type Error = HeapError;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), HeapError> {
        let heap = Heap::new(format_heap(medium, self.size, UUID)?);
        let part = || Part {
            steps: PCell::new(0),
            names: PVec::new(),
            numbers: PVec::new(),
            queue: PDeque::new(),
            counts: PHashMap::new(),
        };
        heap.root_or_init(|_| Ok(Root { parts: std::array::from_fn(|_| part()) }))?;
        heap.close()
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, HeapError> {
        Ok(Engine(Heap::new(open_heap(medium, self.size, UUID, 3)?)))
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, ()>) {
        let root = engine.0.root::<Root>().expect("made when formatted").expect("made when formatted");
        let part = &root.parts[actor.thread];
        for step in 0..actor.operations {
            let ticket = actor.begin(());
            let changed = engine.0.run(|tx| {
                changes(actor.thread, step).into_iter().try_for_each(|one| change(tx, part, one))?;
                part.steps.set(tx, step + 1)
            });
            match changed {
                Ok(()) => actor.returned(ticket),
                Err(HeapError::InDoubt(_)) => return actor.in_doubt(ticket),
                Err(_) => return actor.refused(ticket),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, HeapError> {
        let heap = Heap::new(open_heap(medium, self.size, UUID, 4)?);
        let root = heap
            .root::<Root>()?
            .ok_or(HeapError::NotTyped { at: lode_layout::PoolOffset::NULL, found: 0 })?;
        let guard = heap.guard();
        let mut parts = Vec::new();
        for Part { steps, names, numbers, queue, counts } in &root.parts {
            let names = names.load_all(&guard)?.into_iter().map(|name| name.load(&guard));
            let model = Model {
                names: names.collect::<Result<_, _>>()?,
                numbers: numbers.load_all(&guard)?,
                queue: queue.load_all(&guard)?.into(),
                counts: counts.load_all(&guard)?.into_iter().collect(),
            };
            parts.push((steps.load(&guard)?, model));
        }
        let mut reached = Reached(0);
        if let Some(mut survey) = heap.survey()? {
            reached.0 = survey.frame().len();
            survey.visit(&mut reached);
        }
        Ok((parts, heap.objects().count() - reached.0))
    }

    fn legal(&self, history: &HistoryPrefix<()>) -> Vec<(u64, u64)> {
        let mut legal = vec![(0, 0); THREADS];
        for operation in history.operations() {
            let (least, largest) = &mut legal[operation.thread];
            match operation.outcome {
                Outcome::Returned => (*least, *largest) = (*least + 1, *largest + 1),
                Outcome::InFlight | Outcome::InDoubt => *largest += 1,
                Outcome::Refused => {}
            }
        }
        legal
    }

    fn check(&self, legal: &Vec<(u64, u64)>, (parts, lost): &Contents) -> Result<(), String> {
        for (thread, ((steps, model), (least, largest))) in parts.iter().zip(legal).enumerate() {
            let expected = Model::after(thread, *steps);
            if !(least..=largest).contains(&steps) || *model != expected {
                return Err(format!(
                    "thread {thread} has {model:?} after {steps} of {least} to {largest} steps, not {expected:?}"
                ));
            }
        }
        if *lost == 0 { Ok(()) } else { Err(format!("{lost} objects have no owner")) }
    }
}
