//! Transactions that read keys, absent keys, ranges and counts, and change some of the keys: each history has an order
//! that explains it.

use crate::{Entry, IndexError, Tree, TreeSnapshot};
use lode_heap::explore::{format_heap, look_noted, open_heap, run_noted};
use lode_heap::{Heap, HeapError, Snapshot, Tx};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use lode_sim::{Actor, HistoryPrefix, OrderMismatch, SerialOrders, SimMedium, Subject};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

const UUID: [u8; 16] = [6; 16];
const KEYS: u64 = 12;
/// Keys below a node, which is replaced by a larger one when it gets the fifth.
const KEYS_OF_NODE: u64 = 6;
/// Keys that are there in the beginning, and the value of each.
const FIRST_KEYS: u64 = 6;
const FIRST_VALUE: u64 = 100;

/// A tree in a pool of `size` bytes, the sum of whose values no transaction changes.
#[derive(Clone, Copy, Debug)]
pub struct IsolationSubject {
    /// Bytes of the medium.
    pub size: u64,
}

/// A tree that is in use.
#[derive(Debug)]
pub struct Engine {
    heap: Heap<Arc<SimMedium>>,
    root: PoolOffset,
}

/// The keys of a tree, with the numbers that are their values.
type Contents = BTreeMap<u64, u64>;

/// A range of keys, both included, and what was found there.
type Scan = (u64, u64, Vec<(u64, u64)>);

/// The reads of a transaction, and then its writes.
#[derive(Clone, Debug, Default)]
pub struct Step {
    gets: Vec<(u64, Option<u64>)>,
    scans: Vec<Scan>,
    counts: Vec<u64>,
    writes: Vec<(u64, Option<u64>)>,
}

fn bytes(key: u64) -> Vec<u8> {
    vec![b'n', (key / KEYS_OF_NODE) as u8, (key % KEYS_OF_NODE) as u8]
}

fn key_of(bytes: &[u8]) -> u64 {
    u64::from(bytes[1]) * KEYS_OF_NODE + u64::from(bytes[2])
}

/// Returns the value of a number: one that changes in place, or a longer one.
fn value(key: u64, number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(if key.is_multiple_of(2) { 1 } else { 3 })
}

fn number(value: &[u8]) -> u64 {
    let words = value.as_chunks::<8>().0;
    assert!(words.iter().all(|word| *word == words[0]), "a value is whole");
    u64::from_le_bytes(words[0])
}

fn initial() -> Contents {
    (0..FIRST_KEYS).map(|key| (key, FIRST_VALUE)).collect()
}

/// A transaction at work.
struct Work<'a, 'h> {
    tree: Tree<'a, Arc<SimMedium>>,
    tx: &'a Tx<'h, Arc<SimMedium>>,
    step: Step,
}

impl Work<'_, '_> {
    fn get(&mut self, key: u64) -> Result<Option<u64>, IndexError> {
        let found = self.tree.get_in(self.tx, &bytes(key))?.map(|value| number(&value));
        self.step.gets.push((key, found));
        Ok(found)
    }

    fn scan(&mut self, from: u64, to: u64, is_reversed: bool) -> Result<Vec<(u64, u64)>, IndexError> {
        let bounds = (Bound::Included(bytes(from)), Bound::Included(bytes(to)));
        let range = self.tree.range_in::<Vec<u8>>(self.tx, bounds)?;
        let pair = |entry: Entry| (key_of(&entry.key), number(&entry.value));
        let mut found: Vec<(u64, u64)> = if is_reversed {
            range.rev().map(|entry| entry.map(pair)).collect::<Result<_, _>>()?
        } else {
            range.map(|entry| entry.map(pair)).collect::<Result<_, _>>()?
        };
        found.sort_unstable();
        self.step.scans.push((from, to, found.clone()));
        Ok(found)
    }

    fn put(&mut self, key: u64, number: u64) -> Result<(), IndexError> {
        self.step.writes.push((key, Some(number)));
        self.tree.insert_in(self.tx, &bytes(key), &value(key, number)).map(drop)
    }

    fn delete(&mut self, key: u64) -> Result<(), IndexError> {
        self.step.writes.push((key, None));
        self.tree.delete_in(self.tx, &bytes(key)).map(drop)
    }

    /// Moves an amount that a third key decides.
    fn transfer(&mut self, from: u64, to: u64, third: u64) -> Result<(), IndexError> {
        let amount = (self.get(third)?.unwrap_or(0).wrapping_mul(3) & 0xFF) + 1;
        let (Some(left), sum) = (self.get(from)?, self.get(to)?.unwrap_or(0)) else { return Ok(()) };
        self.put(from, left.wrapping_sub(amount))?;
        self.put(to, sum.wrapping_add(amount))
    }

    /// Gives a key's value to a key that is absent.
    fn rename(&mut self, from: u64, to: u64) -> Result<(), IndexError> {
        let (Some(old), None) = (self.get(from)?, self.get(to)?) else { return Ok(()) };
        self.delete(from)?;
        self.put(to, old)
    }

    /// Removes the first key of a range, and gives its value to the last.
    fn merge(&mut self, from: u64, to: u64, is_reversed: bool) -> Result<(), IndexError> {
        let found = self.scan(from, to, is_reversed)?;
        let [(first, added), .., (last, old)] = found[..] else { return Ok(()) };
        self.delete(first)?;
        self.put(last, old.wrapping_add(added))
    }

    /// Reads all. The sum is right, also in a closure that starts again.
    fn audit(&mut self, is_reversed: bool) -> Result<(), IndexError> {
        let found = self.scan(0, KEYS, is_reversed)?;
        let sum = found.iter().fold(0u64, |sum, (_, value)| sum.wrapping_add(*value));
        assert_eq!(sum, FIRST_KEYS * FIRST_VALUE, "a closure saw keys of several moments");
        let count = self.tree.count_in(self.tx)?;
        assert_eq!(count, found.len() as u64, "a closure saw a count of another moment");
        self.step.counts.push(count);
        Ok(())
    }
}

impl Engine {
    /// Reads all keys from a snapshot in both directions, while other transactions run.
    fn look_back(
        &self,
        snapshot: &Snapshot<'_, Arc<SimMedium>>,
        key: u64,
        is_reversed: bool,
    ) -> Result<Step, IndexError> {
        let tree = TreeSnapshot::open(snapshot, self.root)?;
        let pair = |entry: Result<Entry, IndexError>| {
            self.heap.medium().relax(0);
            entry.map(|entry| (key_of(&entry.key), number(&entry.value)))
        };
        let forward = || tree.iter().map(pair).collect::<Result<Vec<_>, _>>();
        let backward = || {
            let found: Result<Vec<_>, IndexError> = tree.iter().rev().map(pair).collect();
            found.map(|mut found| {
                found.reverse();
                found
            })
        };
        let (first, second) = if is_reversed { (backward()?, forward()?) } else { (forward()?, backward()?) };
        assert_eq!(first, second, "a snapshot changed");
        let found = tree.get(&bytes(key))?.map(|value| number(&value));
        let counts = vec![tree.count()?];
        Ok(Step { gets: vec![(key, found)], scans: vec![(0, KEYS, first)], counts, writes: Vec::new() })
    }
}

impl Step {
    /// Applies the step. Returns false if it read anything else than there is.
    fn apply(&self, keys: &mut Contents) -> bool {
        let gets_hold = self.gets.iter().all(|(key, found)| keys.get(key).copied() == *found);
        let scans_hold = self.scans.iter().all(|(from, to, found)| {
            from > to || keys.range(from..=to).map(|(key, value)| (*key, *value)).eq(found.iter().copied())
        });
        let counts_hold = self.counts.iter().all(|count| keys.len() as u64 == *count);
        for (key, value) in &self.writes {
            match value {
                Some(value) => keys.insert(*key, *value),
                None => keys.remove(key),
            };
        }
        gets_hold && scans_hold && counts_hold
    }
}

impl Subject for IsolationSubject {
    type Engine = Engine;
    type Operation = Step;
    type Contents = Contents;
    type Legal = SerialOrders<Contents>;
    type Mismatch = OrderMismatch<Contents>;
    type Error = IndexError;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), IndexError> {
        let heap = format_heap(medium, self.size, UUID)?;
        let root = heap.run(|tx| {
            let root = Tree::create(tx)?;
            tx.set_root(root);
            Ok::<_, IndexError>(root)
        })?;
        let tree = Tree::open(&heap, root)?;
        for (key, number) in initial() {
            tree.insert(&bytes(key), &value(key, number))?;
        }
        Ok(heap.close()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, IndexError> {
        let heap = open_heap(medium, self.size, UUID, 3)?;
        let root = heap.root()?;
        Ok(Engine { heap, root })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Step>) {
        for _ in 0..actor.operations {
            let from = actor.rng.u64(..KEYS);
            let to = (from + actor.rng.u64(1..KEYS)) % KEYS;
            let (kind, third, is_reversed) = (actor.rng.u8(..7), actor.rng.u64(..KEYS), actor.rng.bool());
            if kind == 6 {
                look_noted(&engine.heap, actor, |snapshot| engine.look_back(snapshot, third, is_reversed));
                continue;
            }
            let is_in_doubt = |error: &IndexError| matches!(error, IndexError::Heap(HeapError::InDoubt(_)));
            run_noted(&engine.heap, actor, is_in_doubt, |tx| {
                let tree = Tree::open(&engine.heap, engine.root)?;
                let mut work = Work { tree, tx, step: Step::default() };
                match kind {
                    0..3 => work.transfer(from, to, third)?,
                    3 => work.rename(from, to)?,
                    4 => work.merge(from, to, is_reversed)?,
                    _ => work.audit(is_reversed)?,
                }
                Ok(work.step)
            });
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, IndexError> {
        let heap = open_heap(medium, self.size, UUID, 4)?;
        let tree = Tree::open(&heap, heap.root()?)?;
        let reader = tree.reader();
        reader.iter().map(|entry| entry.map(|entry| (key_of(&entry.key), number(&entry.value)))).collect()
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        SerialOrders::new(initial(), history, |keys, step| step.apply(keys))
    }

    fn check(&self, legal: &Self::Legal, contents: &Contents) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}
