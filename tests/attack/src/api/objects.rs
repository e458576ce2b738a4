//! Model of the objects that a heap must hold.

use super::{Outcome, ensure};
use crate::Finding;
use fastrand::Rng;
use lode_heap::{Heap, Tx};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Mapping;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The heap under attack.
pub(crate) type PoolHeap = Heap<Arc<Mapping>>;

/// An object of the model.
#[derive(Clone, Debug)]
pub(super) struct KnownObject {
    pub(super) type_number: u64,
    pub(super) content: Rc<Vec<u8>>,
    /// The operation that made it, for reports.
    pub(super) origin: &'static str,
}

impl fmt::Display for KnownObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes ({})", self.content.len(), self.origin)
    }
}

/// The objects of the model by their offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectModel {
    pub(super) all: BTreeMap<PoolOffset, KnownObject>,
    pub(super) root: Option<PoolOffset>,
}

impl ObjectModel {
    /// Adds an object. Returns a finding if it overlaps another one.
    pub(super) fn add(&mut self, at: PoolOffset, known: KnownObject) -> Outcome {
        let len = known.content.len() as u64;
        self.check_no_overlap(at, len)?;
        self.all.insert(at, known);
        Ok(())
    }

    /// Returns a finding if `len` bytes at `at` overlap an object.
    pub(super) fn check_no_overlap(&self, at: PoolOffset, len: u64) -> Outcome {
        let end = at.get() + len.max(1);
        let before = self.all.range(..PoolOffset::new(end)).next_back();
        let over = before.filter(|(other, known)| other.get() + known.content.len().max(1) as u64 > at.get());
        ensure(
            over.is_none(),
            "overlap",
            format_args!(
                "{len} bytes at {at} lie over {:?}",
                over.map(|(at, known)| format!("{known} at {at}"))
            ),
        )
    }

    /// Sets the root to `to` if it is at `at`.
    pub(super) fn replace_root(&mut self, tx: &Tx<'_, Arc<Mapping>>, at: PoolOffset, to: PoolOffset) {
        if self.root == Some(at) {
            tx.set_root(to);
            self.root = Some(to).filter(|to| !to.is_null());
        }
    }

    /// Draws one of the objects.
    pub(super) fn pick(&self, rng: &mut Rng) -> Option<PoolOffset> {
        self.all.keys().nth(rng.usize(..self.all.len().max(1))).copied()
    }

    /// Returns a finding unless the heap holds exactly these objects.
    pub(super) fn compare(&self, heap: &PoolHeap) -> Outcome {
        let root = heap.root().map_err(|error| Finding::new("walk", error))?;
        let want = self.root.unwrap_or(PoolOffset::NULL);
        ensure(root == want, "changed", format_args!("the root is {root}, and was {want}"))?;
        let mut there = BTreeMap::new();
        for object in heap.objects() {
            let object = object.map_err(|error| Finding::new("walk", error))?;
            there.insert(object.at, object);
        }
        for (at, known) in &self.all {
            let found = there.remove(at);
            let Some(object) = found else {
                return Err(Finding::new("lost", format_args!("{known} at {at} are gone")));
            };
            let fits = object.type_number == known.type_number && object.size >= known.content.len() as u64;
            ensure(fits, "changed", format_args!("the object {object:?} was {known}"))?;
            let same = heap.memory().reading(|memory| memory.equals(*at, &known.content));
            let same = same.map_err(|fault| Finding::new("walk", fault))?;
            ensure(same, "changed", format_args!("the content of {known} at {at}"))?;
        }
        ensure(there.is_empty(), "besides", format_args!("objects that nothing owns: {there:?}"))
    }
}

/// Returns the words that hold `content`.
pub(super) fn words(content: &[u8]) -> Vec<u64> {
    let mut bytes = content.to_vec();
    bytes.resize(content.len().next_multiple_of(WORD as usize), 0);
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Returns random content, different from that of all other objects.
pub(crate) fn content(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

/// Draws the size of an object.
pub(super) fn size(rng: &mut Rng) -> usize {
    match rng.u8(..10) {
        0 => 64,
        1 => 2000,
        2 => 4000,
        3 => 50_000,
        4 => [1, 8, 16, 1023, 1024, 1025, 4096, 16_384][rng.usize(..8)],
        _ => super::log_uniform(rng, 1 << 16).max(1),
    }
}
