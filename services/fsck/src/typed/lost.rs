//! The changes and losses of a repair of a typed pool.

use lode_layout::PoolOffset;
use std::fmt;

/// An object of a typed pool that a repair names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypedObject {
    /// The way to it from the root, as `Shop.items[17].name`; `None` if no way leads to it.
    pub path: Option<String>,
    /// The name of its type, or of the vector, queue or text whose buffer it is; `None` if the pool has no type with its number.
    pub type_name: Option<String>,
    /// Its offset, as its pointer had it.
    pub at: PoolOffset,
}

/// The reason why an object of a typed pool is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// It can't be read.
    Unreadable,
    /// No object is at its place, or the header of its block is damaged.
    NoObject,
    /// An object of another type is at its place.
    OtherType,
    /// The object at its place has another owner.
    TwoOwners,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LossReason::Unreadable => "it can't be read",
            LossReason::NoObject => "no object is at its place",
            LossReason::OtherType => "an object of another type is at its place",
            LossReason::TwoOwners => "the object at its place has another owner",
        })
    }
}

/// The outcome of a repair of a typed pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypedRepair {
    /// Objects that are lost, with the reasons. Their pointers are null now; a vector, queue, text or map is empty, and a
    /// vector of boxes has no such element any more.
    pub lost: Vec<(TypedObject, LossReason)>,
    /// Objects to which their pointers do not lead any more, with the reasons. Each pointer leads to the only object of its type to
    /// which nothing else led: the object itself, if the pointer was damaged, or the one that followed it. Of two pointers to one object
    /// the second is named, in the order of the fields, though the first may be the damaged one.
    pub relinked: Vec<(TypedObject, LossReason)>,
    /// Objects that were not allocated, though their owners lead to them. They are allocated again; what they hold may be old.
    pub reallocated: Vec<TypedObject>,
    /// Objects to which nothing led, and whose space was given back.
    pub freed: Vec<TypedObject>,
}

impl TypedRepair {
    /// Returns true if objects are lost, or may be.
    pub fn has_losses(&self) -> bool {
        !self.lost.is_empty() || !self.relinked.is_empty() || !self.reallocated.is_empty()
    }
}
