//! A workload of a whole pool that shrinks between transactions: its log moves, its end too, and named trees with values
//! of many lengths lie all over it.

use super::{Contents, Mismatch, UUID, number, value};
use crate::trees::StoreLayout;
use crate::{Finding, IndexError, Tree, Trees};
use lode_fsck::{Layout, ShrinkError};
use lode_heap::explore::{Unusable, format_pool, open_pool, shrink_pool};
use lode_heap::{Heap, HeapError};
use lode_layout::Geometry;
use lode_pmem::{Counter, Durability};
use lode_pool::Headers;
use lode_sim::oracle::{Access, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::sync::{Arc, Mutex, PoisonError};

/// Trees that keep their names.
const NAMES: [&str; 2] = ["north", "south"];
/// A tree that is dropped before the pool shrinks for the first time.
const DROPPED: &str = "dropped";
/// Keys of each tree. Before the first transaction, each has one key in so many.
const KEYS: u64 = 300;
const KEPT_ONE_IN: u64 = 5;
/// One key in so many has values of this length in words, which lie in superblocks of several chunks.
const LONG_ONE_IN: u64 = 60;
const LONG_WORDS: usize = 1100;
/// Length and type of an object that lies before the trees while they are filled.
const BEFORE_LEN: u64 = 60_000;
const TYPE_BEFORE: u64 = 77;
/// One in this many operations shrinks the pool.
const SHRINK_ONE_IN: u8 = 6;
/// About one in this many recovered pools is shrunk again.
const SHRUNK_ONE_IN: u64 = 16;

/// A store in a pool of `size` bytes that was nearly full once. One thread uses it, the others do nothing.
#[derive(Clone, Copy, Debug)]
pub struct ShrinkingSubject {
    /// Bytes of the medium.
    pub size: u64,
}

/// The pool, until a thread takes it.
#[derive(Debug)]
pub struct Engine {
    medium: Arc<SimMedium>,
    pool: Mutex<Option<Pool>>,
    life: Counter,
    number: Counter,
}

/// An open pool.
#[derive(Debug)]
struct Pool {
    headers: Headers,
    heap: Heap<Arc<SimMedium>>,
}

/// The keys that a transaction changed, each with the number of its value.
type Step = Vec<(u64, Option<u64>)>;

/// The reason why the pool can't be used or shrunk.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of its headers or its heap.
    #[error(transparent)]
    Pool(#[from] Unusable),
    /// An error of its trees.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// An error of the moves.
    #[error(transparent)]
    Shrink(#[from] ShrinkError),
}

impl From<HeapError> for Failure {
    fn from(error: HeapError) -> Failure {
        Failure::Pool(error.into())
    }
}

/// Returns a key and the length of its values in words.
fn key(register: u64) -> (Vec<u8>, usize) {
    let mixed = (register % KEYS).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let len = match register.is_multiple_of(LONG_ONE_IN) {
        true => LONG_WORDS,
        false => [1, 9, 40, 90, 140][(mixed >> 32) as usize % 5],
    };
    (mixed.to_be_bytes().to_vec(), len)
}

/// Returns the registers with which the pool begins, with their numbers.
fn initial() -> Vec<(u64, u64)> {
    let kept = (0..NAMES.len() as u64 * KEYS).filter(|register| register % KEPT_ONE_IN == 0);
    kept.map(|register| (register, register + 1)).collect()
}

/// Fills the trees, and empties them again but for the initial keys. All lies behind free space at the end, the root
/// objects included.
fn fill(heap: &Heap<Arc<SimMedium>>) -> Result<(), IndexError> {
    let before = heap.run(|tx| tx.alloc_zeroed(BEFORE_LEN, 16, TYPE_BEFORE))?;
    heap.run(|tx| Trees::create(tx).map(drop))?;
    let trees = Trees::open(heap, heap.root()?)?;
    for name in NAMES.into_iter().chain([DROPPED]) {
        heap.run(|tx| trees.create_in(tx, name, "", "").map(drop))?;
    }
    for (name, first) in NAMES.into_iter().chain([DROPPED]).zip((0..).step_by(KEYS as usize)) {
        let tree = Tree::open(heap, trees.get(name)?.expect("a tree").root)?;
        for register in first..first + KEYS {
            let (key, len) = key(register);
            tree.insert(&key, &value(register + 1, len))?;
        }
    }
    let kept = initial();
    for (name, first) in NAMES.into_iter().zip((0..).step_by(KEYS as usize)) {
        let tree = Tree::open(heap, trees.get(name)?.expect("a tree").root)?;
        for register in (first..first + KEYS).filter(|register| kept.iter().all(|(kept, _)| kept != register))
        {
            tree.delete(&key(register).0)?;
        }
    }
    heap.run(|tx| trees.drop_in(tx, DROPPED).map(drop))?;
    Ok(heap.run(|tx| tx.free(before))?)
}

/// Shrinks the pool, and opens it again.
fn shrink(medium: &Arc<SimMedium>, life: &Counter, pool: Pool) -> Result<Pool, Failure> {
    let Pool { mut headers, heap } = pool;
    heap.close()?;
    let old = *headers.geometry();
    let life = || life.add(1) + 1;
    let mover = |heap: &_| Ok(StoreLayout.evacuate(heap, &())?);
    shrink_pool::<Failure>(medium, &mut headers, UUID, life, mover)?;
    let new = headers.geometry();
    let is_first = old.log_off() == Geometry::LOG;
    let has_moved = new.log_off() != old.log_off() && new.size() < old.size() / 2;
    assert!(new.size() <= old.size() && (!is_first || has_moved), "{old:?} is now {new:?}");
    let (headers, heap) = open_pool(Arc::clone(medium), UUID, life())?;
    Ok(Pool { headers, heap })
}

impl Engine {
    /// Gives keys values, or deletes them, in one transaction.
    fn change(&self, pool: &Pool, changes: &Step) -> Result<(), IndexError> {
        let trees = Trees::open(&pool.heap, pool.heap.root()?)?;
        pool.heap.run(|tx| {
            for (register, new) in changes {
                let name = NAMES[(register / KEYS) as usize];
                let tree = Tree::open(&pool.heap, trees.get_in(tx, name)?.expect("a tree").root)?;
                let (key, len) = key(*register);
                match new {
                    Some(new) => drop(tree.insert_in(tx, &key, &value(*new, len))?),
                    None => drop(tree.delete_in(tx, &key)?),
                }
            }
            Ok(())
        })
    }

    /// Runs one operation. Returns the pool, unless it can't be used any more.
    fn operate(&self, pool: Pool, actor: &mut Actor<'_, Step>, shrinks: bool) -> Option<Pool> {
        if shrinks {
            return match shrink(&self.medium, &self.life, pool) {
                Ok(pool) => Some(pool),
                // Only a failed sync is no violation.
                Err(error) => {
                    assert_eq!(self.medium.machine().durability, Durability::Commit, "{error}");
                    None
                }
            };
        }
        let mut changes = Step::new();
        for _ in 0..actor.rng.usize(1..4) {
            let register = actor.rng.u64(..NAMES.len() as u64 * KEYS);
            if changes.iter().all(|(other, _)| *other != register) {
                changes.push((register, actor.rng.bool().then(|| self.number.add(1))));
            }
        }
        let ticket = actor.begin(changes.clone());
        match self.change(&pool, &changes) {
            Ok(()) => actor.returned(ticket),
            Err(IndexError::Heap(HeapError::InDoubt(_))) => actor.in_doubt(ticket),
            Err(_) => actor.refused(ticket),
        }
        Some(pool)
    }
}

/// Returns the content of all trees. It is unsound unless their objects are exactly those of the heap.
fn contents(heap: &Heap<Arc<SimMedium>>) -> Result<Contents, IndexError> {
    let trees = Trees::open(heap, heap.root()?)?;
    while trees.reclaim(usize::MAX)? {}
    let (mut unsound, mut reached, mut keys) = (None, Vec::new(), Vec::new());
    for root in trees.roots()? {
        Tree::open(heap, root)?.check(|finding| match finding {
            Finding::Object(object) => reached.push(object),
            other => unsound = Some(format!("{other:?}")),
        });
    }
    reached.sort_by_key(|object| object.at);
    let objects: Vec<_> = heap.objects().collect::<Result<_, HeapError>>()?;
    if reached != objects {
        unsound.get_or_insert(format!("the trees have {reached:?}, the heap {objects:?}"));
    }
    for (name, first) in NAMES.into_iter().zip((0..).step_by(KEYS as usize)) {
        let Some(named) = trees.get(name)? else {
            unsound = Some(format!("the tree {name} is lost"));
            continue;
        };
        let reader = Tree::open(heap, named.root)?.reader();
        for register in first..first + KEYS {
            if let Some(found) = reader.get(&key(register).0)? {
                match number(&found) {
                    Some(number) => keys.push((register, number)),
                    None => unsound = Some(format!("the value of key {register} is not whole")),
                }
            }
        }
    }
    Ok(Contents { keys, unsound })
}

impl Subject for ShrinkingSubject {
    type Engine = Engine;
    type Operation = Step;
    type Contents = Contents;
    type Legal = Registers<u64, u64>;
    type Mismatch = Mismatch;
    type Error = Failure;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Failure> {
        let heap = format_pool(medium, self.size, UUID)?;
        fill(&heap)?;
        Ok(heap.close()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Failure> {
        let (headers, heap) = open_pool(Arc::clone(&medium), UUID, 3)?;
        let pool = Mutex::new(Some(Pool { headers, heap }));
        Ok(Engine {
            medium,
            pool,
            life: Counter::new(3),
            number: Counter::new(NAMES.len() as u64 * KEYS + 1),
        })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        let mut pool = engine.pool.lock().unwrap_or_else(PoisonError::into_inner).take();
        for operation in 0..actor.operations {
            let shrinks = operation == 1 || operation > 1 && actor.rng.u8(..SHRINK_ONE_IN) == 0;
            pool = pool.and_then(|pool| engine.operate(pool, actor, shrinks));
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, Failure> {
        let life = Counter::new(1 << 32);
        let (headers, heap) = open_pool(Arc::clone(&medium), UUID, life.add(1))?;
        let mut found = contents(&heap)?;
        let sum: u64 = found.keys.iter().map(|(_, number)| number).sum();
        if found.unsound.is_none() && sum.is_multiple_of(SHRUNK_ONE_IN) {
            let pool = shrink(&medium, &life, Pool { headers, heap })?;
            let shrunk = contents(&pool.heap)?;
            if shrunk != found {
                found.unsound = Some(format!("{found:?} has become {shrunk:?} by a second shrink"));
            }
        }
        Ok(found)
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        Registers::new(&initial(), history, |step| Access { reads: Vec::new(), writes: step.clone() })
    }

    fn check(&self, legal: &Self::Legal, contents: &Contents) -> Result<(), Mismatch> {
        contents.check(legal)
    }
}
