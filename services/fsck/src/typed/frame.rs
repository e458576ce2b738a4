//! Repair of the objects by which typed data is found: the root word, the root object, and the type tables.

use crate::damaged_pool::DamagedPool;
use crate::outcome::Repair;
use lode_heap::HeapError;
use lode_heap::check::{Report, SpaceMap};
use lode_layout::{
    PoolOffset, TYPE_TABLE_LEN_MAX, TYPE_TREE, TYPE_TYPE_TABLE, TYPE_TYPED_ROOT, TypeTable, TypedRoot, WORD,
    decode_root, encode_root,
};
use lode_pmem::{Medium, Readable};
use std::collections::BTreeSet;

/// Tables that one migration may replace, one after the other.
const TABLES_MAX: usize = 256;

/// Puts flipped bits of these objects right, and marks them as allocated. Returns false if the pool is not one of typed data, as far
/// as its root tells.
///
/// # Errors
/// [`HeapError::InDoubt`], [`HeapError::Fault`].
///
/// # Durability
/// Durable on return. If it is killed before, it can be run again.
pub(super) fn repair_frame<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    repair: &mut Repair,
) -> Result<bool, HeapError> {
    let map = SpaceMap::read(damaged.medium.memory(), damaged.geometry, &mut Report::default());
    let mut frame = Frame { damaged, map, objects: Vec::new(), stored: 0 };
    let Some(root) = frame.root()? else { return Ok(false) };
    frame.objects.push(root);
    frame.repair_words(root)?;
    frame.repair_allocation()?;
    repair.repaired += frame.stored;
    Ok(true)
}

struct Frame<'a, M: Medium> {
    damaged: &'a DamagedPool<'a, M>,
    map: SpaceMap,
    /// Those that were found.
    objects: Vec<PoolOffset>,
    /// Number of words that were stored.
    stored: u64,
}

impl<M: Medium> Frame<'_, M> {
    fn is_root(&self, at: PoolOffset) -> bool {
        self.map.object(at).is_some_and(|(size, found)| found == TYPE_TYPED_ROOT && size >= TypedRoot::LEN)
    }

    fn is_table(&self, at: PoolOffset) -> bool {
        self.map.object(at).is_some_and(|(_, found)| found == TYPE_TYPE_TABLE)
    }

    fn is_tree(&self, at: PoolOffset) -> bool {
        self.map.object(at).is_some_and(|(_, found)| found == TYPE_TREE)
    }

    fn load(&self, at: PoolOffset) -> u64 {
        // A lost word is as good as a damaged one.
        self.damaged.medium.memory().reading(|memory| memory.load8(at)).unwrap_or(0)
    }

    fn store(&mut self, at: PoolOffset, word: u64) -> Result<(), HeapError> {
        let medium = self.damaged.medium;
        lode_pmem::FaultScope::run(|| {
            medium.store8(at, word);
            medium.flush(at, WORD);
        })?;
        self.stored += 1;
        // ORDER: a word is right before the next one is searched by it. Stop here: the next repair does the rest.
        Ok(medium.drain()?)
    }

    /// Returns the root object. A damaged root word leads to the only object that can be one.
    fn root(&mut self) -> Result<Option<PoolOffset>, HeapError> {
        let DamagedPool { medium, geometry, .. } = self.damaged;
        let at = geometry.extents().first().map_or(PoolOffset::NULL, |extent| extent.start);
        if let Some(root) = decode_root(self.load(at)) {
            return Ok(Some(root).filter(|root| self.is_root(*root)));
        }
        let candidates = |memory: &Readable| self.map.root_candidates(memory, TYPE_TYPED_ROOT);
        // A heap that can't be read has no candidate.
        let candidates = medium.memory().reading(candidates).unwrap_or_default();
        let candidates: BTreeSet<PoolOffset> = candidates.into_iter().collect();
        let root = candidates.first().copied().filter(|_| candidates.len() == 1);
        if let Some(root) = root {
            SpaceMap::repair_root(&**medium, geometry, root)?;
            self.stored += 1;
        }
        Ok(root)
    }

    /// Puts right the words of the root object and of the tables to which they lead.
    fn repair_words(&mut self, root: PoolOffset) -> Result<(), HeapError> {
        let [root_word, types_word, from_word, trees_word] = [0, 1, 2, 3].map(|word| root.plus(word * WORD));
        self.repair_word(root_word, |frame, at| frame.map.object(at).is_some())?;
        self.repair_word(trees_word, |frame, at| at.is_null() || frame.is_tree(at))?;
        let mut next = self.repair_word(from_word, |frame, at| at.is_null() || frame.is_table(at))?;
        let types = self.repair_word(types_word, Frame::is_table)?;
        // Without a migration there is one table.
        let only = next.filter(|from| from.is_null()).and_then(|_| self.only_table());
        let types = match (types, only) {
            (None, Some(only)) => {
                self.store(types_word, encode_root(only))?;
                Some(only)
            }
            (types, _) => types,
        };
        let mut tables: Vec<PoolOffset> = types.into_iter().collect();
        while let Some(at) = next.filter(|at| !at.is_null() && !tables.contains(at))
            && tables.len() <= TABLES_MAX
        {
            tables.push(at);
            let older = at.plus(TypeTable::OLDER_OFF);
            next = self.repair_word(older, |frame, at| at.is_null() || frame.is_table(at))?;
        }
        tables.iter().try_for_each(|at| self.repair_table(*at))?;
        self.objects.extend(tables);
        Ok(())
    }

    /// Puts right a flipped bit of a root word, if only one makes it right. Returns its target; `None` if it is damaged.
    fn repair_word(
        &mut self,
        at: PoolOffset,
        is_right: impl Fn(&Self, PoolOffset) -> bool,
    ) -> Result<Option<PoolOffset>, HeapError> {
        let word = self.load(at);
        let target = |word| decode_root(word).filter(|target| is_right(self, *target));
        if let Some(target) = target(word) {
            return Ok(Some(target));
        }
        let mut flipped =
            (0..u64::BITS).map(|bit| word ^ 1 << bit).filter_map(|word| Some((word, target(word)?)));
        let (Some((right, target)), None) = (flipped.next(), flipped.next()) else { return Ok(None) };
        drop(flipped);
        self.store(at, right)?;
        Ok(Some(target))
    }

    fn only_table(&self) -> Option<PoolOffset> {
        let mut tables = Vec::new();
        let visit = |memory: &Readable| self.map.visit_unmarked(memory, |at| tables.push(at));
        self.damaged.medium.memory().reading(visit).ok()?;
        tables.retain(|at| self.is_table(*at));
        if let [only] = tables[..] { Some(only) } else { None }
    }

    /// Puts right a flipped bit of the table at `at`.
    fn repair_table(&mut self, at: PoolOffset) -> Result<(), HeapError> {
        let Some((size, _)) = self.map.object(at) else { return Ok(()) };
        let mut bytes = vec![0; (size as usize).min(TYPE_TABLE_LEN_MAX)];
        let read = self.damaged.medium.memory().reading(|memory| memory.read(at, &mut bytes));
        if read.is_err() {
            return Ok(());
        }
        match TypeTable::flipped_bit(&bytes) {
            Some(bit) => {
                let word = at.plus(bit as u64 / 64 * WORD);
                self.store(word, self.load(word) ^ 1 << (bit % 64))
            }
            None => Ok(()),
        }
    }

    /// Marks the objects as allocated: a heap finds no others.
    fn repair_allocation(&mut self) -> Result<(), HeapError> {
        let medium = self.damaged.medium;
        let is_allocated =
            |at: &PoolOffset| medium.memory().reading(|memory| self.map.is_allocated(memory, *at));
        if self.objects.iter().all(|at| matches!(is_allocated(at), Ok(Some(true)))) {
            return Ok(());
        }
        for at in &self.objects {
            // A lost bitmap stays lost.
            let _ = medium.memory().reading(|memory| self.map.mark(memory, *at));
        }
        self.stored += self.map.repair_bitmaps(&**medium, false)?;
        Ok(())
    }
}
