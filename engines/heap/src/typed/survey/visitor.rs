//! The receiver of what a walk over a typed pool finds.

use super::place::TypedPlace;
use crate::heap::Heap;
use lode_layout::PoolOffset;

/// A part of a map, found by a [`VisitMap`].
#[expect(missing_debug_implementations, reason = "a value is read when it is asked for")]
#[non_exhaustive]
pub enum MapPart<'a> {
    /// A node or leaf, or the root object itself. The answer says if the walk goes on into it.
    Object(PoolOffset),
    /// An entry.
    Entry {
        /// Offset of its leaf.
        at: PoolOffset,
        /// Its key.
        key: &'a [u8],
        /// Returns its value.
        value: &'a dyn Fn() -> Vec<u8>,
    },
    /// Something that can't be right, at this offset.
    Damage(PoolOffset),
}

/// A function that passes each part of the map whose root object is at an offset to a closure.
pub type VisitMap<M> = fn(&Heap<M>, PoolOffset, &mut dyn FnMut(MapPart<'_>) -> bool);

/// Receives what a walk over a typed pool finds.
pub trait TypedVisitor {
    /// Called with the word at `word`, which leads to `stored`. That is null only in an element of a vector of boxes, which should never
    /// be. Returns the offset to which the walk follows it.
    fn target(&self, word: PoolOffset, stored: PoolOffset) -> PoolOffset {
        let _ = word;
        stored
    }

    /// Returns true if a block is visited as an object also if its allocation bit is damaged, or says that it is free. Such visitors
    /// know themselves what is allocated.
    fn visits_blocks(&self) -> bool {
        false
    }

    /// Called with each object: that of the root, those that boxes lead to, the buffers of vectors, queues, strings and hash maps,
    /// and the nodes and leaves of maps.
    /// Returns true if the walk goes on into it.
    fn object(&mut self, place: &TypedPlace<'_>) -> bool;

    /// Called with each value: a number, the content of a cell, an element, a text. `text` returns it as Rust writes it.
    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        let _ = (place, text);
    }

    /// Called with each thing that is not as the types say. The walk does not go into it.
    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage);
}

/// A kind of damage in a typed pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypedDamage {
    /// It can't be read.
    Unreadable,
    /// A pointer leads to it, and no object begins there.
    NoObject,
    /// A pointer leads to it, and an object of another type is there.
    OtherType,
    /// Its bytes are no value of its type.
    NoValue,
    /// It has more elements than its buffer has room for.
    TooLong,
    /// It is a text whose bytes are not UTF-8.
    NoText,
    /// It is a hash map with more or fewer entries than it counts.
    OtherCount,
    /// It is a part of a map that is damaged.
    MapPart,
    /// It is a key of a map that is none of its type, or lies where no search comes.
    NoKey,
}

impl TypedDamage {
    /// Returns a clause that says it.
    pub const fn means(self) -> &'static str {
        match self {
            TypedDamage::Unreadable => "it can't be read",
            TypedDamage::NoObject => "no object is there",
            TypedDamage::OtherType => "an object of another type is there",
            TypedDamage::NoValue => "its bytes are no value of its type",
            TypedDamage::TooLong => "it has more elements than its buffer has room for",
            TypedDamage::NoText => "its bytes are not UTF-8",
            TypedDamage::OtherCount => "it has more or fewer entries than it counts",
            TypedDamage::MapPart => "a node or leaf of the map, or what leads there, is damaged",
            TypedDamage::NoKey => "its key is none of its type, or lies where no search comes",
        }
    }
}
