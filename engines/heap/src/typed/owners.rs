//! The objects that an object owns, and objects of older types.

use super::elements::Elements;
use super::freeing_tx::StructureType;
use crate::error::HeapError;
use crate::tx::Tx;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Fault, Medium, Memory};
use std::any::TypeId;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function that visits the object that begins at an offset.
pub(crate) type Walk = fn(PoolOffset, &mut Owners<'_>) -> Result<(), Fault>;

/// A word that names an owned object, and its kind.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) word: PoolOffset,
    pub(crate) target: &'static Target,
}

/// A function that makes a new object of the one at an offset, which is some changes older.
pub(crate) type Renew = fn(&mut Renewed<'_>, PoolOffset, u32) -> Result<(), HeapError>;

/// The kind of an owned object.
#[derive(Debug)]
pub(crate) enum Target {
    /// The buffer of a vector, queue, string or hash map, with this type number. It owns nothing.
    Buffer(u64),
    /// The buffer of a vector of boxes.
    Boxes(Boxes),
    /// An object with a type.
    Object(ObjectType),
    /// A structure of objects of another crate.
    Structure(StructureType),
}

/// A buffer whose words own objects. The word after the one that leads to it has their number.
#[derive(Debug)]
pub(crate) struct Boxes {
    /// Its type number.
    pub(crate) buffer: u64,
    /// The kind of the objects.
    pub(crate) element: &'static Target,
}

impl Boxes {
    /// Returns the words that own the objects, of the vector that begins at `vector`.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] when the buffer has no room for so many, [`HeapError::NoObject`] when there is none.
    pub(crate) fn edges<M: Medium>(
        &self,
        tx: &Tx<'_, M>,
        vector: PoolOffset,
    ) -> Result<impl DoubleEndedIterator<Item = Edge>, HeapError> {
        let elements = Elements::read(|word| tx.load8(vector.plus(word * WORD)));
        elements.check_room(tx, WORD)?;
        let Boxes { element: target, .. } = *self;
        Ok((0..elements.len).map(move |index| Edge { word: elements.buffer.plus(index * WORD), target }))
    }
}

/// The type of an owned object.
#[derive(Debug)]
pub(crate) struct ObjectType {
    /// Returns the Rust type.
    pub(crate) id: fn() -> TypeId,
    /// Visits the words by which it owns others; `None` if it owns nothing.
    pub(crate) walk: Option<Walk>,
    /// Returns the type as it was some changes ago.
    pub(crate) version: fn(u32) -> Option<Version>,
    /// Visits those words of an object that is some changes older.
    pub(crate) visit_version: fn(PoolOffset, &mut Owners<'_>, u32) -> Result<(), Fault>,
    /// Makes an object of the type of one that is some changes older.
    pub(crate) renew: Renew,
}

impl Target {
    pub(crate) const fn walk(&self) -> Option<Walk> {
        match self {
            Target::Buffer(_) | Target::Boxes(_) | Target::Structure(_) => None,
            Target::Object(object) => object.walk,
        }
    }
}

impl std::fmt::Debug for Owners<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = self.edges.iter().map(|edge| edge.word);
        f.debug_list().entries(words).finish()
    }
}

/// Collects the words of an object that own others. For [`Persist::visit_owned`](crate::Persist::visit_owned).
pub struct Owners<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) edges: Vec<Edge>,
    /// True if the words are only looked at, and not collected.
    looks: bool,
    /// True if a word that was looked at is not null.
    pub(crate) has_pointer: bool,
}

impl<'a> Owners<'a> {
    /// Returns no words yet.
    pub(crate) fn new(memory: &'a Memory) -> Owners<'a> {
        Owners { memory, edges: Vec::new(), looks: false, has_pointer: false }
    }

    /// Returns a visitor that looks for a word that is not null, and collects none.
    pub(crate) fn looking(memory: &'a Memory) -> Owners<'a> {
        Owners { looks: true, ..Owners::new(memory) }
    }

    /// Adds a word that leads to a target, or only looks at it.
    pub(crate) fn add(&mut self, edge: Edge, word: u64) {
        if self.looks {
            self.has_pointer |= word != 0;
        } else {
            self.edges.push(edge);
        }
    }
}

/// In place of a pointer in a value that is not in a pool: with a number of the object from which it comes, which no other has in
/// this process, and the number of the pointer in it. It is the offset of no object.
const TAG: u64 = 1 << 63;
/// Bits of the number of the pointer.
const TAG_BITS: u32 = 16;

/// The first of the next numbers of objects from which pointers come.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Numbers that are taken at a time.
const NUMBERS: u64 = 1024;

/// A type as it was some changes ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// A hash of its name.
    pub name: u64,
    /// Its number on the medium.
    pub number: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// An object of an older type, while a new one is made of it.
pub struct OldObject<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) at: PoolOffset,
    /// Its pointers, in the order in which they were read.
    pub(crate) edges: Vec<Option<Edge>>,
    /// The visitor of each value that is read.
    pub(crate) owners: Owners<'a>,
    /// A number that no other object from which pointers come has in this process.
    number: u64,
}

impl<'a> OldObject<'a> {
    /// Returns no object yet.
    fn none(memory: &'a Memory) -> OldObject<'a> {
        let (at, edges, owners) = (PoolOffset::NULL, Vec::new(), Owners::new(memory));
        OldObject { memory, at, edges, owners, number: NUMBERS - 1 }
    }

    /// Takes the object at `at` in the place of the one before.
    fn begin(&mut self, at: PoolOffset) {
        self.number += 1;
        if self.number.is_multiple_of(NUMBERS) {
            // ORDER: none: only that no two are the same counts.
            self.number = NEXT.fetch_add(NUMBERS, Ordering::Relaxed);
        }
        self.at = at;
        self.edges.clear();
    }

    /// Returns the tag of its first pointer.
    fn tag(&self) -> u64 {
        TAG | self.number << TAG_BITS
    }

    /// Returns the tag of the pointer that is added next.
    ///
    /// # Errors
    /// [`HeapError::NotConverted`] when there are too many.
    pub(crate) fn next_tag(&self) -> Result<u64, HeapError> {
        let index = u16::try_from(self.edges.len());
        let too_many =
            |_| HeapError::NotConverted { at: self.at, reason: "it has more than 65,536 pointers" };
        index.map(|index| self.tag() | u64::from(index)).map_err(too_many)
    }

    /// Returns the pointer with a tag, once; `None` if it is another object's, or was moved already.
    pub(crate) fn take(&mut self, tag: u64) -> Option<Edge> {
        let index = tag.checked_sub(self.tag()).and_then(|index| usize::try_from(index).ok())?;
        self.edges.get_mut(index)?.take()
    }
}

impl std::fmt::Debug for OldObject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OldObject").field(&self.at).finish()
    }
}

/// New objects, made of older ones one after the other, so that the lists are allocated once.
pub(crate) struct Renewed<'a> {
    /// The objects that were not taken away yet, the newest one last.
    pub(crate) bytes: Vec<u8>,
    pub(crate) align: u64,
    pub(crate) number: u64,
    /// The pointers of the newest one: the offset of each in `bytes`, and the kind of its target. A tag stands for each that is not
    /// null.
    pub(crate) pointers: Vec<(u64, &'static Target)>,
    pub(crate) old: OldObject<'a>,
}

impl<'a> Renewed<'a> {
    /// Returns no object yet.
    pub(crate) fn none(memory: &'a Memory) -> Renewed<'a> {
        let (bytes, pointers, old) = (Vec::new(), Vec::new(), OldObject::none(memory));
        Renewed { bytes, align: 1, number: 0, pointers, old }
    }

    /// Begins with the older object at `at`.
    pub(crate) fn begin(&mut self, at: PoolOffset) {
        self.old.begin(at);
        self.pointers.clear();
    }
}
