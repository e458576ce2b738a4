//! The content that the medium is sure to hold, and the pending stores that it may hold, after each event.

use crate::machine::Machine;
use crate::pending::{Pending, WritePath, unit_hash};
use crate::trace::MediumEvent;
use crate::versions::Versions;
use lode_layout::WORD;
use lode_pmem::Durability;

/// Highest number of logical threads, and so of the waits of a [`Model`].
pub(crate) const THREADS_MAX: usize = 3;

/// A line or sector.
#[derive(Clone, Debug, Default)]
struct Unit {
    pending: Vec<Pending>,
    /// Number of stores that became durable since the start.
    durable_stores: u64,
    /// Number of stores, since the start, that were made before a failed sync lost the pending ones. The next store to
    /// the unit makes the kernel write them again.
    stores_before_failure: u64,
    /// The threads that copied to the unit and have not drained since, a bit each.
    writers: u8,
    /// True if the unit was stored to since the last drain.
    is_undrained: bool,
    versions: Option<Versions>,
}

/// The flushes and copies of one thread since its last drain.
#[derive(Clone, Debug, Default)]
struct Undrained {
    /// Units that were flushed, each with its number of stores at that time.
    flushed: Vec<(u32, u64)>,
    /// Units that were copied to.
    copied: Vec<u32>,
}

/// The state of the machine between two events.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    machine: Machine,
    unit_words: usize,
    base: Vec<u64>,
    hashes: Vec<u128>,
    hash: u128,
    units: Vec<Unit>,
    dirty: Vec<u32>,
    cleaned: Vec<u32>,
    undrained: Vec<u32>,
    undrained_of: [Undrained; THREADS_MAX],
}

impl Model {
    /// Returns a machine at rest that holds `content`.
    pub(crate) fn new(machine: Machine, content: &[u64]) -> Model {
        let unit_words = (machine.unit() / WORD) as usize;
        let mut model = Model {
            machine,
            unit_words,
            base: Vec::new(),
            hashes: Vec::new(),
            hash: 0,
            units: Vec::new(),
            dirty: Vec::new(),
            cleaned: Vec::new(),
            undrained: Vec::new(),
            undrained_of: Default::default(),
        };
        model.reset(content);
        model
    }

    /// Puts the machine at rest with `content`.
    ///
    /// # Cost
    /// Compares the content with that before, and hashes the units that differ.
    pub(crate) fn reset(&mut self, content: &[u64]) {
        let count = content.len() / self.unit_words;
        self.base.resize(content.len(), 0);
        let known = self.hashes.len().min(count);
        self.hashes.resize(count, 0);
        for (unit, words) in content.chunks_exact(self.unit_words).enumerate() {
            let base = &mut self.base[unit * self.unit_words..][..self.unit_words];
            if unit >= known || *base != *words {
                base.copy_from_slice(words);
                self.hashes[unit] = unit_hash(unit as u32, words);
            }
        }
        self.hash = self.hashes.iter().fold(0, |sum, hash| sum.wrapping_add(*hash));
        self.units.iter_mut().for_each(|unit| *unit = Unit::default());
        self.units.resize_with(count, Unit::default);
        self.dirty.clear();
        self.cleaned.clear();
        self.undrained.clear();
        self.undrained_of = Default::default();
    }

    /// Ends all threads. That drains what each has copied. Flushes that no drain followed count for nothing, and no sector that a
    /// log write had begun is ever written.
    pub(crate) fn end_threads(&mut self) {
        for unit in &self.dirty {
            let state = &mut self.units[*unit as usize];
            let whole = state.pending.iter().rposition(|pending| pending.path != WritePath::Sector(false));
            state.pending.truncate(whole.map_or(0, |last| last + 1));
            state.versions = None;
        }
        for thread in 0..THREADS_MAX {
            let Undrained { copied, .. } = std::mem::take(&mut self.undrained_of[thread]);
            for unit in copied {
                self.units[unit as usize].writers &= !(1 << thread);
                self.complete(unit, u64::MAX, |path| path == WritePath::NonTemporal(thread as u8));
            }
        }
        self.forget_clean_units();
    }

    /// Returns the hash of the content that is sure to be there.
    pub(crate) fn hash(&self) -> u128 {
        self.hash
    }

    /// Returns the units with more than one possible content, or with stores that change nothing.
    pub(crate) fn dirty(&self) -> &[u32] {
        &self.dirty
    }

    /// Returns true if the unit was stored to since the last drain.
    pub(crate) fn is_undrained(&self, unit: u32) -> bool {
        self.units[unit as usize].is_undrained
    }

    /// Returns the threads that copied to the unit since their own last drain, a bit each.
    pub(crate) fn writers(&self, unit: u32) -> u8 {
        self.units[unit as usize].writers
    }

    /// Returns the content that the unit is sure to hold.
    pub(crate) fn base(&self, unit: u32) -> &[u64] {
        &self.base[unit as usize * self.unit_words..][..self.unit_words]
    }

    /// Returns the hash of the content that the unit is sure to hold.
    pub(crate) fn base_hash(&self, unit: u32) -> u128 {
        self.hashes[unit as usize]
    }

    /// Takes the units that were dirty and are no longer.
    pub(crate) fn take_cleaned(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.cleaned)
    }

    /// Computes the possible contents of each dirty unit.
    pub(crate) fn enumerate(&mut self) {
        for unit in &self.dirty {
            let index = *unit as usize;
            let base = &self.base[index * self.unit_words..][..self.unit_words];
            let state = &mut self.units[index];
            if state.versions.is_none() {
                state.versions = Some(Versions::new(self.machine, *unit, base, &state.pending));
            }
        }
    }

    /// Returns the possible contents of a dirty unit, after [`enumerate`](Model::enumerate).
    pub(crate) fn versions(&self, unit: u32) -> &Versions {
        static NONE: Versions = Versions::NONE;
        self.units[unit as usize].versions.as_ref().unwrap_or(&NONE)
    }

    /// Advances by one event.
    pub(crate) fn apply(&mut self, event: MediumEvent) {
        match event {
            MediumEvent::Store { word, value } => self.push(word, value, WritePath::Cached),
            MediumEvent::Copy { word, value, thread } => {
                self.push(word, value, WritePath::NonTemporal(thread));
                let unit = self.unit_of(word);
                self.units[unit as usize].writers |= 1 << thread;
                let copied = &mut self.undrained_of[thread as usize].copied;
                if copied.last() != Some(&unit) {
                    copied.push(unit);
                }
            }
            MediumEvent::Log { word, value, last } => self.push(word, value, WritePath::Sector(last)),
            MediumEvent::Flush { first, last, thread } => self.flush(first, last, thread),
            MediumEvent::Drain { thread } => self.drain(thread),
            MediumEvent::Synced { first, last } => self.synced(first, last),
            MediumEvent::SyncFailed { first, last } => {
                for unit in self.dirty.iter().filter(|unit| (first..=last).contains(unit)) {
                    let state = &mut self.units[*unit as usize];
                    state.stores_before_failure = state.durable_stores + state.pending.len() as u64;
                }
            }
        }
    }

    fn unit_of(&self, word: u32) -> u32 {
        word / self.unit_words as u32
    }

    fn push(&mut self, word: u32, value: u64, path: WritePath) {
        let unit = self.unit_of(word);
        let state = &mut self.units[unit as usize];
        if state.pending.is_empty() {
            self.dirty.push(unit);
        }
        let word = (word as usize % self.unit_words) as u8;
        state.pending.push(Pending { word, path, is_durable: false, value });
        state.versions = None;
        if !std::mem::replace(&mut state.is_undrained, true) {
            self.undrained.push(unit);
        }
    }

    fn flush(&mut self, first: u32, last: u32, thread: u8) {
        if self.machine.durability != Durability::Line {
            return;
        }
        for unit in first..=last {
            let state = &self.units[unit as usize];
            if !state.pending.is_empty() {
                let stores = state.durable_stores + state.pending.len() as u64;
                self.undrained_of[thread as usize].flushed.push((unit, stores));
            }
        }
    }

    fn drain(&mut self, thread: u8) {
        let Undrained { flushed, copied } = std::mem::take(&mut self.undrained_of[thread as usize]);
        for (unit, stores) in flushed {
            self.complete(unit, stores, |path| path == WritePath::Cached);
        }
        for unit in copied {
            self.units[unit as usize].writers &= !(1 << thread);
            self.complete(unit, u64::MAX, |path| path == WritePath::NonTemporal(thread));
        }
        if self.machine.durability == Durability::Byte {
            // A store that another thread can see has left the store buffer, and the caches survive a power cut.
            for unit in self.dirty.clone() {
                self.complete(unit, u64::MAX, |path| path == WritePath::Cached);
            }
        }
        self.forget_clean_units();
    }

    fn synced(&mut self, first: u32, last: u32) {
        for unit in self.dirty.clone() {
            let state = &self.units[unit as usize];
            // The kernel rewrites a sector that a failed sync lost only after the next store to it.
            let written = state.stores_before_failure < state.durable_stores + state.pending.len() as u64;
            if (first..=last).contains(&unit) && written {
                self.complete(unit, u64::MAX, |_| true);
            }
        }
        self.forget_clean_units();
    }

    /// Makes durable those of the unit's first `stores` stores, counted from the start, whose path `chosen` accepts.
    fn complete(&mut self, unit: u32, stores: u64, chosen: impl Fn(WritePath) -> bool) {
        let index = unit as usize;
        let state = &mut self.units[index];
        let count = stores.saturating_sub(state.durable_stores).min(state.pending.len() as u64) as usize;
        for pending in &mut state.pending[..count] {
            pending.is_durable |= chosen(pending.path);
        }
        let durable_stores = state.pending.iter().take_while(|pending| pending.is_durable).count();
        let base = &mut self.base[index * self.unit_words..][..self.unit_words];
        for pending in state.pending.drain(..durable_stores) {
            base[pending.word as usize] = pending.value;
        }
        state.durable_stores += durable_stores as u64;
        state.versions = None;
        if durable_stores > 0 {
            let hash = unit_hash(unit, base);
            self.hash = self.hash.wrapping_sub(self.hashes[index]).wrapping_add(hash);
            self.hashes[index] = hash;
        }
    }

    /// Forgets the units that have no pending stores any more.
    fn forget_clean_units(&mut self) {
        let Model { dirty, units, cleaned, undrained, .. } = self;
        undrained.drain(..).for_each(|unit| units[unit as usize].is_undrained = false);
        dirty.retain(|unit| {
            let keep = !units[*unit as usize].pending.is_empty();
            if !keep {
                cleaned.push(*unit);
            }
            keep
        });
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Cpu;
    use std::collections::BTreeSet;

    const X86: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
    const ARM: Machine = Machine { cpu: Cpu::Arm, durability: Durability::Line };
    const BYTE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Byte };
    const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

    fn store(word: u32, value: u64) -> MediumEvent {
        MediumEvent::Store { word, value }
    }

    fn copy(thread: u8, word: u32, value: u64) -> MediumEvent {
        MediumEvent::Copy { word, value, thread }
    }

    fn flush(thread: u8) -> MediumEvent {
        MediumEvent::Flush { first: 0, last: 0, thread }
    }

    fn drain(thread: u8) -> MediumEvent {
        MediumEvent::Drain { thread }
    }

    #[test]
    fn used_model_is_reset_to_a_new_one() {
        let mut used = Model::new(X86, &[0; 128]);
        for len in [256, 64, 128] {
            for event in [store(0, 7), flush(0), drain(0), copy(1, 9, 5), store(20, 8)] {
                used.apply(event);
            }
            let content: Vec<u64> = (len..2 * len).collect();
            used.reset(&content);
            let mut new = Model::new(X86, &content);
            for model in [&mut used, &mut new] {
                for event in [store(1, 3), flush(0), drain(0), store(9, 4)] {
                    model.apply(event);
                }
                model.enumerate();
            }
            assert_eq!((used.hash(), &used.hashes, &used.base), (new.hash(), &new.hashes, &new.base));
            assert_eq!(used.dirty(), new.dirty());
            for unit in 0..used.hashes.len() as u32 {
                assert_eq!(used.writers(unit), new.writers(unit), "{unit}");
                assert_eq!(used.is_undrained(unit), new.is_undrained(unit), "{unit}");
            }
        }
    }

    /// Returns the contents that the first three words of the first unit may have after `events`, on a medium of zeros.
    fn contents(machine: Machine, events: &[MediumEvent]) -> BTreeSet<[u64; 3]> {
        let mut model = Model::new(machine, &[0; 128]);
        events.iter().for_each(|event| model.apply(*event));
        model.enumerate();
        let first = |words: &[u64]| [words[0], words[1], words[2]];
        if !model.dirty().contains(&0) {
            return BTreeSet::from([first(model.base(0))]);
        }
        let versions = model.versions(0);
        assert!(!versions.is_sample());
        assert_eq!(versions.hash(versions.newest()), unit_hash(0, versions.words(versions.newest())));
        let all: BTreeSet<_> = (0..versions.len()).map(|index| first(versions.words(index))).collect();
        assert_eq!(all.len(), versions.len(), "each content is listed once");
        all
    }

    fn expect(machine: Machine, events: &[MediumEvent], want: &[[u64; 3]]) {
        assert_eq!(contents(machine, events), want.iter().copied().collect(), "{machine}: {events:?}");
    }

    #[test]
    fn x86_orders_stores_of_a_line() {
        let events = [store(0, 1), store(1, 2), store(0, 3)];
        expect(X86, &events, &[[0, 0, 0], [1, 0, 0], [1, 2, 0], [3, 2, 0]]);
    }

    #[test]
    fn arm_orders_stores_of_a_word() {
        let events = [store(0, 1), store(1, 2), store(0, 3)];
        expect(ARM, &events, &[[0, 0, 0], [1, 0, 0], [3, 0, 0], [0, 2, 0], [1, 2, 0], [3, 2, 0]]);
    }

    #[test]
    fn non_temporal_copies_are_unordered() {
        expect(X86, &[copy(0, 0, 1), copy(0, 1, 2)], &[[0, 0, 0], [1, 0, 0], [0, 2, 0], [1, 2, 0]]);
    }

    #[test]
    fn drain_completes_flushes_of_its_thread() {
        for machine in [X86, ARM] {
            expect(machine, &[store(0, 1), flush(0), drain(0)], &[[1, 0, 0]]);
            // The thread of the store does not matter: the flush must only come later.
            expect(machine, &[store(0, 1), flush(1), drain(1)], &[[1, 0, 0]]);
            expect(machine, &[store(0, 1), flush(0), drain(1)], &[[0, 0, 0], [1, 0, 0]]);
            expect(machine, &[store(0, 1), drain(0)], &[[0, 0, 0], [1, 0, 0]]);
            expect(machine, &[flush(0), store(0, 1), drain(0)], &[[0, 0, 0], [1, 0, 0]]);
            expect(machine, &[store(0, 1), flush(0), store(1, 2), drain(0)], &[[1, 0, 0], [1, 2, 0]]);
            // A flush is waited for once.
            let twice = [store(0, 1), flush(0), drain(0), store(0, 2), drain(0)];
            expect(machine, &twice, &[[1, 0, 0], [2, 0, 0]]);
        }
    }

    #[test]
    fn drain_completes_copies_of_its_thread() {
        for machine in [X86, ARM, BYTE] {
            expect(machine, &[copy(0, 0, 1), drain(0)], &[[1, 0, 0]]);
            expect(machine, &[copy(0, 0, 1), drain(1)], &[[0, 0, 0], [1, 0, 0]]);
            expect(machine, &[copy(0, 0, 1), copy(1, 1, 2), drain(1)], &[[0, 2, 0], [1, 2, 0]]);
        }
        // A flush by another thread does not reach a store past the cache.
        expect(X86, &[copy(0, 0, 1), flush(1), drain(1)], &[[0, 0, 0], [1, 0, 0]]);
    }

    #[test]
    fn durable_copy_survives_older_pending_stores() {
        let events = [store(0, 1), store(1, 2), copy(0, 0, 3), drain(0)];
        expect(X86, &events, &[[3, 0, 0], [3, 2, 0]]);
    }

    #[test]
    fn byte_durability_keeps_cached_stores() {
        expect(BYTE, &[store(0, 1), store(1, 2)], &[[0, 0, 0], [1, 0, 0], [1, 2, 0]]);
        expect(BYTE, &[store(0, 1), store(1, 2), drain(1)], &[[1, 2, 0]]);
    }

    #[test]
    fn unsynced_sector_has_any_version() {
        let synced = |first, last| MediumEvent::Synced { first, last };
        let log = |word, value, last| MediumEvent::Log { word, value, last };
        expect(COMMIT, &[store(0, 1), store(1, 2), flush(0), drain(0)], &[[0, 0, 0], [1, 0, 0], [1, 2, 0]]);
        expect(COMMIT, &[store(0, 1), synced(0, 0)], &[[1, 0, 0]]);
        expect(COMMIT, &[store(0, 1), synced(1, 1)], &[[0, 0, 0], [1, 0, 0]]);
        let whole = [store(2, 9), log(0, 1, false), log(1, 2, true)];
        expect(COMMIT, &whole, &[[0, 0, 0], [0, 0, 9], [1, 2, 9]]);
    }

    #[test]
    fn later_sync_does_not_repair_failed_one() {
        let (synced, failed) =
            (MediumEvent::Synced { first: 0, last: 1 }, MediumEvent::SyncFailed { first: 0, last: 1 });
        expect(COMMIT, &[store(0, 1), failed, synced], &[[0, 0, 0], [1, 0, 0]]);
        expect(COMMIT, &[store(0, 1), failed, store(1, 2), synced], &[[1, 2, 0]]);
    }

    #[test]
    fn hash_follows_durable_content() {
        let mut model = Model::new(X86, &[0; 128]);
        for event in [
            store(0, 1),
            store(9, 2),
            flush(0),
            MediumEvent::Flush { first: 1, last: 1, thread: 0 },
            drain(0),
        ] {
            model.apply(event);
        }
        let mut content = [0; 128];
        (content[0], content[9]) = (1, 2);
        assert_eq!((model.base(0)[0], model.base(1)[1]), (1, 2));
        assert_eq!(model.hash(), Model::new(X86, &content).hash());
        assert_eq!(model.take_cleaned(), [0, 1]);
        assert!(model.dirty().is_empty());
    }

    #[test]
    fn many_versions_are_sampled() {
        let mut model = Model::new(ARM, &[0; 128]);
        (0..40).for_each(|index| model.apply(store(index % 8, u64::from(index) + 1)));
        model.enumerate();
        let versions = model.versions(0);
        assert!(versions.is_sample() && versions.len() > 200, "{}", versions.len());
        assert_eq!(versions.words(0), [0; 8]);
        assert_eq!(versions.words(versions.newest()), [33, 34, 35, 36, 37, 38, 39, 40]);
    }
}
