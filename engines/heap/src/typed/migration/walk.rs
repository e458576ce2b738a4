//! The walk of a migration: from the root on, every pointer to an object that an object owns.

use crate::error::HeapError;
use crate::tx::Tx;
use crate::typed::owners::{Edge, ObjectType, Owners, Target};
use crate::typed::root;
use lode_layout::{PoolOffset, TypedRoot, WORD};
use lode_pmem::Medium;

/// Changes of a type that a migration knows.
const AGES_MAX: u32 = 256;

/// A word that leads to an object.
#[derive(Clone, Copy)]
pub(super) struct Pointer {
    pub(super) word: PoolOffset,
    /// True for the first word of the root object, which has a form of its own.
    is_root: bool,
    target: &'static Target,
}

impl From<Edge> for Pointer {
    fn from(Edge { word, target }: Edge) -> Pointer {
        Pointer { word, is_root: false, target }
    }
}

impl Pointer {
    fn load<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
        match self.is_root {
            true => Ok(root::root_in(tx)?.map_or(PoolOffset::NULL, |root| root.root)),
            false => Ok(load(tx, self.word)),
        }
    }

    /// Stores where the object is from now on. Only the root's word needs a lock: the heap is the migration's alone, so no other
    /// transaction reads the others.
    pub(super) fn store<M: Medium>(&self, tx: &Tx<'_, M>, at: PoolOffset) -> Result<(), HeapError> {
        if !self.is_root {
            tx.store8(self.word, at.get());
            return Ok(());
        }
        tx.lock(self.word)?;
        if let Some(root) = root::root_in(tx)? {
            tx.store_words(self.word, &TypedRoot { root: at, ..root }.encode());
        }
        Ok(())
    }
}

/// Returns the offset in a word of a pointer to which the transaction has not stored, unless it has made the object that has the word:
/// the content of a new object is in place. So the transaction's stores need not be looked at, of which there are many.
pub(super) fn load<M: Medium>(tx: &Tx<'_, M>, word: PoolOffset) -> PoolOffset {
    PoolOffset::new(if tx.sees_pending() { tx.load8(word) } else { tx.memory().load8(word) })
}

/// A walk: the pointers that it has yet to follow, and the number of those that it has followed.
#[derive(Clone)]
pub(super) struct Walk {
    waiting: Vec<Pointer>,
    pub(super) visited: u64,
}

impl Walk {
    /// Begins at the root object of a pool.
    pub(super) fn of(root_object: PoolOffset, target: &'static Target) -> Walk {
        Walk { waiting: vec![Pointer { word: root_object, is_root: true, target }], visited: 0 }
    }

    /// Returns true if no pointer is left.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the part of the walk that follows the next `count` pointers; the others that wait stay.
    pub(super) fn next_part(&self, count: u64) -> Walk {
        let rest = self.waiting.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        Walk { waiting: self.waiting[rest..].to_vec(), visited: self.visited }
    }

    /// Puts the rest of a part of `count` pointers back.
    pub(super) fn put_back(&mut self, part: Walk, count: u64) {
        let rest = self.waiting.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        self.waiting.truncate(rest);
        self.waiting.extend(part.waiting);
        self.visited = part.visited;
    }

    /// Follows at most `count` pointers: those that wait, and those in the objects to which they lead. `enter` gets each object
    /// with a type, and adds the pointers that it owns.
    pub(super) fn follow<M: Medium>(
        &mut self,
        tx: &Tx<'_, M>,
        count: u64,
        mut enter: impl FnMut(&Pointer, PoolOffset, &'static ObjectType, &mut Owners<'_>) -> Result<(), HeapError>,
    ) -> Result<(), HeapError> {
        let Walk { waiting, visited } = self;
        let end = visited.saturating_add(count);
        let mut owners = Owners::new(tx.heap().memory());
        while *visited < end
            && let Some(pointer) = waiting.pop()
        {
            *visited += 1;
            if *visited + waiting.len() as u64 > tx.heap().memory().len() / WORD {
                // More pointers than the pool has words.
                return Err(HeapError::Corrupt {
                    what: "a pointer of an object to one that owns it",
                    at: pointer.word,
                });
            }
            let at = pointer.load(tx)?;
            if at.is_null() {
                continue;
            }
            // Of the pointers that an object owns, the first one is followed first.
            match pointer.target {
                Target::Buffer(number) => check_buffer(tx, at, *number)?,
                Target::Boxes(boxes) => {
                    check_buffer(tx, at, boxes.buffer)?;
                    waiting.extend(boxes.edges(tx, pointer.word)?.rev().map(Pointer::from));
                }
                Target::Structure(structure) => check_buffer(tx, at, structure.root)?,
                Target::Object(ty) => {
                    enter(&pointer, at, ty, &mut owners)?;
                    waiting.extend(owners.edges.drain(..).rev().map(Pointer::from));
                }
            }
        }
        Ok(())
    }
}

/// Returns how many changes ago the object at `at` was made.
pub(super) fn age_at<M: Medium>(tx: &Tx<'_, M>, at: PoolOffset, ty: &ObjectType) -> Result<u32, HeapError> {
    let (size, number) = tx.object(at)?;
    let versions = (0..AGES_MAX).map_while(|age| (ty.version)(age).map(|version| (age, version)));
    let mut versions = versions.filter(|(_, version)| version.number == number && version.size <= size);
    let unknown = HeapError::Corrupt { what: "the type of an object, which no version of its type has,", at };
    versions.next().map(|(age, _)| age).ok_or(unknown)
}

pub(super) fn check_buffer<M: Medium>(tx: &Tx<'_, M>, at: PoolOffset, number: u64) -> Result<(), HeapError> {
    let is_right = tx.object(at)?.1 == number;
    if is_right { Ok(()) } else { Err(HeapError::Corrupt { what: "the type of a buffer", at }) }
}
