//! The runs of the arenas: found, read, made, and passed on.

use super::arena::Arena;
use super::class::{Class, RunKey};
use super::run::Run;
use super::slots::{BlockPlace, Slot};
use super::{Heap, chunk_headers, lock};
use crate::block::Block;
use crate::bugs;
use crate::error::{ObjError, Structure};
use crate::view::ObjView;
use lode_layout::{PmdkRun, Record};
use lode_pmem::{FaultScope, Medium, hold};
use lode_redo::cover::Cover;

/// The answer to a lack of free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Make {
    /// One is made if none of the class has free blocks.
    IfNeeded,
    /// Only free blocks of runs that are there are given away.
    Never,
}

impl Heap {
    /// Calls `with` for the run that has a chunk, and with its place. `None` if no run has it.
    pub(super) fn with_run<M: Medium, R>(
        &self,
        medium: &M,
        place: BlockPlace,
        with: impl FnOnce(&mut Run, BlockPlace) -> R,
    ) -> Result<Option<R>, ObjError> {
        let mut place = place;
        // A later chunk leads to the first one.
        for _ in 0..2 {
            let Some(slot) = self.slots.get(place) else { return Ok(None) };
            let mut slot = lock(slot);
            if matches!(*slot, Slot::Unread) {
                *slot = self.read_slot(&self.view(medium), place)?;
            }
            match &mut *slot {
                Slot::Run(run) => return Ok(Some(with(run, place))),
                Slot::Part(distance) if *distance <= place.1 => place.1 -= *distance,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn read_slot<M: Medium>(&self, view: &ObjView<M>, place: BlockPlace) -> Result<Slot, ObjError> {
        let (zone, chunk) = (u64::from(place.0), place.1);
        let header = view.chunk(zone, chunk)?;
        let block = Block { zone, chunk, header };
        let places = view.run(&block)?;
        let bitmap: Vec<u64> = (0..places.bitmap_words)
            .map(|word| view.word(view.bitmap_word_at(&block, word)))
            .collect::<Result<_, ObjError>>()?;
        let PmdkRun { block_size: unit_size, alignment, .. } = places;
        let key = RunKey { unit_size, alignment, flags: header.flags, chunks: header.size };
        Ok(Slot::Run(Box::new(Run::new(key, places, bitmap.into_iter()))))
    }

    /// Reads a run, and lists it if it has free blocks. One that is damaged gives no blocks away.
    fn read_run<M: Medium>(&self, medium: &M, place: BlockPlace) -> Result<(), ObjError> {
        let found = self.with_run(medium, place, |run, _| {
            let is_new = run.owner == 0 && run.listed == 0;
            let longest = if is_new { run.longest() } else { 0 };
            run.listed = run.listed.max(longest);
            let is_empty = run.is_empty() && !run.is_listed_as_empty;
            run.is_listed_as_empty |= is_empty;
            (run.key, longest, is_empty)
        });
        match found {
            Ok(Some((key, longest, is_empty))) => self.list(place, key, longest, is_empty),
            Ok(None) | Err(ObjError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Lists a run by its longest piece of free blocks, unless that is 0, and as an empty one.
    pub(super) fn list(&self, place: BlockPlace, key: RunKey, longest: u32, is_empty: bool) {
        if longest == 0 && !is_empty {
            return;
        }
        let mut free = lock(&self.free);
        if longest > 0 {
            free.list_run(key, place, longest);
        }
        if is_empty {
            free.list_empty(place);
        }
    }

    /// Reads all runs that were not read, since some may be empty.
    pub(super) fn read_all_runs<M: Medium>(&self, medium: &M) -> Result<(), ObjError> {
        loop {
            let Some(place) = lock(&self.free).take_any_unread() else { return Ok(()) };
            self.read_run(medium, place)?;
        }
    }

    /// Gives the arena another run of the class, one with a piece of `count` free blocks, in place of `seen`. False if there is none, and
    /// no space for a new one.
    pub(super) fn attach<M: Medium>(
        &self,
        cover: &Cover<M>,
        arena: &Arena,
        class: &Class,
        count: u32,
        seen: Option<BlockPlace>,
        make: Make,
    ) -> Result<bool, ObjError> {
        let _refill = hold(&arena.refill, cover.medium());
        if arena.active(class.id) != seen {
            return Ok(true);
        }
        let found = match self.find_run(cover.medium(), arena, &class.key, count)? {
            None if make == Make::IfNeeded => self.make_run(cover, arena, &class.key)?,
            found => found,
        };
        let found = found.or_else(|| self.take_over(arena, class, count));
        let Some(place) = found else { return Ok(false) };
        let before = arena.replace_active(class.id, Some(place));
        if let Some(before) = before.filter(|before| *before != place) {
            self.detach(before, arena);
        }
        Ok(true)
    }

    /// Returns a run that no arena had, and gives it to this one.
    fn find_run<M: Medium>(
        &self,
        medium: &M,
        arena: &Arena,
        key: &RunKey,
        count: u32,
    ) -> Result<Option<BlockPlace>, ObjError> {
        loop {
            let listed = lock(&self.free).take_run(key, count);
            if let Some((place, longest)) = listed {
                if self.give(place, arena, key, count, |run| run.owner == 0 && run.listed == longest) {
                    return Ok(Some(place));
                }
                continue;
            }
            let Some(place) = lock(&self.free).take_unread(key) else { return Ok(None) };
            self.read_run(medium, place)?;
        }
    }

    /// Gives a run to an arena, if it is of the kind, and has a piece of free blocks that is long enough. One that has not is listed anew.
    fn give(
        &self,
        place: BlockPlace,
        arena: &Arena,
        key: &RunKey,
        count: u32,
        is_wanted: impl Fn(&Run) -> bool,
    ) -> bool {
        let Some(slot) = self.slots.get(place) else { return false };
        let longest = {
            let mut slot = lock(slot);
            let Slot::Run(run) = &mut *slot else { return false };
            if run.key != *key || !is_wanted(run) {
                return false;
            }
            let longest = run.longest();
            if longest >= count {
                (run.owner, run.listed) = (arena.number, 0);
                return true;
            }
            if run.owner != 0 {
                return false;
            }
            run.listed = longest;
            longest
        };
        self.list(place, *key, longest, false);
        false
    }

    /// Takes a run of the class from another arena.
    fn take_over(&self, arena: &Arena, class: &Class, count: u32) -> Option<BlockPlace> {
        let others = self.arenas.all().filter(|other| other.number != arena.number);
        let mut runs = others.filter_map(|other| other.active(class.id).map(|place| (other.number, place)));
        let found = runs
            .find(|(number, place)| self.give(*place, arena, &class.key, count, |run| run.owner == *number));
        found.map(|(_, place)| place)
    }

    /// Takes a run from an arena, and lists it.
    fn detach(&self, place: BlockPlace, arena: &Arena) {
        let Some(slot) = self.slots.get(place) else { return };
        let (key, longest) = {
            let mut slot = lock(slot);
            let Slot::Run(run) = &mut *slot else { return };
            if run.owner != arena.number {
                return;
            }
            (run.owner, run.listed) = (0, run.longest());
            (run.key, run.listed)
        };
        self.list(place, key, longest, false);
    }

    /// Makes a run in a free block, by a record of its own. `None` if there is no space.
    fn make_run<M: Medium>(
        &self,
        cover: &Cover<M>,
        arena: &Arena,
        key: &RunKey,
    ) -> Result<Option<BlockPlace>, ObjError> {
        let _order = hold(&self.order, cover.medium());
        let Some((place, len)) = self.take_block(cover, key.chunks)? else { return Ok(None) };
        let made = self.commit_run(cover, key, place, len);
        let mut run = match made {
            Ok(run) => run,
            Err(error) => {
                lock(&self.free).add((place, len));
                return Err(error);
            }
        };
        run.owner = arena.number;
        self.slots.set_run(place, key.chunks, Slot::Run(Box::new(run)));
        if len > key.chunks {
            lock(&self.free).add(((place.0, place.1 + key.chunks), len - key.chunks));
        }
        Ok(Some(place))
    }

    fn commit_run<M: Medium>(
        &self,
        cover: &Cover<M>,
        key: &RunKey,
        place: BlockPlace,
        len: u32,
    ) -> Result<Run, ObjError> {
        let at = self.chunk_at(place);
        let structure = Structure::Run { zone: place.0.into(), chunk: place.1 };
        let places = key.places(at.get()).map_err(ObjError::damaged(structure, at))?;
        let bitmap = (0..places.bitmap_words).map(|word| !places.block_bits(word));
        let mut bytes = PmdkRun::encode(key.unit_size, key.alignment).to_vec();
        bytes.extend(bitmap.clone().flat_map(u64::to_le_bytes));
        FaultScope::run(|| cover.medium().store(at, &bytes))?;
        let mut headers = Record::new();
        self.push_run(&mut headers, place, key.chunk());
        if len > key.chunks {
            self.push_free(&mut headers, ((place.0, place.1 + key.chunks), len - key.chunks));
        }
        let content = [(at, bytes.len() as u64)];
        let content = if bugs::BITMAP_NOT_LOGGED.is_active() { &[][..] } else { &content };
        // ORDER: header, bitmap and chunk headers are durable together, before a block of the run is given away. Stop here: the block
        // of chunks is free.
        chunk_headers::commit(cover, content, &headers)?;
        Ok(Run::new(*key, places, bitmap))
    }

    /// Returns the chunks of a run, if the arena has it.
    pub(super) fn chunks_of_run(&self, place: BlockPlace, arena: &Arena) -> u64 {
        let Some(slot) = self.slots.get(place) else { return 0 };
        match &*lock(slot) {
            Slot::Run(run) if run.owner == arena.number => run.key.chunks.into(),
            _ => 0,
        }
    }
}
