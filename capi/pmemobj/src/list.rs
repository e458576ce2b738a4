//! Lists whose heads and links lie in the pool: circular, doubly linked, and changed by one publication each.
//!
//! A link is two OIDs, of the next and of the previous element, at an offset in each element that the call names. The head has the OID
//! of the first one. A change is computed on a few words of DRAM and published whole, so a power cut leaves the list before or after it.

use crate::failure::failure;
use crate::oid::Oid;
use crate::pool::OpenPool;
use lode_capi_entry::Failure;
use lode_layout::{PoolOffset, WORD};
use lode_obj::Action;
use lode_pmem::Medium;

/// Bytes of a link.
const LINK_LEN: u64 = 4 * WORD;
/// Bytes of a head without its lock.
pub(crate) const HEAD_LEN: u64 = 2 * WORD;

/// A list: the place of its head, and the offset of the link in its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) head: PoolOffset,
    pub(crate) link: u64,
}

/// The place of a new element: beside `dest`, or at an end of the list if that is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) dest: Oid,
    pub(crate) is_before: bool,
}

/// A change of lists: the words that it stores.
#[derive(Debug)]
pub(crate) struct Change<'p> {
    pool: &'p OpenPool,
    /// Words with new values, in no order.
    words: Vec<(PoolOffset, u64)>,
}

impl<'p> Change<'p> {
    /// Returns a change that stores nothing yet.
    pub(crate) fn new(pool: &'p OpenPool) -> Change<'p> {
        Change { pool, words: Vec::with_capacity(16) }
    }

    /// Returns the actions that make the change.
    pub(crate) fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.words.iter().map(|(at, value)| Action::Store { at: *at, value: *value })
    }

    /// Returns a word as it will be.
    fn word(&self, at: PoolOffset) -> Result<u64, Failure> {
        if let Some((_, value)) = self.words.iter().find(|(known, _)| *known == at) {
            return Ok(*value);
        }
        let mut bytes = [0; WORD as usize];
        let medium = self.pool.engine.medium();
        let read = medium.memory().reading(|memory| memory.read(at, &mut bytes));
        read.map_err(|fault| failure(&fault.into(), "a list"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn set(&mut self, at: PoolOffset, value: u64) {
        match self.words.iter_mut().find(|(known, _)| *known == at) {
            Some((_, known)) => *known = value,
            None => self.words.push((at, value)),
        }
    }

    /// Sets an OID whose pool's number may not be there yet.
    fn set_oid(&mut self, at: PoolOffset, off: u64) -> Result<(), Failure> {
        if self.word(at)? != self.pool.uuid_lo {
            self.set(at, self.pool.uuid_lo);
        }
        self.set(at.plus(WORD), off);
        Ok(())
    }

    /// Returns the place of an element's link.
    fn link(&self, list: List, element: u64) -> Result<PoolOffset, Failure> {
        let at = element.checked_add(list.link);
        let heap = self.pool.heap();
        let inside = at.filter(|at| {
            at.is_multiple_of(WORD) && heap.contains(at) && heap.end - at >= LINK_LEN && element >= heap.start
        });
        inside.map(PoolOffset::new).ok_or_else(|| {
            Failure::invalid(format!(
                "the link at {} of an element at {element:#x} is not in the heap of the pool; pass the offset of \
                 POBJ_LIST_ENTRY in an object",
                list.link
            ))
        })
    }

    fn next(&self, list: List, element: u64) -> Result<u64, Failure> {
        self.word(self.link(list, element)?.plus(WORD))
    }

    fn previous(&self, list: List, element: u64) -> Result<u64, Failure> {
        self.word(self.link(list, element)?.plus(3 * WORD))
    }

    fn set_next(&mut self, list: List, element: u64, next: u64) -> Result<(), Failure> {
        let at = self.link(list, element)?;
        self.set_oid(at, next)
    }

    fn set_previous(&mut self, list: List, element: u64, previous: u64) -> Result<(), Failure> {
        let at = self.link(list, element)?.plus(2 * WORD);
        self.set_oid(at, previous)
    }

    fn first(&self, list: List) -> Result<u64, Failure> {
        self.word(list.head.plus(WORD))
    }

    /// Adds an element, which is in no list with this link.
    pub(crate) fn insert(&mut self, list: List, beside: Beside, element: u64) -> Result<(), Failure> {
        let first = self.first(list)?;
        let dest = match beside.dest.off {
            0 if first == 0 || beside.is_before => first,
            0 => self.previous(list, first)?,
            dest => dest,
        };
        if dest == 0 {
            self.set_next(list, element, element)?;
            self.set_previous(list, element, element)?;
            return self.set_oid(list.head, element);
        }
        let (previous, next) = match beside.is_before {
            true => (self.previous(list, dest)?, dest),
            false => (dest, self.next(list, dest)?),
        };
        self.set_next(list, element, next)?;
        self.set_previous(list, element, previous)?;
        self.set_next(list, previous, element)?;
        self.set_previous(list, next, element)?;
        if beside.is_before && dest == first {
            self.set_oid(list.head, element)?;
        }
        Ok(())
    }

    /// Takes an element out. Its link names no object after that.
    pub(crate) fn remove(&mut self, list: List, element: u64) -> Result<(), Failure> {
        self.detach(list, element)?;
        let link = self.link(list, element)?;
        self.set(link.plus(WORD), 0);
        self.set(link.plus(3 * WORD), 0);
        Ok(())
    }

    /// Takes an element out, and leaves its link, as PMDK does with one that goes to a list of other links.
    pub(crate) fn detach(&mut self, list: List, element: u64) -> Result<(), Failure> {
        let (next, previous) = (self.next(list, element)?, self.previous(list, element)?);
        if next == 0 || previous == 0 {
            return Err(Failure::invalid(format!(
                "the element at {element:#x} is in no list by its link at {}; insert it first",
                list.link
            )));
        }
        let is_last = next == element;
        if !is_last {
            self.set_next(list, previous, next)?;
            self.set_previous(list, next, previous)?;
        }
        if self.first(list)? == element {
            self.set_oid(list.head, if is_last { 0 } else { next })?;
        }
        Ok(())
    }
}
