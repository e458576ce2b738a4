//! The pointers of a typed pool.

use super::tables::AgedType;
use lode_layout::PoolOffset;

/// The kind of what a pointer leads to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// An object of this type, or, while a migration is not finished, of one of another table.
    Object(AgedType),
    /// The buffer of the vector, queue, text or hash map that is of the first type, with this type number.
    Buffer(AgedType, u64),
    /// The root object of the map that is of the first type, with this type number.
    Map(AgedType, u64),
}

impl Wanted {
    /// Returns the type of the object, or of what owns it alone.
    pub(super) fn ty(self) -> AgedType {
        match self {
            Wanted::Object(ty) | Wanted::Buffer(ty, _) | Wanted::Map(ty, _) => ty,
        }
    }
}

/// The place of an element in a vector of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedElement {
    /// Offset of the vector, which is the word that leads to its buffer. Its length is the next word.
    pub vector: PoolOffset,
    /// Index in the vector.
    pub index: u64,
}

/// A pointer in a typed pool.
#[derive(Clone, Copy, Debug)]
pub struct TypedPointer {
    /// Offset of its word; null for the one to the root.
    pub(super) word: PoolOffset,
    /// Its target.
    pub(super) at: PoolOffset,
    /// The step to the target, or to the object that has the buffer, map or vector.
    pub(super) step: usize,
    /// The type of the object that has the buffer, map or vector, and the offset of that in it; `None` if the step leads to the target.
    pub(super) within: Option<(AgedType, u64)>,
    /// The pointer's own place, if it is an element of a vector.
    pub(super) element: Option<TypedElement>,
    pub(super) wanted: Wanted,
}

impl TypedPointer {
    /// Returns the offset of its word; `None` of the pointer to the root.
    pub fn word(&self) -> Option<PoolOffset> {
        (!self.word.is_null()).then_some(self.word)
    }

    /// Returns the offset to which it leads.
    pub fn at(&self) -> PoolOffset {
        self.at
    }

    /// Returns its place, if it is an element of a vector of boxes: such an element is never null.
    pub fn element(&self) -> Option<TypedElement> {
        self.element
    }

    /// Returns true if it leads to an object that has pointers of its own, perhaps, and false if to a buffer or a map.
    pub fn is_box(&self) -> bool {
        matches!(self.wanted, Wanted::Object(_))
    }

    /// Returns true if it leads to the root object of a map.
    pub fn is_map(&self) -> bool {
        matches!(self.wanted, Wanted::Map(..))
    }
}
