//! The contents that one line or sector may have after a power cut.

use crate::machine::{Cpu, Machine};
use crate::pending::{Pending, WritePath, unit_hash};
use crate::seen_images::IdentityHasher;
use lode_pmem::Durability;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

/// Highest number of versions of one unit that are listed. Of more, a seeded sample is listed.
const VERSIONS_MAX: usize = 256;

/// The different contents that a unit may have: the oldest first, then the newest, then the others.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    unit_words: usize,
    words: Vec<u64>,
    hashes: Vec<u128>,
    newest: usize,
    is_sample: bool,
}

/// A sequence of stores in which each needs the ones before it, and the lengths of it that a power cut may leave.
struct StoreChain {
    members: Vec<usize>,
    cuts: Vec<usize>,
}

impl Versions {
    /// The empty list of versions.
    pub(crate) const NONE: Versions =
        Versions { unit_words: 0, words: Vec::new(), hashes: Vec::new(), newest: 0, is_sample: false };

    /// Lists the contents that `unit` may have: it surely holds `base`, and `pending` was stored to it.
    pub(crate) fn new(machine: Machine, unit: u32, base: &[u64], pending: &[Pending]) -> Versions {
        let chains = chains(machine, pending);
        let count = chains.iter().try_fold(1usize, |count, chain| count.checked_mul(chain.cuts.len()));
        let listed = count.map_or(VERSIONS_MAX, |count| count.min(VERSIONS_MAX));
        let mut list = List {
            versions: Versions { unit_words: base.len(), ..Versions::NONE },
            seen: HashSet::with_capacity_and_hasher(listed, BuildHasherDefault::default()),
            is_stored: vec![false; pending.len()],
            unit,
            base,
            pending,
            chains: &chains,
        };
        let oldest = vec![0; chains.len()];
        let newest: Vec<usize> = chains.iter().map(|chain| chain.cuts.len() - 1).collect();
        list.add(&oldest);
        list.add(&newest);
        list.versions.newest = list.versions.len() - 1;
        if count.is_some_and(|count| count <= VERSIONS_MAX) {
            let mut cuts = oldest;
            while advance(&mut cuts, &newest) {
                list.add(&cuts);
            }
        } else {
            list.versions.is_sample = true;
            list.sample(&oldest, &newest);
        }
        list.versions
    }

    /// Returns the number of versions.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the index of the content that holds all stores.
    pub(crate) fn newest(&self) -> usize {
        self.newest
    }

    /// Returns the words of a version.
    pub(crate) fn words(&self, index: usize) -> &[u64] {
        &self.words[index * self.unit_words..][..self.unit_words]
    }

    /// Returns the hash of a version.
    pub(crate) fn hash(&self, index: usize) -> u128 {
        self.hashes[index]
    }

    /// Returns true if there are more versions than the listed ones.
    pub(crate) fn is_sample(&self) -> bool {
        self.is_sample
    }
}

/// Sorts the stores of a unit into independent sequences.
fn chains(machine: Machine, pending: &[Pending]) -> Vec<StoreChain> {
    let by_word = machine.cpu == Cpu::Arm && machine.durability != Durability::Commit;
    let mut keys: Vec<Option<u8>> = Vec::new();
    let mut chains: Vec<StoreChain> = Vec::new();
    for (index, store) in pending.iter().enumerate() {
        let in_order = !by_word && !matches!(store.path, WritePath::NonTemporal(_));
        let key = (!in_order).then_some(store.word);
        let place = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            chains.push(StoreChain { members: Vec::new(), cuts: vec![0] });
            chains.len() - 1
        });
        let chain = &mut chains[place];
        chain.members.push(index);
        if store.is_durable {
            // A power cut can't leave fewer stores than these any more.
            chain.cuts.clear();
        }
        if store.path != WritePath::Sector(false) {
            chain.cuts.push(chain.members.len());
        }
    }
    // A chain whose only pending store is the first word of a sector write has only the cut after its durable stores.
    chains
}

/// Advances `cuts` like digits, the first one fastest, each up to its `newest`. Returns false after the last.
fn advance(cuts: &mut [usize], newest: &[usize]) -> bool {
    for (cut, last) in cuts.iter_mut().zip(newest) {
        if *cut < *last {
            *cut += 1;
            return true;
        }
        *cut = 0;
    }
    false
}

/// A growing list of versions.
struct List<'a> {
    versions: Versions,
    seen: HashSet<u128, BuildHasherDefault<IdentityHasher>>,
    /// For each pending store, whether the content to add holds it.
    is_stored: Vec<bool>,
    unit: u32,
    base: &'a [u64],
    pending: &'a [Pending],
    chains: &'a [StoreChain],
}

impl List<'_> {
    /// Adds the content for which each chain is cut at `cuts`, unless the list has it.
    fn add(&mut self, cuts: &[usize]) {
        for (chain, cut) in self.chains.iter().zip(cuts) {
            let (stored, left_out) = chain.members.split_at(chain.cuts[*cut]);
            stored.iter().for_each(|index| self.is_stored[*index] = true);
            left_out.iter().for_each(|index| self.is_stored[*index] = false);
        }
        let start = self.versions.words.len();
        self.versions.words.extend_from_slice(self.base);
        let words = &mut self.versions.words[start..];
        for (store, _) in self.pending.iter().zip(&self.is_stored).filter(|(_, is_stored)| **is_stored) {
            words[store.word as usize] = store.value;
        }
        let hash = unit_hash(self.unit, words);
        if self.seen.insert(hash) {
            self.versions.hashes.push(hash);
        } else {
            self.versions.words.truncate(start);
        }
    }

    /// Adds the contents with one chain new, those with all but one new, and as many random ones as fit.
    fn sample(&mut self, oldest: &[usize], newest: &[usize]) {
        for chain in 0..self.chains.len() {
            for (rest, one) in [(oldest, newest), (newest, oldest)] {
                let mut cuts = rest.to_vec();
                cuts[chain] = one[chain];
                self.add(&cuts);
            }
        }
        let mut rng = fastrand::Rng::with_seed(self.pending.len() as u64);
        for _ in 0..VERSIONS_MAX {
            if self.versions.len() >= VERSIONS_MAX {
                break;
            }
            let cuts: Vec<usize> = newest.iter().map(|last| rng.usize(0..=*last)).collect();
            self.add(&cuts);
        }
    }
}
